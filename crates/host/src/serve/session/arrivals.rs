//! Processes on their way to another program.

use std::time::Instant;

use nix::unistd::Pid;

use crate::ptrace::landing::Landing;

/// A thread that is traced while it becomes another program.
pub(super) struct Traced {
    pub(super) tid: Pid,
    /// The process that the thread belongs to.
    pub(super) process: Pid,
    /// Number of the process whose request it was.
    pub(super) number: usize,
    /// It only shares that process's memory.
    pub(super) spawned: bool,
}

/// A process that is another program now, on its way to the runtime.
pub(super) struct Arrival {
    pub(super) landing: Landing,
    /// Process whose child it is.
    pub(super) parent: u32,
    /// It counts processes in a way of its own.
    pub(super) foreign: bool,
    pub(super) since: Instant,
}
