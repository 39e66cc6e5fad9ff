//! Numbers of query instructions.

/// Instructions of a program at most: what the 7 bits of a query PC number.
pub const MAX_INSTRUCTIONS: usize = 128;

/// The number of a query instruction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct QueryPc(u8);

impl QueryPc {
    /// The first instruction.
    pub const FIRST: Self = Self(0);

    /// The instruction of a number below [`MAX_INSTRUCTIONS`].
    pub const fn new(number: usize) -> Option<Self> {
        if number < MAX_INSTRUCTIONS {
            Some(Self(number as u8))
        } else {
            None
        }
    }

    /// Its number.
    pub const fn number(self) -> usize {
        self.0 as usize
    }
}

const _: () = assert!(MAX_INSTRUCTIONS == 1 << 7);
