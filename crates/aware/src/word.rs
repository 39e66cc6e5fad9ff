//! Numbers that several threads use at a time, as the protocols of queues use them.
//!
//! The code that passes messages (`crate::ring`, and between target and host `trommel_queue::protocol`) knows atomics by this
//! trait only, so that it can be executed with those of a model checker.

use core::sync::atomic::Ordering::{self, Relaxed, SeqCst};
use core::sync::atomic::{AtomicU32, AtomicU64};

/// A number that several threads use at a time.
pub trait Word {
    /// Its values.
    type Value: Copy + Ord;
    /// Reads it.
    fn load(&self, order: Ordering) -> Self::Value;
    /// Writes it.
    fn store(&self, value: Self::Value, order: Ordering);
    /// Writes it, before all that follows. Returns what it was.
    fn swap(&self, value: Self::Value) -> Self::Value;
    /// Adds to it. Returns what it was.
    fn fetch_add(&self, n: Self::Value, order: Ordering) -> Self::Value;
    /// Replaces `now` by `next`. Returns true if it was `now`.
    fn replace(&self, now: Self::Value, next: Self::Value) -> bool;
    /// Makes it at least as great as a value.
    fn raise(&self, value: Self::Value);
}

macro_rules! word {
    ($atomic:ty, $value:ty) => {
        impl Word for $atomic {
            type Value = $value;

            #[inline]
            fn load(&self, order: Ordering) -> $value {
                self.load(order)
            }

            #[inline]
            fn store(&self, value: $value, order: Ordering) {
                self.store(value, order);
            }

            #[inline]
            fn swap(&self, value: $value) -> $value {
                self.swap(value, SeqCst)
            }

            #[inline]
            fn fetch_add(&self, n: $value, order: Ordering) -> $value {
                self.fetch_add(n, order)
            }

            #[inline]
            fn replace(&self, now: $value, next: $value) -> bool {
                self.compare_exchange(now, next, SeqCst, Relaxed).is_ok()
            }

            #[inline]
            fn raise(&self, value: $value) {
                self.fetch_max(value, SeqCst);
            }
        }
    };
}

word!(AtomicU32, u32);
word!(AtomicU64, u64);
