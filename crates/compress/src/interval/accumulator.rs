//! The accumulator table of interval profilers: few full tuples, counted exactly.
//!
//! Problem: the paper's table is fully associative hardware; software asks for every event whether its
//! tuple is inside, and most are not.
//!
//! Strategy: slots in the paper's order, an open-addressed index of them, and in front of it one byte
//! for each bucket of the index that says whether the bucket is in use. The bytes of a table of 100
//! entries stay in the first-level cache, and a clear one answers with a single predictable branch.
//! Slots are taken and given back one at a time; the index is never built anew.
//!
//! Invariants: a replaceable entry is below the threshold; `used[b] != 0` exactly where `index[b] != 0`;
//! within an interval empty slots only get fewer, and so do replaceable ones, so that the cursors to
//! the first of each never go back.
//!
//! Source: seed 001 sections 5.2 and 5.4; `AMBIGUITIES.md`, "Interval profilers".

use alloc::boxed::Box;
use alloc::vec;

use trommel_tuple::{Kind, Message, Tuple};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Use {
    Empty,
    Replaceable,
    Kept,
}

#[derive(Clone, Debug)]
struct Slot {
    tuple: Tuple,
    count: u32,
    /// Where the search for it starts.
    bucket: u32,
    kind: Kind,
    used: Use,
}

/// The table.
#[derive(Clone, Debug)]
pub(super) struct Accumulator {
    slots: Box<[Slot]>,
    /// Slot number + 1 by bucket; 0 where there is none.
    index: Box<[u32]>,
    used: Box<[u8]>,
    /// No slot before this one is empty.
    empty: usize,
    /// No slot before this one is replaceable.
    replaceable: usize,
}

impl Accumulator {
    pub(super) fn new(entries: u32) -> Self {
        let empty = Slot {
            tuple: Tuple::default(),
            count: 0,
            bucket: 0,
            kind: Kind::Edge,
            used: Use::Empty,
        };
        let buckets = (entries as usize * 8).next_power_of_two().max(2048);
        Self {
            slots: vec![empty; entries as usize].into_boxed_slice(),
            index: vec![0; buckets].into_boxed_slice(),
            used: vec![0; buckets].into_boxed_slice(),
            empty: 0,
            replaceable: 0,
        }
    }

    /// The bucket of a tuple, by a hash whose lower bits are good ones.
    #[inline(always)]
    pub(super) fn bucket(&self, hash: u64) -> usize {
        hash as usize & (self.used.len() - 1)
    }

    /// Whether a tuple of this bucket may be inside.
    #[inline(always)]
    pub(super) fn may_hold(&self, bucket: usize) -> bool {
        self.used[bucket] != 0
    }

    /// The slot of a tuple.
    #[inline]
    pub(super) fn find(&self, bucket: usize, kind: Kind, tuple: Tuple) -> Option<usize> {
        let mut at = bucket;
        loop {
            let slot = (self.index[at] as usize).checked_sub(1)?;
            let s = &self.slots[slot];
            if s.tuple == tuple && s.kind == kind {
                return Some(slot);
            }
            at = (at + 1) & (self.index.len() - 1);
        }
    }

    /// One more event of a slot's tuple.
    #[inline]
    pub(super) fn count(&mut self, slot: usize, threshold: u32) {
        let slot = &mut self.slots[slot];
        slot.count += 1;
        if slot.count >= threshold {
            slot.used = Use::Kept;
        }
    }

    /// Gives a new tuple a slot that is not replaceable: an empty one, else the first replaceable
    /// one. `false` when there is neither.
    pub(super) fn promote(&mut self, bucket: usize, kind: Kind, tuple: Tuple, count: u32) -> bool {
        let next = |from: usize, wanted| {
            let found = self.slots[from..].iter().position(|s| s.used == wanted);
            found.map_or(self.slots.len(), |n| from + n)
        };
        self.empty = next(self.empty, Use::Empty);
        let slot = if self.empty < self.slots.len() {
            self.empty
        } else {
            self.replaceable = next(self.replaceable, Use::Replaceable);
            if self.replaceable == self.slots.len() {
                return false;
            }
            self.forget(self.replaceable);
            self.replaceable
        };
        self.slots[slot] = Slot {
            tuple,
            count,
            bucket: bucket as u32,
            kind,
            used: Use::Kept,
        };
        let mut at = bucket;
        while self.index[at] != 0 {
            at = (at + 1) & (self.index.len() - 1);
        }
        self.index[at] = slot as u32 + 1;
        self.used[at] = 1;
        true
    }

    /// Takes a slot out of the index, moving up those behind it that searches would no longer reach.
    fn forget(&mut self, slot: usize) {
        let mask = self.index.len() - 1;
        let mut hole = self.slots[slot].bucket as usize;
        while self.index[hole] != slot as u32 + 1 {
            hole = (hole + 1) & mask;
        }
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let Some(other) = (self.index[at] as usize).checked_sub(1) else {
                break;
            };
            let start = self.slots[other].bucket as usize;
            if at.wrapping_sub(start) & mask >= at.wrapping_sub(hole) & mask {
                self.index[hole] = self.index[at];
                hole = at;
            }
        }
        self.index[hole] = 0;
        self.used[hole] = 0;
    }

    /// Reports the entries that reached the threshold, in table order, and keeps them at 0 and
    /// replaceable if they are to be retained. All others are flushed.
    pub(super) fn end_interval(
        &mut self,
        threshold: u32,
        retain: bool,
        mut report: impl FnMut(Message),
    ) {
        for n in 0..self.slots.len() {
            let slot = &self.slots[n];
            let candidate = slot.used == Use::Kept && slot.count >= threshold;
            if candidate {
                report(Message {
                    kind: slot.kind,
                    tuple: slot.tuple,
                    count: u64::from(slot.count),
                    samples: 1,
                });
            }
            if candidate && retain {
                self.slots[n].used = Use::Replaceable;
            } else if slot.used != Use::Empty {
                self.forget(n);
                self.slots[n].used = Use::Empty;
            }
            self.slots[n].count = 0;
        }
        self.empty = 0;
        self.replaceable = 0;
    }
}
