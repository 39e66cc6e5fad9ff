//! The process, for handlers that find no thread of it.
#![allow(unsafe_code)] // reason: the process is reached through an address.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Release};

use crate::engine::state::Process;

/// The process, for handlers that find no thread of it.
static PROCESS: AtomicU64 = AtomicU64::new(0);

/// Handlers from now on belong to `process`.
pub fn serve(process: &'static Process) {
    PROCESS.store(&raw const *process as u64, Release);
}

/// The process that handlers belong to.
pub fn process() -> &'static Process {
    // SAFETY: set before the first handler was installed, for good.
    unsafe { &*(PROCESS.load(Acquire) as *const Process) }
}
