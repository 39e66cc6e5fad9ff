//! `S w[interval,threshold]cells:P?E?`: the sieve, our own combination.
//!
//! Problem: multi-hash spends its memory on counters that cannot tell tuples apart, and needs four of
//! them for each event; Space-Saving can tell them apart, and spends 14 bytes on tuples of which nearly
//! all are noise.
//!
//! Strategy: a tuple costs its full size only when it has shown that it is worth it.
//! * Cold: sets of w cells, each a 16-bit tag and a count: Space-Saving within the set, by tag. A hit
//!   counts; a miss takes the cell with the smallest count (the first of equals) and goes on from its
//!   count. A set keeps what is frequent and loses what is rare, as the tagged stratified sampler does
//!   with its miss counters, at a fraction of a full entry's bytes.
//! * Hot: the accumulator of multi-hash. A tuple enters at the threshold divided by `E`, with its
//!   cell's count, and is counted exactly from then on; its cell is emptied. It is a candidate if it
//!   has reached the threshold at the end: a false positive of the cells is found out by the exact part.
//!   What the accumulator holds is shielded from the cells; retaining (`P1`) is as in multi-hash.
//!
//! From the papers: hash-split sets, partial tags and inherited counts (*Stratified Sampling*, section 4), intervals,
//! accumulator, shielding and retaining (*Multi-Hash*, section 5); from Space-Saving the rule of replacement.
//!
//! Invariants: Σ counts of a set's cells + counts taken to the accumulator = events that reached the set;
//! a cell's count is at least the events of its tuple since it was last taken, and too high by at most
//! the count it was taken with.

use alloc::boxed::Box;
use alloc::vec;

use trommel_tuple::{Kind, Message, Tuple};

use super::Sketch;
use crate::IntervalSpec;
use crate::hash::{Hash, HashKind, Layout};
use crate::index::mix;
use crate::interval::Statistics;
use crate::interval::accumulator::Accumulator;

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    tag: u16,
    count: u32,
}

/// The sketch.
#[derive(Clone, Debug)]
pub struct Sieve {
    spec: IntervalSpec,
    threshold: u32,
    early: u32,
    hash: Hash<u32>,
    /// Set after set.
    cells: Box<[Cell]>,
    hot: Accumulator,
    statistics: Statistics,
}

impl Sieve {
    /// The sketch of a checked spec.
    pub fn new(spec: IntervalSpec, kind: HashKind, hash_seed: u64) -> Self {
        let sets = spec.counters / spec.tables;
        Self {
            spec,
            threshold: spec.threshold_count(),
            early: spec.promotion_count(),
            hash: Hash::new(kind, hash_seed, Layout::single(sets.trailing_zeros())),
            cells: vec![Cell::default(); spec.counters as usize].into_boxed_slice(),
            hot: Accumulator::new(spec.accumulator_entries()),
            statistics: Statistics::default(),
        }
    }
}

impl Sketch for Sieve {
    #[inline]
    fn event(&mut self, kind: Kind, tuple: Tuple) {
        if let Some(slot) = self.hot.find(kind, tuple) {
            self.hot.count(slot, self.threshold);
            return;
        }
        let tag = (mix(tuple) >> 48) as u16;
        let ways = self.spec.tables as usize;
        let set = self.hash.index(tuple) as usize * ways;
        let set = &mut self.cells[set..set + ways];
        let hit = set.iter().position(|c| c.count > 0 && c.tag == tag);
        let least = || (0..ways).min_by_key(|way| set[*way].count);
        let Some(way) = hit.or_else(least) else {
            return;
        };
        let cell = &mut set[way];
        cell.tag = tag;
        cell.count += 1;
        if cell.count < self.early {
            return;
        }
        if self.hot.promote(0, kind, tuple, cell.count).is_some() {
            self.statistics.promotions += 1;
            *cell = Cell::default();
        } else {
            self.statistics.accumulator_full += 1;
        }
    }

    fn end_interval(&mut self, mut report: impl FnMut(Message)) {
        let retain = self.spec.retain;
        self.hot
            .end_interval(self.threshold, retain, |_, message| report(message));
        self.cells.fill(Cell::default());
    }

    fn statistics(&self) -> Statistics {
        self.statistics
    }
}
