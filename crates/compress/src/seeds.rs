//! Seeds of hash functions and random samplers.

/// The seeds of everything random. Reports print them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seeds {
    /// Seed of the hash functions' tables.
    pub hash: u64,
    /// Seed of random samplers.
    pub random: u64,
}

impl Default for Seeds {
    fn default() -> Self {
        Self { hash: 1, random: 1 }
    }
}
