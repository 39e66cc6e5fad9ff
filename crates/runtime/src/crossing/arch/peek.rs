//! Memory of the app's that may not be there, or be taken away at any time by its other threads.
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

/// Reads up to `count` words at `from`, each in one access, to `to`. Returns how many there were before the first that cannot be read:
/// the signal handler leads the fault to the end.
///
/// # Safety
/// `to` must be writable.
#[unsafe(naked)]
pub unsafe extern "C" fn read_words(from: u64, count: u64, to: *mut u64) -> u64 {
    naked_asm!(
        "xor eax, eax",
        "2:",
        "cmp rax, rsi",
        "jae 3f",
        "mov rcx, [rdi + rax * 8]",
        "mov [rdx + rax * 8], rcx",
        "add rax, 1",
        "jmp 2b",
        "3:",
        ".globl trommel_words_ended",
        "trommel_words_ended:",
        "ret",
    )
}

/// Returns 1 if the `len` bytes at `there` are those at `kept`. 0 where they differ or cannot be read: the signal handler leads the
/// fault to the end.
///
/// # Safety
/// `kept` must be readable.
#[unsafe(naked)]
pub unsafe extern "C" fn is_same(there: u64, kept: *const u8, len: u64) -> u64 {
    naked_asm!(
        "xor ecx, ecx",
        "2:",
        "lea r8, [rcx + 8]",
        "cmp r8, rdx",
        "ja 3f",
        "mov rax, [rdi + rcx]",
        "cmp rax, [rsi + rcx]",
        "jne 9f",
        "mov rcx, r8",
        "jmp 2b",
        "3:",
        "cmp rcx, rdx",
        "jae 8f",
        "movzx eax, byte ptr [rdi + rcx]",
        "cmp al, [rsi + rcx]",
        "jne 9f",
        "add rcx, 1",
        "jmp 3b",
        "8:",
        "mov eax, 1",
        "ret",
        "9:",
        ".globl trommel_same_failed",
        "trommel_same_failed:",
        "xor eax, eax",
        "ret",
    )
}

/// Writes at `to`, which may not be there: as many bytes as `what` says, from `from`, each word in one access. 0 when they
/// cannot all be written: the signal handler leads the fault to the end.
///
/// * 64: eight words, the last one after the others, and before all that follows.
/// * 4: a word of 32 bits, before all that follows.
/// * 2: one of 16 bits, likewise.
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
        "cmp esi, 2",
        "je 2f",
        "lock add [rdi], rax",
        "jmp 9f",
        "4:",
        "xchg [rdi], eax",
        "jmp 9f",
        "2:",
        "xchg [rdi], ax",
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
    /// Address where [`read_words`] goes on when it cannot read. A label, not a function.
    pub(super) safe fn trommel_words_ended();
    /// Address where [`is_same`] goes on when it cannot read. A label, not a function.
    pub(super) safe fn trommel_same_failed();
    /// Address where [`poke`] goes on when it cannot write. A label, not a function.
    pub(super) safe fn trommel_poke_failed();
}

#[cfg(test)]
mod tests {
    use super::{is_same, read_words};

    #[test]
    fn words_are_read_in_order() {
        let from: [u64; 5] = [1, 2, 3, 4, 5];
        let mut to = [0; 5];
        // SAFETY: both are there.
        let count = unsafe { read_words(from.as_ptr() as u64, 4, to.as_mut_ptr()) };
        assert_eq!((count, to), (4, [1, 2, 3, 4, 0]));
    }

    #[test]
    fn each_byte_of_code_is_compared() {
        for len in 0..40 {
            let mut there: alloc::vec::Vec<u8> = (0..len).collect();
            let kept = there.clone();
            // SAFETY: both are there.
            let same = |there: &[u8]| unsafe {
                is_same(there.as_ptr() as u64, kept.as_ptr(), u64::from(len)) == 1
            };
            assert!(same(&there));
            for at in 0..usize::from(len) {
                there[at] ^= 0x80;
                assert!(!same(&there), "{at} of {len}");
                there[at] ^= 0x80;
            }
        }
    }
}
