//! Stops of traced threads: waited for, and what each means.
// Raw ptrace requests, and structures that the kernel fills in.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::fs;
use std::mem::zeroed;
use std::time::{Duration, Instant};

use nix::sys::ptrace;
use nix::unistd::Pid;

use crate::ptrace::ended::Ended;

/// An event that `wait` reported.
pub(super) enum Event {
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

/// Outcome of a wait for a stop.
pub(super) enum Waited {
    Stopped,
    /// It has ended, and the kernel has told us.
    Gone,
    /// It has ended. The kernel does not tell that of a process's first thread before it has told the ends of the others.
    Untold,
    /// It is too late.
    Late,
}

thread_local! {
    /// Ends of tracees. They may be children of ours, and the kernel reports an end once.
    static REAPED: RefCell<Vec<(Pid, Ended)>> = const { RefCell::new(Vec::new()) };
}

/// The end of a thread or process while it was traced, reported once.
pub fn reaped() -> Option<(Pid, Ended)> {
    REAPED.with_borrow_mut(Vec::pop)
}

thread_local! {
    /// Threads that we trace and have asked to stop, and that had not stopped when we went on to other things.
    static LATE: RefCell<Vec<Pid>> = const { RefCell::new(Vec::new()) };
}

/// Takes note of threads that have not stopped in time. They stop later, and are ours until they are released.
pub(super) fn add_late(tids: impl IntoIterator<Item = Pid>) {
    LATE.with_borrow_mut(|late| late.extend(tids));
}

/// There are none of this process.
pub(super) fn forget_late() {
    LATE.with_borrow_mut(Vec::clear);
}

/// Returns whether a thread is among them. It is not any more then.
pub(super) fn take_late(tid: Pid) -> bool {
    LATE.with_borrow_mut(|late| {
        let at = late.iter().position(|t| *t == tid);
        at.map(|n| late.swap_remove(n)).is_some()
    })
}

/// Those of them that have stopped by now: they are not among them any more. With whether there are others.
pub(super) fn stopped_late() -> (Vec<Pid>, bool) {
    let mut stopped = Vec::new();
    LATE.with_borrow_mut(|late| {
        late.retain(|&tid| match wait_for_stop(tid, Instant::now()) {
            Waited::Stopped => {
                stopped.push(tid);
                false
            }
            Waited::Gone => false,
            Waited::Untold | Waited::Late => true,
        });
        (stopped, !late.is_empty())
    })
}

pub(super) fn wait(tid: Pid, flags: i32) -> Event {
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

pub(super) fn interrupt(tid: Pid) {
    // A thread that has just ended is found out by who waits for it.
    let _ = ptrace::interrupt(tid);
}

/// Lets a stopped thread run on, with a signal or with none (0). One that has just been killed is found out by who waits for it.
pub(super) fn resume(tid: Pid, signal: i32) {
    // SAFETY: no memory is involved.
    unsafe { libc::ptrace(libc::PTRACE_CONT, tid.as_raw(), 0_u64, i64::from(signal)) };
}

/// The same, up to the next system call.
pub(super) fn resume_to_call(tid: Pid, signal: i32) {
    // SAFETY: no memory is involved.
    unsafe { libc::ptrace(libc::PTRACE_SYSCALL, tid.as_raw(), 0_u64, i64::from(signal)) };
}

/// Waits until a thread stops.
pub(super) fn wait_for_stop(tid: Pid, limit: Instant) -> Waited {
    const OFTEN: u32 = 20;
    let mut looks = 0_u32;
    loop {
        match wait(tid, libc::WNOHANG) {
            Event::Stopped if is_at_fault(tid) => {
                // It stops next with that signal.
                resume(tid, 0);
            }
            Event::Stopped => return Waited::Stopped,
            Event::Gone => return Waited::Gone,
            Event::Signal(signal) => {
                // It gets that first, as it would have.
                interrupt(tid);
                resume(tid, signal);
            }
            Event::Call => {
                // The stop just seen stands for the one that was asked for.
                interrupt(tid);
                resume(tid, 0);
            }
            Event::Nothing if Instant::now() >= limit => return Waited::Late,
            Event::Nothing => {
                looks += 1;
                if looks.is_multiple_of(OFTEN) && has_ended(tid) {
                    return Waited::Untold;
                }
                if looks > OFTEN {
                    std::thread::sleep(Duration::from_micros(50));
                } else {
                    std::thread::yield_now();
                }
            }
        }
    }
}

/// Returns whether a thread has ended, which the kernel may not have told us.
pub(super) fn has_ended(tid: Pid) -> bool {
    match fs::read_to_string(format!("/proc/{tid}/stat")) {
        Err(_) => true,
        Ok(stat) => {
            let state = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
            state.starts_with(['Z', 'X'])
        }
    }
}

/// Returns whether a stopped thread is about to get a signal that its instruction has caused: one that is of
/// that place and cannot wait.
pub(super) fn is_at_fault(tid: Pid) -> bool {
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
