//! Exact counting.
//!
//! # Strategy
//! What a path number implies needs no look at its events: the path is counted, and its static
//! events get that count in the end. Only run-time values are counted one by one, in one small hash
//! table for each place that has them.
//!
//! Most values are those that the place had the time before. A run of equal values is counted
//! beside the table, and enters it when it ends.
//!
//! Places with many values make tables larger than the caches, and each run would wait for
//! memory. So runs wait in a short queue instead: when one enters, its slot is prefetched, and it
//! is counted when [`DELAY`] others have entered.
//!
//! # Invariants
//! * A table is at most half full, so that a search ends.
//! * What a place has seen is its table, its runs in the queue, and its current run.
// Prefetching, and asking for huge pages, take a pointer.
#![allow(unsafe_code)]

use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

/// The table for values of places that are not selected.
pub const UNSELECTED: u32 = 0;

const DELAY: usize = 32;

/// Counts of the values seen at one place. Open addressing.
#[derive(Clone, Debug, Default)]
struct ValueCounts {
    /// The value seen last, and how often without another between.
    last: u64,
    run: u64,
    /// (value, count); a count of 0 is an empty slot. None, or a power of two of them.
    slots: Vec<(u64, u64)>,
    used: usize,
}

impl ValueCounts {
    fn home(&self, value: u64) -> usize {
        (value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
            & self.slots.len().wrapping_sub(1)
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

    fn add(&mut self, value: u64, count: u64) {
        if self.slots.is_empty() {
            self.slots = slots(4);
        }
        let n = self.find(value);
        let slot = &mut self.slots[n];
        let new = slot.1 == 0;
        slot.0 = value;
        slot.1 += count;
        if new {
            self.used += 1;
            if self.used * 2 > self.slots.len() {
                self.grow();
            }
        }
    }

    #[cold]
    fn grow(&mut self) {
        let bigger = slots(self.slots.len() * 4);
        let old = std::mem::replace(&mut self.slots, bigger);
        for &(value, count) in old.iter().filter(|s| s.1 != 0) {
            let slot = self.find(value);
            self.slots[slot] = (value, count);
        }
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
    /// Runs on their way to a table; those with a count of 0 are none.
    queue: [(u32, u64, u64); DELAY],
    next: usize,
}

impl Default for Tables {
    fn default() -> Self {
        Self {
            tables: Vec::new(),
            queue: [(UNSELECTED, 0, 0); DELAY],
            next: 0,
        }
    }
}

impl Tables {
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
        if counts.last == value {
            counts.run += 1;
            return;
        }
        let ended = std::mem::replace(&mut counts.last, value);
        let run = std::mem::replace(&mut counts.run, 1);
        counts.prefetch(ended);
        let entry = &mut self.queue[self.next];
        let (oldest, value, count) = std::mem::replace(entry, (table, ended, run));
        self.next = (self.next + 1) % DELAY;
        if count != 0 {
            self.tables[oldest as usize].add(value, count);
        }
    }

    /// Counts what waits in the queue.
    pub fn flush(&mut self) {
        for (table, value, count) in &mut self.queue {
            if *count != 0 {
                self.tables[*table as usize].add(*value, *count);
                *count = 0;
            }
        }
    }

    /// All values of a table with their counts, in no order; empties it. Values that wait in the
    /// queue are not among them.
    pub fn take(&mut self, table: u32) -> Vec<(u64, u64)> {
        let Some(counts) = self.tables.get_mut(table as usize) else {
            return Vec::new();
        };
        let mut counts = std::mem::take(counts);
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
    fn counts_equal_those_of_a_map() {
        let mut tables = Tables::default();
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
            tables.add(at, value);
            *map.entry((at, value)).or_default() += 1;
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
