//! Work of the engine in a process, and the time it takes, as `trommel run --stats` reports it.
//!
//! A thread that holds the runtime's lock writes the counts. The host reads them at any time. Times are of the
//! working thread. Short stretches are timed by the time stamp counter, up to [`LONG`] each: longer ones mean that the
//! thread has lost the processor. Parts that may take longer are timed by the clock of the thread's CPU time.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

/// Classes of the lengths of traces: those of class `k` have from 2^k to 2^(k+1) − 1 app instructions.
pub const LENGTHS: usize = 11;

/// A part of the runtime whose time is reported separately.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Making fragments.
    Translate = 0,
    /// Making traces of paths.
    Trace = 1,
    /// Flushes of the cache, and changes to another variant of the code.
    Flush = 2,
    /// Remaining work: looking up, linking, recording paths.
    Dispatch = 3,
}

/// Cycles of the time stamp counter that a short stretch of work counts at most.
pub const LONG: u64 = 250_000;

/// Parts.
pub const PARTS: usize = 4;

/// Reason for a flush of the whole cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flush {
    /// The cache is full, or too much of it is dead.
    Full = 0,
    /// Many traces are made at once, after few: another working set.
    Phase = 1,
    /// A stress option or the program asked for it.
    Asked = 2,
}

/// Causes of flushes.
pub const FLUSHES: usize = 3;

/// The figures.
#[repr(C)]
pub struct Work {
    /// Spent in each [`Part`]: in [`Part::Trace`] and [`Part::Flush`] nanoseconds, else cycles of the time
    /// stamp counter.
    pub spent: [AtomicU64; PARTS],
    /// Flushes by cause, [`Flush`].
    pub flushes: [AtomicU64; FLUSHES],
    /// Traces by length, in [`LENGTHS`] classes; the last has all that are longer.
    pub lengths: [AtomicU64; LENGTHS],
    /// Bytes of app code in traces.
    pub trace_app_bytes: AtomicU64,
    /// Bytes of code in fragments that are no traces, stubs not included.
    pub fragment_bytes: AtomicU64,
    /// Bytes of app code in them.
    pub fragment_app_bytes: AtomicU64,
    /// Exits that were linked.
    pub links: AtomicU64,
    /// Indirect branches of traces that went elsewhere than was seen, as far as they were counted.
    pub turns_missed: AtomicU64,
    /// Indirect branches that were given up, as they go to too many places.
    pub fickle: AtomicU64,
    /// Times that the program stopped the collection of events.
    pub stops: AtomicU64,
    /// Requests of a program that knows of us.
    pub requests: AtomicU64,
}

/// Adds to a figure that one thread at a time writes to.
pub fn add(figure: &AtomicU64, n: u64) {
    figure.store(figure.load(Relaxed).wrapping_add(n), Relaxed);
}

/// The class of a length.
pub fn length_class(instructions: u64) -> usize {
    (instructions.max(1).ilog2() as usize).min(LENGTHS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_in_classes_of_powers_of_two() {
        let classes = [0, 1, 2, 3, 4, 1023, 1024, 5000].map(length_class);
        assert_eq!(classes, [0, 0, 1, 1, 2, 9, 10, 10]);
    }
}
