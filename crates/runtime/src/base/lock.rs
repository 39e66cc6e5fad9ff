//! The runtime's lock.
//!
//! # Problem
//! Threads translate into one cache, describe paths in one dictionary, and share the app's signal
//! dispositions. The runtime has no library to lock with, and may be interrupted by a signal at any
//! instruction, or be copied by `fork` while another thread is inside.
//!
//! # Strategy
//! One lock guards all of it, as the guarded work is rare. Code that is in the cache and linked
//! never comes here, nor does a thread that publishes a chunk. The lock is a word and a futex.
//!
//! # Rank
//! It is the only lock, so nothing is taken under it. Its holder does not wait: not for the host,
//! and not in a system call of the app. There are two exceptions. `fork` is made while the lock is held, so that the
//! child's copy of the guarded state is whole. So are calls that change the map where there is code. Taking
//! the lock twice, and waiting for the host while it is held, fail an assertion (`assert_free`). The stack pointer at which it
//! was taken shows whether the holder is the caller.
//!
//! # Signals
//! A handler that interrupts the runtime keeps its signal for later and touches nothing that is
//! guarded, so it does not lock. One that interrupts the cache may lock: the thread does not hold it.
//!
//! **I4 (one lock).** What threads use one at a time is guarded by one lock. Nobody waits while holding it.
//!
//! **I5 (lock-free paths).** Linked code, tables of indirect targets, appending a record and publishing a chunk take no lock.
#![allow(unsafe_code)] // reason: a lock.

use core::arch::asm;
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::base::address::AppPc;
use crate::base::address::Range;
use crate::base::stress;
use crate::base::sys;

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and somebody sleeps.
const WANTED: u32 = 2;
/// Times to look again before sleeping: the lock is held for a few microseconds.
const SPINS: u32 = 100;

/// A value that a lock guards.
pub struct Lock<T> {
    word: AtomicU32,
    /// Stack pointer of its holder, when it took it.
    holder: AtomicU64,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by one thread at a time.
unsafe impl<T> Sync for Lock<T> {}

/// The right to use the value.
pub struct Guard<'a, T>(&'a Lock<T>);

impl<T> Lock<T> {
    /// A free lock.
    pub const fn new(value: T) -> Self {
        Self {
            word: AtomicU32::new(FREE),
            holder: AtomicU64::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits until it is free. Must not be called by its holder, which fails an assertion.
    #[inline]
    pub fn lock(&self) -> Guard<'_, T> {
        assert_free(&self.holder);
        if self
            .word
            .compare_exchange(FREE, HELD, Acquire, Relaxed)
            .is_err()
        {
            self.wait();
        }
        self.holder.store(stack_pointer(), Relaxed);
        stress::delay();
        Guard(self)
    }

    /// [`Self::lock`] on a stack of the app's, which does not show who the holder is.
    pub fn lock_anywhere(&self) -> Guard<'_, T> {
        if self
            .word
            .compare_exchange(FREE, HELD, Acquire, Relaxed)
            .is_err()
        {
            self.wait();
        }
        stress::delay();
        Guard(self)
    }

    /// Takes the lock like [`Self::lock_anywhere`], if it is free.
    pub fn lock_if_free(&self) -> Option<Guard<'_, T>> {
        let taken = self.word.compare_exchange(FREE, HELD, Acquire, Relaxed);
        taken.is_ok().then_some(Guard(self))
    }

    #[cold]
    fn wait(&self) {
        for _ in 0..SPINS {
            core::hint::spin_loop();
            if self.word.load(Relaxed) == FREE
                && self
                    .word
                    .compare_exchange(FREE, HELD, Acquire, Relaxed)
                    .is_ok()
            {
                return;
            }
        }
        while self.word.swap(WANTED, Acquire) != FREE {
            sys::futex_wait(&self.word, WANTED, None, true);
        }
    }

    /// Gives up a hold whose guard was forgotten.
    ///
    /// # Safety
    /// The calling thread holds the lock, and uses the value no more.
    pub unsafe fn release(&self) {
        stress::delay();
        self.holder.store(0, Relaxed);
        if self.word.swap(FREE, Release) == WANTED {
            sys::futex_wake(&self.word, 1, true);
        }
    }

    /// A hold whose guard was forgotten.
    ///
    /// # Safety
    /// The calling thread holds the lock, or is the only one in a copy of memory that was made by
    /// the holder.
    pub unsafe fn held(&self) -> Guard<'_, T> {
        Guard(self)
    }

    /// [`Self::release`], if the holder took it on these stacks.
    ///
    /// # Safety
    /// They are the calling thread's, which uses the value no more if it held the lock.
    pub unsafe fn release_if_held_on(&self, stacks: &Range) {
        if stacks.holds(AppPc(self.holder.load(Relaxed))) {
            // SAFETY: the thread that this stack belongs to is the holder, and the caller's.
            unsafe { self.release() };
        }
    }

    /// The caller, which holds it, does so for the thread that has a stack at `at`.
    pub fn hold_on(&self, at: u64) {
        self.holder.store(at, Relaxed);
    }

    /// The value, whoever holds the lock.
    ///
    /// # Safety
    /// Nobody else changes it, or the caller can do with whatever it reads.
    pub unsafe fn peek(&self) -> &T {
        // SAFETY: handed on to the caller.
        unsafe { &*self.value.get() }
    }

    /// Fails an assertion if the caller holds the lock: it is about to wait for somebody who may
    /// need it.
    pub fn assert_not_mine(&self) {
        assert_free(&self.holder);
    }
}

/// The holder of a lock, if there is one, is not on the caller's stack.
#[inline]
fn assert_free(holder: &AtomicU64) {
    /// Less than lies between the stacks of two threads, and more than the runtime ever uses of one.
    const STACK: u64 = 64 << 10;
    let at = holder.load(Relaxed);
    assert!(
        at == 0 || at.abs_diff(stack_pointer()) > STACK,
        "the lock is held by who wants it"
    );
}

fn stack_pointer() -> u64 {
    let sp: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, rsp", out(reg) sp, options(nomem, nostack, preserves_flags)) };
    sp
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the guard's owner holds the lock.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard's owner holds the lock.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: held until now.
        unsafe { self.0.release() };
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;

    #[test]
    fn one_at_a_time() {
        static SUM: Lock<u64> = Lock::new(0);
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| (0..20_000).for_each(|_| *SUM.lock() += 1));
            }
        });
        assert_eq!(*SUM.lock(), 80_000);
    }
}
