//! The papers' hash of a tuple, and indices folded from it.
//!
//! Problem: `index = xor-fold(flip(randomize(pc)) xor randomize(value), bits)`: each byte of the pc
//! and of the value is replaced by a random byte, the bytes of the pc are reversed, and the word is
//! folded to the width of a table. Done literally that is sixteen table look-ups, two words put
//! together and a loop.
//!
//! Strategy: everything after the look-up is linear over xor, so that contributions of bytes can be
//! folded beforehand and combined with xor alone ([`Folded`]). Several hash functions lie side by
//! side as lanes of one word and cost one look-up. Where the paper's hash is too dear, a spec may
//! name a cheap one instead ([`Cheap`]). [`Hash`](enum@Hash) is any of them, a block of tuples at a time.
//!
//! Invariant: the paper's indices equal [`xor_fold`] of [`Randomize::word`], lane by lane; a test
//! holds it against the published vectors and at random.
//!
//! Source: *Stratified Sampling*, section 3.5, *Multi-Hash*, section 5.3; table contents: `docs/papers.md`.

mod cheap;
mod crc32c;
mod folded;
mod kind;
mod lanes;
mod paper;

use trommel_tuple::Tuple;

pub use cheap::{Cheap, OfPlace};
pub use folded::Folded;
pub use kind::HashKind;
pub use lanes::{Lanes, Layout};
pub use paper::{Randomize, xor_fold};

/// Asks the processor for the instruction that hashes use. It is asked once: here, or where a hash is first made.
/// In a program that may have taken `cpuid` away, this comes before any hash.
pub fn ask_processor() {
    crc32c::ask_processor();
}

/// The widest index.
pub const MAX_BITS: u32 = 32;

/// Returns true if pc and value bytes meet in the same lanes at this index width, so that they cancel.
pub const fn degenerate(bits: u32) -> bool {
    matches!(bits, 8 | 16 | 32)
}

/// Tuples that are hashed at a time; indices are kept on the stack for so many.
pub const BLOCK: usize = 128;

/// A hash function as a spec names it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Hash<W> {
    /// The papers'.
    Paper(Folded<W>),
    /// A cheap one.
    Cheap(Cheap),
}

impl<W: Lanes> Hash<W> {
    /// Hash functions of the family of `seed`, laid out in a word.
    pub fn new(kind: HashKind, seed: u64, layout: Layout) -> Self {
        let Layout {
            first,
            lanes,
            lane_bits,
            bits,
        } = layout;
        match kind {
            HashKind::Paper => Self::Paper(Folded::new(seed, first, lanes, lane_bits, bits)),
            HashKind::Crc | HashKind::Multiply => Self::Cheap(Cheap::new(kind, seed, layout)),
        }
    }

    /// The indices of one tuple.
    #[inline]
    pub fn index(&mut self, tuple: Tuple) -> W {
        match self {
            Self::Paper(hash) => hash.index(tuple),
            Self::Cheap(hash) => hash.index(tuple),
        }
    }

    /// The indices of each tuple, in order; as many as the shorter of the two holds.
    #[inline]
    pub fn indices(&mut self, tuples: &[Tuple], out: &mut [W]) {
        match self {
            Self::Paper(hash) => hash.indices(tuples, out),
            Self::Cheap(hash) => hash.indices(tuples, out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;
    use proptest::prelude::*;
    use trommel_tuple::Place;

    fn tuple(pc: u64, value: u64) -> Tuple {
        Tuple::new(Place::from_word(pc), value)
    }

    #[test]
    fn published_vectors() {
        let table = Randomize::new(1, 0);
        assert_eq!([0, 1, 2, 3].map(|b| table.byte(b)), [70, 66, 172, 61]);
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
    fn blocks_and_single_tuples_hash_alike() {
        let mut random = SplitMix64::new(5);
        let tuples: std::vec::Vec<_> = (0..500)
            .map(|n| tuple(random.draw() >> (n % 50), random.draw() >> (n % 60)))
            .collect();
        for kind in [HashKind::Paper, HashKind::Crc, HashKind::Multiply] {
            let layout = Layout {
                first: 0,
                lanes: 4,
                lane_bits: 16,
                bits: 9,
            };
            let mut hash = Hash::<u64>::new(kind, 3, layout);
            let mut out = std::vec![0; 500];
            hash.indices(&tuples, &mut out);
            for (tuple, word) in tuples.iter().zip(out) {
                assert_eq!(hash.index(*tuple), word);
                assert_eq!(word & 0xfe00_fe00_fe00_fe00, 0, "{kind:?}");
            }
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
