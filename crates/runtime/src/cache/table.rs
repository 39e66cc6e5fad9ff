//! Table from app addresses to fragments.
#![allow(unsafe_code)] // reason: prefetches.

use alloc::vec::Vec;
use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

use crate::base::address::AppPc;
use crate::base::ids::FragmentId;

/// Open addressing with linear probing, at most half full. Keys are never removed but by rebuild; a
/// retired fragment leaves its key with no fragment.
///
/// Most questions are about addresses where no fragment starts: `filter` has three bits for every key, in one word, so
/// that they are answered from a cache line that is there.
pub(super) struct Table<T = u32> {
    slots: Vec<(u64, T)>,
    used: usize,
    filter: Vec<u64>,
}

const EMPTY: u64 = u64::MAX;

/// A number that a table leads to.
pub(super) trait Number: Copy + PartialEq {
    /// Stands for nothing.
    const NONE: Self;
}

impl Number for u32 {
    const NONE: Self = Self::MAX;
}

impl Number for FragmentId {
    const NONE: Self = Self::NONE;
}

impl<T: Number> Table<T> {
    pub(super) fn new() -> Self {
        Self::of(1 << 12)
    }

    /// Returns a table that may stay small.
    pub(super) fn small() -> Self {
        Self::of(1 << 8)
    }

    /// Returns a table with so many places, a power of two.
    pub(super) fn of(slots: usize) -> Self {
        Self {
            slots: alloc::vec![(EMPTY, T::NONE); slots],
            used: 0,
            // Eight bits for each key when it is full.
            filter: alloc::vec![0; slots / 16],
        }
    }

    fn hash(key: u64) -> u64 {
        key.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn slot(&self, key: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut i = (Self::hash(key) >> 32) as usize & mask;
        loop {
            let k = self.slots[i].0;
            if k == key || k == EMPTY {
                return i;
            }
            i = (i + 1) & mask;
        }
    }

    /// Word and mask of a key in the filter.
    fn bits(&self, key: u64) -> (usize, u64) {
        let hash = Self::hash(key);
        let word = (hash >> 40) as usize & (self.filter.len() - 1);
        let bit = |at: u32| 1 << (hash >> at & 63);
        (word, bit(34) | bit(28) | bit(22))
    }

    #[inline]
    pub(super) fn get(&self, app: AppPc) -> Option<T> {
        let (word, mask) = self.bits(app.0);
        if self.filter[word] & mask != mask {
            return None;
        }
        let (k, id) = self.slots[self.slot(app.0)];
        (k == app.0 && id != T::NONE).then_some(id)
    }

    /// Prefetches the place that a key will be put into.
    #[inline]
    pub(super) fn prefetch(&self, app: AppPc) {
        let place = (Self::hash(app.0) >> 32) as usize & (self.slots.len() - 1);
        let (word, _) = self.bits(app.0);
        // SAFETY: a prefetch reads nothing and does not fault.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(self.slots.as_ptr().wrapping_add(place).cast());
            _mm_prefetch::<_MM_HINT_T0>(self.filter.as_ptr().wrapping_add(word).cast());
        }
    }

    pub(super) fn insert(&mut self, app: AppPc, id: T) {
        if self.used * 2 >= self.slots.len() {
            let bigger = Self::of(self.slots.len() * 2);
            for (k, id) in core::mem::replace(self, bigger).slots {
                if k != EMPTY && id != T::NONE {
                    self.put(k, id);
                }
            }
        }
        self.put(app.0, id);
    }

    fn put(&mut self, key: u64, id: T) {
        let i = self.slot(key);
        self.used += usize::from(self.slots[i].0 == EMPTY);
        self.slots[i] = (key, id);
        let (word, mask) = self.bits(key);
        self.filter[word] |= mask;
    }

    pub(super) fn remove(&mut self, app: AppPc) {
        let i = self.slot(app.0);
        if self.slots[i].0 == app.0 {
            self.slots[i].1 = T::NONE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_finds_what_was_put_in_through_growth_and_removal() {
        let mut t = Table::<u32>::new();
        for n in 0..50_000u64 {
            t.insert(AppPc(0x40_0000 + n * 3), n as u32);
        }
        for n in (0..50_000u64).step_by(7) {
            t.remove(AppPc(0x40_0000 + n * 3));
        }
        for n in 0..50_000u64 {
            let expect = (n % 7 != 0).then_some(n as u32);
            assert_eq!(t.get(AppPc(0x40_0000 + n * 3)), expect);
            assert_eq!(t.get(AppPc(0x40_0001 + n * 3)), None);
        }
        t.insert(AppPc(0x40_0000), 9);
        assert_eq!(t.get(AppPc(0x40_0000)), Some(9));
    }
}
