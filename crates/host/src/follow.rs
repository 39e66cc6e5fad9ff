//! Processes that become other programs, followed by ptrace for as long as that takes.
//!
//! # Problem
//! A thread under control wants to `exec`. Behind it there is a process with nothing of ours in it,
//! which must be stopped before it runs an instruction; before it there is one that must not notice,
//! and the call may fail.
//!
//! # Strategy
//! The thread is seized, which does not stop it. If the call succeeds, the kernel stops the process
//! inside it; it is led out of the call by an interrupt, as `exec` still has its result to write, and
//! then is as it is at launch. If the call fails the thread says so, and is let go of where an
//! interrupt stops it.
//!
//! All of the app's signals are blocked meanwhile (`exec` of the runtime); a stop that is sent to the
//! process is let happen.
//!
//! Ptrace belongs to a thread: all of this is for the one that serves.
// `PTRACE_SEIZE` of a thread, and waiting for any child with its CPU time, are not in `nix`.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::unistd::Pid;

use crate::inject::{self, File, Kept};
use crate::launch::Ended;

/// What has become of a child of ours, or of a thread that is traced.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// It has ended.
    Ended(Pid, Ended),
    /// It is another program now, stopped inside the call.
    Exec(Pid),
}

/// Traces a thread that is about to execute a program.
///
/// # Errors
/// What the kernel says.
pub fn seize(tid: Pid) -> nix::Result<()> {
    ptrace::seize(tid, Options::PTRACE_O_TRACEEXEC)
}

/// Lets go of a thread whose call has failed.
pub fn release(tid: Pid) {
    if ptrace::interrupt(tid).is_ok() && wait_for_stop(tid).is_ok() {
        let _ = ptrace::detach(tid, None);
    }
}

/// The next change, if there is one. Stops that do not concern us are passed over.
pub fn change() -> Option<Change> {
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

/// Puts the runtime into a process that is stopped inside its `exec`, and lets it run, with `mask` as its
/// signal mask. `take` is given the file that it will share with us. When that is not possible the
/// program runs natively.
///
/// # Errors
/// Why it does.
pub fn take_over(
    pid: Pid,
    mask: u64,
    take: &mut dyn FnMut(OwnedFd) -> io::Result<Option<Kept>>,
) -> io::Result<()> {
    let led_out = || -> io::Result<()> {
        ptrace::interrupt(pid)?;
        ptrace::cont(pid, None)?;
        wait_for_stop(pid)
    };
    led_out()?;
    // Should we be killed now, half a runtime must not run.
    let _ = ptrace::setoptions(pid, Options::PTRACE_O_EXITKILL);
    let before = ptrace::getregs(pid)?;
    inject::inject(pid, File::Made(take), None, Some(mask)).inspect_err(|_| {
        let _ = inject::set_mask(pid, mask);
        let _ = ptrace::setregs(pid, before);
        let _ = ptrace::detach(pid, None);
    })
}

impl Ended {
    /// What a status says, if it is that of an end.
    fn new(status: i32, usage: &libc::rusage) -> Option<Self> {
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
