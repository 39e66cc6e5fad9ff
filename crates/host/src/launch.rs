//! A program started under control.
//!
//! The child is made by `fork` and `exec`, as a shell would make it: same descriptors, environment,
//! signal dispositions and mask; it only asks to be traced, so that it stops behind its `exec`.
// `fork` and what a child may do before `exec` cannot be expressed safely.
#![allow(unsafe_code)]

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, execv, fork};

use crate::inject::inject;
use crate::interrupt::Guard;

/// What is to be started.
pub struct Command<'a> {
    /// The file to execute.
    pub file: &'a Path,
    /// Its arguments, the name it was called by first.
    pub args: Vec<&'a OsStr>,
    /// What it is to find as its parent did.
    pub inherited: Inherited,
    /// Dispositions of ours that it must not find.
    pub guard: &'a Guard,
}

/// What Rust's start-up code changes before `main`, and a program must find unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Inherited {
    /// Standard descriptors to close.
    pub closed: [bool; 3],
    /// SIGPIPE is ignored; otherwise it has its default action.
    pub sigpipe_ignored: bool,
}

impl Inherited {
    /// In the child, before `exec`.
    fn restore(self) {
        for fd in (0..3).filter(|&fd| self.closed[fd as usize]) {
            // SAFETY: async-signal-safe, and nothing of the child uses the descriptor.
            unsafe { libc::close(fd) };
        }
        if !self.sigpipe_ignored {
            // SAFETY: async-signal-safe.
            unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        }
    }
}

/// Why a program could not be started under control.
#[derive(Debug, thiserror::Error)]
pub enum LaunchFailure {
    /// The kernel would not execute it.
    #[error("cannot execute it: {}", .0.desc())]
    Exec(Errno),
    /// It did not come as far as its first instruction.
    #[error("it ended before its first instruction, by {0}")]
    Ended(Signal),
    /// The same, in a way that processes do not end.
    #[error("it did not reach its first instruction: {0:?}")]
    Lost(WaitStatus),
    /// It is no 64-bit program.
    #[error("it is not a 64-bit x86 program")]
    NotNative,
    /// The system refuses ptrace.
    #[error("it may not be traced; `trommel doctor` tells what is in the way")]
    NotTraced,
    /// The system refused something.
    #[error("{what}: {error}; `trommel doctor` tells what is in the way")]
    System {
        /// What was tried.
        what: &'static str,
        /// The answer.
        error: io::Error,
    },
}

fn system(what: &'static str) -> impl Fn(io::Error) -> LaunchFailure {
    move |error| LaunchFailure::System { what, error }
}

/// How a program ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ended {
    /// Its exit status, or the negative of the signal that ended it; `None` when the kernel did
    /// not tell.
    pub status: Option<i32>,
    /// CPU time, its own and the kernel's for it, with all children that it waited for.
    pub cpu: Duration,
}

/// Waits for the end of a program.
pub fn wait(pid: Pid) -> Ended {
    loop {
        let mut status = 0;
        // SAFETY: all-zero is a valid rusage.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: two valid places to write to.
        let got = unsafe { libc::wait4(pid.as_raw(), &raw mut status, 0, &raw mut usage) };
        if got < 0 {
            if Errno::last() == Errno::EINTR {
                continue;
            }
            return Ended::default();
        }
        let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
        let cpu = time(usage.ru_utime) + time(usage.ru_stime);
        let status = if libc::WIFEXITED(status) {
            Some(libc::WEXITSTATUS(status))
        } else if libc::WIFSIGNALED(status) {
            Some(-libc::WTERMSIG(status))
        } else {
            continue;
        };
        return Ended { status, cpu };
    }
}

/// Whether a program has ended; [`wait`] then tells how.
pub fn has_ended(pid: Pid) -> bool {
    use nix::sys::wait::{Id, WaitPidFlag, waitid};
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    !matches!(
        waitid(Id::Pid(pid), flags),
        Ok(WaitStatus::StillAlive) | Err(Errno::EINTR)
    )
}

/// How a child exits that may not be traced; no error of `exec` has this number.
const NOT_TRACED: i32 = 255;

/// In the child: a number for the shared file that the app will not miss.
const HIGH_FD: i32 = 200;

/// Starts a program, stops it at its first instruction, puts the runtime in, and lets it run.
///
/// Must be called while the process has one thread, which then is the tracer.
pub fn launch(command: &Command<'_>, shared: BorrowedFd<'_>) -> Result<Pid, LaunchFailure> {
    let nul = |e: std::ffi::NulError| {
        system("an argument")(io::Error::new(io::ErrorKind::InvalidInput, e))
    };
    let file = CString::new(command.file.as_os_str().as_bytes()).map_err(nul)?;
    let args: Vec<CString> = command
        .args
        .iter()
        .map(|a| CString::new(a.as_bytes()))
        .collect::<Result<_, _>>()
        .map_err(nul)?;
    // The runtime reads there what is code; told now, and not by a program that runs unobserved.
    std::fs::File::open("/proc/self/maps").map_err(system("reading /proc/self/maps"))?;
    // The descriptor is inherited; the runtime closes it before the app starts.
    let inherited = nix::fcntl::fcntl(shared, nix::fcntl::FcntlArg::F_DUPFD(HIGH_FD))
        .or_else(|_| nix::fcntl::fcntl(shared, nix::fcntl::FcntlArg::F_DUPFD(3)))
        .map_err(|e| system("a descriptor for the target")(e.into()))?;
    let host = nix::unistd::getpid();
    // SAFETY: the child only calls async-signal-safe functions before it execs.
    let child = match unsafe { fork() } {
        Ok(ForkResult::Parent { child }) => child,
        Ok(ForkResult::Child) => {
            let failed = |status: i32| -> ! {
                // SAFETY: ends the child at once, as a forked child must.
                unsafe { libc::_exit(status) }
            };
            if ptrace::traceme().is_err() {
                failed(NOT_TRACED)
            }
            // Killed meanwhile: another process would be the tracer, and never let it go.
            if nix::unistd::getppid() != host {
                failed(0)
            }
            command.guard.restore();
            command.inherited.restore();
            match execv(&file, &args) {
                Ok(_) => failed(0),
                Err(errno) => failed(errno as i32),
            }
        }
        Err(e) => return Err(system("fork")(e.into())),
    };
    let _ = nix::unistd::close(inherited.as_raw_fd());
    let started = take_over(child, inherited.as_raw_fd());
    if started.is_err() {
        // It has not run anything yet; nobody will miss it.
        let _ = ptrace::kill(child);
        let _ = waitpid(child, None);
    }
    started.map(|()| child)
}

/// Waits for the program's `exec`, puts the runtime in, and lets it run.
fn take_over(child: Pid, file: i32) -> Result<(), LaunchFailure> {
    loop {
        match waitpid(child, None).map_err(|e| system("waiting for the program")(e.into()))? {
            WaitStatus::Stopped(_, Signal::SIGTRAP) => break,
            // Sent to it before its `exec`: it gets that, as it would without a tracer.
            WaitStatus::Stopped(_, signal) => {
                ptrace::cont(child, signal).map_err(|e| system("starting the program")(e.into()))?
            }
            WaitStatus::Exited(_, NOT_TRACED) => return Err(LaunchFailure::NotTraced),
            WaitStatus::Exited(_, errno) => {
                return Err(LaunchFailure::Exec(Errno::from_raw(errno)));
            }
            WaitStatus::Signaled(_, signal, _) => return Err(LaunchFailure::Ended(signal)),
            status => return Err(LaunchFailure::Lost(status)),
        }
    }
    const CODE_SEGMENT_64: u64 = 0x33;
    let regs = ptrace::getregs(child).map_err(|e| system("reading registers")(e.into()))?;
    // Should we be killed now, half a runtime must not run.
    let _ = ptrace::setoptions(child, ptrace::Options::PTRACE_O_EXITKILL);
    if regs.cs != CODE_SEGMENT_64 {
        return Err(LaunchFailure::NotNative);
    }
    inject(child, file).map_err(system("putting the runtime into the program"))
}
