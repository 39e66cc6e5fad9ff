//! System calls that write into pages we have protected.
//!
//! # Problem
//! Where a store of the app faults and is resolved, the kernel's own store into the app's memory
//! fails the call: with `EFAULT`, after what it gave may be gone (a datagram, a dead child's status),
//! or with fewer bytes than there were.
//!
//! # Strategy
//! From the first protected page on, the threads' tables send every call that may write memory to
//! the dispatcher before it is made. It looks at what the arguments point to, opens pages of ours
//! there, and lets the call be made in place. The pages are unsteady for a while
//! (`pages`), so that no other thread has them protected again before the call comes to write.
//!
//! Which calls write, where and how much is in the table of [`syscalls`].
//!
//! # The file of the process's own memory
//! Writing to `/proc/self/mem` changes code whatever its protection. From the first time that such a
//! file is opened for writing on, calls that write files are looked at; one that writes to it is made
//! by the runtime, and all fragments are in doubt afterwards.
//!
//! # What is not seen
//! Memory written later than the call that named it: by `io_uring`, and by asynchronous input.
#![allow(unsafe_code)] // reason: writes into threads' tables, reads the app's lists of buffers.

use crate::base::syscalls::{self, Role, Write};
use crate::memory::pages::PAGE;
use linux_raw_sys::general as nr;

use crate::base::address::Range;
use crate::base::sys;
use crate::engine::state::Runtime;

/// Bytes that a call writes after a pointer, where their number is not known.
const STRUCTURE: u64 = 8192;
/// Bytes that a call is taken to write at most.
const MOST: u64 = 1 << 31;
/// Buffers in a list at most, as in the kernel.
const BUFFERS: u64 = 1024;

fn words<const N: usize>(at: u64) -> Option<[u64; N]> {
    let mut words = [0u64; N];
    // SAFETY: plain words, as many bytes.
    let bytes = unsafe { core::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), N * 8) };
    sys::copy_checked(at, bytes).then_some(words)
}

fn behind(start: u64, len: u64) -> Range {
    Range {
        start,
        end: start.saturating_add(len.min(MOST)),
    }
}

/// Returns whether a path is that of a process's memory.
fn is_memory(path: &[u8]) -> bool {
    path.starts_with(b"/proc/") && path.ends_with(b"/mem")
}

/// Returns whether the app is about to open such a file to write to it.
fn opens_memory(number: u32, args: &[u64; 6]) -> bool {
    const ACCESS: u64 = 3;
    let (path, flags) = match number {
        nr::__NR_open => (args[0], args[1]),
        _ => (args[1], args[2]),
    };
    // Longer ones are not; shorter ones may end with a page that cannot be read.
    let mut text = [0u8; 40];
    flags & ACCESS != 0
        && sys::read_string(path, &mut text).is_some_and(|len| is_memory(&text[..len]))
}

impl Runtime {
    /// Returns whether the runtime must make a call, which writes to the file of a process's memory.
    pub fn writes_memory_file(&self, number: u32, args: &[u64; 6]) -> bool {
        let mut text = [0u8; 40];
        self.memory_file
            && syscalls::role(number) == Role::WritesFiles
            && sys::link_of(args[0] as i32, &mut text).is_some_and(|len| is_memory(&text[..len]))
    }

    /// Makes such a call.
    pub fn write_memory_file(&mut self, call: impl FnOnce() -> i64) -> i64 {
        let result = call();
        self.doubt(Range {
            start: 0,
            end: u64::MAX,
        });
        result
    }

    /// Sends the threads' calls that write memory to the dispatcher from now on, if there are protected
    /// pages.
    pub fn watch_calls(&mut self) {
        if self.watching || !self.code_pages.has_any() {
            return;
        }
        self.watching = true;
        for thread in &self.threads {
            // SAFETY: listed threads are there, and their tables are bytes that are only set.
            unsafe { (**thread).see(syscalls::writing()) };
        }
    }

    /// The calls that new threads send here, beyond those that all send always.
    pub fn watched(&self) -> impl Iterator<Item = u32> + use<> {
        let writing = syscalls::with(&[Role::WritesFiles]).filter({
            let memory_file = self.memory_file;
            move |_| memory_file
        });
        let watching = self.watching;
        syscalls::writing().filter(move |_| watching).chain(writing)
    }

    /// The kernel is about to carry out a call that may write where its arguments point.
    pub fn before_call(&mut self, number: u32, args: &[u64; 6]) {
        if !self.memory_file && syscalls::role(number) == Role::Opens && opens_memory(number, args)
        {
            self.memory_file = true;
            for thread in &self.threads {
                // SAFETY: as in `watch_calls`.
                unsafe { (**thread).see(syscalls::with(&[Role::WritesFiles])) };
            }
        }
        if !self.watching {
            return;
        }
        match syscalls::row_of(number) {
            Some(row) => {
                for write in row.writes {
                    self.before_write(write, args);
                }
            }
            None => {
                for &at in args {
                    self.written_by_kernel(behind(at, STRUCTURE));
                }
            }
        }
    }

    /// The kernel is about to write as a row of the table says.
    fn before_write(&mut self, write: &Write, args: &[u64; 6]) {
        let arg = |n: u8| args[usize::from(n)];
        let (at, len) = match *write {
            Write::Fixed(at, len) => (at, len.into()),
            Write::Structure(at) => (at, STRUCTURE),
            Write::Buffer(at, len) => (at, arg(len)),
            Write::Text(at, len) => (at, arg(len).saturating_add(8)),
            Write::Array(at, count, size) => (at, arg(count).saturating_mul(size.into())),
            Write::Pages(at, len) => (at, arg(len) / PAGE + 1),
            Write::Sized(at, len) => {
                let told = words(arg(len)).map_or(STRUCTURE, |[len]| len & 0xffff_ffff);
                self.written_by_kernel(behind(arg(len), 8));
                (at, told)
            }
            Write::Vectors(at, count) => return self.before_list(arg(at), arg(count)),
            Write::Message(at) => return self.before_messages(arg(at), 1),
            Write::Messages(at, count) => return self.before_messages(arg(at), arg(count)),
        };
        self.written_by_kernel(behind(arg(at), len));
    }

    /// Messages are about to be received.
    fn before_messages(&mut self, at: u64, count: u64) {
        // struct mmsghdr is a struct msghdr and a length, padded.
        const BYTES: u64 = 64;
        let count = count.min(BUFFERS);
        self.written_by_kernel(behind(at, BYTES * count));
        for n in 0..count {
            let Some([name, name_len, list, count, control, control_len]) = words(at + BYTES * n)
            else {
                break;
            };
            self.written_by_kernel(behind(name, name_len & 0xffff_ffff));
            self.before_list(list, count);
            self.written_by_kernel(behind(control, control_len));
        }
    }

    fn before_list(&mut self, list: u64, count: u64) {
        for n in 0..count.min(BUFFERS) {
            let Some([at, len]) = words(list + 16 * n) else {
                return;
            };
            self.written_by_kernel(behind(at, len));
        }
    }

    fn written_by_kernel(&mut self, range: Range) {
        if self.code_pages.any_protected(range) {
            self.doubt(range);
            self.code_pages.loosen(range);
        }
    }
}
