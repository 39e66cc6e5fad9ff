//! Exact counting.
//!
//! # Strategy
//! What a path number implies needs no look at its events: the path is counted, and its static
//! events get that count in the end. Only run-time values are counted one by one, in one small hash
//! table for each place that has them.
//!
//! Whether a value is the one before, or was seen lately, is a branch that cannot be foretold, and costs more than the
//! counting. And places with many values make tables larger than the caches, where each value would wait for memory. So
//! the values of a busy place are kept in a buffer of its own, and counted when it is full: all are prefetched, then all are
//! counted, with nothing else in between. Places that were seen a few times only have no buffer.
//!
//! All tables have a budget. Where a table would grow beyond it, the values that were counted least are dropped,
//! of all places that have many: once, then at most twice, four times … until half of the memory is free. This is
//! the lossy counting of Manku and Motwani (VLDB 2002), with periods set by memory in place of events: what a value is
//! counted too low by is at most the sum of the limits at which values were dropped.
//!
//! # Invariants
//! * A table is at most half full, so that a search ends.
//! * What a place has seen is its table, its current run, and its buffer.
// Prefetching, and asking for huge pages, take a pointer.
#![allow(unsafe_code)]

use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use std::rc::Rc;

use crate::memory::Budget;

/// The table for values of places that are not selected.
pub const UNSELECTED: u32 = 0;

/// Values in a buffer.
const BUFFER: usize = 64;
/// Slots of a table that is likely to be in the caches.
const CACHED: usize = 256;
/// Events after which a place has a buffer.
const BUSY: u32 = 64;
const SMALLEST: usize = 4;
/// Slots above which a table doubles when it grows, and below which it is quadrupled: less memory, less time.
const LARGE: usize = 1 << 14;
/// Slots of the smallest table of which values are dropped.
const PRUNED: usize = 64;
/// A process that has less than this part of the budget may exceed it: there is little to gain.
const SHARE: u64 = 32;
const SLOT: u64 = size_of::<(u64, u64)>() as u64;

/// Counts of the values seen at one place. Open addressing.
#[derive(Clone, Debug, Default)]
struct ValueCounts {
    /// Values to be counted, the first `filled`; or no room for any.
    buffer: Box<[u64]>,
    /// How often each of them, once that was not always 1.
    times: Box<[u64]>,
    filled: u32,
    /// Without a buffer: events so far.
    seen: u32,
    /// Without a buffer: the value seen last, and how often without another between.
    last: u64,
    run: u64,
    /// (value, count); a count of 0 is an empty slot. None, or a power of two of them.
    slots: Vec<(u64, u64)>,
    used: usize,
}

impl ValueCounts {
    fn hash(value: u64) -> usize {
        (value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
    }

    fn home(&self, value: u64) -> usize {
        Self::hash(value) & self.slots.len().wrapping_sub(1)
    }

    fn prefetch(&self, value: u64) {
        let slot = self.slots.as_ptr().wrapping_add(self.home(value));
        // SAFETY: a prefetch has no effect but on the caches, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(slot.cast()) };
    }

    fn find(&self, value: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut n = self.home(value);
        while self.slots[n].0 != value && self.slots[n].1 != 0 {
            n = (n + 1) & mask;
        }
        n
    }

    /// Returns whether the table is to grow now.
    fn add(&mut self, value: u64, count: u64) -> bool {
        if self.slots.is_empty() {
            self.slots = slots(SMALLEST);
        }
        let n = self.find(value);
        let slot = &mut self.slots[n];
        let new = slot.1 == 0;
        slot.0 = value;
        slot.1 += count;
        self.used += usize::from(new);
        new && self.is_full()
    }

    /// Counts values with how often they were seen, until the table is to grow. How many values they were.
    #[inline(always)]
    fn add_some(&mut self, values: impl Iterator<Item = (u64, u64)>) -> usize {
        let slots = &mut self.slots[..];
        let mask = slots.len() - 1;
        let most = slots.len() / 2;
        let mut number = 0;
        for (n, (value, times)) in values.enumerate() {
            number = n + 1;
            let mut at = Self::hash(value) & mask;
            loop {
                let slot = &mut slots[at & mask];
                if slot.0 == value && slot.1 != 0 {
                    slot.1 += times;
                    break;
                }
                if slot.1 == 0 {
                    *slot = (value, times);
                    self.used += 1;
                    if self.used > most {
                        return n + 1;
                    }
                    break;
                }
                at += 1;
            }
        }
        number
    }

    fn bytes(&self) -> u64 {
        self.slots.len() as u64 * SLOT
    }

    /// The smallest tables are not in the budget: most places have one, and will never have a larger one.
    fn in_budget(&self) -> u64 {
        let slots = if self.slots.len() > SMALLEST {
            self.bytes()
        } else {
            0
        };
        let buffers = size_of_val(&self.buffer[..]) + size_of_val(&self.times[..]);
        slots + buffers as u64
    }

    fn is_full(&self) -> bool {
        self.used * 2 > self.slots.len()
    }

    /// Slots of the next size.
    fn larger(&self) -> usize {
        let factor = if self.slots.len() < LARGE { 4 } else { 2 };
        self.slots.len() * factor
    }

    fn resize(&mut self, number: usize) {
        let old = std::mem::replace(&mut self.slots, slots(number));
        for &(value, count) in old.iter().filter(|s| s.1 != 0) {
            let slot = self.find(value);
            self.slots[slot] = (value, count);
        }
    }

    /// Drops the values that were counted at most `limit` times; the sum of their counts.
    fn drop_seldom(&mut self, limit: u64) -> u64 {
        let mut lost = 0;
        self.slots.retain(|&(_, count)| {
            lost += if count <= limit { count } else { 0 };
            count > limit
        });
        self.used = self.slots.len();
        self.slots.shrink_to_fit();
        self.resize((self.used * 2).next_power_of_two().max(SMALLEST));
        lost
    }
}

/// Empty slots. Many of them are on huge pages, as far as the kernel grants them: they are accessed
/// at random.
fn slots(number: usize) -> Vec<(u64, u64)> {
    const HUGE: usize = 2 << 20;
    let slots = vec![(0, 0); number];
    let bytes = size_of_val(&slots[..]);
    if bytes >= 2 * HUGE {
        let start = (slots.as_ptr() as usize).next_multiple_of(HUGE);
        let end = (slots.as_ptr() as usize + bytes) & !(HUGE - 1);
        // SAFETY: a hint about pages that lie wholly within the slots.
        unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_HUGEPAGE) };
    }
    slots
}

/// The tables of all places.
pub struct Tables {
    tables: Vec<ValueCounts>,
    budget: Rc<Budget>,
    /// Bytes of the slots of all tables but the smallest, which are in the budget.
    bytes: u64,
    /// Bytes at which values are dropped, if the budget is used up.
    enough: u64,
    /// Values that are not counted more often are dropped next.
    seldom: u64,
    lost: Lost,
}

/// What was dropped to save memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lost {
    /// Events.
    pub events: u64,
    /// By how much the count of a value may be too low at most.
    pub undercount: u64,
}

impl Drop for Tables {
    fn drop(&mut self) {
        self.budget.change(self.bytes, 0);
    }
}

impl Tables {
    /// No tables yet.
    pub fn new(budget: Rc<Budget>) -> Self {
        Self {
            tables: Vec::new(),
            budget,
            bytes: 0,
            enough: 0,
            seldom: 1,
            lost: Lost::default(),
        }
    }

    /// What was dropped so far.
    pub fn lost(&self) -> Lost {
        self.lost
    }

    /// Makes tables until there are `number`.
    pub fn make(&mut self, number: usize) {
        if self.tables.len() < number {
            self.tables.resize_with(number, ValueCounts::default);
        }
    }

    /// One event.
    #[inline]
    pub fn add(&mut self, table: u32, value: u64) {
        let counts = &mut self.tables[table as usize];
        match counts.buffer.get_mut(counts.filled as usize) {
            Some(place) => {
                *place = value;
                if let Some(times) = counts.times.get_mut(counts.filled as usize) {
                    *times = 1;
                }
                counts.filled += 1;
                if counts.filled as usize == BUFFER {
                    self.empty(table as usize);
                }
            }
            None => self.add_early(table as usize, value, 1),
        }
    }

    /// Several events with one value.
    #[inline]
    pub fn add_times(&mut self, table: u32, value: u64, count: u64) {
        let counts = &mut self.tables[table as usize];
        let filled = counts.filled as usize;
        match counts.buffer.get_mut(filled) {
            Some(place) => {
                *place = value;
                match counts.times.get_mut(filled) {
                    Some(times) => *times = count,
                    None => self.have_times(table as usize, count),
                }
                let counts = &mut self.tables[table as usize];
                counts.filled += 1;
                if counts.filled as usize == BUFFER {
                    self.empty(table as usize);
                }
            }
            None => self.add_early(table as usize, value, count),
        }
    }

    /// As [`Self::add_times`] for each. Their places are all over memory, so each is led there in steps, beside the others.
    pub fn add_all(&mut self, seen: &[(u32, u64, u64)]) {
        let prefetch = |at: *const u8| {
            // SAFETY: a prefetch has no effect but on the caches, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
        };
        for &(table, ..) in seen {
            let counts: *const ValueCounts = self.tables.as_ptr().wrapping_add(table as usize);
            prefetch(counts.cast());
            prefetch(counts.wrapping_add(1).cast::<u8>().wrapping_sub(1));
        }
        for &(table, ..) in seen {
            let counts = &self.tables[table as usize];
            let filled = counts.filled as usize;
            prefetch(counts.buffer.as_ptr().wrapping_add(filled).cast());
            prefetch(counts.times.as_ptr().wrapping_add(filled).cast());
        }
        for &(table, value, count) in seen {
            self.add_times(table, value, count);
        }
    }

    /// What is in a buffer was seen once each, and what comes next `count` times.
    #[cold]
    fn have_times(&mut self, table: usize, count: u64) {
        let counts = &mut self.tables[table];
        let before = counts.in_budget();
        counts.times = vec![1; BUFFER].into();
        counts.times[counts.filled as usize] = count;
        let now = self.bytes + counts.in_budget() - before;
        self.account(now);
    }

    /// Events of a place without a buffer.
    fn add_early(&mut self, table: usize, value: u64, count: u64) {
        let counts = &mut self.tables[table];
        counts.seen += 1;
        if counts.last == value {
            counts.run += count;
        } else {
            let ended = std::mem::replace(&mut counts.last, value);
            let run = std::mem::replace(&mut counts.run, count);
            if run != 0 && counts.add(ended, run) {
                self.grow(table);
            }
        }
        let counts = &mut self.tables[table];
        if counts.seen >= BUSY {
            let before = counts.in_budget();
            counts.buffer = vec![0; BUFFER].into();
            let now = self.bytes + counts.in_budget() - before;
            self.account(now);
        }
    }

    /// Counts what is in a buffer.
    #[inline(never)]
    fn empty(&mut self, table: usize) {
        let counts = &mut self.tables[table];
        let number = std::mem::take(&mut counts.filled) as usize;
        // Taken out while they are counted, and put back.
        let buffer = std::mem::take(&mut counts.buffer);
        let times = std::mem::take(&mut counts.times);
        let values = &buffer[..number];
        match values.first() {
            Some(&first) if values.iter().all(|v| *v == first) => {
                let all = match times.get(..number) {
                    Some(times) => times.iter().sum(),
                    None => number as u64,
                };
                if counts.add(first, all) {
                    self.grow(table);
                }
            }
            Some(_) => {
                if counts.slots.len() > CACHED {
                    values.iter().for_each(|value| counts.prefetch(*value));
                }
                if counts.slots.is_empty() {
                    counts.slots = slots(SMALLEST);
                }
                let mut first = 0;
                while first < number {
                    let counts = &mut self.tables[table];
                    let rest = buffer[first..number].iter().copied();
                    first += match times.get(first..number) {
                        Some(times) => counts.add_some(rest.zip(times.iter().copied())),
                        None => counts.add_some(rest.map(|value| (value, 1))),
                    };
                    if first < number || counts.is_full() {
                        self.grow(table);
                    }
                }
            }
            None => {}
        }
        let counts = &mut self.tables[table];
        (counts.buffer, counts.times) = (buffer, times);
    }

    #[cold]
    fn grow(&mut self, table: usize) {
        let counts = &self.tables[table];
        let more = counts.larger() as u64 * SLOT - counts.bytes();
        // While the values move, both tables are there.
        let wanted = more + counts.bytes();
        if self.budget.is_exceeded_by(wanted) {
            let enough = (self.budget.limit() / SHARE).max(self.enough);
            if self.bytes + wanted > enough {
                self.prune();
            }
        }
        let counts = &mut self.tables[table];
        if counts.is_full() {
            let before = counts.in_budget();
            counts.resize(counts.larger());
            let now = self.bytes + counts.in_budget() - before;
            self.account(now);
        }
    }

    fn account(&mut self, now: u64) {
        self.budget.change(self.bytes, now);
        self.bytes = now;
    }

    /// Drops values that were seldom seen, until half of the memory is free.
    fn prune(&mut self) {
        let goal = self.bytes / 2;
        // More than twice as often as this nothing can have been counted.
        for _ in 0..u64::BITS {
            let mut now = 0;
            for (n, counts) in self.tables.iter_mut().enumerate() {
                if counts.slots.len() >= PRUNED {
                    let lost = counts.drop_seldom(self.seldom);
                    // Nobody asked for those of places that are not selected.
                    self.lost.events += if n as u32 == UNSELECTED { 0 } else { lost };
                }
                now += counts.in_budget();
            }
            self.lost.undercount += self.seldom;
            self.account(now);
            if now <= goal {
                break;
            }
            self.seldom = self.seldom.saturating_mul(2);
        }
        // Tables that are too small for it may be what there is: then not again at once.
        self.enough = 2 * self.bytes;
    }

    /// Counts what waits in buffers.
    pub fn flush(&mut self) {
        for table in 0..self.tables.len() {
            if self.tables[table].filled != 0 {
                self.empty(table);
            }
        }
    }

    /// All values of a table with their counts, in no order; empties it. Values that wait in its
    /// buffer are not among them.
    pub fn take(&mut self, table: u32) -> Vec<(u64, u64)> {
        let Some(counts) = self.tables.get_mut(table as usize) else {
            return Vec::new();
        };
        let mut counts = std::mem::take(counts);
        self.account(self.bytes.saturating_sub(counts.in_budget()));
        if counts.slots.is_empty() {
            // Most places have one value only.
            return match counts.run {
                0 => Vec::new(),
                run => vec![(counts.last, run)],
            };
        }
        if counts.run != 0 {
            counts.add(counts.last, counts.run);
        }
        counts.slots.retain(|s| s.1 != 0);
        counts.slots.shrink_to_fit();
        counts.slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn beyond_the_budget_the_most_frequent_values_are_kept_and_no_count_is_further_off_than_told() {
        const LIMIT: u64 = 1 << 20;
        let budget = Rc::new(Budget::new(Some(LIMIT)));
        let mut tables = Tables::new(Rc::clone(&budget));
        tables.make(3);
        let mut map: HashMap<(u32, u64), u64> = HashMap::new();
        let mut x = 1_u64;
        for n in 0..2_000_000_u64 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let value = if n % 4 == 0 { x >> 60 } else { x >> 30 };
            let table = 1 + (n / 4 % 2) as u32;
            tables.add(table, value);
            *map.entry((table, value)).or_default() += 1;
            // A table that grows is there twice for a moment.
            assert!(tables.bytes <= 2 * LIMIT, "{}", tables.bytes);
        }
        tables.flush();
        let lost = tables.lost();
        assert!(lost.events > 0 && lost.undercount > 0);
        let mut kept = 0;
        for table in 1..3 {
            let counts: HashMap<u64, u64> = tables.take(table).into_iter().collect();
            for (&(_, value), &count) in map.iter().filter(|((t, _), _)| *t == table) {
                let told = counts.get(&value).copied().unwrap_or(0);
                assert!(told <= count && told + lost.undercount >= count);
                kept += told;
            }
            assert!((0..16).all(|value| counts.contains_key(&value)));
        }
        assert_eq!(kept + lost.events, 2_000_000);
        drop(tables);
        assert!(!budget.is_exceeded_by(LIMIT));
    }

    #[test]
    fn counts_equal_those_of_a_map() {
        let mut tables = Tables::new(Rc::default());
        let mut map: HashMap<(u32, u64), u64> = HashMap::new();
        let table = [UNSELECTED, 1, 2];
        tables.make(3);
        let mut x = 1u64;
        for n in 0..200_000u64 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let value = match n % 3 {
                0 => x >> 40,
                1 => x >> 62,
                _ => n >> 10,
            };
            let at = table[(x >> 20) as usize % 3];
            let times = if x & 0x1000 != 0 { 1 } else { x % 9 };
            match times {
                0 => continue,
                1 => tables.add(at, value),
                times => tables.add_times(at, value, times),
            }
            *map.entry((at, value)).or_default() += times;
        }
        tables.flush();
        for at in table {
            let counts = tables.take(at);
            assert!(!counts.is_empty());
            for (value, count) in counts {
                assert_eq!(map.remove(&(at, value)), Some(count));
            }
            assert_eq!(tables.take(at), []);
        }
        assert!(map.is_empty());
    }
}
