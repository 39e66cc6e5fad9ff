//! Samplers, and the hash-based splitter over them.
//!
//! Problem: choose few events so that each stands for `r` like it. The closer the samples follow
//! the stream, the smaller the error: a stateless sampler only *estimates* how long its input was,
//! a periodic one counts it, and a splitter first makes substreams that are dominated by few tuples.
//!
//! Strategy: a [`Choose`] is the rule of one sampler (with its random numbers, if any), apart from
//! the state that it keeps for each substream. [`Split`] holds one state for each of `n` substreams
//! and one rule; a sampler alone is the splitter's body with one state and no hash ([`Alone`]).
//!
//! Invariants: message counts + held = events for every rule that counts ([`Periodic`],
//! [`Counted`]); a stateless rule draws one random number for each event whatever its substream, so
//! `H[R256]n` equals `R256` event for event.
//!
//! Source: *Stratified Sampling*, sections 3.1 to 3.3 and 3.5; `docs/papers.md`, "Samplers".

use alloc::boxed::Box;
use alloc::vec;

use trommel_tuple::{Events, Kind, Kinds, Message, Tuple};

use crate::hash::{BLOCK, Hash, HashKind, Layout};
use crate::random::SplitMix64;
use crate::{Compress, Sink};

/// The rule of a sampler: which events of a substream it selects.
pub trait Choose {
    /// State that is kept for each substream.
    type State: Clone;

    /// The state of a substream before its first event.
    fn start(&mut self) -> Self::State;

    /// One event of the substream: the count to send with it if it is selected.
    fn choose(&mut self, state: &mut Self::State) -> Option<u64>;

    /// Events that the state counted and has not sent; `None` where counts are estimates.
    fn held(&self, state: &Self::State) -> Option<u64>;
}

/// Selects everything: the perfect profile.
#[derive(Clone, Debug)]
pub struct Exact;

impl Choose for Exact {
    type State = ();

    fn start(&mut self) {}

    #[inline]
    fn choose(&mut self, (): &mut ()) -> Option<u64> {
        Some(1)
    }

    fn held(&self, (): &()) -> Option<u64> {
        Some(0)
    }
}

/// `P`: every r-th event. The event that brings the counter to r is sent. With `:phase` counters start
/// at random, as systematic sampling has it (Cochran, *Sampling techniques*, chapter 8): from 0, a substream
/// never reports its first r − 1 events, which is a quarter of 1M events in 2048 of them.
#[derive(Clone, Debug)]
pub struct Periodic {
    rate: u32,
    /// Draws the starts.
    phases: Option<SplitMix64>,
}

impl Periodic {
    /// A sampler of rate `rate` that starts at 0.
    pub const fn new(rate: u32) -> Self {
        Self { rate, phases: None }
    }

    /// A sampler that starts at random.
    pub fn with_phase(rate: u32, seed: u64) -> Self {
        Self {
            rate,
            phases: Some(SplitMix64::apart(seed, *b"phases  ")),
        }
    }
}

impl Choose for Periodic {
    /// Events that are still to come before one is sent: counting down, "enough" is a comparison
    /// with nothing.
    type State = u32;

    fn start(&mut self) -> u32 {
        match &mut self.phases {
            Some(random) => 1 + random.below(u64::from(self.rate)) as u32,
            None => self.rate,
        }
    }

    #[inline(always)]
    fn choose(&mut self, left: &mut u32) -> Option<u64> {
        *left -= 1;
        if *left > 0 {
            return None;
        }
        *left = self.rate;
        Some(u64::from(self.rate))
    }

    fn held(&self, left: &u32) -> Option<u64> {
        self.phases.is_none().then(|| u64::from(self.rate - left))
    }
}

/// `R`: every event with probability 1/r, independent of all others.
#[derive(Clone, Debug)]
pub struct Random {
    rate: u64,
    /// Draws up to this one select.
    last: u64,
    random: SplitMix64,
}

impl Random {
    /// A sampler of rate `rate` with its own random numbers.
    pub const fn new(rate: u32, seed: u64) -> Self {
        Self {
            rate: rate as u64,
            last: u64::MAX / rate as u64,
            random: SplitMix64::new(seed),
        }
    }

    #[inline]
    fn selects(&mut self) -> bool {
        self.random.draw() <= self.last
    }
}

impl Choose for Random {
    type State = ();

    fn start(&mut self) {}

    #[inline]
    fn choose(&mut self, (): &mut ()) -> Option<u64> {
        self.selects().then_some(self.rate)
    }

    fn held(&self, (): &()) -> Option<u64> {
        None
    }
}

/// `D`: a countdown drawn uniformly from 1..=2r-1, whose mean is r.
#[derive(Clone, Debug)]
pub struct Countdown {
    rate: u64,
    random: SplitMix64,
}

impl Countdown {
    /// A sampler of rate `rate` with its own random numbers.
    pub const fn new(rate: u32, seed: u64) -> Self {
        Self {
            rate: rate as u64,
            random: SplitMix64::new(seed),
        }
    }
}

impl Choose for Countdown {
    type State = u64;

    fn start(&mut self) -> u64 {
        1 + self.random.below(2 * self.rate - 1)
    }

    #[inline]
    fn choose(&mut self, left: &mut u64) -> Option<u64> {
        *left -= 1;
        if *left > 0 {
            return None;
        }
        *left = self.start();
        Some(self.rate)
    }

    fn held(&self, _: &u64) -> Option<u64> {
        None
    }
}

/// `CR`: a random sampler with a counter; a message carries the events since the last one.
#[derive(Clone, Debug)]
pub struct Counted(
    /// The sampler after the counter.
    pub Random,
);

impl Choose for Counted {
    type State = u64;

    fn start(&mut self) -> u64 {
        0
    }

    #[inline]
    fn choose(&mut self, since: &mut u64) -> Option<u64> {
        *since += 1;
        self.0.selects().then(|| core::mem::take(since))
    }

    fn held(&self, since: &u64) -> Option<u64> {
        Some(*since)
    }
}

#[inline]
pub(crate) fn send<S: Sink + ?Sized>(kind: Kind, tuple: Tuple, count: Option<u64>, out: &mut S) {
    if let Some(count) = count {
        out.message(Message {
            kind,
            tuple,
            count,
            samples: 1,
        });
    }
}

/// A sampler on the whole stream.
#[derive(Clone, Debug)]
pub struct Alone<X: Choose> {
    rule: X,
    state: X::State,
}

impl<X: Choose> Alone<X> {
    /// The sampler of a rule.
    pub fn new(mut rule: X) -> Self {
        let state = rule.start();
        Self { rule, state }
    }
}

impl<X: Choose> Compress for Alone<X> {
    #[inline(always)]
    fn event<S: Sink + ?Sized>(&mut self, kind: Kind, tuple: Tuple, out: &mut S) {
        send(kind, tuple, self.rule.choose(&mut self.state), out);
    }

    fn held(&self) -> Option<u64> {
        self.rule.held(&self.state)
    }
}

/// `H[…]n`: n substreams by hash, each with its own sampler.
#[derive(Clone, Debug)]
pub struct Split<X: Choose> {
    rule: X,
    hash: Hash<u32>,
    substreams: Box<[X::State]>,
}

impl<X: Choose> Split<X> {
    /// A splitter into `n` substreams, a power of two.
    pub fn new(mut rule: X, n: u32, kind: HashKind, hash_seed: u64) -> Self {
        assert!(n.is_power_of_two(), "an index has whole bits");
        let mut substreams = vec![rule.start(); n as usize].into_boxed_slice();
        for state in &mut substreams[1..] {
            *state = rule.start();
        }
        Self {
            rule,
            hash: Hash::new(kind, hash_seed, Layout::single(n.trailing_zeros())),
            substreams,
        }
    }

    /// Hashes a block and then counts it: two short loops that the processor overlaps better than
    /// one long one.
    #[inline(always)]
    fn block<S: Sink + ?Sized>(
        &mut self,
        tuples: &[Tuple],
        kind: impl Fn(usize) -> Kind,
        out: &mut S,
    ) {
        let mut indices = [0; BLOCK];
        let indices = &mut indices[..tuples.len()];
        self.hash.indices(tuples, indices);
        count(
            &mut self.rule,
            &mut self.substreams,
            indices,
            tuples,
            kind,
            out,
        );
    }
}

/// Arguments of their own tell the compiler that nothing of this overlaps.
#[inline(never)]
fn count<X: Choose, S: Sink + ?Sized>(
    rule: &mut X,
    substreams: &mut [X::State],
    indices: &[u32],
    tuples: &[Tuple],
    kind: impl Fn(usize) -> Kind,
    out: &mut S,
) {
    for (n, index) in indices.iter().enumerate() {
        let state = &mut substreams[*index as usize];
        if let Some(count) = rule.choose(state) {
            send(kind(n), tuples[n], Some(count), out);
        }
    }
}

impl<X: Choose> Compress for Split<X> {
    #[inline]
    fn event<S: Sink + ?Sized>(&mut self, kind: Kind, tuple: Tuple, out: &mut S) {
        self.block(&[tuple], |_| kind, out);
    }

    fn events<S: Sink + ?Sized>(&mut self, events: Events<'_>, out: &mut S) {
        match events.kinds() {
            Kinds::All(kind) => {
                for tuples in events.tuples().chunks(BLOCK) {
                    self.block(tuples, |_| kind, out);
                }
            }
            Kinds::Each(kinds) => {
                for (tuples, kinds) in events.tuples().chunks(BLOCK).zip(kinds.chunks(BLOCK)) {
                    self.block(tuples, |n| kinds[n], out);
                }
            }
        }
    }

    fn held(&self) -> Option<u64> {
        self.substreams.iter().map(|s| self.rule.held(s)).sum()
    }
}
