//! Signals of the process, as it reads them in `/proc/self/status`.
//!
//! # Problem
//! The kernel shows the runtime's handlers of synchronous signals as caught, whatever the program does about these signals, and does not
//! show a block that is hidden from it (`engine::blocked`).
//!
//! # Strategy
//! From the first opening of a file of such a name on, calls that read files are looked at. A read of the status of this process is made by
//! the runtime, which then writes into the lines `SigBlk`, `SigIgn` and `SigCgt` what the program has asked for. All other reads are made in place, as they may wait.
//!
//! A line that is not read whole, by one call, is left as the kernel shows it.
#![allow(unsafe_code)] // reason: reads the app's paths, writes into threads' tables.

use linux_raw_sys::general as nr;

use crate::base::sys;
use crate::base::syscalls::{self, Role};
use crate::crossing::arch;
use crate::engine::kernel_writes::words;
use crate::engine::signals::Actions;
use crate::engine::state::{Runtime, Thread};

/// The last part of the file's path.
const NAME: &[u8] = b"status";
/// Bytes of the file that are looked at; it has some 1500.
const MOST: usize = 4096;
/// Buffers of a list that are looked at.
const BUFFERS: usize = 4;
/// Digits of a set of signals.
const DIGITS: usize = 16;

/// Returns whether a call opens a file of that name, for reading.
pub fn opens(number: u32, args: &[u64; 6]) -> bool {
    const LONGEST: u64 = 256;
    let path = match number {
        nr::__NR_open => args[0],
        nr::__NR_openat | nr::__NR_openat2 => args[1],
        _ => return false,
    };
    let mut last = [0_u8; 1 + NAME.len()];
    for at in 0..LONGEST {
        let mut byte = 0;
        // SAFETY: a word to write to; what cannot be read is told.
        if unsafe { arch::peek(path.wrapping_add(at), 1, &raw mut byte) } == 0 {
            return false;
        }
        if byte == 0 {
            return last[1..] == *NAME && matches!(last[0], 0 | b'/');
        }
        last.copy_within(1.., 0);
        last[NAME.len()] = byte as u8;
    }
    false
}

/// Returns the thread of this process, the first one or any, of whose status a descriptor is.
fn own(fd: i32) -> Option<u32> {
    let mut name = [0; 64];
    let len = sys::link_of(fd, &mut name)?;
    let mut parts = name[..len].rsplit(|&byte| byte == b'/');
    if parts.next() != Some(NAME) {
        return None;
    }
    let number = core::str::from_utf8(parts.next().unwrap_or_default());
    let number = number.ok().and_then(|digits| digits.parse().ok());
    number.filter(|&tid| sys::is_thread(sys::getpid() as u32, tid))
}

/// The buffers of a read that got `bytes`: addresses, and how many each got.
fn buffers(number: u32, args: &[u64; 6], mut bytes: u64) -> [[u64; 2]; BUFFERS] {
    let mut found = [[0; 2]; BUFFERS];
    for (n, buffer) in found.iter_mut().enumerate() {
        let [at, len] = match number {
            nr::__NR_readv if (n as u64) < args[2] => {
                words(args[1] + 16 * n as u64).unwrap_or([0; 2])
            }
            nr::__NR_readv => [0; 2],
            _ if n == 0 => [args[1], args[2]],
            _ => [0; 2],
        };
        *buffer = [at, len.min(bytes)];
        bytes -= buffer[1];
    }
    found
}

/// Signals as a thread finds them in its status.
#[derive(Clone, Copy)]
pub struct Shown {
    /// Blocked, beside what the kernel says.
    pub blocked: u64,
    /// Synchronous ones that are ignored.
    pub ignored: u64,
    /// Synchronous ones that have a handler.
    pub handled: u64,
}

/// Puts into the lines of `text` what is to be shown.
fn correct(text: &mut [u8], shown: Shown) {
    let synchronous = Actions::synchronous_bits();
    let lines = [
        (b"\nSigBlk:\t", 0, shown.blocked),
        (b"\nSigIgn:\t", synchronous, shown.ignored),
        (b"\nSigCgt:\t", synchronous, shown.handled),
    ];
    for (title, instead, set) in lines {
        let found = text.windows(title.len()).position(|part| part == title);
        let Some(digits) = found.and_then(|at| text.get_mut(at + title.len()..)?.get_mut(..DIGITS))
        else {
            continue;
        };
        let shown = core::str::from_utf8(digits).unwrap_or_default();
        let Ok(shown) = u64::from_str_radix(shown, 16) else {
            continue;
        };
        let mut right = shown & !instead | set;
        for digit in digits.iter_mut().rev() {
            *digit = b"0123456789abcdef"[(right & 15) as usize];
            right >>= 4;
        }
    }
}

/// A call has read `bytes` of the status of this process.
pub fn answer(number: u32, args: &[u64; 6], bytes: i64, shown: Shown) {
    let Ok(bytes) = u64::try_from(bytes) else {
        return;
    };
    let mut text = [0; MOST];
    let buffers = buffers(number, args, bytes.min(MOST as u64));
    let each = |with: &mut dyn FnMut(u64, &mut [u8]), text: &mut [u8]| {
        let mut rest = text;
        for [at, len] in buffers {
            let (part, after) = rest.split_at_mut(len as usize);
            with(at, part);
            rest = after;
        }
    };
    let mut whole = true;
    each(
        &mut |at, part| whole &= part.is_empty() || sys::copy_checked(at, part),
        &mut text,
    );
    let before = text;
    correct(&mut text, shown);
    if whole && text != before {
        each(
            &mut |at, part| whole &= part.is_empty() || sys::write_checked(part, at),
            &mut text,
        );
    }
}

impl Runtime {
    /// Calls that read files are looked at from now on.
    pub fn watch_reads(&mut self) {
        if core::mem::replace(&mut self.status_file, true) {
            return;
        }
        for thread in &self.threads {
            // SAFETY: listed threads are there, and their tables are bytes that are only set.
            unsafe { (**thread).see(syscalls::with(&[Role::ReadsFiles])) };
        }
    }

    /// Returns the signals that the status has to show which `thread` reads from a descriptor.
    pub fn shown_signals(&mut self, thread: &mut Thread, fd: i32) -> Shown {
        let [ignored, handled] = self.actions_of(thread).synchronous();
        Shown {
            blocked: own(fd).map_or(0, |tid| self.hidden_of(tid)),
            ignored,
            handled,
        }
    }

    /// Returns whether the runtime must make a call, which reads the status of this process.
    pub fn reads_status(&self, number: u32, args: &[u64; 6]) -> bool {
        self.status_file
            && syscalls::role(number) == Role::ReadsFiles
            && own(args[0] as i32).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_opens_a_status_is_told_by_the_path() {
        let opened =
            |path: &core::ffi::CStr| opens(nr::__NR_openat, &[0, path.as_ptr() as u64, 0, 0, 0, 0]);
        assert!(opened(c"/proc/self/status") && opened(c"status"));
        assert!(!opened(c"/proc/self/mystatus") && !opened(c"/proc/self/stat") && !opened(c""));
        assert!(!opens(nr::__NR_read, &[0; 6]));
    }

    #[test]
    fn only_lines_of_synchronous_signals_change() {
        let all = Actions::synchronous_bits();
        let mut text = *b"Name:\tx\nSigIgn:\t0000000000001000\nSigCgt:\t00000001800004d8\nEnd";
        let before = text;
        let shown = |ignored, handled| Shown {
            blocked: 0,
            ignored,
            handled,
        };
        correct(&mut text, shown(0x10, all & !0x10));
        assert_eq!(&text[..33], b"Name:\tx\nSigIgn:\t0000000000001010\n");
        correct(&mut text, shown(0, all & 0x4d8));
        assert_eq!(text, before);
        let mut blocked = *b"\nSigBlk:\t0000000000000001\n";
        let hidden = Shown {
            blocked: 0x400,
            ..shown(0, 0)
        };
        correct(&mut blocked, hidden);
        assert_eq!(&blocked, b"\nSigBlk:\t0000000000000401\n");
        // Not whole.
        let (mut cut, end) = (*b"\nSigIgn:\t00000000000010", *b"\nSigIgn:\t00000000000010");
        correct(&mut cut, shown(0x10, 0));
        assert_eq!(cut, end);
    }

    #[test]
    fn a_list_of_buffers_gets_what_was_read_in_its_order() {
        let (mut one, mut two) = (*b"\nSigIgn:\t0000", *b"000000001000\nx");
        let list = [one.as_mut_ptr() as u64, 13, two.as_mut_ptr() as u64, 14];
        let args = [0, list.as_ptr() as u64, 2, 0, 0, 0];
        let shown = Shown {
            blocked: 0,
            ignored: 0x10,
            handled: 0,
        };
        answer(nr::__NR_readv, &args, 27, shown);
        // SAFETY: written by the call, through addresses.
        let read = unsafe {
            (
                (&raw const one).read_volatile(),
                (&raw const two).read_volatile(),
            )
        };
        assert_eq!(read, (*b"\nSigIgn:\t0000", *b"000000001010\nx"));
    }
}
