//! Threads on loan: stopped threads that do system calls for us, or run code of ours, and are given back as they were.
//!
//! Filters of system calls (seccomp) are suspended meanwhile, where the kernel lets us: what we have a thread do is ours, not the program's.
//! No instruction of the program's is executed on loan.
// Raw ptrace requests, and structures that the kernel fills in.
#![allow(unsafe_code)]

use std::io;
use std::time::{Duration, Instant};

use libc::user_regs_struct as Regs;
use nix::sys::ptrace;
use nix::unistd::Pid;

use super::stops::{Event, Waited, interrupt, resume, resume_to_call, wait, wait_for_stop};
use super::{SYSCALL_BYTES, Tracees, other};
use crate::kernel::maps::{Mapping, mappings};
use crate::kernel::running::proc_file;

const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// Longest time that a running thread takes to stop.
const STOP: Duration = Duration::from_secs(1);
const ALL_BUT_TRAP: u64 = !(1 << (libc::SIGTRAP - 1));

/// A stopped thread that works for us.
pub struct Loan<'a> {
    tracees: &'a mut Tracees,
    tid: Pid,
    regs: Regs,
    /// Vector registers as `XSAVE` lays them out: a thread on loan may use all of them.
    vectors: Vec<u8>,
    mask: u64,
    /// Its filters of system calls are suspended.
    suspends: bool,
}

impl Loan<'_> {
    /// Returns whether filters of system calls (seccomp) do not judge what the thread does meanwhile. The kernel grants that to CAP_SYS_ADMIN.
    pub fn suspends_filters(&self) -> bool {
        self.suspends
    }

    /// The threads of the process.
    pub fn tracees(&self) -> &Tracees {
        self.tracees
    }

    /// The thread.
    pub fn tid(&self) -> Pid {
        self.tid
    }

    /// Makes the thread do a system call.
    pub fn call(&self, number: i64, args: [u64; 6]) -> io::Result<u64> {
        self.tracees.call(self.tid, number, args)
    }

    /// Lets it run at `pc` until it stops itself by SIGTRAP.
    pub fn run(&self, pc: u64, stack: u64, argument: u64) -> io::Result<()> {
        let mut regs = self.regs;
        regs.rip = pc;
        regs.rsp = stack;
        regs.rdi = argument;
        regs.orig_rax = u64::MAX;
        regs.eflags = 0x202;
        self.tracees.set_regs(self.tid, &regs)?;
        let mut signal = 0;
        loop {
            resume(self.tid, std::mem::take(&mut signal));
            match self.tracees.event(self.tid) {
                Event::Signal(libc::SIGTRAP) => return Ok(()),
                Event::Gone => return Err(io::Error::from_raw_os_error(libc::ESRCH)),
                Event::Signal(libc::SIGSTOP) => signal = libc::SIGSTOP,
                Event::Signal(signal) => {
                    return Err(io::Error::other(format!(
                        "the runtime failed there with signal {signal}"
                    )));
                }
                _ => {}
            }
        }
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        // It may have been killed.
        if self.suspends {
            suspend_filters(self.tid, false);
        }
        let _ = self.tracees.set_regs(self.tid, &self.regs);
        let _ = set_vectors(self.tid, &mut self.vectors);
        let _ = self.tracees.set_mask(self.tid, self.mask);
    }
}

impl Tracees {
    /// Makes a stopped thread do a system call. Its registers and mask are lost. It is left with signals
    /// blocked, where it can be released from.
    fn call(&self, tid: Pid, number: i64, args: [u64; 6]) -> io::Result<u64> {
        let mut regs = self.regs(tid)?;
        regs.rip = self.gadget;
        regs.rax = number as u64;
        // Or the kernel takes what it was stopped in for an interrupted call to restart.
        regs.orig_rax = u64::MAX;
        [regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9] = args;
        self.set_regs(tid, &regs)?;
        let mut signal = 0;
        loop {
            resume_to_call(tid, std::mem::take(&mut signal));
            match self.event(tid) {
                Event::Call => break,
                Event::Gone => return Err(io::Error::from_raw_os_error(libc::ESRCH)),
                Event::Signal(libc::SIGSTOP) => signal = libc::SIGSTOP,
                // A stop that was asked for before.
                _ => {}
            }
        }
        interrupt(tid);
        loop {
            resume(tid, std::mem::take(&mut signal));
            match self.event(tid) {
                Event::Stopped => break,
                Event::Gone => return Err(io::Error::from_raw_os_error(libc::ESRCH)),
                Event::Signal(libc::SIGSTOP) => signal = libc::SIGSTOP,
                _ => {}
            }
        }
        let result = self.regs(tid)?.rax as i64;
        match result {
            -4095..0 => Err(io::Error::from_raw_os_error(-result as i32)),
            _ => Ok(result as u64),
        }
    }

    /// Lets a stopped thread run until it is at a system call in code that `is_wanted`. It stops before it, as if it had not come there
    /// yet. A signal of its own, and `limit`, stop it sooner.
    pub fn run_to_call(
        &self,
        tid: Pid,
        limit: Instant,
        is_wanted: impl Fn(u64) -> bool,
    ) -> io::Result<()> {
        let gone = || io::Error::from_raw_os_error(libc::ESRCH);
        loop {
            ptrace::syscall(tid, None).map_err(other)?;
            let event = loop {
                match wait(tid, libc::WNOHANG) {
                    Event::Nothing if Instant::now() < limit => std::thread::yield_now(),
                    event => break event,
                }
            };
            match event {
                Event::Call => {
                    if self.step_back(tid, &is_wanted)? {
                        return Ok(());
                    }
                }
                Event::Signal(signal) => return self.stop_again(tid, signal),
                Event::Nothing => {
                    interrupt(tid);
                    return match wait_for_stop(tid, limit + STOP) {
                        Waited::Stopped => Ok(()),
                        _ => Err(gone()),
                    };
                }
                Event::Gone => return Err(gone()),
                // A stop that was asked for before.
                Event::Stopped => {}
            }
        }
    }

    /// Has a thread that is at the entry of a system call, in code that `is_wanted`, stop before it. Returns false if it is elsewhere.
    pub(super) fn step_back(&self, tid: Pid, is_wanted: &impl Fn(u64) -> bool) -> io::Result<bool> {
        let mut regs = self.regs(tid)?;
        let begins = regs.rax as i64 == -i64::from(libc::ENOSYS);
        if !begins || !is_wanted(regs.rip) {
            return Ok(false);
        }
        let mut before = regs;
        before.rip -= SYSCALL_BYTES;
        before.rax = regs.orig_rax;
        before.orig_rax = u64::MAX;
        // The kernel makes none with this number.
        regs.orig_rax = u64::MAX;
        self.set_regs(tid, &regs)?;
        self.stop_again(tid, 0)?;
        self.set_regs(tid, &before)?;
        Ok(true)
    }

    /// Lets a thread go on with a signal, or none, and stops it at once.
    pub(super) fn stop_again(&self, tid: Pid, signal: i32) -> io::Result<()> {
        interrupt(tid);
        resume(tid, signal);
        loop {
            match self.event(tid) {
                Event::Stopped => return Ok(()),
                Event::Gone => return Err(io::Error::from_raw_os_error(libc::ESRCH)),
                Event::Signal(signal) => {
                    interrupt(tid);
                    resume(tid, signal);
                }
                _ => resume(tid, 0),
            }
        }
    }

    /// Finds the instruction that remote calls use.
    fn find_gadget(&mut self) -> io::Result<()> {
        if self.gadget != 0 {
            return Ok(());
        }
        let maps = proc_file(&format!("/proc/{}/task/{}/maps", self.pid, self.anyone()))?;
        let is_code = |m: &Mapping<'_>| m.is_executable() && m.is_readable() && !m.is_writable();
        let code = mappings(&maps).filter(|m| is_code(m) && m.path != b"[vsyscall]");
        let mut all: Vec<_> = code.map(|m| (m.path != b"[vdso]", m.range)).collect();
        all.sort_by_key(|(later, _)| *later);
        for (_, range) in all {
            const STEP: usize = 64 << 10;
            let mut bytes = vec![0; STEP];
            for at in (range.start..range.end).step_by(STEP) {
                let n = STEP.min((range.end - at) as usize);
                match self.read(at, &mut bytes[..n]) {
                    Ok(()) => {}
                    Err(error) if error.raw_os_error() == Some(libc::EPERM) => return Err(error),
                    Err(_) => continue,
                }
                if let Some(i) = bytes[..n].windows(2).position(|w| w == SYSCALL) {
                    self.gadget = at + i as u64;
                    return Ok(());
                }
            }
        }
        Err(io::Error::other("it has no system call instruction"))
    }

    /// Borrows a stopped thread: what is done through the loan is undone in its registers, those of vectors and of the x87 too, and in
    /// its mask when that is dropped.
    pub fn borrow(&mut self, tid: Pid) -> io::Result<Loan<'_>> {
        self.find_gadget()?;
        let regs = self.regs(tid)?;
        let vectors = vectors(tid)?;
        let mask = self.mask(tid)?;
        // The trap must not be blocked: the kernel would change what the app does with it.
        self.set_mask(tid, ALL_BUT_TRAP)?;
        Ok(Loan {
            tracees: self,
            tid,
            regs,
            vectors,
            mask,
            suspends: suspend_filters(tid, true),
        })
    }

    /// Returns whether filters of a stopped thread could be suspended.
    pub fn may_suspend_filters(&self, tid: Pid) -> bool {
        suspend_filters(tid, true) && suspend_filters(tid, false)
    }
}

/// Has the kernel judge system calls of a stopped thread by its filters or not. Returns whether that was done.
fn suspend_filters(tid: Pid, suspend: bool) -> bool {
    const SUSPEND_SECCOMP: libc::c_int = 1 << 21;
    let options = libc::PTRACE_O_TRACESYSGOOD | if suspend { SUSPEND_SECCOMP } else { 0 };
    // SAFETY: options are a number.
    unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, tid.as_raw(), 0, options) == 0 }
}

/// The x87, vector and further state of a stopped thread, as `XSAVE` lays it out.
fn vectors(tid: Pid) -> io::Result<Vec<u8>> {
    // Of all states that this processor has; leaf 13 is there where there is `XSAVE`, and that in each that runs 64-bit programs with AVX.
    let most = std::arch::x86_64::__cpuid_count(13, 0).ecx as usize;
    const LEAST: usize = 4096;
    let mut state = vec![0; most.max(LEAST)];
    let n = register_set(libc::PTRACE_GETREGSET, tid, &mut state)?;
    state.truncate(n);
    Ok(state)
}

fn set_vectors(tid: Pid, state: &mut [u8]) -> io::Result<()> {
    register_set(libc::PTRACE_SETREGSET, tid, state).map(drop)
}

/// Copies the state from the thread or to it; how many bytes.
fn register_set(request: libc::c_uint, tid: Pid, state: &mut [u8]) -> io::Result<usize> {
    const NT_X86_XSTATE: usize = 0x202;
    let mut whole = libc::iovec {
        iov_base: state.as_mut_ptr().cast(),
        iov_len: state.len(),
    };
    // SAFETY: the kernel reads or writes no more than the bytes said, which live here.
    match unsafe { libc::ptrace(request, tid.as_raw(), NT_X86_XSTATE, &raw mut whole) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(whole.iov_len),
    }
}
