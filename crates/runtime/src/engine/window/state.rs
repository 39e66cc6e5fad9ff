//! The window that a thread is in.

use crate::base::address::{AppPc, Range};
use crate::engine::frames::Frames;
use crate::engine::window::timer::Timer;

/// Reason for the end of a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// All of its instructions were executed.
    Whole,
    /// A system call comes next.
    Call,
    /// The next instruction causes a signal, or one was sent.
    Signal,
    /// The next instruction cannot be executed in the cache, or control ends for good.
    Refused,
}

/// Progress of a thread's window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Its beginning is not known.
    Unmarked,
    /// Instructions are passed.
    Passing,
    /// It has begun.
    Begun,
}

/// A thread's window.
#[derive(Clone, Copy)]
pub struct Window {
    /// Its first instruction.
    pub(crate) from: AppPc,
    /// Instructions that were wanted.
    pub(crate) length: u32,
    pub(crate) end: End,
    pub(crate) phase: Phase,
    /// Nanoseconds of the thread's CPU time when its signal came.
    pub(crate) began: u64,
    /// The GS base of the app.
    pub(crate) gs: u64,
}

impl Window {
    /// A window of `length` instructions from `from` on.
    pub const fn new(from: AppPc, length: u32, began: u64, gs: u64) -> Self {
        Self {
            from,
            length,
            end: End::Whole,
            phase: Phase::Unmarked,
            began,
            gs,
        }
    }

    /// Returns whether the last few instructions of a phase do not matter: those that were to be executed by parts are not. A
    /// long window reaches places without number, and parts of each would be translated for one use.
    pub(crate) fn is_rough(&self) -> bool {
        const LONG: u32 = 256;
        self.phase != Phase::Unmarked && self.length >= LONG
    }

    /// Instructions executed, but for what was passed, when `left` are left.
    pub(crate) fn executed(&self, left: u64) -> u64 {
        let length = u64::from(self.length);
        match self.phase {
            Phase::Passing => 0,
            Phase::Begun | Phase::Unmarked => length - left.min(length),
        }
    }

    /// The GS base of the app.
    pub const fn gs(&self) -> u64 {
        self.gs
    }
}

/// A thread's state for windows.
#[derive(Default)]
pub struct Windowed {
    /// The window that it is in.
    pub now: Option<Window>,
    /// The thread's user time at the end of its last window; 0: it had none.
    pub user: u64,
    /// User time that the window stands for which it is in.
    pub weight: u64,
    /// The timer that begins the next.
    pub timer: Timer,
    /// Contents of the kernel's signal frames for the thread, beside its state.
    pub frames: Frames,
    /// The GS base that it gets back when it leaves.
    pub app_gs: u64,
    /// The host must be done with the code that was here before windows go on.
    pub moved: Option<Range>,
}
