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

/// Writes at `to`, which may not be there: as many bytes as `what` says, from `from`, each word in one access. 0 when they
/// cannot all be written: the signal handler leads the fault to the end.
///
/// * 64: eight words, the last one after the others, and before all that follows.
/// * 4: a word of 32 bits, before all that follows.
/// * 8: adds the word to the one that is there.
///
/// # Safety
/// What is there must be the app's to have written; `from` must be readable.
#[unsafe(naked)]
pub unsafe extern "C" fn poke(to: u64, what: u64, from: *const u64) -> u64 {
    naked_asm!(
        "mov rax, [rdx]",
        "cmp esi, 64",
        "je 64f",
        "cmp esi, 4",
        "je 4f",
        "lock add [rdi], rax",
        "jmp 9f",
        "4:",
        "xchg [rdi], eax",
        "jmp 9f",
        "64:",
        "mov [rdi], rax",
        "mov rax, [rdx + 8]",
        "mov [rdi + 8], rax",
        "mov rax, [rdx + 16]",
        "mov [rdi + 16], rax",
        "mov rax, [rdx + 24]",
        "mov [rdi + 24], rax",
        "mov rax, [rdx + 32]",
        "mov [rdi + 32], rax",
        "mov rax, [rdx + 40]",
        "mov [rdi + 40], rax",
        "mov rax, [rdx + 48]",
        "mov [rdi + 48], rax",
        "mov rax, [rdx + 56]",
        // The ready word. Locked: who looks next whether the reader sleeps does so after it.
        "xchg [rdi + 56], rax",
        "9:",
        "mov eax, 1",
        "ret",
        ".globl trommel_poke_failed",
        "trommel_poke_failed:",
        "xor eax, eax",
        "ret",
    )
}

unsafe extern "C" {
    /// Address where [`peek`] goes on when it cannot read. A label, not a function.
    pub(super) safe fn trommel_peek_failed();
    /// Address where [`poke`] goes on when it cannot write. A label, not a function.
    pub(super) safe fn trommel_poke_failed();
}
