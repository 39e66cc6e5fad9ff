//! The accumulator table of interval profilers: few full tuples, counted exactly.
//!
//! Problem: the paper's table is fully associative hardware; software asks for every event whether its
//! tuple is inside, and most are not.
//!
//! Strategy: slots in the paper's order, an open-addressed index of them, and in front of it a filter:
//! how many slots there are for each of 4096 values of a hash that the caller has at hand anyway. It
//! stays in the first-level cache, and a zero answers with a single predictable branch. Slots are
//! taken and given back one at a time; the index is never built anew.
//!
//! Invariants: a replaceable entry is below the threshold; where the filter is 0 no slot has that
//! mark; within an interval empty slots only get fewer, and so do replaceable ones, so that the cursors to
//! the first of each never go back.
//!
//! Source: seed 001 sections 5.2 and 5.4; `AMBIGUITIES.md`, "Interval profilers".

use alloc::boxed::Box;
use alloc::vec;

use trommel_tuple::{Kind, Message, Tuple};

/// Marks of the filter.
pub(super) const MARKS: usize = 4096;

/// Slots for each mark. One that was ever at 255 stays there: nothing is ruled out by it.
pub(super) type Filter = [u8; MARKS];

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
    mark: u16,
    kind: Kind,
    used: Use,
}

/// The table.
#[derive(Clone, Debug)]
pub(super) struct Accumulator {
    slots: Box<[Slot]>,
    /// Slot number + 1 by bucket; 0 where there is none.
    index: Box<[u32]>,
    filter: Box<Filter>,
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
            mark: 0,
            kind: Kind::Edge,
            used: Use::Empty,
        };
        let buckets = (entries as usize * 4).next_power_of_two();
        Self {
            slots: vec![empty; entries as usize].into_boxed_slice(),
            index: vec![0; buckets].into_boxed_slice(),
            filter: Box::new([0; MARKS]),
            empty: 0,
            replaceable: 0,
        }
    }

    /// Which marks may be inside.
    pub(super) fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Where the search for a tuple starts.
    fn bucket(&self, tuple: Tuple) -> usize {
        let mixed = (tuple.pc.word() ^ tuple.value.rotate_left(32)).wrapping_add(tuple.value);
        let mixed = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32) as usize & (self.index.len() - 1)
    }

    /// The slot of a tuple.
    #[inline]
    pub(super) fn find(&self, kind: Kind, tuple: Tuple) -> Option<usize> {
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
    #[cold]
    #[inline(never)]
    pub(super) fn promote(&mut self, mark: usize, kind: Kind, tuple: Tuple, count: u32) -> bool {
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
            mark: mark as u16,
            kind,
            used: Use::Kept,
        };
        let mut at = self.bucket(tuple);
        while self.index[at] != 0 {
            at = (at + 1) & (self.index.len() - 1);
        }
        self.index[at] = slot as u32 + 1;
        self.filter[mark] = self.filter[mark].saturating_add(1);
        true
    }

    /// Takes a slot out of the index, moving up those behind it that searches would no longer reach.
    fn forget(&mut self, slot: usize) {
        let mask = self.index.len() - 1;
        let mut hole = self.bucket(self.slots[slot].tuple);
        while self.index[hole] != slot as u32 + 1 {
            hole = (hole + 1) & mask;
        }
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let Some(other) = (self.index[at] as usize).checked_sub(1) else {
                break;
            };
            let start = self.bucket(self.slots[other].tuple);
            if at.wrapping_sub(start) & mask >= at.wrapping_sub(hole) & mask {
                self.index[hole] = self.index[at];
                hole = at;
            }
        }
        self.index[hole] = 0;
        let marked = &mut self.filter[usize::from(self.slots[slot].mark)];
        if *marked < u8::MAX {
            *marked -= 1;
        }
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
