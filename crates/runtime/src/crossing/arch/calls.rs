//! System calls that a signal can call off.
//!
//! # Problem
//! The runtime makes calls in the app's name, and some of its own, that wait. Some must not be made any
//! more once a signal is kept. The kernel would not end the wait for a signal that it has delivered
//! already. A mask, a frame or a new process from before the signal would be mixed with one after it.
//! Looking at `Context::pending` first leaves a gap between the look and the call.
//!
//! # Strategy
//! The look and the call are in one stretch of instructions that changes nothing. The signal handler
//! compares the interrupted program counter with these stretches, up to and including the call
//! itself, and sends the thread to where the call is not made ([`Landmarks::called_off`]). After the
//! call the handler lets the thread go on: the call was made, and has its answer.

use super::*;

/// Result of [`unless_pending`] when it has not made the call.
pub const CALLED_OFF: i64 = i64::MIN;

/// Makes a system call, unless `pending` is or becomes set before that.
///
/// # Safety
/// As the call itself; `args` and `pending` must be valid.
#[unsafe(naked)]
pub unsafe extern "C" fn unless_pending(
    number: u64,
    args: *const [u64; 6],
    pending: *const u32,
) -> i64 {
    naked_asm!(
        "cmp dword ptr [rdx], 0",
        "jne {never_called}",
        "mov rax, rdi",
        "mov rcx, rsi",
        "mov rdi, [rcx + 0x00]",
        "mov rsi, [rcx + 0x08]",
        "mov rdx, [rcx + 0x10]",
        "mov r10, [rcx + 0x18]",
        "mov r8, [rcx + 0x20]",
        "mov r9, [rcx + 0x28]",
        ".globl trommel_unless_pending_call",
        "trommel_unless_pending_call:",
        "syscall",
        "ret",
        never_called = sym never_called,
    )
}

/// Return of [`unless_pending`] without a call.
///
/// # Safety
/// Only [`unless_pending`] may come here, with its return address on the stack.
#[unsafe(naked)]
unsafe extern "C" fn never_called() -> i64 {
    naked_asm!("movabs rax, {called_off}", "ret", called_off = const CALLED_OFF)
}

/// Makes `rt_sigreturn` with the context at `frame`, unless a signal is pending.
///
/// # Safety
/// `frame` must be a `ucontext` whose program counter is [`sigreturned`], on the runtime's stack;
/// the app's registers are in the context still.
#[unsafe(naked)]
pub unsafe extern "C" fn sigreturn(frame: u64) -> ! {
    naked_asm!(
        "cmp dword ptr gs:[{pending}], 0",
        "jne {abandon}",
        "mov rsp, rdi",
        "mov eax, 15",
        ".globl trommel_sigreturn_call",
        "trommel_sigreturn_call:",
        "syscall",
        "ud2",
        pending = const at!(pending),
        abandon = sym abandon,
    )
}

/// The app's call was not made: it is made again when the signal has been delivered before it.
///
/// # Safety
/// The context must be complete, the call's own registers in it; GS must be at the thread area.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn abandon() -> ! {
    naked_asm!(
        "mov rsp, gs:[{stack}]",
        "push 2",
        "popfq",
        "mov rdi, gs:[{this}]",
        "lea rdi, [rdi + {context}]",
        "call {called_off}",
        "jmp {resume}",
        stack = const at!(stack),
        this = const at!(this),
        context = const CONTEXT_OFFSET,
        called_off = sym super::upcalls::trommel_called_off,
        resume = sym resume,
    )
}

unsafe extern "C" {
    /// The call of [`unless_pending`]. A label, not a function.
    safe fn trommel_unless_pending_call();
    /// The call of [`sigreturn`]. A label, not a function.
    safe fn trommel_sigreturn_call();
    /// The call of [`clone`]. A label, not a function.
    safe fn trommel_clone_call();
}

impl Landmarks {
    /// After the call of [`unless_pending`], and where it returns from without one.
    pub fn wait() -> (u64, u64) {
        const SYSCALL_BYTES: u64 = 2;
        let call = trommel_unless_pending_call as *const () as u64;
        (call + SYSCALL_BYTES, never_called as *const () as u64)
    }

    /// Returns the address where a thread goes on that a signal interrupted at `pc`, if `pc` is before a
    /// call that must then not be made.
    pub fn called_off(pc: u64) -> Option<u64> {
        let at = |f: *const ()| f as u64;
        let abandon = at(abandon as *const ());
        [
            (
                at(unless_pending as *const ()),
                at(trommel_unless_pending_call as *const ()),
                at(never_called as *const ()),
            ),
            (
                at(sigreturn as *const ()),
                at(trommel_sigreturn_call as *const ()),
                abandon,
            ),
            (
                at(clone as *const ()),
                at(trommel_clone_call as *const ()),
                abandon,
            ),
        ]
        .into_iter()
        .find_map(|(start, call, to)| (start <= pc && pc <= call).then_some(to))
    }
}
