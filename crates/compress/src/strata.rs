//! Stratified periodic samplers, for those who count in their own way.
//!
//! Problem: where an event's tuple is known beforehand, so is its substream, and counting it is one
//! decrement; whoever does that must come to the same messages as [`Split`](crate::sample::Split).
//!
//! Strategy: what a sampler *is* (its hash, its rate, where its counters start) is told here, and who
//! counts keeps a table of *events to come* before a message, as [`Periodic`](crate::sample::Periodic)
//! does: each event takes one from the entry of its substream; the event at which nothing is left is sent, and
//! the entry is the rate again. An unsplit sampler is one substream.
//!
//! Source: *Stratified Sampling*, section 3.5.

use crate::hash::{Hash, HashKind, Layout};
use crate::sample::{Choose, Periodic};
use crate::{Level, Sampler, Seeds, Spec, Start};

/// Substreams that such a table has at most.
pub const MAX_SUBSTREAMS: u32 = 1 << 16;

/// Events that one of its messages stands for at most.
pub const MAX_RATE: u16 = u16::MAX - 1;

/// `P r` or `H[P r]n`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Strata {
    /// The hash function that chooses the substream.
    pub hash: HashKind,
    /// Number of substreams.
    pub substreams: u32,
    /// Events that a message stands for.
    pub rate: u16,
    /// Start value of counters.
    pub start: Start,
}

impl Strata {
    /// The first level of a spec, if it is one of these, without a sampler before it.
    pub fn of(spec: &Spec) -> Option<Self> {
        let (sampler, substreams) = match spec.level {
            Level::Sample(sampler) => (sampler, 1),
            Level::Split(sampler, n) => (sampler, n),
            _ => return None,
        };
        let Sampler::Periodic(rate, start) = sampler else {
            return None;
        };
        let tables = spec.tables.is_empty() || spec.tables.plain().is_some();
        let whole = spec.filter.is_none() && spec.thinning.is_none();
        let fits = whole && substreams <= MAX_SUBSTREAMS && tables;
        Some(Self {
            hash: spec.hash,
            substreams,
            rate: u16::try_from(rate)
                .ok()
                .filter(|rate| fits && *rate <= MAX_RATE)?,
            start,
        })
    }

    /// Returns true if a few instructions find the substream of a value: there is but one, or the hash function is
    /// one for software.
    pub fn is_cheap(&self) -> bool {
        self.substreams == 1 || self.hash != HashKind::Paper
    }

    /// The function that tells a tuple's substream.
    pub fn hash(&self, seeds: Seeds) -> Hash<u32> {
        let layout = Layout::single(self.substreams.trailing_zeros());
        Hash::new(self.hash, seeds.hash, layout)
    }

    /// The table before the first event, in order.
    pub fn table(&self, seeds: Seeds) -> impl Iterator<Item = u16> + use<> {
        let rate = u32::from(self.rate);
        let mut rule = match self.start {
            Start::Zero => Periodic::new(rate),
            Start::Random => Periodic::with_phase(rate, seeds.random),
        };
        (0..self.substreams).map(move |_| rule.start() as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;
    use std::vec::Vec;
    use trommel_tuple::{Events, Kind, Message, Place, Tuple};

    fn messages_of(spec: &Spec, tuples: &[Tuple]) -> Vec<Message> {
        let mut sent = Vec::new();
        let mut compressor = spec.build(Seeds::default());
        let events = Events::of_kind(Kind::Edge, tuples);
        compressor.events(events, &mut |message: Message| sent.push(message));
        sent
    }

    #[test]
    fn who_counts_alone_comes_to_the_same_messages() {
        let mut random = SplitMix64::new(9);
        let tuples: Vec<Tuple> = (0..50_000)
            .map(|_| {
                let pc = (random.below(97) << 48) + 0x1000 + random.below(40);
                Tuple::new(Place::from_word(pc), random.draw() >> 61)
            })
            .collect();
        for text in [
            "P7",
            "P5000",
            "P9:phase",
            "H[P256]64",
            "H[P9]2048",
            "H[P3]64",
            "H[P100:phase]128",
            "H:crc[P16]512",
            "H:mul[P31]64",
        ] {
            let spec: Spec = text.parse().unwrap();
            let strata = Strata::of(&spec).unwrap();
            let mut table: Vec<u16> = strata.table(Seeds::default()).collect();
            assert_eq!(table.len(), strata.substreams as usize);
            let mut hash = strata.hash(Seeds::default());
            let mut sent = Vec::new();
            for &tuple in &tuples {
                let left = &mut table[hash.index(tuple) as usize];
                *left -= 1;
                if *left == 0 {
                    *left = strata.rate;
                    sent.push(Message {
                        kind: Kind::Edge,
                        tuple,
                        count: strata.rate.into(),
                        samples: 1,
                    });
                }
            }
            assert!(!sent.is_empty(), "{text}");
            assert_eq!(sent, messages_of(&spec, &tuples), "{text}");
        }
    }

    #[test]
    fn what_is_no_periodic_sampler_alone_is_none() {
        for text in [
            "exact",
            "R256",
            "CR256",
            "D16+H[P16]4096",
            "F[2%,32]64+H[P256]2048",
            "H[R256]2048",
            "M4[10k,1%]2048",
            "P65535",
        ] {
            assert_eq!(Strata::of(&text.parse().unwrap()), None, "{text}");
        }
    }
}
