//! `CM n[interval,threshold]counters:C?P?`: a count-min sketch with a table of candidates.
//!
//! Every event increments a counter in each of n rows; the least of them is the estimate, never too
//! low. A tuple whose estimate reaches the threshold enters the table of candidates and carries its
//! last estimate. Beside multi-hash: no shielding, candidates keep feeding the counters, and their
//! counts are estimates to the end. A retained candidate (`P1`) is counted in the table alone, as it
//! is in multi-hash, from 0 and until the interval in which it does not reach the threshold.
//!
//! Sources: Cormode and Muthukrishnan, *An improved data stream summary: the count-min sketch and its
//! applications* (2005); `C1`, conservative update: Estan and Varghese (2002).

use alloc::boxed::Box;
use alloc::vec;

use trommel_tuple::{Kind, Message, Tuple};

use super::{Estimates, Sketch, count};
use crate::IntervalSpec;
use crate::hash::{Hash, HashKind, Layout};
use crate::interval::Statistics;
use crate::interval::accumulator::Accumulator;

/// The most rows: as many indices as share a word.
pub const MAX_ROWS: u32 = 4;

/// The sketch.
#[derive(Clone, Debug)]
pub struct CountMin {
    spec: IntervalSpec,
    threshold: u32,
    hash: Hash<u64>,
    counters: Box<[u32]>,
    size: usize,
    candidates: Accumulator,
    statistics: Statistics,
}

impl CountMin {
    /// The sketch of a checked spec.
    pub fn new(spec: IntervalSpec, kind: HashKind, hash_seed: u64) -> Self {
        let size = spec.counters / spec.tables;
        let layout = Layout::rows(spec.tables, size.trailing_zeros());
        Self {
            spec,
            threshold: spec.threshold_count(),
            hash: Hash::new(kind, hash_seed, layout),
            counters: vec![0; spec.counters as usize].into_boxed_slice(),
            size: size as usize,
            candidates: Accumulator::new(spec.accumulator_entries()),
            statistics: Statistics::default(),
        }
    }

    /// Counts a tuple; its estimate.
    fn count(&mut self, tuple: Tuple) -> u32 {
        let indices = self.hash.index(tuple);
        let (size, rows) = (self.size, self.spec.tables as usize);
        let at = |row: usize| row * size + (indices >> (16 * row) & 0xffff) as usize;
        let least = (0..rows).map(|row| self.counters[at(row)]).min();
        let least = least.unwrap_or(0);
        for row in 0..rows {
            let counter = &mut self.counters[at(row)];
            if !self.spec.conservative || *counter == least {
                *counter += 1;
            }
        }
        least + 1
    }
}

impl Estimates for CountMin {
    #[inline]
    fn estimate(&mut self, tuple: Tuple) -> u32 {
        self.count(tuple)
    }

    #[inline]
    fn candidates(&mut self) -> (&mut Accumulator, &mut Statistics) {
        (&mut self.candidates, &mut self.statistics)
    }

    #[inline]
    fn threshold(&self) -> u32 {
        self.threshold
    }
}

impl Sketch for CountMin {
    #[inline]
    fn event(&mut self, kind: Kind, tuple: Tuple) {
        count(self, kind, tuple);
    }

    fn end_interval(&mut self, mut report: impl FnMut(Message)) {
        let retain = self.spec.retain;
        self.candidates
            .end_interval(self.threshold, retain, |_, message| report(message));
        self.counters.fill(0);
    }

    fn statistics(&self) -> Statistics {
        self.statistics
    }
}
