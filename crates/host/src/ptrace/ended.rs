//! Ends of programs, as the kernel reports them.

use std::time::Duration;

/// The end of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ended {
    /// Its exit status, or the negative of the signal that ended it; `None` when the kernel did
    /// not report it.
    pub status: Option<i32>,
    /// CPU time, its own and the kernel's for it, with all children that it waited for.
    pub cpu: Duration,
}
