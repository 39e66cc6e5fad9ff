//! Values that calls pass in registers, as seen in windows.
//!
//! Values of each register are kept for each function, and for each call and each function that it calls: a call through a pointer passes other
//! things to other functions. The former are no sum of the latter: a window that sees several calls of a function is one draw of what the function is
//! called with, and one of each call.
//!
//! All registers are there, whatever the function takes: only its code shows which it uses.

use std::collections::BTreeMap;

use trommel_tuple::Place;

use crate::counts::add_counts;
use crate::sampled::Sampled;

/// The registers that the System V ABI passes integers and pointers in, the first argument's first; then those of floating-point numbers.
pub const REGISTERS: [&str; 14] = [
    "rdi", "rsi", "rdx", "rcx", "r8", "r9", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6",
    "xmm7",
];

/// A register at calls.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Passed {
    /// The first instruction of what was called.
    pub target: Place,
    /// By one call; `None`: by all.
    pub call: Option<Place>,
    /// Position in [`REGISTERS`].
    pub register: u8,
}

/// Values of a register at calls.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Argument {
    /// Samples of the calls.
    pub sampled: Sampled,
    /// Values with the number of calls that each is estimated to stand for, sorted by value.
    pub counts: Vec<(u64, u64)>,
}

impl Argument {
    /// Adds what other windows saw of the same.
    pub fn add(&mut self, other: Self) {
        self.sampled.add(&other.sampled);
        add_counts(&mut self.counts, other.counts);
    }

    /// Adds what may be of the same windows, as where a function has several addresses.
    pub fn add_beside(&mut self, other: Self) {
        self.sampled.add_beside(&other.sampled);
        add_counts(&mut self.counts, other.counts);
    }

    /// Only so many of the lower bytes count: what the function reads of the register.
    pub fn narrow(&mut self, bytes: u8) {
        let bits = 8 * u32::from(bytes.clamp(1, 8));
        let mask = u64::MAX >> (64 - bits);
        let mut all: BTreeMap<u64, u64> = BTreeMap::new();
        for &(value, count) in &self.counts {
            let sum = all.entry(value & mask).or_default();
            *sum = sum.saturating_add(count);
        }
        self.counts = all.into_iter().collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_differ_in_what_nobody_reads_are_one() {
        let mut argument = Argument {
            counts: vec![(5, 2), (1 << 32, 1), (1 << 32 | 5, 3), (u64::MAX, 4)],
            ..Argument::default()
        };
        argument.narrow(8);
        assert_eq!(argument.counts.len(), 4);
        argument.narrow(4);
        assert_eq!(argument.counts, [(0, 1), (5, 5), (0xffff_ffff, 4)]);
        argument.narrow(1);
        assert_eq!(argument.counts, [(0, 1), (5, 5), (0xff, 4)]);
    }
}
