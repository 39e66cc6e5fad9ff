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

/// The distinct tuples of a stream, numbered as they appear, with the place each belongs to.
#[derive(Default)]
pub struct Tuples {
    numbers: Map<(Kind, Tuple), u32>,
    sites: Map<(Kind, Place), u32>,
    tuples: Vec<(Kind, Tuple)>,
    site_of: Vec<u32>,
    kinds: KindSet,
}

impl Tuples {
    /// The number of a tuple, given now if it is new.
    pub fn number(&mut self, kind: Kind, tuple: Tuple) -> usize {
        *self.numbers.entry((kind, tuple)).or_insert_with(|| {
            let sites = self.sites.len() as u32;
            self.site_of
                .push(*self.sites.entry((kind, tuple.pc)).or_insert(sites));
            self.tuples.push((kind, tuple));
            self.kinds = self.kinds.with(kind);
            self.tuples.len() as u32 - 1
        }) as usize
    }

    /// The number of a tuple seen before.
    pub fn get(&self, kind: Kind, tuple: Tuple) -> Option<usize> {
        self.numbers.get(&(kind, tuple)).map(|n| *n as usize)
    }

    /// The tuple of a number.
    pub fn tuple(&self, number: usize) -> (Kind, Tuple) {
        self.tuples[number]
    }

    /// Whether a tuple of this kind was seen.
    pub const fn has(&self, kind: Kind) -> bool {
        self.kinds.has(kind)
    }

    /// Distinct tuples.
    pub fn len(&self) -> usize {
        self.tuples.len()
    }

    /// Whether no tuple was seen.
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
