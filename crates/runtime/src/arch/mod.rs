//! All assembly: the crossings between the code cache and the runtime.
//!
//! # Problem
//! Fragments end in jumps to the runtime with every register and flag the app's. The runtime is
//! compiled code: it needs a stack, may use any general register and xmm0–15, and expects the
//! direction flag clear. Going back, all must be as it was, with no memory of the app written, and
//! a signal may arrive between any two instructions.
//!
//! # Strategy
//! Everything is saved in the [`Context`](crate::area::Context) that GS points to, by
//! [`enter`]; [`resume`] loads it again. `resume` only reads the context, so it can be
//! started over at any point before its last jump: the signal handler that interrupts it between
//! [`resume`] and its end sets the program counter back to [`resume`], where the
//! `pending` word is looked at again. That closes the race between looking and leaving.
//!
//! With a signal pending, `resume` ends in a trap instead of a jump. There all
//! registers are the app's, so the kernel's frame of that trap is exactly the context that the
//! app's handler must see.
//!
//! # Why vector state is kept
//! The runtime contains no VEX-encoded instruction. Legacy SSE instructions leave the upper parts
//! of vector registers alone, so saving the low halves of xmm0–15 saves all that can change.
#![allow(unsafe_code)] // reason: assembly.

use core::arch::naked_asm;
use core::mem::offset_of;

use crate::area::{
    CONTEXT_OFFSET, Context, INDIRECT_TABLE, Reason, SECOND_ENTRIES, SECOND_KEYS, SECOND_SEED,
};

macro_rules! at {
    ($($field:tt)+) => { CONTEXT_OFFSET + offset_of!(Context, $($field)+) };
}

/// Defines an entry that notes its reason and goes on in [`enter`].
macro_rules! entry {
    ($(#[$doc:meta])* $name:ident, $reason:expr, [$($before:literal),*]) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// Only generated code may jump here, with GS at the thread area.
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            naked_asm!(
                $($before,)*
                "mov dword ptr gs:[{reason_slot}], {reason}",
                "jmp {enter}",
                reason_slot = const at!(reason),
                reason = const $reason as u32,
                enter = sym enter,
            )
        }
    };
}

entry! {
    /// A direct exit that is not linked.
    exit, Reason::Exit, []
}
entry! {
    /// A system call that the runtime handles.
    syscall, Reason::Syscall, []
}
entry! {
    /// An instruction that needs special treatment.
    special, Reason::Special, []
}
entry! {
    /// Control returns from a signal handler of the app.
    sigreturned, Reason::Sigreturn, []
}
entry! {
    /// The parent comes back from starting a process.
    cloned, Reason::Cloned, []
}

/// A full chunk: rcx says where to go on, the app's rcx is already saved by the fragment.
///
/// # Safety
/// Only generated code may jump here, with GS at the thread area.
#[unsafe(naked)]
pub unsafe extern "C" fn full() {
    naked_asm!(
        "mov gs:[{target}], rcx",
        "mov dword ptr gs:[{reason_slot}], {reason}",
        "jmp {enter}",
        target = const at!(target),
        reason_slot = const at!(reason),
        reason = const Reason::Full as u32,
        enter = sym enter,
    )
}

/// An indirect branch that the first table did not lead to its target. Entered here when the tag
/// check of another target's fragment failed, with rcx = target − tag and rdx = −tag; at
/// `trommel_indirect` when there was no entry, with rcx = target; the app's rcx and rdx are
/// spilled. Looks in the second table, and puts what it finds there into the first.
///
/// A signal that arrives here is delivered at the end of the way, wherever that leads: all of this
/// counts as code of the cache.
///
/// # Safety
/// Only generated code may jump here, with GS at the thread area.
#[unsafe(naked)]
pub unsafe extern "C" fn mismatch() {
    naked_asm!(
        "not rdx",                          // tag − 1, with no flag touched
        "lea rcx, [rcx + rdx + 1]",         // the target again
        ".globl trommel_indirect",
        "trommel_indirect:",
        "mov gs:[{next_pc}], rcx",
        "mov edx, {seed}",
        "crc32 rdx, rcx",
        "movzx edx, dx",
        "mov gs:[{index}], rdx",
        "mov rcx, gs:[rdx * 8 + {keys}]",
        "mov rdx, gs:[{next_pc}]",
        "lea rcx, [rcx + rdx + 1]",
        "jrcxz 2f",
        "jmp {missed}",
        "2:",
        "mov rdx, gs:[{index}]",
        "mov rcx, gs:[rdx * 8 + {entries}]",
        "mov gs:[{target}], rcx",
        "movzx edx, word ptr gs:[{next_pc}]",
        "mov gs:[rdx * 8 + {table}], rcx",
        "mov rcx, gs:[{next_pc}]",
        "jmp gs:[{target}]",
        ".globl trommel_indirect_end",
        "trommel_indirect_end:",
        "ud2",
        next_pc = const at!(next_pc),
        seed = const SECOND_SEED,
        index = const at!(second_index),
        keys = const SECOND_KEYS.0,
        entries = const SECOND_ENTRIES.0,
        target = const at!(target),
        table = const INDIRECT_TABLE.0,
        missed = sym missed,
    )
}

/// An indirect branch to `next_pc` that is in neither table; the app's rcx and rdx are spilled.
///
/// # Safety
/// As [`mismatch`].
#[unsafe(naked)]
unsafe extern "C" fn missed() {
    naked_asm!(
        "mov rcx, gs:[{spill_rcx}]",
        "mov rdx, gs:[{spill_rdx}]",
        "mov dword ptr gs:[{reason_slot}], {reason}",
        "jmp {enter}",
        spill_rcx = const at!(spill_rcx),
        spill_rdx = const at!(spill_rdx),
        reason_slot = const at!(reason),
        reason = const Reason::Indirect as u32,
        enter = sym enter,
    )
}

/// Saves the app's state, runs `dispatch::dispatch`, and falls into [`resume`].
///
/// # Safety
/// Only the entries above may jump here.
#[unsafe(naked)]
unsafe extern "C" fn enter() {
    naked_asm!(
        "mov gs:[{regs} + 0x00], rax",
        "mov gs:[{regs} + 0x08], rcx",
        "mov gs:[{regs} + 0x10], rdx",
        "mov gs:[{regs} + 0x18], rbx",
        "mov gs:[{regs} + 0x20], rsp",
        "mov gs:[{regs} + 0x28], rbp",
        "mov gs:[{regs} + 0x30], rsi",
        "mov gs:[{regs} + 0x38], rdi",
        "mov gs:[{regs} + 0x40], r8",
        "mov gs:[{regs} + 0x48], r9",
        "mov gs:[{regs} + 0x50], r10",
        "mov gs:[{regs} + 0x58], r11",
        "mov gs:[{regs} + 0x60], r12",
        "mov gs:[{regs} + 0x68], r13",
        "mov gs:[{regs} + 0x70], r14",
        "mov gs:[{regs} + 0x78], r15",
        "mov rsp, gs:[{stack}]",
        "pushfq",
        "pop rax",
        "mov gs:[{flags}], rax",
        "test eax, 0x44500",              // AC, NT, DF or TF: compiled code wants them clear
        "jz 2f",
        "push 2",
        "popfq",
        "2:",
        "mov rdi, gs:[{this}]",
        "lea rdi, [rdi + {context}]",
        "movups [rdi + {xmm} + 0x00], xmm0",
        "movups [rdi + {xmm} + 0x10], xmm1",
        "movups [rdi + {xmm} + 0x20], xmm2",
        "movups [rdi + {xmm} + 0x30], xmm3",
        "movups [rdi + {xmm} + 0x40], xmm4",
        "movups [rdi + {xmm} + 0x50], xmm5",
        "movups [rdi + {xmm} + 0x60], xmm6",
        "movups [rdi + {xmm} + 0x70], xmm7",
        "movups [rdi + {xmm} + 0x80], xmm8",
        "movups [rdi + {xmm} + 0x90], xmm9",
        "movups [rdi + {xmm} + 0xa0], xmm10",
        "movups [rdi + {xmm} + 0xb0], xmm11",
        "movups [rdi + {xmm} + 0xc0], xmm12",
        "movups [rdi + {xmm} + 0xd0], xmm13",
        "movups [rdi + {xmm} + 0xe0], xmm14",
        "movups [rdi + {xmm} + 0xf0], xmm15",
        "call {dispatch}",
        "jmp {resume}",
        regs = const at!(regs),
        stack = const at!(stack),
        flags = const at!(flags),
        this = const at!(this),
        context = const CONTEXT_OFFSET,
        xmm = const offset_of!(Context, xmm),
        dispatch = sym crate::dispatch::dispatch,
        resume = sym resume,
    )
}

/// Loads the app's state and goes on at `Context::target`, or, with a signal pending, at a trap in whose
/// handler the signal is delivered.
///
/// # Safety
/// The context must be complete; GS must be at the thread area.
#[unsafe(naked)]
pub unsafe extern "C" fn resume() -> ! {
    naked_asm!(
        "mov rsp, gs:[{stack}]",            // started over, it may be the app's
        "mov rdi, gs:[{this}]",
        "lea rdi, [rdi + {context}]",
        "movups xmm0, [rdi + {xmm} + 0x00]",
        "movups xmm1, [rdi + {xmm} + 0x10]",
        "movups xmm2, [rdi + {xmm} + 0x20]",
        "movups xmm3, [rdi + {xmm} + 0x30]",
        "movups xmm4, [rdi + {xmm} + 0x40]",
        "movups xmm5, [rdi + {xmm} + 0x50]",
        "movups xmm6, [rdi + {xmm} + 0x60]",
        "movups xmm7, [rdi + {xmm} + 0x70]",
        "movups xmm8, [rdi + {xmm} + 0x80]",
        "movups xmm9, [rdi + {xmm} + 0x90]",
        "movups xmm10, [rdi + {xmm} + 0xa0]",
        "movups xmm11, [rdi + {xmm} + 0xb0]",
        "movups xmm12, [rdi + {xmm} + 0xc0]",
        "movups xmm13, [rdi + {xmm} + 0xd0]",
        "movups xmm14, [rdi + {xmm} + 0xe0]",
        "movups xmm15, [rdi + {xmm} + 0xf0]",
        "push qword ptr gs:[{flags}]",
        "cmp dword ptr gs:[{pending}], 0",
        "jne 2f",
        "popfq",
        "mov rax, gs:[{regs} + 0x00]",
        "mov rcx, gs:[{regs} + 0x08]",
        "mov rdx, gs:[{regs} + 0x10]",
        "mov rbx, gs:[{regs} + 0x18]",
        "mov rbp, gs:[{regs} + 0x28]",
        "mov rsi, gs:[{regs} + 0x30]",
        "mov rdi, gs:[{regs} + 0x38]",
        "mov r8, gs:[{regs} + 0x40]",
        "mov r9, gs:[{regs} + 0x48]",
        "mov r10, gs:[{regs} + 0x50]",
        "mov r11, gs:[{regs} + 0x58]",
        "mov r12, gs:[{regs} + 0x60]",
        "mov r13, gs:[{regs} + 0x68]",
        "mov r14, gs:[{regs} + 0x70]",
        "mov r15, gs:[{regs} + 0x78]",
        "mov rsp, gs:[{regs} + 0x20]",
        "jmp gs:[{target}]",
        "2:",                               // the same, ending in the trap
        "popfq",
        "mov rax, gs:[{regs} + 0x00]",
        "mov rcx, gs:[{regs} + 0x08]",
        "mov rdx, gs:[{regs} + 0x10]",
        "mov rbx, gs:[{regs} + 0x18]",
        "mov rbp, gs:[{regs} + 0x28]",
        "mov rsi, gs:[{regs} + 0x30]",
        "mov rdi, gs:[{regs} + 0x38]",
        "mov r8, gs:[{regs} + 0x40]",
        "mov r9, gs:[{regs} + 0x48]",
        "mov r10, gs:[{regs} + 0x50]",
        "mov r11, gs:[{regs} + 0x58]",
        "mov r12, gs:[{regs} + 0x60]",
        "mov r13, gs:[{regs} + 0x68]",
        "mov r14, gs:[{regs} + 0x70]",
        "mov r15, gs:[{regs} + 0x78]",
        "mov rsp, gs:[{regs} + 0x20]",
        "int3",
        ".globl trommel_resume_end",
        "trommel_resume_end:",
        "ud2",
        stack = const at!(stack),
        this = const at!(this),
        context = const CONTEXT_OFFSET,
        xmm = const offset_of!(Context, xmm),
        regs = const at!(regs),
        flags = const at!(flags),
        pending = const at!(pending),
        target = const at!(target),
    )
}

unsafe extern "C" {
    /// Behind the last instruction of [`resume`]. A label, not a function.
    safe fn trommel_resume_end();
    /// The second entry of [`mismatch`]. A label, not a function.
    safe fn trommel_indirect();
    /// Behind the last instruction of [`mismatch`]. A label, not a function.
    safe fn trommel_indirect_end();
}

/// Addresses in this module that the signal handler compares program counters with.
pub struct Landmarks;

impl Landmarks {
    /// First instruction of [`resume`].
    pub fn resume_start() -> u64 {
        resume as *const () as u64
    }

    /// Behind the trap of [`resume`]: what the kernel reports as the address of that trap.
    pub fn resume_end() -> u64 {
        trommel_resume_end as *const () as u64
    }

    /// Where an indirect branch goes that has no entry in the first table.
    pub fn indirect() -> u64 {
        trommel_indirect as *const () as u64
    }

    /// The lookup in the second table, which may lead straight back into the cache.
    pub fn lookup() -> core::ops::Range<u64> {
        mismatch as *const () as u64..trommel_indirect_end as *const () as u64
    }

    /// The landing place of `rt_sigreturn`: all registers are the app's there.
    pub fn sigreturned() -> u64 {
        sigreturned as *const () as u64
    }
}

/// Makes the system call that starts a process, with the app's registers. The parent goes on in
/// [`cloned`]. The child saves its registers and runs `native::child` on a stack of its own, since
/// it may share all memory with the parent, which the kernel holds until the child is done with it.
///
/// # Safety
/// The context must be complete; GS must be at the thread area.
#[unsafe(naked)]
pub unsafe extern "C" fn clone() -> ! {
    naked_asm!(
        "mov rdi, gs:[{this}]",
        "lea rdi, [rdi + {context}]",
        "movups xmm0, [rdi + {xmm} + 0x00]",
        "movups xmm1, [rdi + {xmm} + 0x10]",
        "movups xmm2, [rdi + {xmm} + 0x20]",
        "movups xmm3, [rdi + {xmm} + 0x30]",
        "movups xmm4, [rdi + {xmm} + 0x40]",
        "movups xmm5, [rdi + {xmm} + 0x50]",
        "movups xmm6, [rdi + {xmm} + 0x60]",
        "movups xmm7, [rdi + {xmm} + 0x70]",
        "movups xmm8, [rdi + {xmm} + 0x80]",
        "movups xmm9, [rdi + {xmm} + 0x90]",
        "movups xmm10, [rdi + {xmm} + 0xa0]",
        "movups xmm11, [rdi + {xmm} + 0xb0]",
        "movups xmm12, [rdi + {xmm} + 0xc0]",
        "movups xmm13, [rdi + {xmm} + 0xd0]",
        "movups xmm14, [rdi + {xmm} + 0xe0]",
        "movups xmm15, [rdi + {xmm} + 0xf0]",
        "mov rsp, gs:[{stack}]",
        "push qword ptr gs:[{flags}]",
        "popfq",
        "mov rax, gs:[{regs} + 0x00]",
        "mov rcx, gs:[{regs} + 0x08]",
        "mov rdx, gs:[{regs} + 0x10]",
        "mov rbx, gs:[{regs} + 0x18]",
        "mov rbp, gs:[{regs} + 0x28]",
        "mov rsi, gs:[{regs} + 0x30]",
        "mov rdi, gs:[{regs} + 0x38]",
        "mov r8, gs:[{regs} + 0x40]",
        "mov r9, gs:[{regs} + 0x48]",
        "mov r10, gs:[{regs} + 0x50]",
        "mov r11, gs:[{regs} + 0x58]",
        "mov r12, gs:[{regs} + 0x60]",
        "mov r13, gs:[{regs} + 0x68]",
        "mov r14, gs:[{regs} + 0x70]",
        "mov r15, gs:[{regs} + 0x78]",
        "mov rsp, gs:[{regs} + 0x20]",
        "syscall",
        "mov rcx, rax",                     // rcx is the call's to clobber
        "jrcxz 2f",
        "jmp {cloned}",
        "2:",
        "mov gs:[{regs} + 0x00], rax",
        "mov gs:[{regs} + 0x08], rcx",
        "mov gs:[{regs} + 0x10], rdx",
        "mov gs:[{regs} + 0x18], rbx",
        "mov gs:[{regs} + 0x28], rbp",
        "mov gs:[{regs} + 0x30], rsi",
        "mov gs:[{regs} + 0x38], rdi",
        "mov gs:[{regs} + 0x40], r8",
        "mov gs:[{regs} + 0x48], r9",
        "mov gs:[{regs} + 0x50], r10",
        "mov gs:[{regs} + 0x58], r11",
        "mov gs:[{regs} + 0x60], r12",
        "mov gs:[{regs} + 0x68], r13",
        "mov gs:[{regs} + 0x70], r14",
        "mov gs:[{regs} + 0x78], r15",
        "mov gs:[{regs} + 0x20], rsp",
        "mov rsp, gs:[{child_stack}]",
        "mov rdi, gs:[{this}]",
        "lea rdi, [rdi + {context}]",
        "call {child}",
        "jmp {resume}",
        this = const at!(this),
        context = const CONTEXT_OFFSET,
        xmm = const offset_of!(Context, xmm),
        stack = const at!(stack),
        child_stack = const at!(child_stack),
        flags = const at!(flags),
        regs = const at!(regs),
        cloned = sym cloned,
        child = sym crate::native::child,
        resume = sym resume,
    )
}

/// What the kernel returns to from a signal handler of the runtime.
///
/// # Safety
/// Only the kernel may enter here.
#[unsafe(naked)]
pub unsafe extern "C" fn restorer() {
    naked_asm!("mov eax, 15", "syscall")
}

/// Makes `rt_sigreturn` with the frame at `frame`.
///
/// # Safety
/// `frame` must be a signal frame (behind its return address) whose program counter is
/// [`sigreturned`].
#[unsafe(naked)]
pub unsafe extern "C" fn sigreturn(frame: u64) -> ! {
    naked_asm!("mov rsp, rdi", "mov eax, 15", "syscall", "ud2")
}
