//! Addresses: of the app's code, of code in the cache, and ranges of either.

use alloc::vec::Vec;

/// An address of the app's own code.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct AppPc(pub u64);

/// An address in the code cache.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct CachePc(pub u64);

/// A range of addresses, end exclusive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// First address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
}

impl Range {
    /// Returns whether `pc` is inside.
    pub const fn holds(&self, pc: AppPc) -> bool {
        self.start <= pc.0 && pc.0 < self.end
    }

    /// Returns whether both share an address.
    pub const fn meets(&self, other: &Self) -> bool {
        self.start < other.end && other.start < self.end
    }
}

/// Ranges that are remembered of each kind.
const MOST: usize = 64;

/// Ranges, the last `MOST` of them.
#[derive(Default)]
pub struct Ranges(Vec<Range>);

impl Ranges {
    /// Adds one.
    pub fn add(&mut self, range: Range) {
        if self.0.len() >= MOST {
            self.0.remove(0);
        }
        self.0.push(range);
    }

    /// Returns whether an address is in any.
    pub fn hold(&self, address: u64) -> bool {
        self.0.iter().any(|r| (r.start..r.end).contains(&address))
    }
}
