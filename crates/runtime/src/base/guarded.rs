//! Memory that may not be there, copied by the processor: for a program that may not have the kernel copy it.
//!
//! # Problem
//! The kernel copies memory of a process, and says how far it was there (`process_vm_readv`). Sandboxes refuse that call.
//!
//! # Strategy
//! An instruction copies. Where it has a fault, the runtime's handler leads it to the end ([`crate::crossing`]), and
//! registers tell how far it came.
//!
//! # Why it is correct
//! * The kernel ends a process for a fault whose signal is blocked. So both signals of such faults are not blocked meanwhile.
//! * The kernel's copy ignores protection keys; here they are lifted.
//! * The runtime's handlers are the kernel's while calls are left out: they are set before ([`crate::base::call`]).
#![allow(unsafe_code)] // reason: assembly, and a system call.

use core::arch::naked_asm;

use crate::base::call::{call, nr};
use crate::base::keys::with_keys_lifted;

/// Copies `len` bytes. Returns how many there were before the first that cannot be read, or written.
#[unsafe(naked)]
unsafe extern "C" fn copy_bytes(to: *mut u8, from: *const u8, len: u64) -> u64 {
    naked_asm!(
        "mov rcx, rdx",
        "rep movsb",
        ".globl trommel_copy_ended",
        "trommel_copy_ended:",
        "mov rax, rdx",
        "sub rax, rcx",
        "ret",
    )
}

unsafe extern "C" {
    /// Address where the copy goes on when it has a fault. A label, not a function.
    safe fn trommel_copy_ended();
}

/// The instructions that may have a fault, up to where they go on then.
pub fn attempt() -> core::ops::Range<u64> {
    copy_bytes as *const () as u64..trommel_copy_ended as *const () as u64
}

/// Copies as many bytes as are there. Returns how many that is.
///
/// # Safety
/// What is written must be the caller's to have written, as far as it is there.
pub unsafe fn copy(to: u64, from: u64, len: u64) -> usize {
    const BLOCK: u64 = 0;
    const UNBLOCK: u64 = 1;
    // SIGBUS and SIGSEGV.
    const FAULTS: u64 = 1 << 6 | 1 << 10;
    let change = |how: u64, set: u64, old: &mut u64| {
        let args = [how, &raw const set as u64, &raw mut *old as u64, 8, 0, 0];
        // SAFETY: a word to read and one to write.
        let _ = unsafe { call(nr::__NR_rt_sigprocmask, args) };
    };
    let mut before = 0;
    change(UNBLOCK, FAULTS, &mut before);
    // SAFETY: the kernel has written it just now.
    let blocked = unsafe { (&raw const before).read_volatile() } & FAULTS;
    // SAFETY: a fault of either side ends it; the caller answers for what is written.
    let copied = with_keys_lifted(|| unsafe { copy_bytes(to as *mut u8, from as *const u8, len) });
    if blocked != 0 {
        change(BLOCK, blocked, &mut before);
    }
    copied as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_there_are_copied() {
        let from: [u8; 5] = [1, 2, 3, 4, 5];
        let mut to = [0_u8; 5];
        let (at, end) = (from.as_ptr() as u64, to.as_mut_ptr() as u64);
        // SAFETY: both are there.
        let copied = [4, 0].map(|len| unsafe { copy(end, at, len) });
        assert_eq!((copied, to), ([4, 0], [1, 2, 3, 4, 0]));
    }
}
