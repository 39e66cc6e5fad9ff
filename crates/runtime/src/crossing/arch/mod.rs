//! All assembly: the crossings between the code cache and the runtime.
//!
//! # Problem
//! Fragments end in jumps to the runtime with every register and flag the app's. The runtime is
//! compiled code. It needs a stack, may use any general register and xmm0–15, and expects the
//! direction flag clear. Going back, all must be as it was, with no memory of the app written.
//! A signal may arrive between any two instructions.
//!
//! # Strategy
//! `enter` saves everything in the `Context` that GS points to, and [`resume`] loads it again.
//! `resume` only reads the context, so it can be started over at any point before its last jump. A
//! signal handler that interrupts it sets the program counter back to [`resume`]. There the `pending`
//! word is read again. That closes the race between reading and leaving.
//!
//! With a signal pending, `resume` ends in a trap instead of a jump. There all registers are the app's.
//! So the kernel's frame of that trap is exactly the context that the app's handler must see. A thread
//! that leaves a window does so by a frame that was made for it ([`leave`]).
//!
//! # Why vector state is kept
//! The runtime contains no VEX-encoded instruction. Legacy SSE instructions leave the upper parts
//! of vector registers alone, so saving the low halves of xmm0–15 saves all that can change.
#![allow(unsafe_code)] // reason: assembly.

use core::arch::naked_asm;
use core::mem::offset_of;

use crate::base::area::{
    CONTEXT_OFFSET, Context, INDIRECT_TABLE, Reason, SECOND_ENTRIES, SECOND_KEYS, SECOND_SEED,
};
use crate::base::counted::Why;
use crate::base::guarded;
use crate::base::signals::AltStack;
use crate::base::sys;

macro_rules! at {
    ($($field:tt)+) => { CONTEXT_OFFSET + offset_of!(Context, $($field)+) };
}

/// Loads all general registers but rsp from the context.
macro_rules! load_general {
    () => {
        concat!(
            "mov rax, gs:[{regs} + 0x00]\n",
            "mov rcx, gs:[{regs} + 0x08]\n",
            "mov rdx, gs:[{regs} + 0x10]\n",
            "mov rbx, gs:[{regs} + 0x18]\n",
            "mov rbp, gs:[{regs} + 0x28]\n",
            "mov rsi, gs:[{regs} + 0x30]\n",
            "mov rdi, gs:[{regs} + 0x38]\n",
            "mov r8, gs:[{regs} + 0x40]\n",
            "mov r9, gs:[{regs} + 0x48]\n",
            "mov r10, gs:[{regs} + 0x50]\n",
            "mov r11, gs:[{regs} + 0x58]\n",
            "mov r12, gs:[{regs} + 0x60]\n",
            "mov r13, gs:[{regs} + 0x68]\n",
            "mov r14, gs:[{regs} + 0x70]\n",
            "mov r15, gs:[{regs} + 0x78]\n",
        )
    };
}

/// Saves all general registers but rsp to the context.
macro_rules! save_general {
    () => {
        concat!(
            "mov gs:[{regs} + 0x00], rax\n",
            "mov gs:[{regs} + 0x08], rcx\n",
            "mov gs:[{regs} + 0x10], rdx\n",
            "mov gs:[{regs} + 0x18], rbx\n",
            "mov gs:[{regs} + 0x28], rbp\n",
            "mov gs:[{regs} + 0x30], rsi\n",
            "mov gs:[{regs} + 0x38], rdi\n",
            "mov gs:[{regs} + 0x40], r8\n",
            "mov gs:[{regs} + 0x48], r9\n",
            "mov gs:[{regs} + 0x50], r10\n",
            "mov gs:[{regs} + 0x58], r11\n",
            "mov gs:[{regs} + 0x60], r12\n",
            "mov gs:[{regs} + 0x68], r13\n",
            "mov gs:[{regs} + 0x70], r14\n",
            "mov gs:[{regs} + 0x78], r15\n",
        )
    };
}

/// The low halves of xmm0–15, from the context at rdi.
macro_rules! load_vectors {
    () => {
        concat!(
            "movups xmm0, [rdi + {xmm} + 0x00]\n",
            "movups xmm1, [rdi + {xmm} + 0x10]\n",
            "movups xmm2, [rdi + {xmm} + 0x20]\n",
            "movups xmm3, [rdi + {xmm} + 0x30]\n",
            "movups xmm4, [rdi + {xmm} + 0x40]\n",
            "movups xmm5, [rdi + {xmm} + 0x50]\n",
            "movups xmm6, [rdi + {xmm} + 0x60]\n",
            "movups xmm7, [rdi + {xmm} + 0x70]\n",
            "movups xmm8, [rdi + {xmm} + 0x80]\n",
            "movups xmm9, [rdi + {xmm} + 0x90]\n",
            "movups xmm10, [rdi + {xmm} + 0xa0]\n",
            "movups xmm11, [rdi + {xmm} + 0xb0]\n",
            "movups xmm12, [rdi + {xmm} + 0xc0]\n",
            "movups xmm13, [rdi + {xmm} + 0xd0]\n",
            "movups xmm14, [rdi + {xmm} + 0xe0]\n",
            "movups xmm15, [rdi + {xmm} + 0xf0]\n",
        )
    };
}

/// The low halves of xmm0–15, into the context at rdi.
macro_rules! save_vectors {
    () => {
        concat!(
            "movups [rdi + {xmm} + 0x00], xmm0\n",
            "movups [rdi + {xmm} + 0x10], xmm1\n",
            "movups [rdi + {xmm} + 0x20], xmm2\n",
            "movups [rdi + {xmm} + 0x30], xmm3\n",
            "movups [rdi + {xmm} + 0x40], xmm4\n",
            "movups [rdi + {xmm} + 0x50], xmm5\n",
            "movups [rdi + {xmm} + 0x60], xmm6\n",
            "movups [rdi + {xmm} + 0x70], xmm7\n",
            "movups [rdi + {xmm} + 0x80], xmm8\n",
            "movups [rdi + {xmm} + 0x90], xmm9\n",
            "movups [rdi + {xmm} + 0xa0], xmm10\n",
            "movups [rdi + {xmm} + 0xb0], xmm11\n",
            "movups [rdi + {xmm} + 0xc0], xmm12\n",
            "movups [rdi + {xmm} + 0xd0], xmm13\n",
            "movups [rdi + {xmm} + 0xe0], xmm14\n",
            "movups [rdi + {xmm} + 0xf0], xmm15\n",
        )
    };
}

mod attempt;
mod bases;
mod calls;
mod leaving;
mod message;
mod peek;
mod shields;
mod stamps;
pub mod upcalls;

pub use attempt::{Numbered, attempt};
pub use bases::{fs_base, gs_base, has_base_instructions, set_gs_base, use_instructions};
pub use calls::{CALLED_OFF, sigreturn, unless_pending};
pub use leaving::{has_tiles, leave};
pub use peek::{is_same, peek, poke, read_words};
pub use stamps::own as own_cycles;

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
    /// A guarded fragment whose code has changed.
    changed, Reason::Changed, []
}
entry! {
    /// A counted entry that has counted to its end.
    hot, Reason::Hot, []
}
entry! {
    /// Control returns from a signal handler of the app.
    sigreturned, Reason::Sigreturn, []
}
entry! {
    /// A native thread enters a window.
    window, Reason::Window, []
}
entry! {
    /// The parent comes back from starting a process.
    cloned, Reason::Cloned, []
}

entry! {
    /// The probe of a query.
    query, Reason::Query, []
}

entry! {
    /// A change of the calling context.
    context, Reason::Context, []
}

entry! {
    /// A full chunk, where the context says already where to go on.
    filled, Reason::Full, []
}

entry! {
    /// An event that a profiler is to look at, where the context says why, and where to go on.
    counted, Reason::Counted, []
}

/// The interval of a profiler has ended: rcx says where to go on, the app's rcx is already saved by the fragment.
///
/// # Safety
/// Only generated code may jump here, with GS at the thread area.
#[unsafe(naked)]
pub unsafe extern "C" fn interval_ended() {
    naked_asm!(
        "mov gs:[{target}], rcx",
        "mov dword ptr gs:[{why}], {ended}",
        "jmp {counted}",
        target = const at!(target),
        why = const at!(why),
        ended = const Why::Ended as u32,
        counted = sym counted,
    )
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

/// An indirect branch that the first table led to the fragment of another target, whose tag check
/// failed: rcx = target − tag and rdx = −tag; the app's rcx and rdx are spilled. Looks in the
/// second table, and puts what it finds there into the first. From the code of a pair the way
/// leads in after the first instruction, with the pair's key in the context. The index at which
/// the branch looked into the first table is tag + that key, and target + its own.
///
/// A signal that arrives here is delivered at the end of the way, wherever that leads: all of this
/// counts as code of the cache.
///
/// # Safety
/// Only generated code may jump here, with GS at the thread area.
#[unsafe(naked)]
pub unsafe extern "C" fn mismatch() {
    naked_asm!(
        "mov dword ptr gs:[{key}], 0",
        ".globl trommel_pair_mismatch",
        "trommel_pair_mismatch:",
        "not rdx",                          // tag − 1, with no flag touched
        "lea rcx, [rcx + rdx + 1]",         // the target again
        "mov gs:[{next_pc}], rcx",
        "not rcx",
        "lea rdx, [rdx + rcx + 2]",         // tag − target
        "mov ecx, gs:[{key}]",
        "lea edx, [rdx + rcx]",
        "movzx edx, dx",                    // the branch's key
        "mov gs:[{key}], edx",
        "bswap rdx",
        "mov rcx, gs:[{next_pc}]",
        "lea rcx, [rcx + rdx]",
        "mov gs:[{second_key}], rcx",
        "mov edx, {seed}",
        "crc32 rdx, rcx",
        "movzx edx, dx",
        "mov gs:[{index}], rdx",
        "mov rcx, gs:[rdx * 8 + {keys}]",
        "mov rdx, gs:[{second_key}]",
        "lea rcx, [rcx + rdx + 1]",
        "jrcxz 2f",
        "jmp {missed}",
        "2:",
        "mov rdx, gs:[{index}]",
        "mov rcx, gs:[rdx * 8 + {entries}]",
        "mov gs:[{target}], rcx",
        "mov rcx, gs:[{next_pc}]",
        "mov edx, gs:[{key}]",
        "lea edx, [rcx + rdx]",
        "movzx edx, dx",
        "mov rcx, gs:[{target}]",
        "mov gs:[rdx * 8 + {table}], rcx",
        "mov rcx, gs:[{next_pc}]",
        "jmp gs:[{target}]",
        ".globl trommel_mismatch_end",
        "trommel_mismatch_end:",
        "ud2",
        next_pc = const at!(next_pc),
        key = const at!(key),
        second_key = const at!(second_key),
        seed = const SECOND_SEED,
        index = const at!(second_index),
        keys = const SECOND_KEYS.0,
        entries = const SECOND_ENTRIES.0,
        target = const at!(target),
        table = const INDIRECT_TABLE.0,
        missed = sym missed,
    )
}

/// Entry from the checked entry of a retired fragment, or where the first table has no entry. rcx is the
/// target and rdx is the place's index, which is target + key. The app's rcx and rdx are spilled.
///
/// # Safety
/// As [`mismatch`].
#[unsafe(naked)]
pub unsafe extern "C" fn absent() {
    naked_asm!(
        "mov gs:[{next_pc}], rcx",
        "not rcx",
        "lea edx, [rdx + rcx + 1]",
        "movzx edx, dx",
        "mov gs:[{key}], edx",
        "jmp {missed}",
        next_pc = const at!(next_pc),
        key = const at!(key),
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
        save_general!(),
        "mov gs:[{regs} + 0x20], rsp",
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
        save_vectors!(),
        "call {dispatch}",
        "jmp {resume}",
        regs = const at!(regs),
        stack = const at!(stack),
        flags = const at!(flags),
        this = const at!(this),
        context = const CONTEXT_OFFSET,
        xmm = const offset_of!(Context, xmm),
        dispatch = sym upcalls::trommel_dispatch,
        resume = sym resume,
    )
}

/// Loads the app's state and goes on at `Context::target`, or, with a signal pending, at a trap in
/// whose handler the signal is delivered.
///
/// # Safety
/// The context must be complete; GS must be at the thread area.
#[unsafe(naked)]
pub unsafe extern "C" fn resume() -> ! {
    naked_asm!(
        "mov rsp, gs:[{stack}]",            // started over, it may be the app's
        "mov rdi, gs:[{this}]",
        "lea rdi, [rdi + {context}]",
        load_vectors!(),
        "push qword ptr gs:[{flags}]",
        "cmp dword ptr gs:[{pending}], 0",
        "jne 2f",
        "popfq",
        load_general!(),
        "mov rsp, gs:[{regs} + 0x20]",
        "jmp gs:[{target}]",
        "2:",                               // the same, ending in the trap
        "popfq",
        load_general!(),
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
    /// After the last instruction of [`resume`]. A label, not a function.
    safe fn trommel_resume_end();
    /// After the last instruction of [`mismatch`]. A label, not a function.
    safe fn trommel_mismatch_end();
    /// The second instruction of [`mismatch`]. A label, not a function.
    safe fn trommel_pair_mismatch();
}

/// Addresses in this module that the signal handler compares program counters with.
pub struct Landmarks;

impl Landmarks {
    /// First instruction of [`resume`].
    pub fn resume_start() -> u64 {
        resume as *const () as u64
    }

    /// After the trap of [`resume`]: what the kernel reports as the address of that trap.
    pub fn resume_end() -> u64 {
        trommel_resume_end as *const () as u64
    }

    /// Address that an indirect branch goes to when the first table has no entry for it.
    pub fn absent() -> u64 {
        absent as *const () as u64
    }

    /// Address that the code of a pair goes to when its check fails.
    pub fn pair_mismatch() -> u64 {
        trommel_pair_mismatch as *const () as u64
    }

    /// The lookup in the second table, which may lead straight back into the cache.
    pub fn lookup() -> core::ops::Range<u64> {
        mismatch as *const () as u64..trommel_mismatch_end as *const () as u64
    }

    /// Sending a message, which leads straight back into the cache.
    pub fn message() -> core::ops::Range<u64> {
        message::value_counter_routine as *const () as u64
            ..message::trommel_message_end as *const () as u64
    }

    /// Entry for another value that takes a value counter's place, in the same range.
    pub fn value_counter() -> u64 {
        message::trommel_value_counter as *const () as u64
    }

    /// Events that are not shielded, whose way mostly leads straight back into the cache.
    pub fn unshielded() -> core::ops::Range<u64> {
        shields::unshielded as *const () as u64..shields::trommel_unshielded_end as *const () as u64
    }

    /// Entry for such an event whose tuple is to be promoted, in the same range.
    pub fn promoted() -> u64 {
        shields::trommel_promoted as *const () as u64
    }

    /// Entry for an event with a value whose counters a sum selects, in the same range.
    pub fn unshielded_sum() -> u64 {
        shields::trommel_unshielded_sum as *const () as u64
    }

    /// Entry for an event with a value whose counters a product selects, in the same range.
    pub fn unshielded_product() -> u64 {
        shields::trommel_unshielded_product as *const () as u64
    }

    /// Returns the address where an instruction of the runtime's that may fault goes on when it does, if `pc` is one.
    pub fn missed(pc: u64) -> Option<u64> {
        let peek = peek::peek as *const () as u64..peek::trommel_peek_failed as *const () as u64;
        let poke = peek::poke as *const () as u64..peek::trommel_poke_failed as *const () as u64;
        let stamp =
            sys::time_stamp as *const () as u64..sys::trommel_time_stamp_failed as *const () as u64;
        let words =
            peek::read_words as *const () as u64..peek::trommel_words_ended as *const () as u64;
        let same = peek::is_same as *const () as u64..peek::trommel_same_failed as *const () as u64;
        let mut attempts = [peek, poke, words, same, stamp, guarded::attempt()].into_iter();
        let found = attempts.find(|attempt| attempt.contains(&pc));
        found.map(|attempt| attempt.end)
    }

    /// The landing place of `rt_sigreturn`: all registers are the app's there.
    pub fn sigreturned() -> u64 {
        sigreturned as *const () as u64
    }
}

/// Makes the system call that starts a process, with the app's registers. The parent goes on in
/// [`cloned`]. The child saves its registers and runs `process::thread::child` on a stack of its own, since
/// it may share all memory with the parent, which the kernel holds until the child is done with it.
/// With a signal pending no call is made (see `calls`).
///
/// # Safety
/// The context must be complete; GS must be at the thread area.
#[unsafe(naked)]
pub unsafe extern "C" fn clone() -> ! {
    naked_asm!(
        "cmp dword ptr gs:[{pending}], 0",
        "jne {abandon}",
        "mov rdi, gs:[{this}]",
        "lea rdi, [rdi + {context}]",
        load_vectors!(),
        "mov rsp, gs:[{stack}]",
        "push qword ptr gs:[{flags}]",
        "popfq",
        load_general!(),
        "mov rsp, gs:[{regs} + 0x20]",
        ".globl trommel_clone_call",
        "trommel_clone_call:",
        "syscall",
        "mov rcx, rax",                     // rcx is the call's to clobber
        "jrcxz 2f",
        "jmp {cloned}",
        "2:",
        save_general!(),
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
        pending = const at!(pending),
        abandon = sym calls::abandon,
        cloned = sym cloned,
        child = sym upcalls::trommel_child,
        resume = sym resume,
    )
}

/// Makes the system call `number` that starts a thread, with the app's arguments. The parent comes
/// back with the kernel's answer. The child starts with the area at `area`: it runs `process::thread::begin`
/// on its own stack, and goes on where its context says. Until then it touches no memory but its
/// own, wherever the app has put its stack.
///
/// # Safety
/// The area must be complete and no other thread's; all signals must be blocked.
#[unsafe(naked)]
pub unsafe extern "C" fn clone_thread(args: *const [u64; 6], number: u64, area: u64) -> i64 {
    naked_asm!(
        "push r15",
        "mov r15, rdx",                     // the child gets it from here
        "mov rax, rsi",
        "mov rcx, rdi",
        "mov rdi, [rcx + 0x00]",
        "mov rsi, [rcx + 0x08]",
        "mov rdx, [rcx + 0x10]",
        "mov r10, [rcx + 0x18]",
        "mov r8, [rcx + 0x20]",
        "mov r9, [rcx + 0x28]",
        "syscall",
        "test rax, rax",
        "jz 2f",
        "pop r15",
        "ret",
        "2:",
        "cmp byte ptr [rip + {instructions}], 0",
        "je 3f",
        "wrgsbase r15",
        "jmp 4f",
        "3:",
        "mov edi, 0x1001",                  // ARCH_SET_GS
        "mov rsi, r15",
        "mov eax, 158",                     // arch_prctl
        "syscall",
        "4:",
        "mov rsp, gs:[{stack}]",
        "xor ebp, ebp",
        "mov rdi, gs:[{this}]",
        "lea rdi, [rdi + {context}]",
        "call {begin}",
        "jmp {resume}",
        stack = const at!(stack),
        this = const at!(this),
        context = const CONTEXT_OFFSET,
        begin = sym upcalls::trommel_begin,
        instructions = sym bases::ENABLED,
        resume = sym resume,
    )
}

/// Entry for a thread that the host has stopped. GS is at its area already and all signals are blocked.
/// The vector state is the app's, and the rest of the app's state is on its thread page.
///
/// # Safety
/// Only the host may redirect threads here.
#[unsafe(naked)]
pub unsafe extern "C" fn join() {
    naked_asm!(
        "mov rsp, gs:[{stack}]",
        "xor ebp, ebp",
        "mov rdi, gs:[{this}]",
        "lea rdi, [rdi + {context}]",
        save_vectors!(),
        "call {join}",
        "jmp {resume}",
        stack = const at!(stack),
        this = const at!(this),
        context = const CONTEXT_OFFSET,
        xmm = const offset_of!(Context, xmm),
        join = sym upcalls::trommel_join,
        resume = sym resume,
    )
}

/// Entry for one thread when all are out of the cache, with the stack at its top.
///
/// # Safety
/// Only the host may redirect a thread here.
#[unsafe(naked)]
pub unsafe extern "C" fn farewell() {
    naked_asm!("xor ebp, ebp", "call {farewell}", "ud2", farewell = sym upcalls::trommel_farewell)
}

/// Entry for one thread of a process that rests, with the address of what it is told in the first argument.
///
/// # Safety
/// Only the host may redirect a thread here.
#[unsafe(naked)]
pub unsafe extern "C" fn wake() {
    naked_asm!("xor ebp, ebp", "call {wake}", "ud2", wake = sym upcalls::trommel_wake)
}

/// Ends the thread by the call `number`. Puts `node` at the front of the list at `list` first. From then on the thread's
/// area may be given to another, so nothing of it is accessed. Then the thread is one less of those that `busy` counts.
///
/// # Safety
/// All signals must be blocked, and nothing of the area used any more. `node` is in it, and its
/// first word links the list. `busy` counts the thread.
#[unsafe(naked)]
pub unsafe extern "C" fn exit_thread(
    status: u64,
    list: *const u64,
    node: *mut u64,
    number: u64,
    busy: *const u64,
) -> ! {
    naked_asm!(
        "mov rax, [rsi]",
        "2:",
        "mov [rdx], rax",
        "lock cmpxchg [rsi], rdx",
        "jne 2b",
        "lock dec qword ptr [r8]",
        "mov eax, ecx",
        "syscall",
        "ud2",
    )
}

/// Signal handler that the kernel enters. A thread that runs natively while others are still under
/// control goes on in the app's handler, as if the kernel had entered that.
///
/// # Safety
/// Only the kernel may enter here.
#[unsafe(naked)]
pub unsafe extern "C" fn on_signal() {
    naked_asm!(
        "push 2",                           // AC is the app's still
        "popfq",
        "push rdi",
        "push rsi",
        "push rdx",
        "call {on_signal}",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "test rax, rax",
        "jnz 2f",
        "ret",                              // to the restorer
        "2:",
        "mov rcx, rax",
        "xor eax, eax",
        "jmp rcx",
        on_signal = sym upcalls::trommel_on_signal,
    )
}

/// Makes the kernel use an alternate stack for this thread, from a handler that runs on the
/// one before. The kernel refuses that, so the call is made on the stack whose top is `elsewhere`.
///
/// # Safety
/// All signals must be blocked, `elsewhere` not in use, and the new stack the app's or for good.
#[unsafe(naked)]
pub unsafe extern "C" fn change_stack(new: *const AltStack, elsewhere: u64) {
    naked_asm!(
        "mov rdx, rsp",
        "mov rsp, rsi",
        "xor esi, esi",
        "mov eax, 131", // sigaltstack
        "syscall",
        "mov rsp, rdx",
        "ret",
    )
}

/// Return address of the runtime's signal handlers, to the kernel.
///
/// # Safety
/// Only the kernel may enter here.
#[unsafe(naked)]
pub unsafe extern "C" fn restorer() {
    naked_asm!("mov eax, 15", "syscall")
}
