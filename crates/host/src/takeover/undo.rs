//! A start of the runtime that has failed, undone.
//!
//! # Problem
//! The runtime may fail while it starts in a process: the process has no memory for it, or the runtime has a fault. The process is to go on
//! as if nothing had been tried, and the next attempt may succeed.
//!
//! # Strategy
//! *Memory.* The runtime lists each mapping that it makes ([`Owned`]). The list is at a known place of its image, so it is found however
//! far the start came.
//!
//! *Dispositions.* A thread on loan has all signals blocked. When it has a fault then, or ignores the signal, the kernel sets the signal's
//! disposition to the default one, for the whole process. So dispositions of faults are asked for before the start, and set again.
//! The runtime takes over signals in the last step of its start, which cannot fail.
//!
//! Descriptors, registers and limits are with who made or changed them ([`super::attach`]).
use std::fs;
use std::io;
use std::mem::offset_of;

use nix::unistd::Pid;
use trommel_queue::thread_page::{MAX_OWNED, Owned};

use crate::channel::image;
use crate::ptrace::tracee::{Loan, Tracees};

/// Signals of faults. What the kernel does about a blocked SIGTRAP never happens: that one is not blocked.
const FAULTS: [i32; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE];
/// Words of the kernel's structure of a disposition.
const ACTION_WORDS: usize = 4;
/// Bytes of a set of signals.
const MASK_BYTES: u64 = 8;

/// Dispositions of faults that the program does not leave to the kernel.
pub(super) struct Dispositions(Vec<(i32, [u64; ACTION_WORDS])>);

impl Dispositions {
    /// Asks for them. `room`: memory of the process for a structure.
    pub(super) fn of(loan: &Loan<'_>, room: u64) -> io::Result<Self> {
        let changed = changed(loan.tracees().pid());
        let changed = FAULTS.into_iter().filter(|s| changed >> (s - 1) & 1 != 0);
        let ask = |signal: i32| {
            let args = [signal as u64, 0, room, MASK_BYTES, 0, 0];
            loan.call(libc::SYS_rt_sigaction, args)?;
            let mut action = [0; ACTION_WORDS];
            for (n, word) in action.iter_mut().enumerate() {
                *word = loan.tracees().word(room + 8 * n as u64)?;
            }
            Ok((signal, action))
        };
        changed.map(ask).collect::<io::Result<_>>().map(Self)
    }

    /// Sets them again.
    fn restore(&self, loan: &Loan<'_>, room: u64) -> io::Result<()> {
        for (signal, action) in &self.0 {
            let bytes: Vec<u8> = action.iter().flat_map(|word| word.to_le_bytes()).collect();
            loan.tracees().write(room, &bytes)?;
            let args = [*signal as u64, room, 0, MASK_BYTES, 0, 0];
            loan.call(libc::SYS_rt_sigaction, args)?;
        }
        Ok(())
    }
}

/// Signals of a process that it handles or ignores: bit `n - 1` is signal `n`.
fn changed(pid: Pid) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let set = |name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| u64::from_str_radix(line.trim(), 16).ok())
            .unwrap_or(0)
    };
    set("SigCgt:") | set("SigIgn:")
}

/// Undoes what a start has done to a process, but for the image at `base`, in which `room` is memory for a structure.
pub(super) fn undo(loan: &Loan<'_>, base: u64, faults: &Dispositions, room: u64) {
    // Nothing else is left to do where this fails: the process has been killed.
    let _ = faults.restore(loan, room);
    let owned = owned(loan.tracees(), base + image::owned() as u64);
    for (start, end) in owned.unwrap_or_default() {
        let _ = loan.call(libc::SYS_munmap, [start, end - start, 0, 0, 0, 0]);
    }
}

/// Ranges of a process's memory that are the runtime's, by the list at `at`.
pub(super) fn owned(tracees: &Tracees, at: u64) -> io::Result<Vec<(u64, u64)>> {
    let count = tracees.word(at + offset_of!(Owned, count) as u64)?;
    let mut bytes = vec![0; 16 * count.min(MAX_OWNED as u64) as usize];
    tracees.read(at + offset_of!(Owned, ranges) as u64, &mut bytes)?;
    let (words, _) = bytes.as_chunks::<8>();
    let (pairs, _) = words.as_chunks::<2>();
    let ranges = pairs.iter().map(|pair| pair.map(u64::from_le_bytes).into());
    let is_one = |&(start, end): &(u64, u64)| {
        start < end && start.is_multiple_of(4096) && end.is_multiple_of(4096)
    };
    Ok(ranges.filter(is_one).collect())
}
