//! Limits of a process that the runtime counts for.

/// Limits of a process that count what the runtime has: `RLIMIT_AS`, `RLIMIT_DATA` and `RLIMIT_NOFILE`. The kernel is given
/// others than the program asked for, and the program is told its own.
pub const LIMITS: [u32; 3] = [9, 2, 7];
