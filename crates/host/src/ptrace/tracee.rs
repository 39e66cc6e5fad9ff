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
//! stopped threads make none.
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

use std::cell::RefCell;
use std::ffi::OsString;
use std::fs;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::zeroed;
use std::time::{Duration, Instant};

use libc::user_regs_struct as Regs;
use nix::sys::ptrace;
use nix::sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev};
use nix::unistd::Pid;

use crate::kernel::maps::{Mapping, mappings};
use crate::ptrace::ended::Ended;

/// Bytes of the `syscall` instruction.
pub const SYSCALL_BYTES: u64 = 2;
const SYSCALL: [u8; 2] = [0x0f, 0x05];
const ALL_BUT_TRAP: u64 = !(1 << (libc::SIGTRAP - 1));

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

/// An event that `wait` reported.
enum Event {
    /// Not yet.
    Nothing,
    Gone,
    /// A signal is about to be delivered.
    Signal(i32),
    /// At a system call.
    Call,
    /// Stopped as asked, or with the whole process.
    Stopped,
}

thread_local! {
    /// Ends of tracees. They may be children of ours, and the kernel reports an end once.
    static REAPED: RefCell<Vec<(Pid, Ended)>> = const { RefCell::new(Vec::new()) };
}

/// The end of a thread or process while it was traced, reported once.
pub fn reaped() -> Option<(Pid, Ended)> {
    REAPED.with_borrow_mut(Vec::pop)
}

fn wait(tid: Pid, flags: i32) -> Event {
    const CALL: i32 = libc::SIGTRAP | 0x80;
    const EVENT_STOP: i32 = 128;
    let mut status = 0;
    // SAFETY: all-zero is a valid rusage.
    let mut usage: libc::rusage = unsafe { zeroed() };
    let how = libc::__WALL | flags;
    // SAFETY: two valid places to write to.
    let got = unsafe { libc::wait4(tid.as_raw(), &raw mut status, how, &raw mut usage) };
    if got == 0 {
        return Event::Nothing;
    }
    if got < 0 {
        return match nix::errno::Errno::last() {
            nix::errno::Errno::EINTR => Event::Nothing,
            _ => Event::Gone,
        };
    }
    if !libc::WIFSTOPPED(status) {
        if let Some(ended) = Ended::new(status, &usage) {
            REAPED.with_borrow_mut(|reaped| reaped.push((tid, ended)));
        }
        return Event::Gone;
    }
    match (libc::WSTOPSIG(status), status >> 16) {
        (CALL, _) => Event::Call,
        (_, EVENT_STOP) => Event::Stopped,
        (signal, 0) => Event::Signal(signal),
        _ => Event::Stopped,
    }
}

fn interrupt(tid: Pid) {
    // A thread that has just ended is found out by who waits for it.
    let _ = ptrace::interrupt(tid);
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

    /// Stops all threads that are not stopped yet. On failure none is that was not before.
    pub fn stop_all(&mut self, patience: Duration) -> Result<(), StopFailure> {
        let limit = Instant::now() + patience;
        let before = self.stopped.len();
        loop {
            let new = self.seize_new()?;
            if new.is_empty() {
                break;
            }
            new.iter().copied().for_each(interrupt);
            for tid in new {
                match wait_for_stop(tid, limit) {
                    Some(true) => self.stopped.push(tid),
                    Some(false) => {}
                    None => {
                        let extra = self.stopped.split_off(before);
                        extra.into_iter().for_each(|tid| self.let_run(tid));
                        // Not stopped, so it cannot be released; that happens when this process ends.
                        return Err(StopFailure::Busy(tid));
                    }
                }
            }
        }
        match self.stopped.is_empty() {
            true => Err(StopFailure::Gone),
            false => Ok(()),
        }
    }

    /// Makes us the tracer of a thread; `false` if it is gone.
    fn seize(&self, tid: Pid) -> Result<bool, StopFailure> {
        match ptrace::seize(tid, ptrace::Options::PTRACE_O_TRACESYSGOOD) {
            Ok(()) => Ok(true),
            Err(nix::Error::ESRCH) => Ok(false),
            Err(_) if has_ended(self.pid, tid) => Ok(false),
            Err(e) => Err(StopFailure::Refused(tid, other(e))),
        }
    }

    fn seize_new(&self) -> Result<Vec<Pid>, StopFailure> {
        let mut new = Vec::new();
        for tid in threads(self.pid)? {
            if self.stopped.contains(&tid) {
                continue;
            }
            match self.seize(tid) {
                Ok(true) => new.push(tid),
                Ok(false) => {}
                Err(failure) => {
                    new.into_iter().for_each(|tid| {
                        interrupt(tid);
                        wait_for_stop(tid, Instant::now() + Duration::from_secs(1));
                        self.let_run(tid);
                    });
                    return Err(failure);
                }
            }
        }
        Ok(new)
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
        let _ = ptrace::detach(tid, None);
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

    /// Returns the address at which the thread's restartable sequence would be aborted, were it interrupted at `pc`. The
    /// sequence is then no longer announced.
    pub fn abort_sequence(&self, tid: Pid, pc: u64) -> io::Result<Option<u64>> {
        const GET_RSEQ_CONFIGURATION: libc::c_uint = 0x420f;
        let mut told = [0_u64; 3];
        let bytes = size_of_val(&told);
        // SAFETY: the kernel writes the size said at most.
        let n = unsafe {
            libc::ptrace(
                GET_RSEQ_CONFIGURATION,
                tid.as_raw(),
                bytes,
                told.as_mut_ptr(),
            )
        };
        if n < 0 || told[0] == 0 {
            return Ok(None);
        }
        let announced = told[0] + 8;
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

    /// Returns whether a system call that a thread was stopped in says EINTR only because it was stopped, and
    /// can be made again.
    pub fn spurious(&self, tid: Pid, regs: &Regs) -> bool {
        // Those that neither restart by themselves nor have done anything when they say so.
        const IO_PGETEVENTS: i64 = 333;
        const AGAIN: [i64; 24] = [
            libc::SYS_read,
            libc::SYS_write,
            libc::SYS_readv,
            libc::SYS_writev,
            libc::SYS_accept,
            libc::SYS_accept4,
            libc::SYS_connect,
            libc::SYS_sendto,
            libc::SYS_sendmsg,
            libc::SYS_recvfrom,
            libc::SYS_recvmsg,
            libc::SYS_recvmmsg,
            libc::SYS_sendmmsg,
            libc::SYS_semop,
            libc::SYS_semtimedop,
            libc::SYS_msgsnd,
            libc::SYS_msgrcv,
            libc::SYS_rt_sigtimedwait,
            libc::SYS_io_getevents,
            IO_PGETEVENTS,
            libc::SYS_epoll_wait,
            libc::SYS_epoll_pwait,
            libc::SYS_epoll_pwait2,
            libc::SYS_io_uring_enter,
        ];
        regs.rax as i64 == -i64::from(libc::EINTR)
            && AGAIN.contains(&(regs.orig_rax as i64))
            && !self.has_signal(tid)
    }

    /// Returns whether a signal waits that is not blocked.
    fn has_signal(&self, tid: Pid) -> bool {
        let path = format!("/proc/{}/task/{tid}/status", self.pid);
        let status = fs::read_to_string(path).unwrap_or_default();
        let mask = |name: &str| {
            let line = status.lines().find_map(|l| l.strip_prefix(name));
            line.and_then(|l| u64::from_str_radix(l.trim(), 16).ok())
                .unwrap_or(0)
        };
        (mask("SigPnd:") | mask("ShdPnd:")) & !mask("SigBlk:") != 0
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
        loop {
            ptrace::syscall(tid, None).map_err(other)?;
            match wait(tid, 0) {
                Event::Call => break,
                Event::Gone => return Err(io::Error::from_raw_os_error(libc::ESRCH)),
                // A stop that was asked for before.
                _ => {}
            }
        }
        interrupt(tid);
        loop {
            ptrace::cont(tid, None).map_err(other)?;
            match wait(tid, 0) {
                Event::Stopped => break,
                Event::Gone => return Err(io::Error::from_raw_os_error(libc::ESRCH)),
                _ => {}
            }
        }
        let result = self.regs(tid)?.rax as i64;
        match result {
            -4095..0 => Err(io::Error::from_raw_os_error(-result as i32)),
            _ => Ok(result as u64),
        }
    }

    /// Finds the instruction that remote calls use.
    fn find_gadget(&mut self) -> io::Result<()> {
        if self.gadget != 0 {
            return Ok(());
        }
        let maps = fs::read(format!("/proc/{}/task/{}/maps", self.pid, self.anyone()))?;
        let is_code = |m: &Mapping<'_>| m.is_executable() && m.is_readable() && !m.is_writable();
        let code = mappings(&maps).filter(|m| is_code(m) && m.path != b"[vsyscall]");
        let mut all: Vec<_> = code.map(|m| (m.path != b"[vdso]", m.range)).collect();
        all.sort_by_key(|(later, _)| *later);
        for (_, range) in all {
            const STEP: usize = 64 << 10;
            let mut bytes = vec![0; STEP];
            for at in (range.start..range.end).step_by(STEP) {
                let n = STEP.min((range.end - at) as usize);
                if self.read(at, &mut bytes[..n]).is_err() {
                    continue;
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
        })
    }
}

impl Drop for Tracees {
    fn drop(&mut self) {
        std::mem::take(&mut self.stopped)
            .into_iter()
            .for_each(|tid| self.let_run(tid));
    }
}

/// Puts a thread that was stopped in a system call back to it, as the kernel would to make it again.
/// Returns the kernel's number for how, or 0. `spurious`: it says EINTR for no reason.
pub fn make_again(regs: &mut Regs, spurious: bool) -> u32 {
    const ERESTARTSYS: i64 = 512;
    const ERESTARTNOINTR: i64 = 513;
    const ERESTARTNOHAND: i64 = 514;
    const ERESTART_RESTARTBLOCK: i64 = 516;
    if (regs.orig_rax as i64) < 0 {
        return 0;
    }
    let code = match -(regs.rax as i64) {
        _ if spurious => ERESTARTNOHAND,
        code @ (ERESTARTSYS | ERESTARTNOINTR | ERESTARTNOHAND | ERESTART_RESTARTBLOCK) => code,
        _ => return 0,
    };
    regs.rax = match code {
        ERESTART_RESTARTBLOCK => libc::SYS_restart_syscall as u64,
        _ => regs.orig_rax,
    };
    regs.orig_rax = u64::MAX;
    regs.rip -= SYSCALL_BYTES;
    code as u32
}

/// Waits until a thread stops; `Some(false)` when it has ended, `None` when it is too late.
fn wait_for_stop(tid: Pid, limit: Instant) -> Option<bool> {
    let mut looks = 0;
    loop {
        match wait(tid, libc::WNOHANG) {
            Event::Stopped if is_at_fault(tid) => {
                // It stops next with that signal.
                let _ = ptrace::cont(tid, None);
            }
            Event::Stopped => return Some(true),
            Event::Gone => return Some(false),
            Event::Signal(signal) => {
                // It gets that first, as it would have.
                interrupt(tid);
                // SAFETY: no memory is involved.
                unsafe { libc::ptrace(libc::PTRACE_CONT, tid.as_raw(), 0_u64, i64::from(signal)) };
            }
            Event::Call => {
                let _ = ptrace::cont(tid, None);
            }
            Event::Nothing if Instant::now() >= limit => return None,
            Event::Nothing => {
                looks += 1;
                if looks > 20 {
                    std::thread::sleep(Duration::from_micros(50));
                } else {
                    std::thread::yield_now();
                }
            }
        }
    }
}

/// Returns whether a stopped thread is about to get a signal that its instruction has caused: one that is of
/// that place and cannot wait.
fn is_at_fault(tid: Pid) -> bool {
    const PEEKSIGINFO: libc::c_uint = 0x4209;
    const SYNCHRONOUS: [i32; 6] = [
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGILL,
        libc::SIGTRAP,
        libc::SIGFPE,
        libc::SIGSYS,
    ];
    const MOST: usize = 8;
    #[repr(C)]
    struct Which {
        from: u64,
        flags: u32,
        count: i32,
    }
    let which = Which {
        from: 0,
        flags: 0,
        count: MOST as i32,
    };
    // SAFETY: all-zero is a valid siginfo.
    let mut waiting: [libc::siginfo_t; MOST] = unsafe { zeroed() };
    let at = &raw const which;
    // SAFETY: the kernel writes as many structures as asked for, at most.
    let n = unsafe { libc::ptrace(PEEKSIGINFO, tid.as_raw(), at, waiting.as_mut_ptr()) };
    let waiting = &waiting[..usize::try_from(n).unwrap_or(0).min(MOST)];
    waiting
        .iter()
        .any(|s| s.si_code > 0 && SYNCHRONOUS.contains(&s.si_signo))
}

/// The threads of a process.
fn threads(pid: Pid) -> Result<Vec<Pid>, StopFailure> {
    let listing = |e: io::Error| match e.kind() {
        io::ErrorKind::NotFound => StopFailure::Gone,
        _ => StopFailure::Listing(e),
    };
    let entries = fs::read_dir(format!("/proc/{pid}/task")).map_err(listing)?;
    let names = entries.map_while(Result::ok).map(|entry| entry.file_name());
    let number = |name: OsString| Some(Pid::from_raw(name.to_str()?.parse().ok()?));
    Ok(names.filter_map(number).collect())
}

fn has_ended(pid: Pid, tid: Pid) -> bool {
    match fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")) {
        Err(_) => true,
        Ok(stat) => {
            let state = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
            state.starts_with(['Z', 'X'])
        }
    }
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

/// A stopped thread that works for us.
pub struct Loan<'a> {
    tracees: &'a mut Tracees,
    tid: Pid,
    regs: Regs,
    /// Vector registers as `XSAVE` lays them out: a thread on loan may use all of them.
    vectors: Vec<u8>,
    mask: u64,
}

impl Loan<'_> {
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
        loop {
            ptrace::cont(self.tid, None).map_err(other)?;
            match wait(self.tid, 0) {
                Event::Signal(libc::SIGTRAP) => return Ok(()),
                Event::Gone => return Err(io::Error::from_raw_os_error(libc::ESRCH)),
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
        let _ = self.tracees.set_regs(self.tid, &self.regs);
        let _ = set_vectors(self.tid, &mut self.vectors);
        let _ = self.tracees.set_mask(self.tid, self.mask);
    }
}
