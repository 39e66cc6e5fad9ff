//! `D16+…`: a sampler before another compressor.
//!
//! Problem: a counter that sends every 256th event of its substream has 8 bits, so that 2 KB are 2048
//! substreams. What errs is the choice of one tuple among those that share a substream; more of
//! them would help, and so would bits that nobody pays for.
//!
//! Strategy: sample twice. A first, random sampler lets one event in k pass, and whatever stands after
//! it samples what passes at rate r. A message stands for k·r events as before, but counters after it
//! need log2(k) bits less, so that the same memory holds more of them: `D16+H[P16]4096` has the 2 KB and
//! the messages of `H[P256]2048`. The first sampler adds a variance of (k − 1)/t to the relative error of a
//! tuple of t events, against (kr − 1)(1 − q)/t of the second one, where q is the tuple's share of its
//! substream: nothing while most substreams are shared. It also breaks the step that a program's loops
//! keep with periods, and hashing is done for one event in k only.
//!
//! Events that pass are handed on in blocks. What is after sees the same stream whatever the blocks.
//!
//! Invariant: after `P`, k × (counted + held after it) + events since the last one that passed = events.
//!
//! Source: ours. Section 3.3 of *Stratified Sampling* leaves other compositions of its components to be tried; two-stage
//! sampling: Cochran, *Sampling techniques*, chapter 10.

use alloc::boxed::Box;

use trommel_tuple::{Events, Kind, Kinds, Message, Tuple};

use crate::component::{Compress, Sink};
use crate::hash::BLOCK;
use crate::random::SplitMix64;
use crate::spec::Sampler;

/// Rule for the distance to the next event that passes.
#[derive(Clone, Debug)]
enum Distance {
    Periodic,
    Random(SplitMix64),
    Countdown(SplitMix64),
}

/// A compressor after a sampler.
#[derive(Clone, Debug)]
pub struct Thinned<C> {
    rate: u32,
    distance: Distance,
    /// The next event that passes is this many events away; 1 is the next one.
    left: u64,
    after: Box<C>,
}

impl<C> Thinned<C> {
    /// `after` sees the events that a sampler of this rule lets pass: `P`, `R` or `D`.
    pub fn new(thinning: Sampler, after: C, seed: u64) -> Self {
        let random = SplitMix64::apart(seed, *b"thinning");
        let distance = match thinning {
            Sampler::Random(_) => Distance::Random(random),
            Sampler::Countdown(_) => Distance::Countdown(random),
            Sampler::Periodic(..) | Sampler::Counted(..) => Distance::Periodic,
        };
        let mut thinned = Self {
            rate: thinning.rate(),
            distance,
            left: 0,
            after: Box::new(after),
        };
        thinned.left = thinned.next();
        thinned
    }

    fn next(&mut self) -> u64 {
        let rate = u64::from(self.rate);
        match &mut self.distance {
            Distance::Periodic => rate,
            Distance::Random(random) => {
                let last = u64::MAX / rate;
                let mut distance = 1;
                while random.draw() > last {
                    distance += 1;
                }
                distance
            }
            Distance::Countdown(random) => 1 + random.below(2 * rate - 1),
        }
    }
}

/// Scales what comes from after to events.
struct Scaled<'a, S: ?Sized> {
    rate: u32,
    out: &'a mut S,
}

impl<S: Sink + ?Sized> Sink for Scaled<'_, S> {
    fn message(&mut self, message: Message) {
        self.out.message(Message {
            count: message.count * u64::from(self.rate),
            ..message
        });
    }
}

impl<C: Compress> Compress for Thinned<C> {
    fn event<S: Sink + ?Sized>(&mut self, kind: Kind, tuple: Tuple, out: &mut S) {
        self.events(Events::of_kind(kind, &[tuple]), out);
    }

    fn events<S: Sink + ?Sized>(&mut self, events: Events<'_>, out: &mut S) {
        let (mut tuples, mut kinds) = ([Tuple::default(); BLOCK], [Kind::Edge; BLOCK]);
        let mut scaled = Scaled {
            rate: self.rate,
            out,
        };
        // A `dyn` sink, as a first level may be thinned itself as far as the compiler knows.
        let out: &mut dyn Sink = &mut scaled;
        let all = events.tuples();
        let mut at = 0;
        let mut passed = 0;
        while self.left <= (all.len() - at) as u64 {
            at += self.left as usize;
            tuples[passed] = all[at - 1];
            kinds[passed] = match events.kinds() {
                Kinds::All(kind) => kind,
                Kinds::Each(kinds) => kinds[at - 1],
            };
            passed += 1;
            self.left = self.next();
            if passed == BLOCK {
                self.pass(&tuples, &kinds, out);
                passed = 0;
            }
        }
        self.left -= (all.len() - at) as u64;
        self.pass(&tuples[..passed], &kinds[..passed], out);
    }

    fn held(&self) -> Option<u64> {
        let rate = u64::from(self.rate);
        match self.distance {
            Distance::Periodic => self.after.held().map(|n| n * rate + rate - self.left),
            Distance::Random(_) | Distance::Countdown(_) => None,
        }
    }
}

impl<C: Compress> Thinned<C> {
    /// Inlined, so that what is after is compiled where it is used: apart from its caller, the splitter's hash is
    /// slower by a sixth.
    #[inline]
    fn pass(&mut self, tuples: &[Tuple], kinds: &[Kind], out: &mut dyn Sink) {
        // Both are cut to the same length by the caller.
        if let Some(events) = Events::new(tuples, kinds) {
            self.after.events(events, out);
        }
    }
}
