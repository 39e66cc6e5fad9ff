//! Argument by which the host wakes a process that rests between bursts of control.

use crate::limits::LIMITS;

/// Argument of the routine at [`Attached::wake`](crate::thread_page::Attached::wake). Words with the ids of the threads follow; the routine puts the addresses of their
/// areas there.
#[repr(C)]
pub struct Wake {
    /// Not 0: code may have changed, so that all translated code is dropped. The routine sets it to [`AWAKE`] when it has succeeded.
    pub drop_all: u64,
    /// Number of threads.
    pub threads: u64,
    /// The program's own limits, as [`LIMITS`] lists them.
    pub limits: [[u64; 2]; LIMITS.len()],
}

/// [`Wake::drop_all`]: it has succeeded.
pub const AWAKE: u64 = u64::MAX;
/// [`Wake::drop_all`]: there is no room for the threads, and the process rests on.
pub const ASLEEP: u64 = u64::MAX - 1;
