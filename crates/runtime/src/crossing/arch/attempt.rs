//! A system call that is undone at once.
#![allow(unsafe_code)] // reason: assembly.

use super::*;

/// Number and arguments of a system call.
pub type Numbered = [u64; 7];

/// Makes a system call and, if that returns 0, the one that undoes it. Nothing is between them: no return, no memory of the
/// thread area. Returns the answer to the first.
///
/// # Safety
/// Both must be valid, and the second must undo what the first does to the thread. All signals must be blocked.
#[unsafe(naked)]
pub unsafe extern "C" fn attempt(call: *const Numbered, undo: *const Numbered) -> i64 {
    naked_asm!(
        "push rbx",
        "push r12",
        "mov rbx, rdi",
        "mov r12, rsi",
        "2:",
        "mov rax, [rbx + 0x00]",
        "mov rdi, [rbx + 0x08]",
        "mov rsi, [rbx + 0x10]",
        "mov rdx, [rbx + 0x18]",
        "mov r10, [rbx + 0x20]",
        "mov r8, [rbx + 0x28]",
        "mov r9, [rbx + 0x30]",
        "syscall",
        "cmp rbx, r12",
        "je 3f",
        "mov rbx, r12",
        "test rax, rax",
        "jz 2b",
        "4:",
        "pop r12",
        "pop rbx",
        "ret",
        "3:",
        "xor eax, eax",
        "jmp 4b",
    )
}
