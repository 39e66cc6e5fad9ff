//! Words and futexes that loom watches, for the models of queues; those of `trommel-queue` use this file, too.
//!
//! loom knows sequential consistency of fences only: what is `SeqCst` stands between two of them, as it does on x86-64, where
//! such a store is an exchange.

use loom::sync::atomic::Ordering::{self, Relaxed, SeqCst};
use loom::sync::atomic::{AtomicU32, AtomicU64, fence};
use loom::sync::{Condvar, Mutex};
use trommel_aware::word::Word;

/// A word of 32 bits.
pub(crate) struct Half(AtomicU32);
/// A word of 64 bits.
pub(crate) struct Whole(AtomicU64);

/// Performs an operation between fences if it is to be sequentially consistent.
fn ordered<T>(order: Ordering, act: impl FnOnce() -> T) -> T {
    let fenced = || {
        if order == SeqCst {
            fence(SeqCst);
        }
    };
    fenced();
    let done = act();
    fenced();
    done
}

macro_rules! word {
    ($word:ty, $value:ty) => {
        impl Word for $word {
            type Value = $value;

            fn load(&self, order: Ordering) -> $value {
                ordered(order, || self.0.load(order))
            }

            fn store(&self, value: $value, order: Ordering) {
                ordered(order, || self.0.store(value, order));
            }

            fn swap(&self, value: $value) -> $value {
                ordered(SeqCst, || self.0.swap(value, SeqCst))
            }

            fn fetch_add(&self, n: $value, order: Ordering) -> $value {
                ordered(order, || self.0.fetch_add(n, order))
            }

            fn replace(&self, now: $value, next: $value) -> bool {
                ordered(SeqCst, || {
                    self.0.compare_exchange(now, next, SeqCst, Relaxed).is_ok()
                })
            }

            fn raise(&self, value: $value) {
                ordered(SeqCst, || self.0.fetch_max(value, SeqCst));
            }
        }
    };
}

word!(Half, u32);
word!(Whole, u64);

/// A word.
pub(crate) fn half(n: u32) -> Half {
    Half(AtomicU32::new(n))
}

/// A word.
pub(crate) fn whole(n: u64) -> Whole {
    Whole(AtomicU64::new(n))
}

/// A word that threads sleep upon, and the kernel's part in that.
pub(crate) struct Futex {
    /// The word.
    pub(crate) word: Half,
    lock: Mutex<()>,
    woken: Condvar,
}

impl Futex {
    /// Returns a futex with the value 0.
    pub(crate) fn new() -> Self {
        Self {
            word: half(0),
            lock: Mutex::new(()),
            woken: Condvar::new(),
        }
    }

    /// Sleeps, if the word is what is expected. The kernel looks and puts to sleep in one.
    pub(crate) fn wait(&self, expected: u32) {
        let guard = self.lock.lock().expect("nobody panics");
        if self.word.load(SeqCst) == expected {
            drop(self.woken.wait(guard).expect("nobody panics"));
        }
    }

    /// Wakes all.
    pub(crate) fn wake(&self) {
        let _guard = self.lock.lock().expect("nobody panics");
        self.woken.notify_all();
    }
}

/// Tries a model in all ways.
pub(crate) fn model(check: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.max_branches = 10_000;
    builder.check(check);
}
