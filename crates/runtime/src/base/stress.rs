//! Rare things made common, and failures made to happen, for tests.
//!
//! The options (`trommel_queue::options`) are read once, at the start. Without any, each of these
//! functions is one load and a branch, and they are called where the dispatcher is entered, never
//! in generated code.
#![allow(unsafe_code)] // reason: fails on purpose.

use crate::base::signals;
use core::arch::asm;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use trommel_queue::options;

use crate::base::sys;

/// Options that this module acts on; 0 without any.
static OPTIONS: AtomicU64 = AtomicU64::new(0);
static CROSSINGS: AtomicU64 = AtomicU64::new(0);
static PASSES: AtomicU64 = AtomicU64::new(0);
static RANDOM: AtomicU64 = AtomicU64::new(0);

/// A point at which the runtime may be made to fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum FailurePoint {
    /// The dispatcher, entered with the app's state in the context.
    Dispatch = options::END_DISPATCH,
    /// The translator, with the lock held and a fragment half made.
    Translate = options::END_TRANSLATE,
    /// After a system call made in the app's name.
    Syscall = options::END_SYSCALL,
    /// The signal handler.
    Deliver = options::END_DELIVER,
    /// The start in a process that has been running.
    Start = options::END_START,
}

/// Takes note of the options.
pub fn set(all: u64) {
    const ARENA: u64 = 0xf << options::ARENA_SHIFT;
    const OTHERS: u64 = (1 << options::DELAY_SHIFT) - 1;
    if all & (!OTHERS | options::BREAKPOINTS | options::COUNTERS | ARENA) != 0 {
        OPTIONS.store(all, Relaxed);
        RANDOM.store(sys::ticks() | 1, Relaxed);
    }
}

/// A number that several threads at a time make less random still.
fn random() -> u64 {
    let mut x = RANDOM.load(Relaxed);
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    RANDOM.store(x, Relaxed);
    x
}

/// Takes up to as long as asked for, one time in eight.
pub fn delay() {
    const CYCLES: u64 = 2000;
    let all = OPTIONS.load(Relaxed);
    let most = all >> options::DELAY_SHIFT & 0x7f;
    if most == 0 {
        return;
    }
    let chance = random();
    if chance >> 60 < 2 {
        let until = sys::ticks() + chance % (most * CYCLES);
        while sys::ticks() < until {
            core::hint::spin_loop();
        }
    }
}

/// Returns true if steps are reported as breakpoints.
pub fn tells_breakpoints() -> bool {
    OPTIONS.load(Relaxed) & options::BREAKPOINTS != 0
}

/// Returns whether few paths have counters.
pub fn few_counters() -> bool {
    OPTIONS.load(Relaxed) & options::COUNTERS != 0
}

/// Bytes of code in an arena, and of stubs, if that is not as much as there is room for.
pub fn arena_bytes() -> Option<u64> {
    let quarters = OPTIONS.load(Relaxed) >> options::ARENA_SHIFT & 0xf;
    (quarters != 0).then_some(quarters << 18)
}

/// Action at a crossing into the dispatcher.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Crossing {
    /// No action.
    Usual,
    /// The whole cache is flushed.
    Evict,
    /// The other variant becomes the current one.
    Turn,
    /// The process is detached.
    Leave,
}

/// Counts a crossing.
#[inline]
pub fn crossing() -> Crossing {
    let all = OPTIONS.load(Relaxed);
    if all == 0 {
        return Crossing::Usual;
    }
    let n = CROSSINGS.fetch_add(1, Relaxed) + 1;
    let end = all >> options::END_SHIFT;
    if end == n && all & options::END_MASK == options::END_LEAVE {
        Crossing::Leave
    } else if all & options::FLUSH == 0 && evicts(all, n) {
        match all & options::TURN {
            0 => Crossing::Evict,
            _ => Crossing::Turn,
        }
    } else {
        Crossing::Usual
    }
}

/// Counts a trace. Returns true if the whole cache is to be flushed.
pub fn trace_made() -> bool {
    static TRACES: AtomicU64 = AtomicU64::new(0);
    let all = OPTIONS.load(Relaxed);
    all & options::FLUSH != 0 && evicts(all, TRACES.fetch_add(1, Relaxed) + 1)
}

const fn evicts(all: u64, n: u64) -> bool {
    let every = all >> options::EVICT_SHIFT & 0xfff;
    every != 0 && n.is_multiple_of(every)
}

/// Fails, if this is where and when that was asked for.
#[inline]
pub fn fail(place: FailurePoint) {
    let all = OPTIONS.load(Relaxed);
    if all != 0 {
        fail_at(place, all);
    }
}

/// The first time.
fn once() -> bool {
    static DONE: AtomicU64 = AtomicU64::new(0);
    DONE.swap(1, Relaxed) == 0
}

#[cold]
fn fail_at(place: FailurePoint, all: u64) {
    let (how, n) = (all & options::END_MASK, all >> options::END_SHIFT);
    let starts = place == FailurePoint::Start;
    let now = if how == options::END_RANDOM {
        // In the signal handler nothing can be saved: also where it detaches a thread that has failed.
        place != FailurePoint::Deliver && !starts && n != 0 && random().is_multiple_of(n)
    } else {
        how == place as u64 && PASSES.fetch_add(1, Relaxed) + 1 >= n
    };
    // While the program blocks these, the kernel ends it for a fault. At the start the host has blocked them, and sees faults.
    let now =
        now && (starts || !signals::blocks_failures()) && (how == options::END_RANDOM || once());
    assert!(!now || n.is_multiple_of(2), "asked for");
    if now {
        // SAFETY: none: this is the failure that was asked for. Nothing is ever mapped there.
        unsafe { asm!("mov {0}, [{0}]", inout(reg) 8_u64 => _, options(nostack, readonly)) };
    }
}
