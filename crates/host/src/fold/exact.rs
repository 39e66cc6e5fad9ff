//! Exact counting.
//!
//! # Problem
//! The events of a path are implied by its number: the path is counted, and its static
//! events get that count in the end. Run-time values are counted one by one. Programs see millions of different ones. The
//! counts are larger than any cache, so each value that is counted by itself waits for memory.
//!
//! # Strategy
//! Each place has a hash table of its own: most have few values, which share a cache line or two. Each value to count passes a
//! ring, in three steps. When it comes, its place is prefetched; some turns later its slot. When those
//! are in the cache, with those of all others in the ring, it is counted. The first value of a place is beside the table: most
//! places have no other.
//!
//! All tables have a budget. Where a table would grow beyond it, the values that were counted least are dropped,
//! of all places that have many: once, then at most twice, four times … until half of the memory is free. This is
//! the lossy counting of Manku and Motwani (VLDB 2002), with periods set by memory instead of events. A value's undercount
//! is at most the sum of the limits at which values were dropped.
//!
//! # Invariants
//! * A table has free slots, so that a search ends.
//! * What a place has seen is its first value, its table, and what is in the ring.
//!
//! **I38 (exact within memory).** Exact counts are exact, except for values beyond the memory budget. The profile says how many were dropped and how far off a count may be.
use std::rc::Rc;

use crate::channel::memory::Budget;
use crate::kernel::large;

/// The table of places that are not selected: their values are not counted.
pub const UNSELECTED: u32 = 0;

/// Events in the ring, a power of two.
const RING: usize = 64;
/// Turns after which what was prefetched last is likely to be there.
const SOON: usize = 16;
const SMALLEST: usize = 4;
/// Slots of the smallest table of which values are dropped.
const PRUNED: usize = 64;
/// A process that has less than this part of the budget may exceed it: there is little to gain.
const SHARE: u64 = 32;
const SLOT: u64 = size_of::<(u64, u64)>() as u64;

/// An event that was seen so often.
#[derive(Clone, Copy, Default)]
struct Seen {
    value: u64,
    count: u64,
    table: u32,
}

/// Counts of the values seen at one place. Open addressing.
#[derive(Clone, Debug, Default)]
struct ValueCounts {
    /// The value seen first, and how often.
    first: (u64, u64),
    /// The others: (value, count); a count of 0 is an empty slot. None, or a power of two of them.
    slots: Vec<(u64, u64)>,
    used: usize,
}

impl ValueCounts {
    /// Each bit of it depends on all of the value: those of floating-point numbers have nothing in their low half.
    #[inline(always)]
    fn home(&self, value: u64) -> usize {
        let product = u128::from(value) * 0x9e37_79b9_7f4a_7c15;
        ((product >> 64) as usize ^ product as usize) & self.slots.len().wrapping_sub(1)
    }

    /// The slot of a value, or a free one for it.
    #[inline(always)]
    fn find(&self, value: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut n = self.home(value);
        while self.slots[n].0 != value && self.slots[n].1 != 0 {
            n = (n + 1) & mask;
        }
        n
    }

    /// Returns whether the table is to grow now.
    #[inline(always)]
    fn add(&mut self, value: u64, count: u64) -> bool {
        if self.first.0 == value || self.first.1 == 0 {
            self.first.0 = value;
            self.first.1 += count;
            return false;
        }
        if self.slots.is_empty() {
            self.slots = vec![(0, 0); SMALLEST];
        }
        let n = self.find(value);
        let slot = &mut self.slots[n];
        let new = slot.1 == 0;
        slot.0 = value;
        slot.1 += count;
        self.used += usize::from(new);
        new && self.is_full()
    }

    fn bytes(&self) -> u64 {
        self.slots.len() as u64 * SLOT
    }

    /// The smallest tables are not in the budget: most places with one will never have a larger one.
    fn in_budget(&self) -> u64 {
        match self.slots.len() > SMALLEST {
            true => self.bytes(),
            false => 0,
        }
    }

    fn is_full(&self) -> bool {
        self.used * 4 > self.slots.len() * 3
    }

    /// Twice as many slots, in the same memory as far as the allocator can add to it: what is fresh has to be cleared by the kernel, which takes
    /// longer than the rest.
    ///
    /// A value moves to a slot before it, to its own again, or to the new half. It is enough to go through the old half in
    /// order, if no search there goes beyond the end: values that do so now, or would, are taken out first and put
    /// back last.
    fn double(&mut self) {
        let half = self.slots.len();
        self.slots.reserve_exact(half);
        large::advise(&mut self.slots);
        self.slots.resize(2 * half, (0, 0));
        let mut last = Vec::new();
        // Those in the first slots may be there as the last ones were full.
        for slot in &mut self.slots[..half] {
            match slot.1 {
                0 => break,
                _ => last.push(std::mem::take(slot)),
            }
        }
        for n in last.len()..half {
            let (value, count) = std::mem::take(&mut self.slots[n]);
            if count == 0 {
                continue;
            }
            let home = self.home(value);
            match self.slots[home..].iter_mut().find(|slot| slot.1 == 0) {
                Some(slot) => *slot = (value, count),
                None => last.push((value, count)),
            }
        }
        for (value, count) in last {
            let slot = self.find(value);
            self.slots[slot] = (value, count);
        }
    }

    /// Drops the values that were counted at most `limit` times; the sum of their counts.
    fn drop_rare(&mut self, limit: u64) -> u64 {
        let mut lost = 0;
        self.slots.retain(|&(_, count)| {
            lost += if count <= limit { count } else { 0 };
            count > limit
        });
        let kept = std::mem::take(&mut self.slots);
        self.used = kept.len();
        self.slots = large::filled((self.used * 2).next_power_of_two().max(SMALLEST));
        for (value, count) in kept {
            let slot = self.find(value);
            self.slots[slot] = (value, count);
        }
        lost
    }
}

/// The tables of all places.
pub struct Tables {
    tables: Vec<ValueCounts>,
    /// A count of 0: nothing.
    ring: [Seen; RING],
    turn: usize,
    budget: Rc<Budget>,
    /// Bytes of the slots of all tables but the smallest, which are in the budget.
    bytes: u64,
    /// Bytes at which values are dropped, if the budget is used up.
    enough: u64,
    /// Values that are not counted more often are dropped next.
    rare: u64,
    lost: Lost,
}

/// Counts that were dropped to save memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lost {
    /// Events.
    pub events: u64,
    /// The largest undercount of a value.
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
            ring: [Seen::default(); RING],
            turn: 0,
            budget,
            bytes: 0,
            enough: 0,
            rare: 1,
            lost: Lost::default(),
        }
    }

    /// Returns the counts that were dropped so far.
    pub fn lost(&self) -> Lost {
        self.lost
    }

    /// Makes tables until there are `number`.
    pub fn make(&mut self, number: usize) {
        if self.tables.len() < number {
            self.tables.resize_with(number, ValueCounts::default);
        }
    }

    /// The place of a table that was made had the value `count` times.
    #[inline]
    pub fn add(&mut self, table: u32, value: u64, count: u64) {
        if table == UNSELECTED {
            return;
        }
        let at: *const ValueCounts = self.tables.as_ptr().wrapping_add(table as usize);
        large::prefetch(at);
        // It may be on two cache lines.
        large::prefetch(at.wrapping_add(1).cast::<u8>().wrapping_sub(1));
        let next = Seen {
            value,
            count,
            table,
        };
        let now = std::mem::replace(&mut self.ring[self.turn % RING], next);
        self.turn += 1;
        let soon = self.ring[self.turn.wrapping_sub(SOON) % RING];
        if let Some(counts) = self.tables.get(soon.table as usize) {
            large::prefetch(counts.slots.as_ptr().wrapping_add(counts.home(soon.value)));
        }
        self.count(now);
    }

    #[inline(always)]
    fn count(&mut self, seen: Seen) {
        let Seen {
            value,
            count,
            table,
        } = seen;
        if count != 0 && self.tables[table as usize].add(value, count) {
            self.grow(table as usize);
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, table: usize) {
        let counts = &self.tables[table];
        let wanted = counts.bytes();
        if self.budget.is_exceeded_by(wanted) {
            let enough = (self.budget.limit() / SHARE).max(self.enough);
            if self.bytes + wanted > enough {
                self.prune();
            }
        }
        let counts = &mut self.tables[table];
        if counts.is_full() {
            let before = counts.in_budget();
            counts.double();
            let now = self.bytes + counts.in_budget() - before;
            self.account(now);
        }
    }

    fn account(&mut self, now: u64) {
        self.budget.change(self.bytes, now);
        self.bytes = now;
    }

    /// Drops values that were rarely seen, until half of the memory is free.
    fn prune(&mut self) {
        let goal = self.bytes / 2;
        // More than twice as often as this nothing can have been counted.
        for _ in 0..u64::BITS {
            let mut now = 0;
            for counts in &mut self.tables {
                if counts.slots.len() >= PRUNED {
                    self.lost.events += counts.drop_rare(self.rare);
                }
                now += counts.in_budget();
            }
            self.lost.undercount += self.rare;
            self.account(now);
            if now <= goal {
                break;
            }
            self.rare = self.rare.saturating_mul(2);
        }
        // Tables that are too small for it may be what there is: then not again at once.
        self.enough = 2 * self.bytes;
    }

    /// Counts what is in the ring.
    pub fn flush(&mut self) {
        for n in 0..RING {
            let seen = std::mem::take(&mut self.ring[n]);
            self.count(seen);
        }
    }

    /// All values of a table with their counts, in no order; empties it. What is in the ring is not among them.
    pub fn take(&mut self, table: u32) -> Vec<(u64, u64)> {
        let Some(counts) = self.tables.get_mut(table as usize) else {
            return Vec::new();
        };
        let counts = std::mem::take(counts);
        self.account(self.bytes.saturating_sub(counts.in_budget()));
        let mut values = counts.slots;
        values.retain(|s| s.1 != 0);
        if counts.first.1 != 0 {
            values.reserve_exact(1);
            values.push(counts.first);
        }
        values.shrink_to_fit();
        values
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
        tables.make(4);
        let mut map: HashMap<(u32, u64), u64> = HashMap::new();
        let mut x = 1_u64;
        let mut add = |tables: &mut Tables, table, value| {
            tables.add(table, value, 1);
            *map.entry((table, value)).or_default() += 1;
            assert!(tables.bytes <= LIMIT, "{}", tables.bytes);
        };
        for n in 0..2_000_000_u64 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let value = if n % 4 == 0 { x >> 60 } else { x >> 30 };
            add(&mut tables, 1 + (n / 4 % 2) as u32, value);
            if n % 100_000 == 0 {
                // A place with few values, each seen once.
                add(&mut tables, 3, n);
            }
        }
        tables.flush();
        let lost = tables.lost();
        assert!(lost.events > 0 && lost.undercount > 0);
        let mut kept = 0;
        for table in 1..4 {
            let counts: HashMap<u64, u64> = tables.take(table).into_iter().collect();
            for (&(_, value), &count) in map.iter().filter(|((t, _), _)| *t == table) {
                let told = counts.get(&value).copied().unwrap_or(0);
                assert!(told <= count && told + lost.undercount >= count);
                assert!(table != 3 || told == 1);
                kept += told;
            }
            assert!(table == 3 || (0..16).all(|value| counts.contains_key(&value)));
        }
        assert_eq!(kept + lost.events, 2_000_020);
        drop(tables);
        assert!(!budget.is_exceeded_by(LIMIT));
    }

    #[test]
    fn counts_equal_those_of_a_map() {
        let mut tables = Tables::new(Rc::default());
        let mut map: HashMap<(u32, u64), u64> = HashMap::new();
        tables.make(4);
        let mut x = 1u64;
        for _ in 0..2 {
            for n in 0..200_000u64 {
                x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let value = match n % 3 {
                    0 => x >> 40,
                    1 => x >> 62,
                    // As of floating point: nothing in the low half.
                    _ => (n >> 10) << 48,
                };
                let at = (x >> 20) as u32 % 4;
                let times = if x & 0x1000 != 0 { 1 } else { x % 9 };
                tables.add(at, value, times);
                if at != UNSELECTED && times != 0 {
                    *map.entry((at, value)).or_default() += times;
                }
            }
            tables.flush();
            for at in 0..4 {
                let counts = tables.take(at);
                assert_eq!(counts.is_empty(), at == UNSELECTED);
                for (value, count) in counts {
                    assert_eq!(map.remove(&(at, value)), Some(count));
                }
                assert_eq!(tables.take(at), []);
            }
            assert!(map.is_empty());
        }
    }

    #[test]
    fn values_that_differ_in_their_highest_bits_share_no_slot() {
        let mut counts = ValueCounts::default();
        for n in 0..1 << 10 {
            if counts.add(n << 54, 1) {
                counts.double();
            }
        }
        let mask = counts.slots.len() - 1;
        let far = (0..counts.slots.len()).filter(|&at| {
            let (value, count) = counts.slots[at];
            count != 0 && (at.wrapping_sub(counts.home(value)) & mask) > 64
        });
        assert_eq!(far.count(), 0);
    }
}
