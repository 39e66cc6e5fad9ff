//! Hash functions for software, where sixteen table look-ups are too dear.
//!
//! * `mul`: `w = (pc · a + rotate(value, 32) · b)`, `w = (w ^ w >> 32) · c`, all modulo 2^64, with odd
//!   random a, b, c; an index is the upper bits of w (multiply-shift after Dietzfelbinger and
//!   others, *A reliable randomized algorithm for the closest-pair problem*).
//! * `crc`: w is the CRC-32C of the pc's bytes and then the value's, least significant first, in its
//!   lower half, and that of the value's and then the pc's in its upper half, both started at the
//!   seed; an index is the lower bits of w. A CRC is linear: the seed renumbers the indices and does
//!   not change which tuples meet. x86-64 sums eight bytes in one instruction.
//!
//! The indices of several tables are fields of the same w, so that they cost one computation: four
//! of 16 bits or two of 32, for `mul` from the top, for `crc` from the bottom. From the fifth (third)
//! table on there is a next w: for `mul` with the next three random numbers as multipliers, for
//! `crc` of the pc rotated left by 7 bits more.
//!
//! a, b and c are the outputs of splitmix64 whose state starts at the seed, with the lowest bit set.

use trommel_tuple::{Place, Tuple};

use super::crc32c;
use super::kind::HashKind;
use super::lanes::{Lanes, Layout};
use crate::random::SplitMix64;

/// The one index of all tuples of a place, as a function of the value alone: for code that is generated for
/// a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OfPlace {
    /// `:crc`: the CRC-32C of the value's eight bytes, least significant first, that starts at `start`; the
    /// index is what `mask` leaves of it.
    Sum {
        /// The sum of the place.
        start: u32,
        /// Bits of the index.
        mask: u32,
    },
    /// `:mul`: with halves of the value exchanged, w = value · `factors[0]` + `offset`, then
    /// w = (w ^ w >> 32) · `factors[1]`; the index is w >> `shift`, which is at most 63.
    Product {
        /// Offset that the place adds.
        offset: u64,
        /// Factors of the value, and of the mixed word.
        factors: [u64; 2],
        /// Bits below the index.
        shift: u32,
    },
}

/// A cheap hash function.
#[derive(Clone, Debug)]
pub struct Cheap {
    kind: HashKind,
    layout: Layout,
    multipliers: [u64; 3],
    seed: u32,
    rotate: u32,
    /// The bits of all lanes' indices.
    mask: u64,
    unit: Option<crc32c::Unit>,
}

impl Cheap {
    /// The functions of a layout.
    pub fn new(kind: HashKind, seed: u64, layout: Layout) -> Self {
        assert!(
            layout.bits <= layout.lane_bits && layout.lane_bits * layout.lanes <= 64,
            "indices fit their lanes"
        );
        let group = layout.first * layout.lane_bits / 64;
        let mut random = SplitMix64::new(seed);
        let mut multipliers = [0; 3];
        for _ in 0..=group {
            multipliers = core::array::from_fn(|_| random.draw() | 1);
        }
        Self {
            kind,
            layout,
            multipliers,
            seed: seed as u32,
            rotate: 7 * group,
            mask: (0..layout.lanes).fold(0, |mask, lane| {
                mask | ((1 << layout.bits) - 1) << (lane * layout.lane_bits)
            }),
            unit: crc32c::Unit::detect(),
        }
    }

    /// The hash word before fields are taken from it.
    #[inline(always)]
    fn multiplied(&self, tuple: Tuple) -> u64 {
        let [a, b, c] = self.multipliers;
        let w = (tuple.pc.word().wrapping_mul(a))
            .wrapping_add(tuple.value.rotate_left(32).wrapping_mul(b));
        (w ^ w >> 32).wrapping_mul(c)
    }

    #[inline(always)]
    fn of_multiplied<W: Lanes>(&self, tuple: Tuple) -> W {
        let word = self.multiplied(tuple);
        let Layout {
            lanes,
            lane_bits,
            bits,
            ..
        } = self.layout;
        if (lanes, lane_bits) == (4, 16) {
            let field = |lane: u32| (word << (16 * lane) >> 1 >> (63 - bits)) << (16 * lane);
            return W::place(field(0) | field(1) | field(2) | field(3), 0);
        }
        // Two shifts: for an index of no bits the field is to be empty.
        let field = |lane: u32| word << (lane * lane_bits) >> 1 >> (63 - bits);
        (1..lanes).fold(W::place(field(0), 0), |all, lane| {
            all ^ W::place(field(lane), lane * lane_bits)
        })
    }

    /// The lanes for `crc`, by a function that continues a CRC with the bytes of a word.
    #[inline(always)]
    fn of_summed<W: Lanes>(&self, tuple: Tuple, crc: impl Fn(u32, u64) -> u32) -> W {
        let pc = tuple.pc.word().rotate_left(self.rotate);
        let mut word = u64::from(crc(crc(self.seed, pc), tuple.value));
        let width = self.layout.lanes * self.layout.lane_bits;
        if width > 32 {
            word |= u64::from(crc(crc(self.seed, tuple.value), pc)) << 32;
        }
        W::place(word & self.mask, 0)
    }

    /// Returns what is left to do for a tuple of this place. `None`: there are several indices, or one of no bits.
    pub fn of_place(&self, pc: Place) -> Option<OfPlace> {
        let Layout { lanes, bits, .. } = self.layout;
        if lanes != 1 || bits == 0 {
            return None;
        }
        Some(match self.kind {
            HashKind::Crc => OfPlace::Sum {
                start: self.begin(pc) as u32,
                mask: self.mask as u32,
            },
            _ => OfPlace::Product {
                offset: self.begin(pc),
                factors: self.factors(),
                shift: 64 - bits,
            },
        })
    }

    /// Returns what a place makes of its tuples' words: of `:crc` the sum of the pc, of `:mul` what it adds.
    pub fn begin(&self, pc: Place) -> u64 {
        match self.kind {
            HashKind::Crc => crc32c::portable(self.seed, pc.word().rotate_left(self.rotate)).into(),
            _ => pc.word().wrapping_mul(self.multipliers[0]),
        }
    }

    /// Returns what sums of `:crc` start with.
    pub const fn seed(&self) -> u32 {
        self.seed
    }

    /// Factors of `:mul`, of the value and of what is mixed.
    pub const fn factors(&self) -> [u64; 2] {
        [self.multipliers[1], self.multipliers[2]]
    }

    /// The indices of a tuple.
    #[inline]
    pub fn index<W: Lanes>(&self, tuple: Tuple) -> W {
        let mut one = [W::ZERO];
        self.indices(&[tuple], &mut one);
        one[0]
    }

    /// The indices of each tuple, in order; as many as the shorter of the two holds.
    pub fn indices<W: Lanes>(&self, tuples: &[Tuple], out: &mut [W]) {
        match (self.kind, &self.unit) {
            (HashKind::Crc, Some(unit)) => unit.run(Summing {
                hash: self,
                tuples,
                out,
            }),
            (HashKind::Crc, None) => {
                for (tuple, out) in tuples.iter().zip(out) {
                    *out = self.of_summed(*tuple, crc32c::portable);
                }
            }
            _ => {
                for (tuple, out) in tuples.iter().zip(out) {
                    *out = self.of_multiplied(*tuple);
                }
            }
        }
    }
}

/// A block to be summed by the processor's own instruction.
struct Summing<'a, W> {
    hash: &'a Cheap,
    tuples: &'a [Tuple],
    out: &'a mut [W],
}

impl<W: Lanes> crc32c::Work for Summing<'_, W> {
    #[inline(always)]
    fn work(self, crc: impl Fn(u32, u64) -> u32) {
        for (tuple, out) in self.tuples.iter().zip(self.out) {
            *out = self.hash.of_summed(*tuple, &crc);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes the index as generated code does.
    fn finish(of: OfPlace, value: u64) -> u64 {
        match of {
            OfPlace::Sum { start, mask } => u64::from(crc32c::portable(start, value) & mask),
            OfPlace::Product {
                offset,
                factors: [b, c],
                shift,
            } => {
                let w = value.rotate_left(32).wrapping_mul(b).wrapping_add(offset);
                (w ^ w >> 32).wrapping_mul(c) >> shift
            }
        }
    }

    #[test]
    fn what_is_left_for_a_place_comes_to_the_same_index() {
        let mut random = SplitMix64::new(3);
        for kind in [HashKind::Crc, HashKind::Multiply] {
            for bits in 0..=16 {
                let hash = Cheap::new(kind, 7, Layout::single(bits));
                for n in 0..200 {
                    let tuple = Tuple::new(
                        Place::from_word(random.draw() >> (n % 40)),
                        random.draw() >> (n % 64),
                    );
                    let index = u64::from(hash.index::<u32>(tuple));
                    match hash.of_place(tuple.pc) {
                        Some(left) => assert_eq!(finish(left, tuple.value), index),
                        None => assert_eq!((bits, index), (0, 0)),
                    }
                }
            }
        }
        let rows = Cheap::new(HashKind::Crc, 7, Layout::rows(4, 9));
        assert_eq!(rows.of_place(Place::from_word(1)), None);
    }
}
