//! The app's block of SIGSEGV, as the runtime keeps it for a thread: see `engine::blocked`.

use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::Relaxed;

use crate::base::signals::{SIGSEGV, bit};

/// The app's block of SIGSEGV in one thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blocked {
    /// It is not blocked.
    No,
    /// The app blocks it, and the kernel does not.
    Hidden,
    /// The kernel blocks it.
    Really,
    /// The kernel blocks it, since one that was sent waits there.
    Waiting,
}

impl Blocked {
    const ALL: [Self; 4] = [Self::No, Self::Hidden, Self::Really, Self::Waiting];

    /// Returns whether the kernel blocks it: a store to a protected page would end the process.
    pub const fn in_kernel(self) -> bool {
        matches!(self, Self::Really | Self::Waiting)
    }

    /// Returns the state with a new mask.
    pub fn after(self, mask: u64, hides: bool) -> Self {
        match self {
            _ if mask & bit(SIGSEGV) == 0 => Self::No,
            Self::Waiting => Self::Waiting,
            _ if hides => Self::Hidden,
            _ => Self::Really,
        }
    }

    /// Returns the kernel's mask for one of the app's.
    pub const fn to_kernel(self, mask: u64) -> u64 {
        match self {
            Self::Hidden => mask & !bit(SIGSEGV),
            _ => mask,
        }
    }

    /// Returns the part of the app's mask that is known here.
    pub const fn in_masks(self) -> u64 {
        match self {
            Self::No => 0,
            _ => bit(SIGSEGV),
        }
    }

    /// Returns the app's mask for one of the kernel's.
    pub const fn to_app(self, mask: u64) -> u64 {
        match self {
            Self::Hidden => mask | bit(SIGSEGV),
            _ => mask,
        }
    }
}

/// A thread's [`Blocked`], which others read with the runtime's lock held.
#[derive(Default)]
pub struct BlockedState(AtomicU8);

impl BlockedState {
    /// Returns the state.
    pub fn get(&self) -> Blocked {
        Blocked::ALL[usize::from(self.0.load(Relaxed))]
    }

    /// Sets it.
    pub fn set(&self, state: Blocked) {
        self.0.store(state as u8, Relaxed);
    }

    /// Creates the state of a thread that has not begun.
    pub const fn none() -> Self {
        Self(AtomicU8::new(Blocked::No as u8))
    }
}
