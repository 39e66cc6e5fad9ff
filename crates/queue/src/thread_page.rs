//! Attaching and detaching of a running process: the words of host and runtime.
//!
//! Each thread has a page of the file, which is also the first page of its thread area. Its first
//! word is the write pointer that generated code advances. After it lies the thread's [`ThreadPage`].
//! The host puts there the state of a thread that it has stopped, and learns from it where things are
//! in the target. [`Attached`] holds the state of the whole process.
//!
//! # Detaching
//! The host increments [`Attached::detach`]. At [`LEAVE`] threads come out of the cache, each where
//! it reaches a boundary, and wait with [`ThreadPage::parked`] set. From [`GO`] on they run natively.
//! So no thread executes code of the app's while the kernel has the runtime's signal handlers for
//! the app's.
//!
//! # Bursts
//! With [`Attached::rests`] the runtime stays in the process, which *rests*: all threads are native. [`Attached::wake`] is the way back.

use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::limits::LIMITS;

/// [`Attached::detach`]: threads leave the cache and park.
pub const LEAVE: u32 = 1;
/// [`Attached::detach`]: parked threads go on natively.
pub const GO: u32 = 2;

/// First word of the value that the host's signal carries, by which the runtime knows it.
pub const REQUEST: u64 = 0x7452_6f4d_6c45_4d00;
/// Bit of the value: the app has blocked the signal that carries it.
pub const REQUEST_BLOCKED: u64 = 1;

/// Words of [`super::Control`] about control that did not begin with the program.
#[repr(C)]
pub struct Attached {
    /// 0, [`LEAVE`] or [`GO`].
    pub detach: AtomicU32,
    /// The routine at [`Self::farewell`] has done its work.
    pub bid_farewell: AtomicU32,
    /// Threads that were stopped when the runtime was put in.
    pub threads: AtomicU32,
    /// Not 0: the routine at [`Self::farewell`] leaves the runtime in the process, for the next burst of control.
    pub rests: AtomicU32,
    /// Threads of the program may serve faults of others (`userfaultfd`). The host's to write.
    pub faults_served: AtomicU32,
    /// Not 0: the host suspends filters of system calls (seccomp) of the thread that runs a routine of the runtime's for it. The host's to write.
    pub suspends: AtomicU32,
    /// Calls that the runtime does not make in this process, as filters refuse them ([`Without`](crate::seccomp::Without)). The host's to
    /// write, before threads go in.
    pub without: AtomicU64,
    /// Not 0: [`Self::limits_left`] are written.
    pub limits_are_left: AtomicU32,
    /// The kernel's limits, of [`LIMITS`] in turn, soft and hard, when the routine at [`Self::farewell`] had done its work: they allow for the runtime's
    /// memory. Who takes that out sets the program's own ([`Process::limits`](crate::Process)), but for those that it has set since.
    pub limits_left: [[AtomicU64; 2]; LIMITS.len()],
    /// Address in the target where such a thread enters the runtime.
    pub join: AtomicU64,
    /// A routine that gives the kernel back the app's dispositions, in the target.
    pub farewell: AtomicU64,
    /// A routine that makes a process that rests ready to be controlled again, in the target. It is given a
    /// [`Wake`](crate::wake::Wake) and thread ids.
    pub wake: AtomicU64,
    /// After the call with which the runtime waits in the app's name, and where a thread goes on that
    /// is not to wait, in the target.
    pub wait: [AtomicU64; 2],
    /// The runtime's image with its first stack, in the target: from, to.
    pub image: [AtomicU64; 2],
    /// Address of the [`Owned`] ranges, in the target.
    pub owned: AtomicU64,
    /// The process that detaches this one whatever happens (the host's keeper), as the host sees it, and when it was started in the
    /// kernel's ticks; 0: none. The host's to write.
    pub keeper: [AtomicU64; 2],
}

/// A thread's page from its first byte.
#[repr(C)]
pub struct ThreadPage {
    /// The write pointer; 0 without a chunk.
    pub pointer: AtomicU64,
    /// Address of the area that the page is part of; 0 when there is none.
    pub area: AtomicU64,
    /// Address of the app's alternate stack, a `stack_t` that `sigaltstack` can be given.
    pub stack: AtomicU64,
    /// The thread's id in the kernel.
    pub tid: AtomicU32,
    /// The thread waits, all of its state in its signal frame, to go on natively.
    pub parked: AtomicU32,
    /// Restart of the system call that the thread was stopped in, as the kernel would have done it: one
    /// of its `ERESTART…` numbers, or 0.
    pub interrupted: AtomicU32,
    /// The id of the process that the thread is of.
    pub pid: AtomicU32,
    /// The app's signal mask.
    pub mask: AtomicU64,
    /// Address where the app goes on.
    pub pc: AtomicU64,
    /// The app's flags.
    pub flags: AtomicU64,
    /// The app's general registers in hardware order.
    pub regs: [AtomicU64; 16],
    /// The thread's area of restartable sequences: its address (0: there is none), then its length and, in the upper half, its signature.
    pub sequences: [AtomicU64; 2],
    /// Address of the node of the thread's calling context ([`crate::contexts`]); 0: there is none.
    pub node: AtomicU64,
    /// Instructions that are not in the node's own yet.
    pub instructions: AtomicU64,
    /// Signals that the app blocks and the kernel does not, as a mask.
    pub hidden: AtomicU64,
    /// Executions of which a query has decided in generated code, by way (`trommel_query::quick`). Sums of all threads that have
    /// had the page, for the process.
    pub ways: [AtomicU64; WAYS],
}

/// Ways of queries at most, of all programs.
pub const WAYS: usize = 384;

/// Ranges of [`Owned`] at most.
pub const MAX_OWNED: usize = 128;

/// Memory that the runtime has mapped, so that it can be unmapped from outside.
#[repr(C)]
pub struct Owned {
    /// Ranges in use.
    pub count: AtomicU64,
    /// Mappings that found no room here.
    pub missed: AtomicU64,
    /// Start and end of each range.
    pub ranges: [[AtomicU64; 2]; MAX_OWNED],
}
