//! Memory of the app's that may not be there.
#![allow(unsafe_code)] // reason: assembly.

use core::arch::naked_asm;

/// Reads `size` bytes at `address`, 1, 2, 4 or 8, in one access, zero-extended to `to`. 0 when they
/// cannot be read: the signal handler leads the fault to the end.
///
/// # Safety
/// `to` must be writable.
#[unsafe(naked)]
pub unsafe extern "C" fn peek(address: u64, size: u64, to: *mut u64) -> u64 {
    naked_asm!(
        "cmp esi, 8",
        "je 8f",
        "cmp esi, 4",
        "je 4f",
        "cmp esi, 2",
        "je 2f",
        "movzx eax, byte ptr [rdi]",
        "jmp 9f",
        "2:",
        "movzx eax, word ptr [rdi]",
        "jmp 9f",
        "4:",
        "mov eax, [rdi]",
        "jmp 9f",
        "8:",
        "mov rax, [rdi]",
        "9:",
        "mov [rdx], rax",
        "mov eax, 1",
        "ret",
        ".globl trommel_peek_failed",
        "trommel_peek_failed:",
        "xor eax, eax",
        "ret",
    )
}

unsafe extern "C" {
    /// Where [`peek`] goes on when it cannot read. A label, not a function.
    pub(super) safe fn trommel_peek_failed();
}
