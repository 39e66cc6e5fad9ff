//! The definition of the papers' hash, byte by byte.

use trommel_tuple::Tuple;

use crate::random::SplitMix64;

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
