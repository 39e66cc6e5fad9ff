//! The papers' hash of a tuple, and indices folded from it.
//!
//! Problem: `index = xor-fold(flip(randomize(pc)) xor randomize(value), bits)`: each byte of the pc
//! and of the value is replaced by a random byte, the bytes of the pc are reversed, and the word is
//! folded to the width of a table. Done literally that is sixteen table look-ups, two words put
//! together and a loop.
//!
//! Strategy: everything behind the look-up is linear over xor. So the folded contribution of byte
//! `b` at position `i` is kept in a table, and an index is the xor of sixteen entries, with no shift
//! and no loop. Several hash functions lie side by side as lanes of one word and cost one look-up
//! ([`Folded<u64>`]). The high bytes of the pc (module and upper address) seldom change between
//! events: their part is remembered.
//!
//! Invariant: [`Folded::index`] of a [`Lanes`] layout equals [`xor_fold`] of [`Randomize::word`],
//! lane by lane; a test holds it against the published vectors and at random.
//!
//! Source: seed 000 section 3.5, seed 001 section 5.3; table contents: `AMBIGUITIES.md`.

use alloc::boxed::Box;
use alloc::vec;
use core::ops::BitXor;

use trommel_tuple::Tuple;

use crate::random::SplitMix64;

/// The widest index.
pub const MAX_BITS: u32 = 32;

/// The random byte table of one hash function.
#[derive(Clone, Debug)]
pub struct Randomize([u8; 256]);

impl Randomize {
    /// Table `number` of a family. Tables of one family are independent hash functions.
    pub fn new(seed: u64, number: u32) -> Self {
        let state = 0x5eed_0000u64
            .wrapping_add(seed.wrapping_mul(1000))
            .wrapping_add(u64::from(number));
        let mut random = SplitMix64::new(state);
        Self(core::array::from_fn(|_| (random.draw() >> 56) as u8))
    }

    /// The random byte for `byte`.
    pub const fn byte(&self, byte: u8) -> u8 {
        self.0[byte as usize]
    }

    /// The hash word of a tuple, before folding.
    pub fn word(&self, tuple: Tuple) -> u64 {
        let randomize = |word: u64| u64::from_le_bytes(word.to_le_bytes().map(|b| self.byte(b)));
        randomize(tuple.pc.word()).swap_bytes() ^ randomize(tuple.value)
    }
}

/// The xor of the `bits`-wide chunks of a word, from the least significant; the last chunk is short.
/// Zero bits give 0.
pub const fn xor_fold(mut word: u64, bits: u32) -> u64 {
    if bits == 0 {
        return 0;
    }
    if bits >= 64 {
        return word;
    }
    let mut folded = 0;
    if bits.is_power_of_two() {
        // Halving: chunks meet their own kind, as the width divides 64.
        let mut width = 32;
        while width >= bits {
            word ^= word >> width;
            width /= 2;
        }
        return word & ((1 << bits) - 1);
    }
    while word != 0 {
        folded ^= word & ((1 << bits) - 1);
        word >>= bits;
    }
    folded
}

/// Whether pc and value bytes meet in the same lanes at this index width, so that they cancel.
pub const fn degenerate(bits: u32) -> bool {
    matches!(bits, 8 | 16 | 32)
}

/// A word that holds one or more indices.
pub trait Lanes: Copy + BitXor<Output = Self> {
    /// Nothing in any lane.
    const ZERO: Self;
    /// An index put at bit `shift`.
    fn place(index: u64, shift: u32) -> Self;
}

impl Lanes for u32 {
    const ZERO: Self = 0;
    fn place(index: u64, shift: u32) -> Self {
        (index << shift) as Self
    }
}

impl Lanes for u64 {
    const ZERO: Self = 0;
    fn place(index: u64, shift: u32) -> Self {
        index << shift
    }
}

/// Bytes of the pc, from the lowest, that are looked up each time.
const LOW_PC_BYTES: usize = 4;

/// Hash functions with their folding worked in.
#[derive(Clone, Debug)]
pub struct Folded<W> {
    /// Contributions by position, pc bytes first, least significant byte first.
    contributions: Box<[[W; 256]; 16]>,
    /// The upper bytes of the last pc, and what they contribute.
    high: u64,
    high_part: W,
}

impl<W: Lanes> Folded<W> {
    /// Tables numbered from `first` of the family of `seed`, one for each of `lanes` lanes of
    /// `lane_bits` bits, folded to `bits` each.
    pub fn new(seed: u64, first: u32, lanes: u32, lane_bits: u32, bits: u32) -> Self {
        assert!(
            bits <= lane_bits && lanes * lane_bits <= 8 * size_of::<W>() as u32,
            "indices fit their lanes"
        );
        let mut contributions: Box<[[W; 256]]> = vec![[W::ZERO; 256]; 16].into_boxed_slice();
        for lane in 0..lanes {
            let randomize = Randomize::new(seed, first + lane);
            for (position, table) in contributions.iter_mut().enumerate() {
                let at = if position < 8 {
                    7 - position
                } else {
                    position - 8
                };
                for (byte, entry) in table.iter_mut().enumerate() {
                    let random = u64::from(randomize.byte(byte as u8)) << (8 * at);
                    *entry = *entry ^ W::place(xor_fold(random, bits), lane * lane_bits);
                }
            }
        }
        let Ok(contributions) = contributions.try_into() else {
            unreachable!("sixteen positions were made")
        };
        let mut folded = Self {
            contributions,
            high: 0,
            high_part: W::ZERO,
        };
        folded.high_part = folded.part_of_high(0);
        folded
    }

    #[inline]
    fn part_of_high(&self, high: u64) -> W {
        let bytes = high.to_le_bytes();
        (LOW_PC_BYTES..8).fold(W::ZERO, |x, i| {
            x ^ self.contributions[i][bytes[i - LOW_PC_BYTES] as usize]
        })
    }

    /// Out of line: inlined, its look-ups crowd the registers of the common path.
    #[cold]
    #[inline(never)]
    fn remember(&mut self, high: u64) {
        self.high = high;
        self.high_part = self.part_of_high(high);
    }

    /// The indices of a tuple.
    #[inline(always)]
    pub fn index(&mut self, tuple: Tuple) -> W {
        let pc = tuple.pc.word();
        let high = pc >> (8 * LOW_PC_BYTES);
        if high != self.high {
            self.remember(high);
        }
        let c = &*self.contributions;
        let value = tuple.value;
        let of = |i: usize, word: u64| c[i][(word >> (8 * (i % 8)) & 0xff) as usize];
        let low_pc = of(0, pc) ^ of(1, pc) ^ of(2, pc) ^ of(3, pc);
        let low = of(8, value) ^ of(9, value) ^ of(10, value) ^ of(11, value);
        let high = of(12, value) ^ of(13, value) ^ of(14, value) ^ of(15, value);
        self.high_part ^ low_pc ^ low ^ high
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use trommel_tuple::Place;

    fn tuple(pc: u64, value: u64) -> Tuple {
        Tuple::new(Place::from_word(pc), value)
    }

    #[test]
    fn published_vectors() {
        let table = Randomize::new(1, 0);
        assert_eq!(table.0[..4], [70, 66, 172, 61]);
        let a = tuple(0x40_1000, 1);
        let b = tuple(0x7f00_0000_1234, 0xdead_beef);
        assert_eq!(table.word(a), 0x0068_8c00_0000_0004);
        assert_eq!(xor_fold(table.word(a), 11), 140);
        assert_eq!(xor_fold(table.word(a), 9), 385);
        assert_eq!(xor_fold(table.word(b), 11), 1242);
        for (number, (of_a, of_b)) in [(1939, 1810), (135, 222), (1326, 197)]
            .into_iter()
            .enumerate()
        {
            let table = Randomize::new(1, number as u32 + 1);
            assert_eq!(xor_fold(table.word(a), 11), of_a);
            assert_eq!(xor_fold(table.word(b), 11), of_b);
        }
    }

    #[test]
    fn folding_is_by_chunks_with_a_short_last_one() {
        assert_eq!(xor_fold(u64::MAX, 11), 0b111_1111_1111 ^ 0b1_1111_1111);
        assert_eq!(xor_fold(u64::MAX, 0), 0);
        assert_eq!(xor_fold(u64::MAX, 64), u64::MAX);
        assert_eq!(xor_fold(0b1_0000_0001, 8), 0);
    }

    proptest! {
        #[test]
        fn folded_tables_are_the_definition(
            events in prop::collection::vec((any::<u64>(), any::<u64>()), 1..20),
            bits in 0u32..=16,
            seed in 0u64..9,
        ) {
            let mut one = Folded::<u32>::new(seed, 0, 1, 32, bits);
            let mut four = Folded::<u64>::new(seed, 0, 4, 16, bits);
            for (pc, value) in events {
                let t = tuple(pc, value);
                let word = |n| xor_fold(Randomize::new(seed, n).word(t), bits);
                prop_assert_eq!(u64::from(one.index(t)), word(0));
                let lanes = four.index(t);
                for n in 0..4 {
                    prop_assert_eq!(lanes >> (16 * n) & 0xffff, word(n));
                }
            }
        }
    }
}
