//! Reasons why a process could not be attached or detached.

use std::io;
use std::time::Duration;

use nix::unistd::Pid;
use trommel_queue::COUNTER_ARRAYS;

use crate::kernel::running::Refusal;
use crate::ptrace::tracee::StopFailure;

/// Longest time that a thread may take to stop: the kernel may be busy with it.
pub(crate) const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// Reasons why a process could not be attached, or detached.
#[derive(Debug, thiserror::Error)]
pub enum AttachFailure {
    /// Its threads could not be stopped.
    #[error(transparent)]
    Stop(#[from] StopFailure),
    /// A thread runs 32-bit code.
    #[error("thread {0} runs 32-bit code")]
    NotNative(Pid),
    /// A thread uses GS.
    #[error("thread {0} uses the GS segment, which the runtime needs")]
    Gs(Pid),
    /// Too many threads.
    #[error("it has {threads} threads; at most {most} can be observed")]
    ManyThreads {
        /// Those that it has.
        threads: usize,
        /// The most that there is room for.
        most: usize,
    },
    /// Another command has it.
    #[error("it is recorded already by process {0}")]
    Recorded(u32),
    /// Another command's keeper is still busy with it.
    #[error("a command that has ended is still detaching it (process {0}); try again in a moment")]
    Detaching(u32),
    /// Another program traces it.
    #[error(
        "thread {0} is traced by process {1} ({2}), and a thread has one tracer: end that one first"
    )]
    Traced(Pid, u32, String),
    /// Another version has left in it what this one does not understand.
    #[error("another version of trommel has left it under control; restart it")]
    Foreign,
    /// A thread has its system calls dispatched by the calling address.
    #[error(
        "thread {0} has its system calls dispatched to itself (PR_SET_SYSCALL_USER_DISPATCH), by the address that they are made from"
    )]
    Dispatch(Pid),
    /// A filter refuses calls that the runtime needs.
    #[error("thread {0} has restricted its system calls (seccomp), and the runtime needs {1}")]
    Filter(Pid, &'static str),
    /// Filters cannot be read.
    #[error(
        "it has restricted its system calls (seccomp), and what it allows cannot be read: {0}; be root, outside of any container"
    )]
    Filters(io::Error),
    /// It is not as it must be to be attached.
    #[error(transparent)]
    Unfit(#[from] Refusal),
    /// A signal has stopped it: there would be nothing to count.
    #[error("it is stopped, until it gets SIGCONT")]
    Stopped,
    /// A thread would notice that it is stopped.
    #[error(
        "thread {0} waits in a transfer, or with a timeout, and would notice that it is stopped"
    )]
    NoMoment(Pid),
    /// There were more threads than can count in generated code.
    #[error(
        "it has had more than {COUNTER_ARRAYS} threads at a time, or there is no memory for more; windows do without: add --windows"
    )]
    ManyCounting,
    /// The process locks all memory that it maps.
    #[error(
        "it locks all memory that it maps from now on (mlockall), and the runtime's would be gigabytes"
    )]
    LocksMemory,
    /// It has no descriptor left, and may not be given one.
    #[error(
        "it has as many descriptors as it may ever have (ulimit -Hn) and the runtime needs one for a moment: have CAP_SYS_RESOURCE, or let it close one"
    )]
    NoDescriptor,
    /// A limit leaves no room.
    #[error("{0}")]
    Limits(io::Error),
    /// No room.
    #[error(
        "the runtime cannot start in it: a limit or a sandbox refuses it memory; `trommel doctor` tells which"
    )]
    NoRoom,
    /// Threads do not leave.
    #[error(
        "thread {0} does not come out of the kernel; it will leave when it does, with the runtime's memory left in place"
    )]
    Stuck(Pid),
    /// A sandbox that this command is in refuses it.
    #[error("{0}: {1}; `trommel doctor` tells what is in the way")]
    Sandbox(&'static str, io::Error),
    /// The system refused something.
    #[error("{0}: {1}")]
    System(&'static str, io::Error),
}

impl AttachFailure {
    /// Returns the cause of a failure: a stopped thread is gone only when the process has been killed.
    pub(crate) fn cause(self) -> Self {
        match self {
            Self::System(what, error) if error.raw_os_error() == Some(libc::EPERM) => {
                Self::Sandbox(what, error)
            }
            Self::System(_, error) if error.raw_os_error() == Some(libc::ESRCH) => {
                Self::Stop(StopFailure::Gone)
            }
            other => other,
        }
    }
}

pub(crate) type Result<T> = std::result::Result<T, AttachFailure>;

pub(crate) fn system(what: &'static str) -> impl Fn(io::Error) -> AttachFailure {
    move |e| AttachFailure::System(what, e)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_was_killed_has_ended() {
        let failure = |errno| system("starting the runtime")(io::Error::from_raw_os_error(errno));
        assert_eq!(failure(libc::ESRCH).cause().to_string(), "it has ended");
        let other = failure(libc::ENOMEM).cause().to_string();
        assert!(other.starts_with("starting the runtime: "), "{other}");
    }
}
