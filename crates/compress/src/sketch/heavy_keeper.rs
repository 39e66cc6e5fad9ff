//! `HK n[interval,threshold]cells:P?`: HeavyKeeper with a table of candidates.
//!
//! A cell is a fingerprint and a count. An event whose fingerprint is in its cell of a row counts; in
//! any other cell it makes the count decay: by one, with probability 1.08^−count, and at 0 it takes
//! the cell. So large counts hardly suffer and small ones soon make room. The estimate is the greatest
//! count among the cells with the tuple's fingerprint: too low by what decayed, too high only where
//! fingerprints of 16 bits collide. Candidates are kept as those of [`count_min`](super::count_min).
//!
//! Random numbers are drawn only where a cell may decay; above a count of 255 it never does (the
//! probability is below 3 in 10^9).
//!
//! Source: Gong and others, *HeavyKeeper: an accurate algorithm for finding top-k elephant flows*
//! (USENIX ATC 2018), the basic version; b = 1.08 is theirs.

use alloc::boxed::Box;
use alloc::vec;

use trommel_tuple::{Kind, Message, Tuple};

use super::{Estimates, Sketch, count};
use crate::hash::{Hash, HashKind, Layout};
use crate::index::mix;
use crate::interval::Statistics;
use crate::interval::accumulator::Accumulator;
use crate::random::SplitMix64;
use crate::{IntervalSpec, Seeds};

/// Counts from here on never decay.
const FIRM: usize = 256;

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    fingerprint: u16,
    count: u32,
}

/// The sketch.
#[derive(Clone, Debug)]
pub struct HeavyKeeper {
    spec: IntervalSpec,
    threshold: u32,
    hash: Hash<u64>,
    random: SplitMix64,
    /// 1.08^−count of 2^64, by count.
    decay: Box<[u64; FIRM]>,
    cells: Box<[Cell]>,
    size: usize,
    candidates: Accumulator,
    statistics: Statistics,
}

impl HeavyKeeper {
    /// The sketch of a checked spec.
    pub fn new(spec: IntervalSpec, kind: HashKind, seeds: Seeds) -> Self {
        let size = spec.counters / spec.tables;
        let layout = Layout::rows(spec.tables, size.trailing_zeros());
        let mut decay = Box::new([u64::MAX; FIRM]);
        for count in 1..FIRM {
            // Division by 1.08, to the bit on every machine.
            decay[count] = (u128::from(decay[count - 1]) * 100 / 108) as u64;
        }
        Self {
            spec,
            threshold: spec.threshold_count(),
            hash: Hash::new(kind, seeds.hash, layout),
            random: SplitMix64::new(seeds.random),
            decay,
            cells: vec![Cell::default(); spec.counters as usize].into_boxed_slice(),
            size: size as usize,
            candidates: Accumulator::new(spec.accumulator_entries()),
            statistics: Statistics::default(),
        }
    }

    /// Counts a tuple; its estimate.
    fn count(&mut self, tuple: Tuple) -> u32 {
        let indices = self.hash.index(tuple);
        let fingerprint = (mix(tuple) >> 48) as u16;
        let mut estimate = 0;
        for row in 0..self.spec.tables as usize {
            let at = row * self.size + (indices >> (16 * row) & 0xffff) as usize;
            let cell = &mut self.cells[at];
            if cell.count > 0 && cell.fingerprint != fingerprint {
                let decays = match self.decay.get(cell.count as usize) {
                    Some(limit) => self.random.draw() < *limit,
                    None => false,
                };
                if !decays {
                    continue;
                }
                cell.count -= 1;
                if cell.count > 0 {
                    continue;
                }
            }
            cell.fingerprint = fingerprint;
            cell.count += 1;
            estimate = estimate.max(cell.count);
        }
        estimate
    }
}

impl Estimates for HeavyKeeper {
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

impl Sketch for HeavyKeeper {
    #[inline]
    fn event(&mut self, kind: Kind, tuple: Tuple) {
        count(self, kind, tuple);
    }

    fn end_interval(&mut self, mut report: impl FnMut(Message)) {
        let retain = self.spec.retain;
        self.candidates
            .end_interval(self.threshold, retain, |_, message| report(message));
        self.cells.fill(Cell::default());
    }

    fn statistics(&self) -> Statistics {
        self.statistics
    }
}
