//! Exact counting.
//!
//! # Strategy
//! What a path number implies needs no look at its events: the path is counted, and its static
//! events get that count in the end. Only run-time values are counted one by one, in one small hash
//! table for each place that has them.
//!
//! Places with many values make tables larger than the caches, and each value would wait for
//! memory. So values wait in a short queue instead: when one enters, its slot is prefetched, and it
//! is counted when [`DELAY`] others have entered.
//!
//! # Invariant
//! A table is at most half full, so that a search ends.
// Prefetching takes a pointer.
#![allow(unsafe_code)]

use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

/// The table for values of places that are not selected.
pub const UNSELECTED: u32 = 0;

const DELAY: usize = 32;

/// Counts of the values seen at one place. Open addressing.
#[derive(Clone, Debug)]
struct ValueCounts {
    /// (value, count); a count of 0 is an empty slot. A power of two of them.
    slots: Box<[(u64, u64)]>,
    used: usize,
}

impl ValueCounts {
    fn new() -> Self {
        Self {
            slots: vec![(0, 0); 4].into(),
            used: 0,
        }
    }

    fn home(&self, value: u64) -> usize {
        (value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & (self.slots.len() - 1)
    }

    fn prefetch(&self, value: u64) {
        let slot = &raw const self.slots[self.home(value)];
        // SAFETY: a prefetch has no effect but on the caches.
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

    fn add(&mut self, value: u64) {
        let n = self.find(value);
        let slot = &mut self.slots[n];
        slot.0 = value;
        slot.1 += 1;
        if slot.1 == 1 {
            self.used += 1;
            if self.used * 2 > self.slots.len() {
                self.grow();
            }
        }
    }

    #[cold]
    fn grow(&mut self) {
        let bigger = vec![(0, 0); self.slots.len() * 4].into();
        let old = std::mem::replace(&mut self.slots, bigger);
        for &(value, count) in old.iter().filter(|s| s.1 != 0) {
            let slot = self.find(value);
            self.slots[slot] = (value, count);
        }
    }
}

/// The tables of all places.
pub struct Tables {
    tables: Vec<ValueCounts>,
    queue: [(u32, u64); DELAY],
    next: usize,
    waiting: usize,
}

impl Default for Tables {
    fn default() -> Self {
        Self::new()
    }
}

impl Tables {
    /// Only the table [`UNSELECTED`].
    pub fn new() -> Self {
        Self {
            tables: vec![ValueCounts::new()],
            queue: [(0, 0); DELAY],
            next: 0,
            waiting: 0,
        }
    }

    /// A new table; its number.
    pub fn push(&mut self) -> u32 {
        self.tables.push(ValueCounts::new());
        self.tables.len() as u32 - 1
    }

    /// One event.
    #[inline]
    pub fn add(&mut self, table: u32, value: u64) {
        self.tables[table as usize].prefetch(value);
        let entry = &mut self.queue[self.next];
        let (oldest, counted) = std::mem::replace(entry, (table, value));
        self.next = (self.next + 1) % DELAY;
        if self.waiting == DELAY {
            self.tables[oldest as usize].add(counted);
        } else {
            self.waiting += 1;
        }
    }

    /// Counts what waits.
    pub fn flush(&mut self) {
        for n in 0..self.waiting {
            let at = (self.next + DELAY - self.waiting + n) % DELAY;
            let (table, value) = self.queue[at];
            self.tables[table as usize].add(value);
        }
        self.waiting = 0;
    }

    /// All values of a table with their counts, in no order; empties it.
    pub fn drain(&mut self, table: u32) -> impl Iterator<Item = (u64, u64)> {
        self.flush();
        let table = std::mem::replace(&mut self.tables[table as usize], ValueCounts::new());
        table.slots.into_iter().filter(|s| s.1 != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn counts_equal_those_of_a_map() {
        let mut tables = Tables::new();
        let mut map: HashMap<(u32, u64), u64> = HashMap::new();
        let table = [UNSELECTED, tables.push(), tables.push()];
        let mut x = 1u64;
        for n in 0..200_000u64 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let value = match n % 3 {
                0 => x >> 40,
                1 => x >> 62,
                _ => 0,
            };
            let at = table[(x >> 20) as usize % 3];
            tables.add(at, value);
            *map.entry((at, value)).or_default() += 1;
        }
        for at in table {
            let counts: Vec<_> = tables.drain(at).collect();
            assert!(!counts.is_empty());
            for (value, count) in counts {
                assert_eq!(map.remove(&(at, value)), Some(count));
            }
            assert_eq!(tables.drain(at).count(), 0);
        }
        assert!(map.is_empty());
    }
}
