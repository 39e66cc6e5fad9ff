//! Hints that the program has given.

use trommel_tuple::KindSet;

/// Hints from the program.
pub struct Hints {
    /// Memory is accessed by others.
    pub volatile: bool,
    /// True if nothing is collected, and no paths are recorded.
    pub paused: bool,
    /// Event kinds that are collected where nothing is said.
    pub(crate) kinds: KindSet,
}

impl Hints {
    /// Returns the hints of a program that has given none.
    pub const fn none(kinds: KindSet) -> Self {
        Self {
            volatile: false,
            paused: false,
            kinds,
        }
    }
}
