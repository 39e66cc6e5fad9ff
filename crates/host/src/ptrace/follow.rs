//! Processes that execute another program, followed by ptrace meanwhile.
//!
//! # Problem
//! An attached thread is about to `exec`. After the call the process holds nothing of ours,
//! and must be stopped before it runs an instruction. Before the call the process must not notice us,
//! and the call may fail.
//!
//! # Strategy
//! The thread is seized, which does not stop it. If the call succeeds, the kernel stops the process
//! inside it. The host redirects it to the landing (`crate::ptrace::landing`), where it stops once more, at the mark. If the call fails the thread
//! says so, and is detached where an interrupt stops it.
//!
//! The process gets the signals that are sent to it meanwhile, and a stop of the process takes effect. Whatever
//! becomes of us, it goes on as the program that it is.
//!
//! Ptrace belongs to a thread: all of this is for the serving thread.
// `PTRACE_SEIZE` of a thread, and waiting for any child with its CPU time, are not in `nix`.
#![allow(unsafe_code)]

use std::io;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::unistd::Pid;

use crate::ptrace::ended::Ended;

/// A change of a child of ours, or of a traced thread.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// The process has ended.
    Ended(Pid, Ended),
    /// The process is another program now, stopped inside the call.
    Exec(Pid),
    /// The process is at the mark of its landing.
    Marked(Pid),
}

/// Traces a thread that is about to execute a program.
///
/// # Errors
/// What the kernel says.
pub fn seize(tid: Pid) -> nix::Result<()> {
    ptrace::seize(tid, Options::PTRACE_O_TRACEEXEC)
}

/// Detaches a thread whose call has failed.
pub fn release(tid: Pid) {
    if ptrace::interrupt(tid).is_ok() && wait_for_stop(tid).is_ok() {
        let _ = ptrace::detach(tid, None);
    }
}

/// Returns the next change, if there is one. `is_marked`: whether a process that stopped for a signal is at its mark. Stops that do
/// not concern us are passed over.
pub fn change(is_marked: impl Fn(Pid, i32) -> bool) -> Option<Change> {
    loop {
        let mut status = 0;
        // SAFETY: all-zero is a valid rusage.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        let how = libc::WNOHANG | libc::__WALL;
        // SAFETY: two valid places to write to.
        let got = unsafe { libc::wait4(-1, &raw mut status, how, &raw mut usage) };
        if got <= 0 {
            match got < 0 && Errno::last() == Errno::EINTR {
                true => continue,
                false => return None,
            }
        }
        let pid = Pid::from_raw(got);
        if libc::WIFSTOPPED(status) {
            if status >> 16 == libc::PTRACE_EVENT_EXEC {
                return Some(Change::Exec(pid));
            }
            if status >> 16 == 0 && is_marked(pid, libc::WSTOPSIG(status)) {
                return Some(Change::Marked(pid));
            }
            pass_over(pid, status);
        } else if let Some(ended) = Ended::new(status, &usage) {
            return Some(Change::Ended(pid, ended));
        }
    }
}

/// Lets a stop that is not ours happen as it would without us.
fn pass_over(pid: Pid, status: i32) {
    const LISTEN: libc::c_uint = 0x4208;
    let signal = libc::WSTOPSIG(status);
    let event = status >> 16;
    let stops = [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
    let (request, signal) = match event {
        libc::PTRACE_EVENT_STOP if stops.contains(&signal) => (LISTEN, 0),
        0 => (libc::PTRACE_CONT, signal),
        _ => (libc::PTRACE_CONT, 0),
    };
    // SAFETY: no memory of ours is touched.
    unsafe { libc::ptrace(request, pid.as_raw(), 0, signal as i64) };
}

/// Waits until a thread has stopped, whatever for.
fn wait_for_stop(tid: Pid) -> io::Result<()> {
    loop {
        let mut status = 0;
        // SAFETY: a valid place to write to.
        let got = unsafe { libc::waitpid(tid.as_raw(), &raw mut status, libc::__WALL) };
        match got {
            _ if got > 0 && libc::WIFSTOPPED(status) => return Ok(()),
            _ if got > 0 => return Err(io::Error::other("it has ended")),
            _ if Errno::last() == Errno::EINTR => {}
            _ => return Err(io::Error::last_os_error()),
        }
    }
}

/// Lets a stopped process run, traced.
pub fn go_on(pid: Pid) {
    let _ = ptrace::cont(pid, None);
}

/// Lets a stopped process run.
pub fn detach(pid: Pid) {
    let _ = ptrace::detach(pid, None);
}

/// Waits a moment for a process that is about to stop or to end: it does so sooner than we would wake.
pub fn expect(pid: Pid) {
    const LOOKS: usize = 20;
    for _ in 0..LOOKS {
        // SAFETY: all-zero is a valid structure.
        let mut found: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let flags = libc::WEXITED | libc::WSTOPPED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
        // SAFETY: a valid place to write to.
        let failed =
            unsafe { libc::waitid(libc::P_PID, pid.as_raw() as u32, &raw mut found, flags) };
        if failed != 0 || found.si_signo != 0 {
            return;
        }
        std::thread::yield_now();
    }
}

impl Ended {
    /// Returns the end that a status reports, if it reports one.
    pub(crate) fn new(status: i32, usage: &libc::rusage) -> Option<Self> {
        let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
        let cpu = time(usage.ru_utime) + time(usage.ru_stime);
        let status = if libc::WIFEXITED(status) {
            libc::WEXITSTATUS(status)
        } else if libc::WIFSIGNALED(status) {
            -libc::WTERMSIG(status)
        } else {
            return None;
        };
        Some(Self {
            status: Some(status),
            cpu,
        })
    }
}
