//! What the kernel puts on the stack for a signal handler.

use crate::base::address::AppPc;
use crate::crossing::arch::Landmarks;

/// `struct kernel_sigaction`
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Action {
    /// `SIG_DFL`, `SIG_IGN` or the handler.
    pub handler: u64,
    /// `SA_*`
    pub flags: u64,
    /// Where the handler returns to.
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
    pub(super) errno: i32,
    pub(super) code: i32,
    pub(super) pad: i32,
    pub(super) fields: [u64; 14],
}

impl Info {
    /// Whether it is a SIGTRAP that the kernel has sent for an open file.
    pub fn is_trap_of_descriptor(&self) -> bool {
        const SI_SIGIO: i32 = -5;
        self.signo == super::SIGTRAP && self.code == SI_SIGIO
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

    /// Whether the kernel sent it of itself.
    pub const fn is_from_kernel(&self) -> bool {
        self.code > 0
    }

    /// What a timer of `timer_create` gave it to carry.
    pub const fn timer_value(&self) -> Option<u64> {
        const SI_TIMER: i32 = -2;
        match self.code {
            SI_TIMER => Some(self.fields[1]),
            _ => None,
        }
    }

    /// What `rt_tgsigqueueinfo` gave it to carry.
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
    pub(super) flags: u64,
    pub(super) link: u64,
    pub(super) stack: AltStack,
    /// r8–r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp.
    pub(super) regs: [u64; 16],
    /// Program counter.
    pub rip: u64,
    pub(super) eflags: u64,
    pub(super) selectors: u64,
    pub(super) err: u64,
    pub(super) trapno: u64,
    pub(super) oldmask: u64,
    pub(super) cr2: u64,
    pub(super) fpstate: u64,
    pub(super) reserved: [u64; 8],
    pub(super) sigmask: u64,
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

    pub(super) fn rsp(&mut self) -> &mut u64 {
        self.reg(4)
    }

    /// Whether it sets the trap flag.
    pub fn has_trap_flag(&self) -> bool {
        const TRAP_FLAG: u64 = 0x100;
        self.eflags & TRAP_FLAG != 0
    }

    /// Whether it is of 64-bit code that is not stepped through.
    pub fn is_plain(&self) -> bool {
        const CODE_SEGMENT_64: u64 = 0x33;
        self.selectors & 0xffff == CODE_SEGMENT_64 && !self.has_trap_flag()
    }

    /// Prepares a frame of the app for `rt_sigreturn`: the state loaded is the frame's, but control
    /// comes to the runtime, and the kernel keeps the runtime's alternate stack. Returns where the
    /// app wants to go on and the alternate stack it wants.
    pub fn redirect(&mut self, own_stack: AltStack) -> (AppPc, AltStack) {
        let wanted = (AppPc(self.rip), self.stack);
        self.rip = Landmarks::sigreturned();
        self.stack = own_stack;
        wanted
    }
}
