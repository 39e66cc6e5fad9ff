//! Waits of the runtime that a signal ends before they begin.
#![allow(unsafe_code)] // reason: system calls.

use core::sync::atomic::AtomicU32;

use linux_raw_sys::general as nr;

use crate::crossing::arch;

/// Waits like [`futex_wait`](crate::base::sys::futex_wait) on a shared word, but does not sleep once `pending` is set. A signal
/// handler of this thread sets `pending`.
///
/// # Safety
/// `pending` must be valid.
pub unsafe fn futex_wait_unless(word: &AtomicU32, value: u32, nanos: u64, pending: *const u32) {
    let spec = [0, nanos];
    let args = [
        word.as_ptr() as u64,
        u64::from(nr::FUTEX_WAIT),
        u64::from(value),
        spec.as_ptr() as u64,
        0,
        0,
    ];
    // SAFETY: a futex word and a timespec; the caller answers for `pending`.
    let _ = unsafe { arch::unless_pending(u64::from(nr::__NR_futex), &raw const args, pending) };
}

/// Waits like [`futex_wait_unless`], on a word of the app's that may be absent.
///
/// # Safety
/// `pending` must be valid.
pub unsafe fn wait_there(address: u64, value: u32, nanos: u64, pending: *const u32) {
    let spec = [0, nanos];
    let operation = u64::from(nr::FUTEX_WAIT);
    let args = [address, operation, value.into(), spec.as_ptr() as u64, 0, 0];
    // SAFETY: the kernel looks whether the word is there; the caller answers for `pending`.
    let _ = unsafe { arch::unless_pending(u64::from(nr::__NR_futex), &raw const args, pending) };
}
