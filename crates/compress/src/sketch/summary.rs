//! Space-Saving and Misra–Gries: k full tuples with counters, and nothing else.
//!
//! * Space-Saving: an event whose tuple is not inside takes the entry with the smallest count, and the
//!   count with it: count = smallest + 1. Counts are never too low, and too high by at most events ÷ k.
//! * Misra–Gries: such an event takes an entry that is at 0, or else lowers all entries by one. Counts
//!   are never too high, and too low by at most events ÷ (k + 1).
//!
//! Strategy for both: counts only ever rise by one, so entries are kept in an array by falling count,
//! cut into groups of equal count; a hit swaps the entry with the first of its group and moves it to
//! the group before, in constant time (the stream-summary of the Space-Saving paper, as an array).
//! Lowering all entries raises the line that counts as 0 instead.
//!
//! Among entries of the smallest count the last of the array goes.
//!
//! Sources: Metwally, Agrawal and El Abbadi, *Efficient computation of frequent and top-k elements in
//! data streams* (ICDT 2005); Misra and Gries, *Finding repeated elements* (1982). Reading of ours:
//! a candidate's frequency is its count.

use alloc::boxed::Box;
use alloc::vec;

use trommel_tuple::{Kind, Message, Tuple};

use super::Sketch;
use crate::index::Index;
use crate::interval::Statistics;
use crate::{Algorithm, IntervalSpec};

#[derive(Clone, Debug)]
struct Entry {
    tuple: Tuple,
    kind: Kind,
    count: u32,
    /// Position in the order.
    place: u32,
}

/// Entries with their order.
#[derive(Clone, Debug)]
pub struct Summary {
    misra_gries: bool,
    retain: bool,
    threshold: u32,
    entries: Box<[Entry]>,
    /// Entry numbers by falling count.
    order: Box<[u32]>,
    /// For the first and the last place of each group of equal counts, the other one.
    ends: Box<[u32]>,
    /// Entries in use: the first ones.
    used: usize,
    index: Index,
    /// Misra–Gries: the count that stands for 0.
    zero: u32,
    statistics: Statistics,
}

impl Summary {
    /// The sketch of a checked spec.
    pub fn new(spec: &IntervalSpec) -> Self {
        let none = Entry {
            tuple: Tuple::default(),
            kind: Kind::Edge,
            count: 0,
            place: 0,
        };
        let n = spec.counters as usize;
        Self {
            misra_gries: spec.algorithm == Algorithm::MisraGries,
            retain: spec.retain,
            threshold: spec.threshold_count(),
            entries: vec![none; n].into_boxed_slice(),
            order: vec![0; n].into_boxed_slice(),
            ends: vec![0; n].into_boxed_slice(),
            used: 0,
            index: Index::new(spec.counters),
            zero: 0,
            statistics: Statistics::default(),
        }
    }

    fn count_at(&self, place: usize) -> u32 {
        self.entries[self.order[place] as usize].count
    }

    /// Raises an entry by one: to the front of its group, and from there to the group before.
    fn raise(&mut self, entry: usize) {
        let count = self.entries[entry].count;
        let place = self.entries[entry].place as usize;
        let (first, last) = self.group(place);
        self.order.swap(place, first);
        self.entries[self.order[place] as usize].place = place as u32;
        self.entries[entry].place = first as u32;
        self.entries[entry].count = count + 1;
        // What is left of the group.
        if first < last {
            self.set_group(first + 1, last);
        }
        let joined = first > 0 && self.count_at(first - 1) == count + 1;
        let start = if joined {
            self.ends[first - 1] as usize
        } else {
            first
        };
        self.set_group(start, first);
    }

    fn set_group(&mut self, first: usize, last: usize) {
        self.ends[first] = last as u32;
        self.ends[last] = first as u32;
    }

    /// The group of a place. Only its ends know it: from inside it is looked for by count.
    fn group(&self, place: usize) -> (usize, usize) {
        let count = self.count_at(place);
        // The first place of this count, by halving.
        let (mut low, mut high) = (0, place);
        while low < high {
            let middle = (low + high) / 2;
            if self.count_at(middle) > count {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        (low, self.ends[low] as usize)
    }

    /// Puts a new entry of count `count` at the end of the order.
    fn append(&mut self, kind: Kind, tuple: Tuple, count: u32) -> usize {
        let entry = self.used;
        self.used += 1;
        self.entries[entry] = Entry {
            tuple,
            kind,
            count,
            place: entry as u32,
        };
        self.order[entry] = entry as u32;
        let joined = entry > 0 && self.count_at(entry - 1) == count;
        let first = if joined {
            self.ends[entry - 1] as usize
        } else {
            entry
        };
        self.set_group(first, entry);
        self.index.add(entry, tuple);
        entry
    }

    /// The entry at the end of the order gets another tuple and keeps its count.
    fn replace_last(&mut self, kind: Kind, tuple: Tuple) -> usize {
        let entry = self.order[self.used - 1] as usize;
        let entries = &self.entries;
        self.index.remove(entry, |n| entries[n].tuple);
        self.entries[entry].tuple = tuple;
        self.entries[entry].kind = kind;
        self.index.add(entry, tuple);
        entry
    }
}

impl Sketch for Summary {
    #[inline]
    fn event(&mut self, kind: Kind, tuple: Tuple) {
        let entries = &self.entries;
        let of = |n: usize| (entries[n].kind, entries[n].tuple);
        let entry = if let Some(entry) = self.index.find(kind, tuple, of) {
            entry
        } else if self.used < self.entries.len() {
            self.append(kind, tuple, self.zero)
        } else if self.misra_gries && self.count_at(self.used - 1) > self.zero {
            self.zero += 1;
            return;
        } else {
            self.replace_last(kind, tuple)
        };
        self.raise(entry);
    }

    fn end_interval(&mut self, mut report: impl FnMut(Message)) {
        let mut kept = 0;
        for place in 0..self.used {
            let Entry {
                tuple, kind, count, ..
            } = self.entries[self.order[place] as usize];
            let count = count - self.zero;
            if count < self.threshold {
                break;
            }
            report(Message {
                kind,
                tuple,
                count: u64::from(count),
                samples: 1,
            });
            kept += 1;
        }
        self.statistics.promotions += kept as u64;
        for entry in 0..self.used {
            let entries = &self.entries;
            self.index.remove(entry, |n| entries[n].tuple);
        }
        // Candidates are compacted to the front by number, which keeps their tuples in place.
        let (threshold, zero) = (self.threshold, self.zero);
        let used = core::mem::take(&mut self.used);
        self.zero = 0;
        for entry in 0..used {
            let e = self.entries[entry].clone();
            if self.retain && e.count - zero >= threshold {
                self.append(e.kind, e.tuple, 0);
            }
        }
    }

    fn statistics(&self) -> Statistics {
        self.statistics
    }
}
