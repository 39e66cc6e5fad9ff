//! The accumulator table of interval profilers: few full tuples, counted exactly.
//!
//! Problem: the paper's table is fully associative hardware; software asks for every event whether its
//! tuple is inside, and most are not.
//!
//! Strategy: slots in the paper's order, an open-addressed index of them, and before it a filter:
//! how many slots there are for each of 4096 values of a hash that the caller has at hand anyway. It
//! stays in the first-level cache, and a zero answers with a single predictable branch. Slots are
//! taken and given back one at a time; the index is never built anew.
//!
//! Invariants: a replaceable entry is below the threshold; where the filter is 0 no slot has that
//! mark; within an interval empty slots only get fewer, and so do replaceable ones, so that the cursors to
//! the first of each never go back.
//!
//! Source: *Multi-Hash*, sections 5.2 and 5.4; `docs/papers.md`, "Interval profilers".

use alloc::boxed::Box;
use alloc::vec;

use trommel_tuple::{Kind, Message, Tuple};

use super::Turnover;
use crate::index::Index;

/// Marks of the filter.
pub(crate) const MARKS: usize = 4096;

/// Slots for each mark. One that was ever at 255 stays there: nothing is ruled out by it.
pub(crate) type Filter = [u8; MARKS];

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
    /// Retained from the interval before.
    exact: bool,
    kind: Kind,
    used: Use,
}

/// The table.
#[derive(Clone, Debug)]
pub(crate) struct Accumulator {
    slots: Box<[Slot]>,
    index: Index,
    filter: Box<Filter>,
    /// No slot before this one is empty.
    empty: usize,
    /// No slot before this one is replaceable.
    replaceable: usize,
    /// Candidates of the interval before.
    before: u32,
}

impl Accumulator {
    pub(crate) fn new(entries: u32) -> Self {
        let empty = Slot {
            tuple: Tuple::default(),
            count: 0,
            mark: 0,
            exact: false,
            kind: Kind::Edge,
            used: Use::Empty,
        };
        Self {
            slots: vec![empty; entries as usize].into_boxed_slice(),
            index: Index::new(entries),
            filter: Box::new([0; MARKS]),
            empty: 0,
            replaceable: 0,
            before: 0,
        }
    }

    /// Returns which marks may be inside.
    pub(crate) fn filter(&self) -> &Filter {
        &self.filter
    }

    /// The slot of a tuple.
    #[inline]
    pub(crate) fn find(&self, kind: Kind, tuple: Tuple) -> Option<usize> {
        let slots = &self.slots;
        let of = |slot: usize| (slots[slot].kind, slots[slot].tuple);
        self.index.find(kind, tuple, of)
    }

    /// One more event of a slot's tuple.
    #[inline]
    pub(crate) fn count(&mut self, slot: usize, threshold: u32) {
        let slot = &mut self.slots[slot];
        slot.count += 1;
        if slot.count >= threshold {
            slot.used = Use::Kept;
        }
    }

    /// Returns true if a slot's tuple has been inside since before the interval: its count is exact.
    pub(crate) fn is_exact(&self, slot: usize) -> bool {
        self.slots[slot].exact
    }

    /// A better estimate for a tuple that was promoted in this interval; lower ones are ignored.
    pub(crate) fn raise_to(&mut self, slot: usize, count: u32) {
        let slot = &mut self.slots[slot];
        slot.count = slot.count.max(count);
    }

    /// Returns the number of slots.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns true if a slot has a tuple.
    pub(crate) fn is_used(&self, slot: usize) -> bool {
        self.slots[slot].used != Use::Empty
    }

    /// Events of a slot's tuple in this interval, which another has counted.
    pub(crate) fn has_counted(&mut self, slot: usize, count: u32, threshold: u32) {
        let slot = &mut self.slots[slot];
        slot.count = count;
        if count >= threshold {
            slot.used = Use::Kept;
        }
    }

    /// Returns true if there is no empty slot.
    pub(crate) fn is_full(&mut self) -> bool {
        self.empty = self.next(self.empty, Use::Empty);
        self.empty == self.slots.len()
    }

    fn next(&self, from: usize, wanted: Use) -> usize {
        let found = self.slots[from..].iter().position(|s| s.used == wanted);
        found.map_or(self.slots.len(), |n| from + n)
    }

    /// Gives a new tuple a slot that is not replaceable: an empty one, else the first replaceable
    /// one. `None` when there is neither.
    #[cold]
    #[inline(never)]
    pub(crate) fn promote(
        &mut self,
        mark: usize,
        kind: Kind,
        tuple: Tuple,
        count: u32,
    ) -> Option<usize> {
        let slot = if !self.is_full() {
            self.empty
        } else {
            self.replaceable = self.next(self.replaceable, Use::Replaceable);
            if self.replaceable == self.slots.len() {
                return None;
            }
            self.forget(self.replaceable);
            self.replaceable
        };
        self.slots[slot] = Slot {
            tuple,
            count,
            mark: mark as u16,
            exact: false,
            kind,
            used: Use::Kept,
        };
        self.index.add(slot, tuple);
        self.filter[mark] = self.filter[mark].saturating_add(1);
        Some(slot)
    }

    fn forget(&mut self, slot: usize) {
        let slots = &self.slots;
        self.index.remove(slot, |n| slots[n].tuple);
        let marked = &mut self.filter[usize::from(self.slots[slot].mark)];
        if *marked < u8::MAX {
            *marked -= 1;
        }
    }

    /// Reports the entries that reached the threshold, with their slots and in table order, and keeps them at 0 and
    /// replaceable if they are to be retained. All others are flushed. Returns how many were candidates.
    pub(crate) fn end_interval(
        &mut self,
        threshold: u32,
        retain: bool,
        mut report: impl FnMut(usize, Message),
    ) -> Turnover {
        let mut turnover = Turnover {
            before: self.before,
            ..Turnover::default()
        };
        for n in 0..self.slots.len() {
            let slot = &self.slots[n];
            let candidate = slot.used == Use::Kept && slot.count >= threshold;
            if candidate {
                turnover.now += 1;
                turnover.both += u32::from(slot.exact);
                let message = Message {
                    kind: slot.kind,
                    tuple: slot.tuple,
                    count: u64::from(slot.count),
                    samples: 1,
                };
                report(n, message);
            }
            if candidate && retain {
                self.slots[n].used = Use::Replaceable;
                self.slots[n].exact = true;
            } else if slot.used != Use::Empty {
                self.forget(n);
                self.slots[n].used = Use::Empty;
            }
            self.slots[n].count = 0;
        }
        self.empty = 0;
        self.replaceable = 0;
        self.before = turnover.now;
        turnover
    }
}
