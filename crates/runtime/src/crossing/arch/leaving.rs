//! Crossing from the runtime into the app's own code with no signal: vector state, and the call that loads a frame.
#![allow(unsafe_code)] // reason: assembly.

use core::arch::{asm, naked_asm};
use core::mem::offset_of;

use crate::base::area::Context;

/// Loads the low halves of xmm0–15 from `context`, saves the parts of the vector state that `features` names at `vectors`, as
/// `XSAVE` does, and has the kernel return from a signal handler whose frame, a `ucontext`, is at `frame`.
///
/// # Safety
/// Nothing of the caller's is used any more; `frame` must be complete but for what is at `vectors`, which must be aligned to 64 bytes and
/// have room for those parts, a header without anything in it, and the kernel's words; the processor and the kernel must
/// have the parts.
#[unsafe(naked)]
pub unsafe extern "C" fn leave(
    context: *const Context,
    frame: u64,
    vectors: u64,
    features: u64,
) -> ! {
    naked_asm!(
        load_vectors!(),
        "mov r8, rdx",
        "mov rax, rcx",
        "mov rdx, rcx",
        "shr rdx, 32",
        "xsave64 [r8]",
        "mov rsp, rsi",
        "mov eax, 15", // rt_sigreturn
        "syscall",
        "ud2",
        xmm = const offset_of!(Context, xmm),
    )
}

/// Returns whether tiles hold something of the app's: the kernel makes room for them in frames when they are first used.
pub fn has_tiles() -> bool {
    const TILES: u64 = 1 << 17 | 1 << 18;
    // SAFETY: the kernel has enabled XSAVE, as it says in its frames; where tiles are, so is the second register.
    unsafe { extended(0) & TILES != 0 && extended(1) & TILES != 0 }
}

/// # Safety
/// The processor must have the register, and the kernel must have enabled XSAVE.
unsafe fn extended(register: u32) -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: reads a register; the caller answers for its being there.
    unsafe {
        asm!("xgetbv", in("ecx") register, out("eax") low, out("edx") high, options(nomem, nostack, preserves_flags))
    };
    u64::from(high) << 32 | u64::from(low)
}
