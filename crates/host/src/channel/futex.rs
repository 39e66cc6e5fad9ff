//! Wake-ups of threads that sleep on a word of shared memory.
#![allow(unsafe_code)] // reason: a system call that no library has.

use std::sync::atomic::AtomicU32;

/// Wakes all that sleep on a word.
pub(crate) fn futex_wake(word: &AtomicU32) {
    const ALL: i32 = i32::MAX;
    // SAFETY: a valid futex word.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE,
            ALL,
            0,
            0,
            0,
        )
    };
}
