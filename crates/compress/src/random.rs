//! The random numbers of random samplers and of hash tables: splitmix64.
//!
//! Chosen because one draw is an addition and two multiplications without a branch, because it is
//! specified to the bit, and because a sampler asks for nothing but independence of the events.

/// A splitmix64 generator (Steele, Lea and Flood, *Fast splittable pseudorandom number generators*).
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// A generator whose state starts at `state`.
    pub const fn new(state: u64) -> Self {
        Self(state)
    }

    /// A generator for another purpose under the same seed: its state is far from those of
    /// [`new`](Self::new).
    pub const fn apart(seed: u64, purpose: [u8; 8]) -> Self {
        let mut of_seed = Self(seed ^ u64::from_le_bytes(purpose));
        Self(of_seed.draw())
    }

    /// The next 64 random bits.
    #[inline]
    pub const fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number drawn uniformly from `0..bound` (0 for a bound of 0). The bias of the multiplication
    /// is below `bound` in 2^64.
    #[inline]
    pub const fn below(&mut self, bound: u64) -> u64 {
        ((self.draw() as u128 * bound as u128) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_outputs() {
        // The first outputs for state 0, as published with the generator.
        let mut random = SplitMix64::new(0);
        assert_eq!(random.draw(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(random.draw(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn below_stays_below() {
        let mut random = SplitMix64::new(7);
        let mut seen = [0u32; 5];
        for _ in 0..5000 {
            seen[random.below(5) as usize] += 1;
        }
        assert!(seen.iter().all(|n| (900..1100).contains(n)), "{seen:?}");
        assert_eq!(random.below(0), 0);
    }
}
