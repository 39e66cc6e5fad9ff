//! Numbers for tuples, and the perfect profile.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use trommel_tuple::{Kind, KindSet, Place, Tuple};

/// A multiplicative hash: maps here are looked up once an event, and their keys come from the
/// user's own program.
#[derive(Default)]
pub(super) struct Mix(u64);

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u8(&mut self, n: u8) {
        self.write_u64(u64::from(n));
    }

    fn write_isize(&mut self, n: isize) {
        self.write_u64(n as u64);
    }

    #[inline]
    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(26) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}

type Map<K, V> = HashMap<K, V, BuildHasherDefault<Mix>>;

/// From tuples to numbers: an open-addressed index. A bucket has 32 bits of a tuple's hash and its number + 1, or 0; the tuple stays in the list. So
/// most lookups read one bucket and one tuple.
///
/// Invariant: at most half of the buckets are in use, so that a search ends.
#[derive(Default)]
struct Index {
    buckets: Vec<u64>,
    used: usize,
}

impl Index {
    fn hash(kind: Kind, tuple: Tuple) -> u32 {
        let mut mix = Mix::default();
        mix.write_u64(tuple.pc.word().wrapping_add(kind as u64));
        mix.write_u64(tuple.value);
        mix.finish() as u32
    }

    /// The number in a bucket, if it is of this hash.
    #[inline]
    const fn number(bucket: u64, hash: u32) -> Option<usize> {
        match bucket as u32 {
            0 => None,
            number if (bucket >> 32) as u32 == hash => Some(number as usize - 1),
            _ => None,
        }
    }

    fn find(&self, hash: u32, is: impl Fn(usize) -> bool) -> Option<usize> {
        let mask = self.buckets.len().wrapping_sub(1);
        let mut at = hash as usize & mask;
        loop {
            let bucket = *self.buckets.get(at)?;
            if bucket == 0 {
                return None;
            }
            if let Some(number) = Self::number(bucket, hash).filter(|n| is(*n)) {
                return Some(number);
            }
            at = (at + 1) & mask;
        }
    }

    fn put(&mut self, bucket: u64) {
        let mask = self.buckets.len() - 1;
        let mut at = (bucket >> 32) as usize & mask;
        while self.buckets[at] != 0 {
            at = (at + 1) & mask;
        }
        self.buckets[at] = bucket;
    }

    fn insert(&mut self, hash: u32, number: usize) {
        /// Buckets at first.
        const FEW: usize = 1 << 10;
        if 2 * (self.used + 1) > self.buckets.len() {
            let room = (2 * self.buckets.len()).max(FEW);
            let before = std::mem::replace(&mut self.buckets, vec![0; room]);
            before
                .into_iter()
                .filter(|b| *b != 0)
                .for_each(|b| self.put(b));
        }
        self.used += 1;
        self.put(u64::from(hash) << 32 | (number as u64 + 1));
    }
}

/// The distinct tuples of a stream, numbered as they appear, with the place each belongs to.
#[derive(Default)]
pub struct Tuples {
    index: Index,
    sites: Map<(Kind, Place), u32>,
    tuples: Vec<(Kind, Tuple)>,
    site_of: Vec<u32>,
    kinds: KindSet,
}

impl Tuples {
    /// The number of a tuple, given now if it is new.
    pub fn number(&mut self, kind: Kind, tuple: Tuple) -> usize {
        let hash = Index::hash(kind, tuple);
        let tuples = &self.tuples;
        if let Some(number) = self.index.find(hash, |n| tuples[n] == (kind, tuple)) {
            return number;
        }
        let sites = self.sites.len() as u32;
        self.site_of
            .push(*self.sites.entry((kind, tuple.pc)).or_insert(sites));
        self.tuples.push((kind, tuple));
        self.kinds = self.kinds.with(kind);
        let number = self.tuples.len() - 1;
        self.index.insert(hash, number);
        number
    }

    /// The number of a tuple seen before.
    pub fn get(&self, kind: Kind, tuple: Tuple) -> Option<usize> {
        let hash = Index::hash(kind, tuple);
        self.index.find(hash, |n| self.tuples[n] == (kind, tuple))
    }

    /// The tuple of a number.
    pub fn tuple(&self, number: usize) -> (Kind, Tuple) {
        self.tuples[number]
    }

    /// Returns true if a tuple of this kind was seen.
    pub const fn has(&self, kind: Kind) -> bool {
        self.kinds.has(kind)
    }

    /// Distinct tuples.
    pub fn len(&self) -> usize {
        self.tuples.len()
    }

    /// Returns true if no tuple was seen.
    pub fn is_empty(&self) -> bool {
        self.tuples.is_empty()
    }

    /// Distinct instructions, for each kind of their events.
    pub fn sites(&self) -> usize {
        self.sites.len()
    }

    /// The instruction, by number, that a tuple belongs to.
    pub fn site_of(&self, number: usize) -> usize {
        self.site_of[number] as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tuple_has_one_number() {
        let mut tuples = Tuples::default();
        let mut numbers = HashMap::new();
        let mut n = 1_u64;
        for _ in 0..50_000 {
            n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let kind = [Kind::Value, Kind::Edge][(n >> 40) as usize % 2];
            let place = Place::from_word((n >> 33) % 700);
            let event = (kind, Tuple::new(place, (n >> 50) % 40));
            let next = numbers.len();
            let number = *numbers.entry(event).or_insert(next);
            assert_eq!(tuples.number(event.0, event.1), number);
            assert_eq!(tuples.tuple(number), event);
            assert_eq!(tuples.get(event.0, event.1), Some(number));
        }
        let sites = |(kind, tuple): &(Kind, Tuple)| (*kind, tuple.pc);
        let sites: std::collections::HashSet<_> = numbers.keys().map(sites).collect();
        assert_eq!((tuples.len(), tuples.sites()), (numbers.len(), sites.len()));
        let new = Tuple::new(Place::from_word(5), 1 << 60);
        assert_eq!(tuples.get(Kind::Value, new), None);
    }
}
