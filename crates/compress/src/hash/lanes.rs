//! Indices of several hash functions in one word.

use core::ops::BitXor;

/// Layout of the indices of several hash functions in one word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// The number of the first function in its family.
    pub first: u32,
    /// Functions in the word, the first one in the least significant lane.
    pub lanes: u32,
    /// Bits from one lane to the next.
    pub lane_bits: u32,
    /// Bits of an index.
    pub bits: u32,
}

impl Layout {
    /// One index of `bits` bits.
    pub const fn single(bits: u32) -> Self {
        Self {
            first: 0,
            lanes: 1,
            lane_bits: 32,
            bits,
        }
    }

    /// One index of `bits` bits, at most 16, for each of at most four rows.
    pub const fn rows(rows: u32, bits: u32) -> Self {
        Self {
            first: 0,
            lanes: rows,
            lane_bits: 16,
            bits,
        }
    }
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
