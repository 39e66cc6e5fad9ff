//! Signals as the kernel has them: numbers, structures, masks, dispositions, sending.
#![allow(unsafe_code)] // reason: system calls.

use linux_raw_sys::general as nr;

use crate::base::address::AppPc;
use crate::base::sys;

/// `SIGILL`
pub const SIGILL: i32 = 4;
/// `SIGTRAP`
pub const SIGTRAP: i32 = 5;
/// `SIGABRT_IOT`
pub const SIGABRT_IOT: i32 = 6;
/// `SIGBUS`
pub const SIGBUS: i32 = 7;
/// `SIGFPE`
pub const SIGFPE: i32 = 8;
/// `SIGSEGV`
pub const SIGSEGV: i32 = 11;
/// `SIGSYS`
pub const SIGSYS: i32 = 31;
/// Signals that instructions cause.
pub const SYNCHRONOUS: [i32; 5] = [SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV];
/// Mask of all other signals.
pub const ALL_BUT_SYNCHRONOUS: u64 =
    !(bit(SIGILL) | bit(SIGTRAP) | bit(SIGBUS) | bit(SIGFPE) | bit(SIGSEGV));
/// One more than the last signal number.
pub const SIGNALS: usize = 65;
/// `TRAP_FLAG`
pub const TRAP_FLAG: u64 = 0x100;
/// `ALIGNMENT_CHECK`
pub const ALIGNMENT_CHECK: u64 = 0x4_0000;
/// `TRAP_BRKPT`
pub const TRAP_BRKPT: i32 = 1;
/// `TRAP_TRACE`
pub const TRAP_TRACE: i32 = 2;
/// `SA_SIGINFO`
pub const SA_SIGINFO: u64 = 4;
/// `SA_ONSTACK`
pub const SA_ONSTACK: u64 = 0x0800_0000;
/// `SA_NODEFER`
pub const SA_NODEFER: u64 = 0x4000_0000;
/// `SA_RESETHAND`
pub const SA_RESETHAND: u64 = 0x8000_0000;
/// `SA_RESTORER`
pub const SA_RESTORER: u64 = 0x0400_0000;
/// `SIG_DFL`
pub const SIG_DFL: u64 = 0;
/// `SIG_IGN`
pub const SIG_IGN: u64 = 1;
/// `SS_DISABLE`
pub const SS_DISABLE: u32 = 2;
/// `SS_AUTODISARM`
pub const SS_AUTODISARM: u32 = 1 << 31;
/// SIGKILL and SIGSTOP.
pub const CANNOT_BE_BLOCKED: u64 = 1 << 8 | 1 << 18;

/// `struct kernel_sigaction`
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Action {
    /// `SIG_DFL`, `SIG_IGN` or the handler.
    pub handler: u64,
    /// `SA_*`
    pub flags: u64,
    /// Address that the handler returns to.
    pub restorer: u64,
    /// Blocked while it runs.
    pub mask: u64,
}

/// `stack_t`
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AltStack {
    /// Lowest address.
    pub sp: u64,
    /// `SS_*`
    pub flags: u32,
    /// Padding of the kernel's structure.
    pub pad: u32,
    /// Bytes.
    pub size: u64,
}

/// `siginfo_t`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Info {
    /// The signal's number.
    pub signo: i32,
    pub(crate) errno: i32,
    pub(crate) code: i32,
    pub(crate) pad: i32,
    pub(crate) fields: [u64; 14],
}

impl Info {
    /// Returns whether it is a SIGTRAP that the kernel has sent for an open file.
    pub fn is_trap_of_descriptor(&self) -> bool {
        const SI_SIGIO: i32 = -5;
        self.signo == SIGTRAP && self.code == SI_SIGIO
    }

    /// Room for one.
    pub const fn none() -> Self {
        Self {
            signo: 0,
            errno: 0,
            code: 0,
            pad: 0,
            fields: [0; 14],
        }
    }

    /// Returns whether the kernel sent it of itself.
    pub const fn is_from_kernel(&self) -> bool {
        self.code > 0
    }

    /// Returns the address after the call that a filter has had reported, if it says so.
    pub const fn reported_call(&self) -> Option<u64> {
        const SYS_SECCOMP: i32 = 1;
        match (self.signo, self.code) {
            (SIGSYS, SYS_SECCOMP) => Some(self.fields[0]),
            _ => None,
        }
    }

    /// Returns whether it was sent to one thread, and not to a process. Of what carries a value, that is not known.
    pub const fn is_of_thread(&self) -> bool {
        const SI_TKILL: i32 = -6;
        self.code == SI_TKILL || self.is_from_kernel()
    }

    /// Returns the value that a timer of `timer_create` gave the signal to carry.
    pub const fn timer_value(&self) -> Option<u64> {
        const SI_TIMER: i32 = -2;
        match self.code {
            SI_TIMER => Some(self.fields[1]),
            _ => None,
        }
    }

    /// Returns the value that `rt_tgsigqueueinfo` gave the signal to carry.
    pub const fn queued_value(&self) -> Option<u64> {
        const SI_QUEUE: i32 = -1;
        match self.code {
            SI_QUEUE => Some(self.fields[1]),
            _ => None,
        }
    }
}

/// `struct ucontext` of x86-64, as the kernel builds it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Ucontext {
    pub(crate) flags: u64,
    pub(crate) link: u64,
    pub(crate) stack: AltStack,
    /// r8–r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp.
    pub regs: [u64; 16],
    /// Program counter.
    pub rip: u64,
    pub(crate) eflags: u64,
    pub(crate) selectors: u64,
    pub(crate) err: u64,
    pub(crate) trapno: u64,
    pub(crate) oldmask: u64,
    pub(crate) cr2: u64,
    pub(crate) fpstate: u64,
    pub(crate) reserved: [u64; 8],
    pub(crate) sigmask: u64,
}

/// Bytes of [`Ucontext`].
pub const UCONTEXT_BYTES: usize = size_of::<Ucontext>();
const _: () = assert!(UCONTEXT_BYTES == 304 && size_of::<Info>() == 128);

impl Ucontext {
    /// A general register by hardware number.
    pub fn reg(&mut self, n: u8) -> &mut u64 {
        const PLACE: [usize; 16] = [13, 14, 12, 11, 15, 10, 9, 8, 0, 1, 2, 3, 4, 5, 6, 7];
        &mut self.regs[PLACE[usize::from(n & 15)]]
    }

    /// The stack pointer.
    pub fn rsp(&mut self) -> &mut u64 {
        self.reg(4)
    }

    /// Returns whether it sets the trap flag.
    pub fn has_trap_flag(&self) -> bool {
        const TRAP_FLAG: u64 = 0x100;
        self.eflags & TRAP_FLAG != 0
    }

    /// Returns whether it is of 64-bit code that is not stepped through.
    pub fn is_plain(&self) -> bool {
        const CODE_SEGMENT_64: u64 = 0x33;
        self.selectors & 0xffff == CODE_SEGMENT_64 && !self.has_trap_flag()
    }

    /// Sets the segments that a handler starts with. Those of what it has interrupted may be what the processor has refused.
    pub fn use_plain_segments(&mut self) {
        const CODE_AND_STACK: u64 = 0xffff_0000_0000_ffff;
        const PLAIN: u64 = 0x2b << 48 | 0x33;
        self.selectors = self.selectors & !CODE_AND_STACK | PLAIN;
    }

    /// Prepares a frame of the app for `rt_sigreturn`: the state loaded is the frame's, but control
    /// comes to `landing` in the runtime, and the kernel keeps the runtime's alternate stack. Returns where the
    /// app wants to go on and the alternate stack it wants.
    pub fn redirect(&mut self, landing: u64, own_stack: AltStack) -> (AppPc, AltStack) {
        let wanted = (AppPc(self.rip), self.stack);
        self.rip = landing;
        self.stack = own_stack;
        wanted
    }
}

/// The bit of a signal in a mask.
pub const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// Returns whether instructions cause a signal.
pub fn is_synchronous(signal: i32) -> bool {
    SYNCHRONOUS.contains(&signal)
}

/// Sets the kernel's disposition.
pub fn set_action(signal: i32, action: &Action) -> i64 {
    // SAFETY: a valid structure; handlers set are the runtime's or the app's own.
    unsafe {
        sys::call(
            nr::__NR_rt_sigaction,
            [signal as u64, &raw const *action as u64, 0, 8, 0, 0],
        )
    }
}

/// Sets the kernel's disposition; the one before.
pub fn exchange_action(signal: i32, action: &Action) -> Action {
    let mut old = Action::default();
    let args = [
        signal as u64,
        &raw const *action as u64,
        &raw mut old as u64,
        8,
        0,
        0,
    ];
    // SAFETY: two valid structures; handlers set are the runtime's or the app's own.
    let _ = unsafe { sys::call(nr::__NR_rt_sigaction, args) };
    old
}

/// Reads the kernel's disposition.
pub fn get_action(signal: i32) -> Action {
    let mut action = Action::default();
    // SAFETY: a valid structure to write to.
    let _ = unsafe {
        sys::call(
            nr::__NR_rt_sigaction,
            [signal as u64, 0, &raw mut action as u64, 8, 0, 0],
        )
    };
    action
}

/// `SIG_BLOCK`
pub const SIG_BLOCK: u64 = 0;
/// `SIG_UNBLOCK`
pub const SIG_UNBLOCK: u64 = 1;
/// `SIG_SETMASK`
pub const SIG_SETMASK: u64 = 2;

/// Changes the thread's mask; what it was. In one: a signal that comes between a look and a change has changed the mask itself, and
/// what was seen would undo that.
pub fn change_mask(how: u64, mask: Option<&u64>) -> u64 {
    let mut old = 0_u64;
    let new = mask.map_or(0, |mask| &raw const *mask as u64);
    // SAFETY: a valid word to write to, and one to read or none.
    let _ = unsafe {
        sys::call(
            nr::__NR_rt_sigprocmask,
            [how, new, &raw mut old as u64, 8, 0, 0],
        )
    };
    old
}

/// The kernel's mask of this thread.
pub fn get_mask() -> u64 {
    change_mask(SIG_BLOCK, None)
}

/// Returns whether a failure of the runtime would not come to its handler: the kernel ends a process for a
/// fault whose signal is blocked.
pub fn blocks_failures() -> bool {
    let failures = SYNCHRONOUS.iter().fold(0, |mask, s| mask | bit(*s));
    get_mask() & failures != 0
}

/// Blocks every signal. Returns the mask before.
pub fn block_all() -> u64 {
    change_mask(SIG_SETMASK, Some(&!0))
}

/// The alternate stack that the kernel uses for this thread, which is not on it.
pub fn get_stack() -> AltStack {
    let mut stack = AltStack {
        sp: 0,
        flags: SS_DISABLE,
        pad: 0,
        size: 0,
    };
    // SAFETY: a valid structure to write to.
    let _ = unsafe { sys::call(nr::__NR_sigaltstack, [0, &raw mut stack as u64, 0, 0, 0, 0]) };
    stack
}

/// Makes the kernel use an alternate stack of the runtime's for this thread.
pub fn use_stack(stack: &AltStack) {
    // SAFETY: the stack is the runtime's for good.
    let _ = unsafe {
        sys::call(
            nr::__NR_sigaltstack,
            [&raw const *stack as u64, 0, 0, 0, 0, 0],
        )
    };
}

/// Blocks a signal, besides those that are.
pub fn block(signal: i32) {
    change_mask(SIG_BLOCK, Some(&bit(signal)));
}

/// Sets the kernel's mask.
pub fn set_mask(mask: u64) {
    change_mask(SIG_SETMASK, Some(&mask));
}

/// Sends a signal again, for when the handler that does so returns.
pub fn requeue(info: &Info) {
    block(info.signo);
    queue(info);
}

/// Sends a signal again to whom it was sent, for when the handler that does so returns.
pub fn send_again(info: &Info) {
    if info.is_of_thread() {
        return requeue(info);
    }
    block(info.signo);
    let (pid, signal) = (sys::getpid() as u64, info.signo as u64);
    let args = [pid, signal, &raw const *info as u64, 0, 0, 0];
    // SAFETY: a valid siginfo.
    if unsafe { sys::call(nr::__NR_rt_sigqueueinfo, args) } != 0 {
        // Only the first thread may send it as if another process had. That it comes matters more than from whom.
        // SAFETY: nothing is written to.
        if unsafe { sys::call(nr::__NR_kill, [pid, signal, 0, 0, 0, 0]) } != 0 {
            // A filter leaves this alone. This thread may take it in any case.
            queue(info);
        }
    }
}

/// Sends this thread a signal; whether the kernel has taken it.
fn queue(info: &Info) -> bool {
    let (pid, tid) = (sys::getpid() as u64, sys::gettid() as u64);
    // SAFETY: a valid siginfo.
    let result = unsafe {
        sys::call(
            nr::__NR_rt_tgsigqueueinfo,
            [pid, tid, info.signo as u64, &raw const *info as u64, 0, 0],
        )
    };
    result == 0
}

/// Sends this thread a signal with a value, as `sigqueue` would; whether the kernel has taken it.
pub fn raise(signal: i32, value: u64) -> bool {
    const SI_QUEUE: i32 = -1;
    let mut info = Info {
        signo: signal,
        code: SI_QUEUE,
        ..Info::none()
    };
    let user = sys::getuid();
    info.fields[0] = u64::from(sys::getpid() as u32) | u64::from(user) << 32;
    info.fields[1] = value;
    queue(&info)
}
