//! Hints that the program has given.

use trommel_tuple::KindSet;

/// What the program has said.
pub struct Hints {
    /// Memory is accessed by others.
    pub volatile: bool,
    /// Nothing is collected, and no paths are recorded.
    pub paused: bool,
    /// Event kinds that are collected where nothing is said.
    pub(crate) kinds: KindSet,
}

impl Hints {
    /// Nothing has been said.
    pub const fn none(kinds: KindSet) -> Self {
        Self {
            volatile: false,
            paused: false,
            kinds,
        }
    }
}
