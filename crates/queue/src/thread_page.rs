//! What host and runtime need to take a running process under control and to detach it again.
//!
//! Each thread has a page of the file, which is also the first page of its thread area. Its first
//! word is the write pointer that generated code advances; after it lies the thread's [`ThreadPage`],
//! on which the host puts the state of a thread that it has stopped, and from which it learns where
//! things are in the target. What concerns the whole process is in [`Attached`].
//!
//! # Detaching
//! The host counts [`Attached::detach`] up: at [`LEAVE`] threads come out of the cache, each where
//! it reaches a boundary, and wait with [`ThreadPage::parked`] set; from [`GO`] on they run natively.
//! So no thread executes code of the app's while the kernel has the runtime's signal handlers for
//! the app's.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// [`Attached::detach`]: threads leave the cache and park.
pub const LEAVE: u32 = 1;
/// [`Attached::detach`]: parked threads go on natively.
pub const GO: u32 = 2;

/// First word of the value that the host's signal carries, by which the runtime knows it.
pub const REQUEST: u64 = 0x7452_6f4d_6c45_4d00;
/// In the value: the app has blocked the signal that carries it.
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
    pad: AtomicU32,
    /// Where such a thread enters the runtime, in the target.
    pub join: AtomicU64,
    /// A routine that gives the kernel back the app's dispositions, in the target.
    pub farewell: AtomicU64,
    /// After the call with which the runtime waits in the app's name, and where a thread goes on that
    /// is not to wait, in the target.
    pub wait: [AtomicU64; 2],
    /// The runtime's image with its first stack, in the target: from, to.
    pub image: [AtomicU64; 2],
    /// Address of the [`Owned`] ranges, in the target.
    pub owned: AtomicU64,
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
    /// How the kernel would have gone on with the system call that the thread was stopped in: one
    /// of its `ERESTART…` numbers, or 0.
    pub interrupted: AtomicU32,
    pad: AtomicU32,
    /// The app's signal mask.
    pub mask: AtomicU64,
    /// Where the app goes on.
    pub pc: AtomicU64,
    /// The app's flags.
    pub flags: AtomicU64,
    /// The app's general registers in hardware order.
    pub regs: [AtomicU64; 16],
}

/// Ranges of [`Owned`] at most.
pub const MAX_OWNED: usize = 128;

/// Memory that the runtime has mapped, so that it can be unmapped from outside.
#[repr(C)]
pub struct Owned {
    /// Ranges in use.
    pub count: AtomicU64,
    /// Mappings that found no room here.
    pub missed: AtomicU64,
    /// From, to.
    pub ranges: [[AtomicU64; 2]; MAX_OWNED],
}
