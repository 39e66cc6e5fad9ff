//! Calls that wait with a signal mask of their own.
//!
//! # Problem
//! `rt_sigsuspend`, `ppoll` and their like replace the mask while they wait. A handler that ends the
//! wait runs with *that* mask and what it adds, and its frame holds the mask before. The
//! runtime's handler runs with everything blocked, so the kernel does not tell what the waiting mask was.
//!
//! # Strategy
//! The runtime makes these calls itself and reads the mask first. All of them give up the waiting
//! mask exactly when they answer something else than `EINTR`, so when that is the answer
//! and a signal was kept, it is delivered as if it had come under the waiting mask.
#![allow(unsafe_code)] // reason: makes the app's system calls.

use crate::base::syscalls::{EPOLL_PWAIT2, IO_URING_ENTER};
use linux_raw_sys::general as nr;

use crate::base::area::Context;
use crate::base::signals::CANNOT_BE_BLOCKED;
use crate::base::sys;
use crate::crossing::arch;
use crate::engine::state::Thread;

fn word(at: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    sys::copy_checked(at, &mut bytes).then(|| u64::from_le_bytes(bytes))
}

/// The mask that a call waits with, if it has one. What cannot be read, the kernel refuses.
fn mask(number: u32, a: &[u64; 6]) -> Option<u64> {
    const EXT_ARG: u64 = 8; // IORING_ENTER_EXT_ARG
    let at = match number {
        nr::__NR_rt_sigsuspend => a[0],
        nr::__NR_ppoll => a[3],
        nr::__NR_epoll_pwait | EPOLL_PWAIT2 => a[4],
        IO_URING_ENTER if a[3] & EXT_ARG == 0 => a[4],
        IO_URING_ENTER => word(a[4])?,
        // The address of the mask and its size.
        _ => word(a[5]).filter(|_| a[5] != 0)?,
    };
    if at == 0 {
        return None;
    }
    word(at).map(|mask| mask & !CANNOT_BE_BLOCKED)
}

/// Makes such a call in the app's name. `None`: a signal comes first.
pub fn wait(thread: &mut Thread, context: &Context, number: u32, args: &[u64; 6]) -> Option<i64> {
    const EINTR: i64 = -4;
    let mask = mask(number, args);
    let waits_with = &raw mut thread.signals.waits_with;
    // SAFETY: a field of this thread's, which a handler of it may read.
    unsafe { waits_with.write_volatile(mask) };
    // SAFETY: the app's own call with its own arguments; the context's word is this thread's.
    let result =
        unsafe { arch::unless_pending(u64::from(number), args, &raw const context.pending) };
    // SAFETY: likewise.
    unsafe { (&raw mut thread.signals.waits_with).write_volatile(None) };
    if result == arch::CALLED_OFF {
        return None;
    }
    // SAFETY: a field of this thread's, which a handler of it may just have written.
    let kept = unsafe { (&raw const thread.signals.kept).read_volatile() };
    thread.signals.waited_with = mask.filter(|_| result == EINTR && kept.is_some());
    Some(result)
}
