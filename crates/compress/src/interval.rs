//! `M n[interval,threshold]counters:C?R?P?`: the multi-hash interval profiler.
//!
//! Problem: find the tuples that make up at least a threshold share of each interval of events, with
//! a few KB of counters and a small table of full tuples.
//!
//! Strategy: n tables of counters, each with its own hash. An event increments its n counters; when
//! all of them have reached the threshold T its tuple is *promoted* to the accumulator table, which
//! counts it exactly from then on and *shields* the counters from it. A tuple that meets a hot one
//! in one table meets others in the other tables, so false positives need n collisions at once.
//! * `C1` conservative update: only the smallest of the n counters are incremented;
//! * `R1` resetting: the counters of a promoted tuple start again at 0;
//! * `P1` retaining: candidates stay in the accumulator through the next interval, at 0 and
//!   replaceable until they reach T again. `P0` empties it.
//!
//! The accumulator is searched for every event: an open-addressed index of its slots by a cheap
//! multiplicative hash stands before it. Slots change at promotions and interval ends only, and the
//! index is then rebuilt where a slot was taken from another tuple.
//!
//! Invariants: at most 100 / threshold% tuples can reach T in an interval, so an accumulator of that
//! size overflows only by false positives; a replaceable entry is below T, any other at or above it.
//!
//! Source: seed 001 sections 5.1, 5.2, 5.4, 6.1; conservative update after Estan and Varghese.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use trommel_tuple::{Kind, Message, Tuple};

use crate::hash::Folded;
use crate::{Compress, IntervalSpec, Sink};

/// The most tables.
pub const MAX_TABLES: u32 = 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Use {
    Empty,
    Replaceable,
    Candidate,
}

#[derive(Clone, Debug)]
struct Slot {
    tuple: Tuple,
    kind: Kind,
    used: Use,
    count: u32,
}

/// What happened since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// Complete intervals.
    pub intervals: u64,
    /// Tuples put into the accumulator.
    pub promotions: u64,
    /// Events whose tuple was to be promoted and found no place.
    pub accumulator_full: u64,
}

/// The profiler.
#[derive(Clone, Debug)]
pub struct MultiHash {
    spec: IntervalSpec,
    threshold: u32,
    /// Groups of hash functions side by side in one word.
    hashes: Vec<Folded<u64>>,
    lane_bits: u32,
    /// Table after table.
    counters: Box<[u32]>,
    size: usize,
    slots: Box<[Slot]>,
    /// Slot number + 1 by hash of the tuple; 0 where there is none.
    index: Box<[u32]>,
    /// Events in the current interval.
    seen: u64,
    statistics: Statistics,
}

impl MultiHash {
    /// The profiler of a checked spec.
    pub fn new(spec: IntervalSpec, hash_seed: u64) -> Self {
        let size = spec.counters / spec.tables;
        assert!(size.is_power_of_two(), "an index has whole bits");
        let bits = size.trailing_zeros();
        let lane_bits = if bits <= 16 { 16 } else { 32 };
        let lanes = 64 / lane_bits;
        let hashes = (0..spec.tables)
            .step_by(lanes as usize)
            .map(|first| {
                let count = lanes.min(spec.tables - first);
                Folded::new(hash_seed, first, count, lane_bits, bits)
            })
            .collect();
        let empty = Slot {
            tuple: Tuple::default(),
            kind: Kind::Edge,
            used: Use::Empty,
            count: 0,
        };
        let slots = spec.accumulator_entries() as usize;
        Self {
            spec,
            threshold: spec.threshold_count(),
            hashes,
            lane_bits,
            counters: vec![0; spec.counters as usize].into_boxed_slice(),
            size: size as usize,
            slots: vec![empty; slots].into_boxed_slice(),
            index: vec![0; (slots * 4).next_power_of_two()].into_boxed_slice(),
            seen: 0,
            statistics: Statistics::default(),
        }
    }

    /// What happened since the start.
    pub const fn statistics(&self) -> Statistics {
        self.statistics
    }

    #[inline]
    fn bucket(&self, tuple: Tuple) -> usize {
        let mixed = (tuple.pc.word() ^ tuple.value.rotate_left(32))
            .wrapping_add(tuple.value)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32) as usize & (self.index.len() - 1)
    }

    #[inline(always)]
    fn find(&self, kind: Kind, tuple: Tuple) -> Option<usize> {
        let mut at = self.bucket(tuple);
        loop {
            let slot = (self.index[at] as usize).checked_sub(1)?;
            let s = &self.slots[slot];
            if s.tuple == tuple && s.kind == kind {
                return Some(slot);
            }
            at = (at + 1) & (self.index.len() - 1);
        }
    }

    fn insert_into_index(&mut self, slot: usize) {
        let mut at = self.bucket(self.slots[slot].tuple);
        while self.index[at] != 0 {
            at = (at + 1) & (self.index.len() - 1);
        }
        self.index[at] = slot as u32 + 1;
    }

    fn rebuild_index(&mut self) {
        self.index.fill(0);
        for slot in 0..self.slots.len() {
            if self.slots[slot].used != Use::Empty {
                self.insert_into_index(slot);
            }
        }
    }

    /// Counts the event in its counters; whether all of them have reached the threshold. `at`
    /// receives the counters' positions.
    fn count(&mut self, tuple: Tuple, at: &mut [usize]) -> bool {
        let lanes = (64 / self.lane_bits) as usize;
        let mask = (1u64 << self.lane_bits) - 1;
        let mut base = 0;
        for (hash, group) in self.hashes.iter_mut().zip(at.chunks_mut(lanes)) {
            let mut indices = hash.index(tuple);
            for position in group {
                *position = base + (indices & mask) as usize;
                base += self.size;
                indices >>= self.lane_bits;
            }
        }
        let mut least = u32::MAX;
        for position in &*at {
            least = least.min(self.counters[*position]);
        }
        for position in &*at {
            let counter = &mut self.counters[*position];
            if !self.spec.conservative || *counter == least {
                *counter += 1;
            }
        }
        least + 1 >= self.threshold
    }

    /// [`count`](Self::count) for `N` tables whose indices come from one look-up: no loop is left.
    #[inline(always)]
    fn count_fixed<const N: usize>(&mut self, tuple: Tuple, at: &mut [usize]) -> bool {
        let indices = self.hashes[0].index(tuple);
        let mut least = u32::MAX;
        let mut values = [0; N];
        for j in 0..N {
            at[j] = j * self.size + (indices >> (16 * j) & 0xffff) as usize;
            values[j] = self.counters[at[j]];
            least = least.min(values[j]);
        }
        for j in 0..N {
            let incremented = !self.spec.conservative | (values[j] == least);
            self.counters[at[j]] = values[j] + u32::from(incremented);
        }
        least + 1 >= self.threshold
    }

    /// Gives the tuple a slot: an empty one, else the first replaceable one.
    #[cold]
    fn promote(&mut self, kind: Kind, tuple: Tuple, at: &[usize]) {
        let with = |wanted| self.slots.iter().position(|s| s.used == wanted);
        let Some(slot) = with(Use::Empty).or_else(|| with(Use::Replaceable)) else {
            self.statistics.accumulator_full += 1;
            return;
        };
        let taken = core::mem::replace(
            &mut self.slots[slot],
            Slot {
                tuple,
                kind,
                used: Use::Candidate,
                count: self.threshold,
            },
        );
        if taken.used == Use::Empty {
            self.insert_into_index(slot);
        } else {
            self.rebuild_index();
        }
        self.statistics.promotions += 1;
        if self.spec.reset {
            for position in at {
                self.counters[*position] = 0;
            }
        }
    }

    #[cold]
    fn end_interval<S: Sink + ?Sized>(&mut self, out: &mut S) {
        for slot in &mut self.slots {
            if slot.used == Use::Candidate {
                out.message(Message {
                    kind: slot.kind,
                    tuple: slot.tuple,
                    count: u64::from(slot.count),
                    samples: 1,
                });
            }
            slot.used = if slot.used == Use::Candidate && self.spec.retain {
                Use::Replaceable
            } else {
                Use::Empty
            };
            slot.count = 0;
        }
        self.rebuild_index();
        self.counters.fill(0);
        self.seen = 0;
        self.statistics.intervals += 1;
        out.interval_end();
    }
}

impl Compress for MultiHash {
    #[inline(always)]
    fn event<S: Sink + ?Sized>(&mut self, kind: Kind, tuple: Tuple, out: &mut S) {
        if let Some(slot) = self.find(kind, tuple) {
            let slot = &mut self.slots[slot];
            slot.count += 1;
            if slot.count >= self.threshold {
                slot.used = Use::Candidate;
            }
        } else {
            let mut at = [0; MAX_TABLES as usize];
            let at = &mut at[..self.spec.tables as usize];
            let reached = match (self.lane_bits, at.len()) {
                (16, 1) => self.count_fixed::<1>(tuple, at),
                (16, 2) => self.count_fixed::<2>(tuple, at),
                (16, 4) => self.count_fixed::<4>(tuple, at),
                _ => self.count(tuple, at),
            };
            if reached {
                self.promote(kind, tuple, at);
            }
        }
        self.seen += 1;
        if self.seen == u64::from(self.spec.interval) {
            self.end_interval(out);
        }
    }

    fn held(&self) -> Option<u64> {
        None
    }
}
