//! Threads of another process, stopped.
//!
//! # Problem
//! All threads of a running process must be stopped, inspected, and made to do a system call or to go
//! on elsewhere. Then they are released, without the process noticing. No signal of the process is lost or invented.
//! No system call fails that would not have. A stopped process stays stopped.
//!
//! # Strategy
//! `PTRACE_SEIZE` and `PTRACE_INTERRUPT` send no signal. A thread that is about to get a signal
//! of its own instruction gets it first, and stops then: that signal belongs to the place. New threads are searched until there are none:
//! stopped threads make none (`stopping`).
//!
//! *Remote calls* use a `syscall` instruction that is there already, in the vDSO or any other
//! code: nothing of the process's memory is written. The thread is redirected there, stops at the entry of
//! the call, is asked to stop again, and does so when the call is done. Both stops send no signal.
//!
//! *Interrupted system calls.* For a thread stopped in a call, the kernel is about to decide how to
//! continue it. The thread is always released from where the kernel decides that, with the registers that it
//! was stopped with or others in which no call is pending. Some calls return EINTR where they could be
//! made again; [`Tracees::spurious`] identifies them.
// Raw ptrace requests, and structures that the kernel fills in.
#![allow(unsafe_code)]

mod held;
mod interrupted;
mod loan;
mod stopping;
mod stops;

use std::io::{self, IoSlice, IoSliceMut};
use std::time::Duration;

use libc::user_regs_struct as Regs;
use nix::sys::ptrace;
use nix::sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev};
use nix::unistd::Pid;

pub use interrupted::make_again;
pub use loan::Loan;
pub use stops::reaped;
use stops::{Event, add_late, has_ended, wait};

/// Bytes of the `syscall` instruction.
pub const SYSCALL_BYTES: u64 = 2;

pub(crate) fn other(e: nix::Error) -> io::Error {
    io::Error::from_raw_os_error(e as i32)
}

/// The reason why threads could not be stopped.
#[derive(Debug, thiserror::Error)]
pub enum StopFailure {
    /// There is no such process any more.
    #[error("it has ended")]
    Gone,
    /// The system refuses.
    #[error("thread {0} may not be traced: {1}")]
    Refused(Pid, io::Error),
    /// A thread is busy in the kernel.
    #[error("thread {0} does not stop: the kernel is busy with it (a file system, or a vfork)")]
    Busy(Pid),
    /// Its threads cannot be listed.
    #[error("its threads cannot be listed: {0}")]
    Listing(io::Error),
}

/// Stopped threads of one process; released when dropped.
pub struct Tracees {
    pid: Pid,
    stopped: Vec<Pid>,
    gadget: u64,
}

impl Tracees {
    /// Returns the state for a process none of whose threads is stopped yet.
    pub fn new(pid: Pid) -> Self {
        Self {
            pid,
            stopped: Vec::new(),
            gadget: 0,
        }
    }

    /// The process.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// The threads that are stopped.
    pub fn threads(&self) -> &[Pid] {
        &self.stopped
    }

    /// Lets a thread run on.
    pub fn release(&mut self, tid: Pid) {
        self.stopped.retain(|t| *t != tid);
        self.let_run(tid);
    }

    /// A call that it was stopped in is made again, if the kernel does not see to that.
    fn let_run(&self, tid: Pid) {
        if let Ok(mut regs) = self.regs(tid)
            && self.spurious(tid, &regs)
        {
            make_again(&mut regs, true);
            // It may have been killed.
            let _ = self.set_regs(tid, &regs);
        }
        if ptrace::detach(tid, None).is_err() {
            // It has been killed, and the process does not end before its tracer has seen that.
            add_late(std::iter::once(tid));
        }
    }

    /// The registers of a stopped thread.
    pub fn regs(&self, tid: Pid) -> io::Result<Regs> {
        ptrace::getregs(tid).map_err(other)
    }

    /// Sets them.
    pub fn set_regs(&self, tid: Pid, regs: &Regs) -> io::Result<()> {
        ptrace::setregs(tid, *regs).map_err(other)
    }

    /// The signal mask that a stopped thread has outside of system calls that change it for
    /// their time.
    pub fn mask(&self, tid: Pid) -> io::Result<u64> {
        const GETSIGMASK: libc::c_uint = 0x420a;
        let mut mask = 0_u64;
        // SAFETY: the kernel writes a mask of the size said, which lives here.
        match unsafe { libc::ptrace(GETSIGMASK, tid.as_raw(), size_of::<u64>(), &raw mut mask) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(mask),
        }
    }

    /// Sets it.
    pub fn set_mask(&self, tid: Pid, mask: u64) -> io::Result<()> {
        const SETSIGMASK: libc::c_uint = 0x420b;
        // SAFETY: the kernel reads a mask of the size said, which lives here.
        match unsafe { libc::ptrace(SETSIGMASK, tid.as_raw(), size_of::<u64>(), &raw const mask) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }

    /// Returns the area of restartable sequences of a thread: its address, then its length and, in the upper half, its signature.
    pub fn sequences(&self, tid: Pid) -> Option<[u64; 2]> {
        const GET_RSEQ_CONFIGURATION: libc::c_uint = 0x420f;
        let mut found = [0_u64; 3];
        let bytes = size_of_val(&found);
        // SAFETY: the kernel writes the size said at most.
        let n = unsafe {
            libc::ptrace(
                GET_RSEQ_CONFIGURATION,
                tid.as_raw(),
                bytes,
                found.as_mut_ptr(),
            )
        };
        (n >= 0 && found[0] != 0).then_some([found[0], found[1]])
    }

    /// Returns the address at which the thread's restartable sequence would be aborted, were it interrupted at `pc`. The
    /// sequence is then no longer announced.
    pub fn abort_sequence(&self, tid: Pid, pc: u64) -> io::Result<Option<u64>> {
        let Some([area, _]) = self.sequences(tid) else {
            return Ok(None);
        };
        let announced = area + 8;
        let at = self.word(announced)?;
        if at == 0 {
            return Ok(None);
        }
        let mut sequence = [0; 32];
        self.read(at, &mut sequence)?;
        let word = |n: usize| {
            sequence[n..]
                .first_chunk()
                .map_or(0, |b| u64::from_le_bytes(*b))
        };
        let (start, length, abort) = (word(8), word(16), word(24));
        if pc.wrapping_sub(start) >= length {
            return Ok(None);
        }
        self.write(announced, &0_u64.to_le_bytes())?;
        Ok(Some(abort))
    }

    /// A thread whose memory and files are those of the process.
    pub fn anyone(&self) -> Pid {
        self.stopped.first().copied().unwrap_or(self.pid)
    }

    /// Reads memory of the process.
    pub fn read(&self, from: u64, to: &mut [u8]) -> io::Result<()> {
        let len = to.len();
        let remote = RemoteIoVec {
            base: from as usize,
            len,
        };
        match process_vm_readv(self.anyone(), &mut [IoSliceMut::new(to)], &[remote]) {
            Ok(n) if n == len => Ok(()),
            Ok(_) => Err(io::Error::from_raw_os_error(libc::EFAULT)),
            Err(e) => Err(other(e)),
        }
    }

    /// Reads a word.
    pub fn word(&self, from: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.read(from, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Writes memory of the process.
    pub fn write(&self, to: u64, from: &[u8]) -> io::Result<()> {
        let remote = RemoteIoVec {
            base: to as usize,
            len: from.len(),
        };
        match process_vm_writev(self.anyone(), &[IoSlice::new(from)], &[remote]) {
            Ok(n) if n == from.len() => Ok(()),
            Ok(_) => Err(io::Error::from_raw_os_error(libc::EFAULT)),
            Err(e) => Err(other(e)),
        }
    }

    /// Waits for what a running thread comes to next.
    ///
    /// The kernel does not report the end of a process's first thread before the ends of the others, which wait for us
    /// where we trace them too. So a blocking wait may never come back from a process that was killed.
    fn event(&self, tid: Pid) -> Event {
        const SOON: u32 = 200;
        const PAUSE: Duration = Duration::from_micros(50);
        const OFTEN: u32 = 20;
        let mut turns = 0_u32;
        loop {
            match wait(tid, libc::WNOHANG) {
                Event::Nothing if turns < SOON => std::thread::yield_now(),
                Event::Nothing if turns.is_multiple_of(OFTEN) && has_ended(tid) => {
                    return Event::Gone;
                }
                Event::Nothing => std::thread::sleep(PAUSE),
                event => return event,
            }
            turns = turns.wrapping_add(1);
        }
    }
}

impl Drop for Tracees {
    fn drop(&mut self) {
        std::mem::take(&mut self.stopped)
            .into_iter()
            .for_each(|tid| self.let_run(tid));
    }
}
