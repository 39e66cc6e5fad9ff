//! `H[H[…]n]m`: splitters in each other.
//!
//! Problem: a splitter has one hash function, so tuples that meet in it meet in all that it holds. A splitter in each substream of
//! another can divide by a second function.
//!
//! Strategy: the innermost substreams of all splitters lie in one row, and a tuple's is found digit by digit: the outermost index
//! first. The splitter at depth d, from 0, has function number d of the hash family, as table d of the multi-hash profiler has: with
//! one function all tuples of a substream would come to one of the inner ones. One sampler serves all substreams, so that `H[H[R5]4]4`
//! is `R5`.
//!
//! The papers have no splitters in each other: which functions they would have is decided here.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use trommel_tuple::{Kind, Tuple};

use crate::hash::{Hash, HashKind, Layout};
use crate::sample::{Choose, send};
use crate::{Compress, NestedSpec, Sink};

/// A splitter.
#[derive(Clone, Debug)]
struct Digit {
    hash: Hash<u64>,
    bits: u32,
}

/// Splitters in each other, with a sampler on each of the innermost substreams.
#[derive(Clone, Debug)]
pub struct Nested<X: Choose> {
    rule: X,
    /// The outermost one first.
    digits: Vec<Digit>,
    substreams: Box<[X::State]>,
}

impl<X: Choose> Nested<X> {
    /// The splitters of a checked spec.
    pub fn new(mut rule: X, spec: &NestedSpec, kind: HashKind, hash_seed: u64) -> Self {
        let digit = |(first, n): (u32, u32)| {
            assert!(n.is_power_of_two(), "an index has whole bits");
            let bits = n.trailing_zeros();
            let layout = Layout {
                first,
                lanes: 1,
                lane_bits: 64,
                bits,
            };
            Digit {
                hash: Hash::new(kind, hash_seed, layout),
                bits,
            }
        };
        let digits = (0..).zip(spec.splits()).map(digit).collect();
        let mut substreams = vec![rule.start(); spec.substreams() as usize].into_boxed_slice();
        for state in &mut substreams[1..] {
            *state = rule.start();
        }
        Self {
            rule,
            digits,
            substreams,
        }
    }
}

impl<X: Choose> Compress for Nested<X> {
    #[inline]
    fn event<S: Sink + ?Sized>(&mut self, kind: Kind, tuple: Tuple, out: &mut S) {
        let digits = self.digits.iter_mut();
        let at = digits.fold(0, |at, digit| at << digit.bits | digit.hash.index(tuple));
        let state = &mut self.substreams[at as usize];
        send(kind, tuple, self.rule.choose(state), out);
    }

    fn held(&self) -> Option<u64> {
        self.substreams.iter().map(|s| self.rule.held(s)).sum()
    }
}
