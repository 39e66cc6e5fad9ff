//! Exact counting.
//!
//! # Strategy
//! What a path number implies needs no look at its events: the path is counted, and its static
//! events get that count in the end. Only run-time values are counted one by one, in one small hash
//! table for each place on a path that has them; a value that repeats costs one comparison.

/// Counts of the values seen at one place. Open addressing, at most half full.
#[derive(Clone, Debug, Default)]
pub struct ValueCounts {
    last: u64,
    run: u64,
    /// (value, count); a count of 0 is an empty slot.
    slots: Vec<(u64, u64)>,
    used: usize,
}

impl ValueCounts {
    /// One event.
    #[inline]
    pub fn add(&mut self, value: u64) {
        if value == self.last {
            self.run += 1;
        } else {
            self.settle();
            self.last = value;
            self.run = 1;
        }
    }

    fn settle(&mut self) {
        if self.run == 0 {
            return;
        }
        if self.used * 2 >= self.slots.len() {
            self.grow();
        }
        let slot = self.find(self.last);
        self.used += usize::from(self.slots[slot].1 == 0);
        self.slots[slot].0 = self.last;
        self.slots[slot].1 += self.run;
        self.run = 0;
    }

    fn find(&self, value: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut n = (value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask;
        while self.slots[n].1 != 0 && self.slots[n].0 != value {
            n = (n + 1) & mask;
        }
        n
    }

    #[cold]
    fn grow(&mut self) {
        let bigger = (self.slots.len() * 2).max(4);
        let old = std::mem::replace(&mut self.slots, vec![(0, 0); bigger]);
        for (value, count) in old.into_iter().filter(|s| s.1 != 0) {
            let slot = self.find(value);
            self.slots[slot] = (value, count);
        }
    }

    /// All values with their counts, in no order; empties the table.
    pub fn drain(&mut self) -> impl Iterator<Item = (u64, u64)> {
        self.settle();
        self.used = 0;
        std::mem::take(&mut self.slots)
            .into_iter()
            .filter(|s| s.1 != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn counts_equal_those_of_a_map() {
        let mut counts = ValueCounts::default();
        let mut map = HashMap::new();
        let mut x = 1u64;
        for n in 0..200_000u64 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let value = match n % 3 {
                0 => x >> 40,
                1 => x >> 62,
                _ => 0,
            };
            counts.add(value);
            *map.entry(value).or_insert(0u64) += 1;
        }
        assert_eq!(counts.drain().collect::<HashMap<_, _>>(), map);
        assert_eq!(counts.drain().count(), 0);
    }
}
