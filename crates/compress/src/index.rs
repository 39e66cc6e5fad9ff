//! Index of the entries of a table by tuple: open-addressed, and never built anew.
//!
//! Entries are numbers. Their tuples stay where the table keeps them, and are asked for with a
//! function. Searches go from a tuple's bucket to the next empty one (linear probing). Taking an entry
//! out moves up those after it that a search would no longer reach, so that each search still finds its entry.
//!
//! Invariant: at most a quarter of the buckets are in use, so that a search ends.

use alloc::boxed::Box;
use alloc::vec;

use trommel_tuple::{Kind, Tuple};

/// A hash of a tuple whose lower bits are good ones.
#[inline(always)]
pub(crate) const fn mix(tuple: Tuple) -> u64 {
    let mixed = (tuple.pc.word() ^ tuple.value.rotate_left(32)).wrapping_add(tuple.value);
    let mixed = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 32
}

/// The index.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    /// Entry number + 1 by bucket; 0 where there is none.
    buckets: Box<[u32]>,
}

impl Index {
    /// An index of at most `entries` entries.
    pub(crate) fn new(entries: u32) -> Self {
        let buckets = (entries as usize * 4).next_power_of_two();
        Self {
            buckets: vec![0; buckets].into_boxed_slice(),
        }
    }

    #[inline(always)]
    fn bucket(&self, tuple: Tuple) -> usize {
        mix(tuple) as usize & (self.buckets.len() - 1)
    }

    #[inline(always)]
    fn next(&self, bucket: usize) -> usize {
        (bucket + 1) & (self.buckets.len() - 1)
    }

    /// The entry of a tuple, where `of` tells the tuple of an entry.
    #[inline(always)]
    pub(crate) fn find(
        &self,
        kind: Kind,
        tuple: Tuple,
        of: impl Fn(usize) -> (Kind, Tuple),
    ) -> Option<usize> {
        let mut at = self.bucket(tuple);
        loop {
            let entry = (self.buckets[at] as usize).checked_sub(1)?;
            if of(entry) == (kind, tuple) {
                return Some(entry);
            }
            at = self.next(at);
        }
    }

    /// Adds an entry that is not inside.
    pub(crate) fn add(&mut self, entry: usize, tuple: Tuple) {
        let mut at = self.bucket(tuple);
        while self.buckets[at] != 0 {
            at = self.next(at);
        }
        self.buckets[at] = entry as u32 + 1;
    }

    /// Takes an entry out that is inside.
    pub(crate) fn remove(&mut self, entry: usize, of: impl Fn(usize) -> Tuple) {
        let mask = self.buckets.len() - 1;
        let mut hole = self.bucket(of(entry));
        while self.buckets[hole] != entry as u32 + 1 {
            hole = self.next(hole);
        }
        let mut at = hole;
        loop {
            at = self.next(at);
            let Some(other) = (self.buckets[at] as usize).checked_sub(1) else {
                break;
            };
            let start = self.bucket(of(other));
            if at.wrapping_sub(start) & mask >= at.wrapping_sub(hole) & mask {
                self.buckets[hole] = self.buckets[at];
                hole = at;
            }
        }
        self.buckets[hole] = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;
    use trommel_tuple::Place;

    #[test]
    fn found_until_removed() {
        let mut random = SplitMix64::new(4);
        let mut index = Index::new(8);
        let tuple = |n: u64| Tuple::new(Place::from_word(n % 5), n);
        let mut table = [None; 8];
        for _ in 0..20_000 {
            let (n, slot) = (random.below(20), random.below(8) as usize);
            let inside = table.iter().position(|held| *held == Some(n));
            let of = |table: &[Option<u64>; 8], e: usize| tuple(table[e].unwrap_or(99));
            let found = index.find(Kind::Value, tuple(n), |e| (Kind::Value, of(&table, e)));
            assert_eq!(found, inside);
            if inside.is_none() {
                if table[slot].is_some() {
                    index.remove(slot, |e| of(&table, e));
                }
                table[slot] = Some(n);
                index.add(slot, tuple(n));
            } else if let Some(inside) = inside {
                index.remove(inside, |e| of(&table, e));
                table[inside] = None;
            }
        }
    }
}
