//! Terms of a run: what the host asks of every target before it starts.

use std::sync::atomic::Ordering::{Relaxed, Release};

use trommel_compress::hash::HashKind;
use trommel_compress::interval::Shield;
use trommel_compress::{Start, Strata};
use trommel_queue::prefetch::{EVERYWHERE, MISSES, NOWHERE, Prefetch};
use trommel_queue::{COUNTS_INTERVALS, COUNTS_NOTHING, COUNTS_PATHS, COUNTS_STRATA, Control};
use trommel_tuple::KindSet;

use crate::channel::question::Question;
use crate::channel::tracing::Tracing;

/// Terms that every process of a run is given.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Events to collect.
    pub kinds: KindSet,
    /// The counts that the target keeps by itself.
    pub counts: TargetCounts,
    /// Stress options, see `docs/testing.md`.
    pub options: u64,
    /// Instructions that control lasts for at a time; 0: for good.
    pub window: u32,
    /// Below how many are passed first, of windows with marks; 0: without.
    pub window_skip: u32,
    /// Children and new programs are followed.
    pub follow: bool,
    /// Traces.
    pub tracing: Tracing,
    /// The queries of the run.
    pub question: Option<&'static Question>,
    /// Code that is not selected has no events.
    pub selects: bool,
    /// Instructions are in the dictionary, whatever kinds are collected.
    pub listed: bool,
    /// Calling contexts are counted, with a function on a path as often as this at most; 0: they are not.
    pub contexts: u32,
    /// Windows begin with a piece of the stack.
    pub stacks: bool,
    /// Prefetches.
    pub prefetch: Prefetching,
    /// Percent by which shares of values may differ that are known: such places are not profiled on. Without, all are.
    pub converge: Option<f64>,
}

/// The counts that a target keeps by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TargetCounts {
    /// Nothing: it records.
    Nothing,
    /// Executions of paths.
    Paths,
    /// Events, in the counters of a sampler; it records messages.
    Strata(Strata),
    /// Events, by a multi-hash profiler; it records candidates.
    Intervals(Shield),
}

impl TargetCounts {
    /// Writes it to the control words.
    pub(super) fn write(self, control: &Control) {
        let counters = match self {
            Self::Nothing => COUNTS_NOTHING,
            Self::Paths => COUNTS_PATHS,
            Self::Strata(_) => COUNTS_STRATA,
            Self::Intervals(_) => COUNTS_INTERVALS,
        };
        if let Self::Intervals(shield) = self {
            for (to, word) in control.setup.intervals.iter().zip(shield.words()) {
                to.store(word, Relaxed);
            }
        }
        if let Self::Strata(strata) = self {
            let to = &control.setup.strata;
            let hash = match strata.hash {
                HashKind::Paper => 0,
                HashKind::Crc => 1,
                HashKind::Multiply => 2,
            };
            to.substreams.store(strata.substreams, Relaxed);
            to.rate.store(strata.rate.into(), Relaxed);
            to.phase
                .store((strata.start == Start::Random).into(), Relaxed);
            to.hash.store(hash, Relaxed);
        }
        control.setup.counters.store(counters, Relaxed);
    }
}

/// The prefetches that a run enables.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Prefetching {
    /// Nothing.
    #[default]
    Nothing,
    /// Prefetches of what misses.
    Misses,
    /// Prefetches everywhere, of no use: a stress option.
    Everywhere,
}

impl Prefetching {
    /// Tells the target.
    pub(crate) fn write(self, to: &Prefetch) {
        let word = match self {
            Self::Nothing => NOWHERE,
            Self::Misses => MISSES,
            Self::Everywhere => EVERYWHERE,
        };
        to.wanted.store(word, Release);
    }
}
