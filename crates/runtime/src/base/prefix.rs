//! Keys that distinguish fragments of one address, and pairs of one target: prefixes of acyclic paths, and keys of indirect branches.

use trommel_queue::dict::{Event, TargetPc};
use trommel_tuple::{Ended, Outcomes};

use crate::base::address::AppPc;
use crate::base::area::Context;

/// The number of an address and of what follows it on a path.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Prefix(u32);

impl Prefix {
    /// A path begins at the address.
    pub const NONE: Self = Self(0);

    /// Prefix that is known only at run time.
    pub const UNKNOWN: Self = Self(u32::MAX);

    /// Prefix of no path: events are counted one by one, as one of them may be a sample (`translate/ways/strides.rs`).
    pub const SAMPLED: Self = Self(u32::MAX - 1);

    /// The prefix of a number, counted from 0.
    pub const fn numbered(number: usize) -> Self {
        Self(number as u32 + 1)
    }

    /// Returns the prefix's number, unless a path begins.
    pub const fn number(self) -> Option<usize> {
        (self.0 as usize).checked_sub(1)
    }

    /// Returns the key of a fragment in the table of fragments, in the place of its address.
    pub const fn key(self, app: AppPc) -> AppPc {
        const NO_ADDRESS: u64 = 1 << 63;
        const UNKNOWN: u64 = 1 << 62;
        const SAMPLED: u64 = 1 << 61;
        match self.0 {
            0 => app,
            u32::MAX => AppPc(UNKNOWN | app.0),
            0xffff_fffe => AppPc(SAMPLED | app.0),
            number => AppPc(NO_ADDRESS | number as u64),
        }
    }
}

/// A position on an acyclic path.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Midway {
    /// Start of the path.
    pub start: AppPc,
    /// Outcomes of the path's branches so far.
    pub outcomes: Outcomes,
}

impl Midway {
    /// Returns the position at the start of a path: no branch has been passed.
    pub const fn at_start(start: AppPc) -> Self {
        let outcomes = Outcomes::NONE;
        Self { start, outcomes }
    }

    /// The event with which the block of a fragment in its midst begins.
    pub fn event(&self) -> Event {
        Event::Resume {
            start: TargetPc(self.start.0),
            word: self.outcomes.word(Ended::Left),
        }
    }
}

/// An indirect branch's number in the tables; 0 for those that are not counted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Key(u16);

impl Key {
    /// The key of branches that are not counted.
    pub const NONE: Self = Self(0);
    /// Keys of successive branches are far apart, as their targets may be close.
    const STEP: u16 = 40503;
    /// Keys that there are.
    pub const MAX: usize = u16::MAX as usize;

    /// Returns the key of a branch by its number.
    pub const fn of(number: usize) -> Self {
        Self((number as u16 + 1).wrapping_mul(Self::STEP))
    }

    /// The number that it is of, unless the branch is not counted.
    pub const fn number(self) -> Option<usize> {
        // Newton's iteration doubles the bits that are right, from three.
        let mut inverse = Self::STEP;
        let mut n = 0;
        while n < 3 {
            let off = 2_u16.wrapping_sub(Self::STEP.wrapping_mul(inverse));
            inverse = inverse.wrapping_mul(off);
            n += 1;
        }
        (self.0.wrapping_mul(inverse) as usize).checked_sub(1)
    }

    /// Returns the key that generated code left in the context.
    pub const fn in_context(context: &Context) -> Self {
        Self(context.key as u16)
    }

    /// Returns the number that is added to a target for its index in the first table.
    pub const fn offset(self) -> u16 {
        self.0
    }

    /// Returns the number that is added to a target to search the second table for it.
    pub const fn spread(self) -> u64 {
        (self.0 as u64).swap_bytes()
    }
}
