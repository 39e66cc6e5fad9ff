//! Reasons why a process could not be attached or detached.

use std::io;
use std::time::Duration;

use nix::unistd::Pid;
use trommel_queue::MAX_THREADS;

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
    #[error("it has {0} threads; at most {MAX_THREADS} can be observed")]
    ManyThreads(usize),
    /// Another command has it.
    #[error("it is recorded already by process {0}")]
    Recorded(u32),
    /// Another version has left in it what this one does not understand.
    #[error("another version of trommel has left it under control; restart it")]
    Foreign,
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
    /// The system refused something.
    #[error("{0}: {1}")]
    System(&'static str, io::Error),
}

pub(crate) type Result<T> = std::result::Result<T, AttachFailure>;

pub(crate) fn system(what: &'static str) -> impl Fn(io::Error) -> AttachFailure {
    move |e| AttachFailure::System(what, e)
}
