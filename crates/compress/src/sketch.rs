//! Sketches beyond the papers, as interval profilers: the same intervals, thresholds and messages as
//! the multi-hash profiler, so that they can be compared at the same memory.
//!
//! | spec | algorithm | file |
//! |---|---|---|
//! | `SS[10k,1%]500:P1` | Space-Saving | [`summary`] |
//! | `MG[10k,1%]500:P1` | Misra–Gries | [`summary`] |
//! | `CM4[10k,1%]2048:C1P1` | count-min with a table of candidates | [`count_min`] |
//! | `HK2[10k,1%]1024:P1` | HeavyKeeper with a table of candidates | [`heavy_keeper`] |
//! | `S8[10k,1%]1024:P1E2` | the sieve, our own | [`sieve`] |
//!
//! [`Intervals`] cuts the stream; a [`Sketch`] is what happens within an interval.
//!
//! Invariants: as for every compressor, memory is taken when it is built; retained entries (`P1`)
//! count exactly from the first event of the next interval on, and are flushed at its end if they
//! did not reach the threshold again.

pub mod count_min;
pub mod heavy_keeper;
pub mod sieve;
pub mod summary;

use trommel_tuple::{Kind, Message, Tuple};

use crate::interval::Statistics;
use crate::interval::accumulator::Accumulator;
use crate::{Compress, Sink};

/// A way to find the candidates of one interval.
pub trait Sketch {
    /// One event.
    fn event(&mut self, kind: Kind, tuple: Tuple);

    /// The end of an interval: reports the candidates and starts the next interval.
    fn end_interval(&mut self, report: impl FnMut(Message));

    /// Returns what happened since the start, but for the intervals.
    fn statistics(&self) -> Statistics;
}

/// A sketch over one interval of events after another.
#[derive(Clone, Debug)]
pub struct Intervals<X> {
    sketch: X,
    interval: u32,
    seen: u32,
    intervals: u64,
}

impl<X: Sketch> Intervals<X> {
    /// A sketch over intervals of so many events.
    pub const fn new(sketch: X, interval: u32) -> Self {
        Self {
            sketch,
            interval,
            seen: 0,
            intervals: 0,
        }
    }

    /// Events to come before the current interval ends.
    pub const fn interval_left(&self) -> u64 {
        (self.interval - self.seen) as u64
    }

    /// Returns what happened since the start.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            intervals: self.intervals,
            ..self.sketch.statistics()
        }
    }
}

impl<X: Sketch> Compress for Intervals<X> {
    #[inline(always)]
    fn event<S: Sink + ?Sized>(&mut self, kind: Kind, tuple: Tuple, out: &mut S) {
        self.sketch.event(kind, tuple);
        self.seen += 1;
        if self.seen == self.interval {
            self.sketch.end_interval(|message| out.message(message));
            self.seen = 0;
            self.intervals += 1;
            out.interval_end(self.interval.into());
        }
    }

    fn held(&self) -> Option<u64> {
        None
    }
}

/// A sketch that estimates a tuple's count, before a table of candidates.
trait Estimates {
    /// Takes note of an event; the count of its tuple, as far as the sketch can tell.
    fn estimate(&mut self, tuple: Tuple) -> u32;

    /// The table, and its figures.
    fn candidates(&mut self) -> (&mut Accumulator, &mut Statistics);

    /// The count that makes a candidate.
    fn threshold(&self) -> u32;
}

/// One event: candidates of the interval before count themselves, others are as high as estimated.
#[inline]
fn count(sketch: &mut impl Estimates, kind: Kind, tuple: Tuple) {
    let threshold = sketch.threshold();
    let (candidates, _) = sketch.candidates();
    let found = candidates.find(kind, tuple);
    if let Some(slot) = found
        && candidates.is_exact(slot)
    {
        candidates.count(slot, threshold);
        return;
    }
    let estimate = sketch.estimate(tuple);
    let (candidates, statistics) = sketch.candidates();
    if let Some(slot) = found {
        candidates.raise_to(slot, estimate);
    } else if estimate >= threshold {
        if candidates.promote(0, kind, tuple, estimate).is_some() {
            statistics.promotions += 1;
        } else {
            statistics.accumulator_full += 1;
        }
    }
}
