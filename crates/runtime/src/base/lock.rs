//! The runtime's lock.
//!
//! # Problem
//! Threads translate into one cache, describe paths in one dictionary, and share the app's signal
//! dispositions. The runtime has no library to lock with, and may be interrupted by a signal at any
//! instruction, or be copied by `fork` while another thread is inside.
//!
//! # Strategy
//! One lock guards all of it, as the guarded work is rare. Code that is in the cache and linked
//! never comes here, nor does a thread that publishes a chunk. The lock is a word, half of it a futex.
//!
//! # Rank
//! It is the only lock, so nothing is taken under it. Its holder does not wait: not for the host,
//! and not in a system call of the app. There are three exceptions. `fork` is made while the lock is held, so that the
//! child's copy of the guarded state is whole. So are calls that change the map where there is code. And who stops a thread of
//! its own memory keeps the lock until that has stopped, for a tenth of a second at most: the thread must not have the lock then. Taking
//! the lock twice, and waiting for the host while it is held, fail an assertion.
//!
//! # Holders that end
//! Memory may be shared by several processes (`clone` with `CLONE_VM`), and one may be killed while a thread of it has the lock.
//! So the word is the stack pointer at which the lock was taken. It is there from the first moment, and names the thread.
//! Who has waited long asks whether that thread has ended ([`Guarded::has_ended`]). If so the waiter takes the lock over, and [`Guarded::inherit`] sees to
//! a value that may be half changed. A holder that is stopped, or slow, has not ended, and is waited for.
//! Waiters ask only once there may be such holders ([`Lock::holders_may_end`]). Until then they wait without a limit of time:
//! a thread that the host stops in a wait with one forgets the wait of the app that it was to go on with (`restart_syscall`).
//!
//! A thread that ends its process on purpose keeps the lock to the end ([`Guard::keep_to_the_end`]): so no other thread of the process can have it then, and the
//! value is whole.
//!
//! # Signals
//! A handler that interrupts the runtime keeps its signal for later and touches nothing that is
//! guarded, so it does not lock. One that interrupts the cache may lock: the thread does not hold it.
//!
//! **I4 (one lock).** What threads use one at a time is guarded by one lock. Nobody waits while holding it, but for a thread to stop, and not for long.
//!
//! **I5 (lock-free paths).** Linked code, tables of indirect targets, appending a record and publishing a chunk take no lock.
#![allow(unsafe_code)] // reason: a lock.

use core::arch::asm;
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU64};

use crate::base::address::AppPc;
use crate::base::address::Range;
use crate::base::stress;
use crate::base::sys;

/// Nobody has it. Otherwise the word is the holder's stack pointer, and the marks below.
const FREE: u64 = 0;
/// Somebody sleeps.
const WANTED: u64 = 1;
/// The holder ends, and the value is whole.
const LAST: u64 = 2;
const MARKS: u64 = 7;
/// Stands for the stack pointer where that does not show who the holder is. No stack is there.
const ANYONE: u64 = 8;
/// Times to look again before sleeping: the lock is held for a few microseconds.
const SPINS: u32 = 100;
/// Nanoseconds after which a waiter asks whether the holder has ended.
const LONG: u64 = 100_000_000;
/// Nanoseconds, where it is about to end.
const SOON: u64 = 1_000_000;

/// A value that a lock guards.
pub trait Guarded {
    /// Returns true if the thread that has a stack at `at` has ended. False where that cannot be known.
    fn has_ended(at: u64) -> bool;

    /// The holder of the lock has ended, maybe in the middle of a change. The caller has the lock now.
    fn inherit(&mut self);
}

/// A lock and what it guards.
pub struct Lock<T> {
    word: AtomicU64,
    /// Says whether holders may end.
    mortal: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by one thread at a time.
unsafe impl<T> Sync for Lock<T> {}

/// The right to use the value.
pub struct Guard<'a, T>(&'a Lock<T>);

impl<T: Guarded> Lock<T> {
    /// Waits until it is free. Must not be called by its holder, which fails an assertion.
    #[inline]
    pub fn lock(&self) -> Guard<'_, T> {
        self.take(stack_pointer() & !MARKS)
    }

    /// [`Self::lock`] on a stack of the app's, which does not show who the holder is.
    pub fn lock_anywhere(&self) -> Guard<'_, T> {
        self.take(ANYONE)
    }

    #[inline]
    fn take(&self, mine: u64) -> Guard<'_, T> {
        if let Err(holder) = self.word.compare_exchange(FREE, mine, Acquire, Relaxed) {
            assert_other(holder);
            self.wait(mine);
        }
        stress::delay();
        Guard(self)
    }

    #[cold]
    fn wait(&self, mine: u64) {
        let take = |from, to| {
            self.word
                .compare_exchange(from, to, Acquire, Relaxed)
                .is_ok()
        };
        for _ in 0..SPINS {
            core::hint::spin_loop();
            if self.word.load(Relaxed) == FREE && take(FREE, mine) {
                return;
            }
        }
        loop {
            let seen = self.word.load(Relaxed);
            if seen == FREE {
                // Others may sleep still.
                if take(FREE, mine | WANTED) {
                    return;
                }
                continue;
            }
            let wanted = seen | WANTED;
            if seen != wanted && !take(seen, wanted) {
                continue;
            }
            let nanos = match (seen & LAST != 0, self.mortal.load(Acquire)) {
                (true, _) => Some(SOON),
                (false, true) => Some(LONG),
                (false, false) => None,
            };
            sys::futex_wait_half(&self.word, wanted as u32, nanos);
            let same = self.word.load(Relaxed) == wanted;
            if same && T::has_ended(wanted & !MARKS) && take(wanted, mine | WANTED) {
                if wanted & LAST == 0 {
                    // SAFETY: the lock was just taken, from a thread that is no more.
                    unsafe { (*self.value.get()).inherit() };
                }
                return;
            }
        }
    }
}

impl<T> Lock<T> {
    /// A free lock.
    pub const fn new(value: T) -> Self {
        Self {
            word: AtomicU64::new(FREE),
            mortal: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// The word that is 0 while nobody has it.
    pub const fn word(&self) -> &AtomicU64 {
        &self.word
    }

    /// From now on a holder may end without giving it up: another process will run in this memory.
    pub fn holders_may_end(&self) {
        self.mortal.store(true, Release);
        // Those that wait without a limit begin anew.
        sys::futex_wake_half(&self.word, i32::MAX as u32);
    }

    /// Returns true if another process may run in this memory.
    pub fn may_lose_holders(&self) -> bool {
        self.mortal.load(Relaxed)
    }

    /// Takes the lock like [`Self::lock_anywhere`], if it is free.
    pub fn lock_if_free(&self) -> Option<Guard<'_, T>> {
        let taken = self.word.compare_exchange(FREE, ANYONE, Acquire, Relaxed);
        taken.is_ok().then_some(Guard(self))
    }

    /// Gives up a hold whose guard was forgotten.
    ///
    /// # Safety
    /// The calling thread holds the lock, and uses the value no more.
    pub unsafe fn release(&self) {
        stress::delay();
        if self.word.swap(FREE, Release) & WANTED != 0 {
            sys::futex_wake_half(&self.word, 1);
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
        if stacks.holds(AppPc(self.word.load(Relaxed) & !MARKS)) {
            // SAFETY: the thread that this stack belongs to is the holder, and the caller's.
            unsafe { self.release() };
        }
    }

    /// The caller, which holds it, does so for the thread that has a stack at `at`.
    pub fn hold_on(&self, at: u64) {
        let renamed = |word| Some(at & !MARKS | word & MARKS);
        let _ = self.word.fetch_update(Relaxed, Relaxed, renamed);
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
        assert_other(self.word.load(Relaxed));
    }
}

/// The holder of a lock, if there is one, is not on the caller's stack.
#[inline]
fn assert_other(holder: u64) {
    /// Less than lies between the stacks of two threads, and more than the runtime ever uses of one.
    const STACK: u64 = 64 << 10;
    assert!(
        holder == FREE || holder.abs_diff(stack_pointer()) > STACK,
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

impl<T> Guard<'_, T> {
    /// Keeps the lock for as long as the calling thread exists, which ends its process now. The value is whole.
    pub fn keep_to_the_end(self) {
        self.0.word.fetch_or(LAST, Release);
        core::mem::forget(self);
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

    /// A counter, and how often it was left by threads that have ended.
    struct Sum {
        n: u64,
        inherited: u32,
    }

    const ZERO: Sum = Sum { n: 0, inherited: 0 };

    static ENDED: AtomicU64 = AtomicU64::new(0);

    impl Guarded for Sum {
        fn has_ended(at: u64) -> bool {
            at == ENDED.load(Relaxed)
        }

        fn inherit(&mut self) {
            self.inherited += 1;
        }
    }

    #[test]
    fn one_at_a_time() {
        static SUM: Lock<Sum> = Lock::new(ZERO);
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| (0..20_000).for_each(|_| SUM.lock().n += 1));
            }
        });
        assert_eq!(SUM.lock().n, 80_000);
        assert_eq!(SUM.lock().inherited, 0);
    }

    #[test]
    fn waiters_go_on_when_the_holder_has_ended() {
        static SUM: Lock<Sum> = Lock::new(ZERO);
        SUM.holders_may_end();
        // Of a thread that has ended: half changed, then whole.
        for (whole, inherited) in [(false, 1), (true, 1), (false, 2)] {
            std::thread::scope(|s| {
                let (tell, told) = std::sync::mpsc::channel();
                let (done, stay) = std::sync::mpsc::channel::<()>();
                s.spawn(move || {
                    let guard = SUM.lock();
                    let at = SUM.word.load(Relaxed) & !MARKS;
                    match whole {
                        true => guard.keep_to_the_end(),
                        false => core::mem::forget(guard),
                    }
                    tell.send(at).expect("somebody waits");
                    // Its stack is to be nobody else's.
                    let _ = stay.recv();
                });
                let at = told.recv().expect("it tells");
                let mut waiters = std::vec::Vec::new();
                for _ in 0..4 {
                    waiters.push(s.spawn(|| (0..1000).for_each(|_| SUM.lock().n += 1)));
                }
                ENDED.store(at, Relaxed);
                for waiter in waiters {
                    waiter.join().expect("it ends");
                }
                drop(done);
            });
            assert_eq!(SUM.lock().inherited, inherited);
        }
        assert_eq!(SUM.lock().n, 12_000);
    }

    #[test]
    fn a_slow_holder_is_waited_for() {
        static SUM: Lock<Sum> = Lock::new(ZERO);
        let guard = SUM.lock();
        std::thread::scope(|s| {
            let waits = s.spawn(|| SUM.lock().inherited);
            while SUM.word.load(Relaxed) & WANTED == 0 {
                std::thread::yield_now();
            }
            std::thread::sleep(core::time::Duration::from_nanos(2 * LONG));
            drop(guard);
            assert_eq!(waits.join().expect("it ends"), 0);
        });
    }
}
