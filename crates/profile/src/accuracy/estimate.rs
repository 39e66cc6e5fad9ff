//! The profile that software estimates from messages.
//!
//! For most compressors a tuple's count is the sum of its messages' counts. A random sampler with a
//! counter (`CR`) tells how long its substream was, not how often the tuple occurred: the estimate is
//! (samples of the tuple ÷ samples) × length, for each substream. Software recomputes the substream
//! of a tuple from its hash.

use std::collections::BTreeMap;

use trommel_compress::hash::{Hash, Layout};
use trommel_compress::{Estimate, Level, Sampler, Seeds, Sink, Spec};
use trommel_tuple::{Kind, Message};

use super::Tuples;
use crate::KindProfile;

/// A number for each kind, by [`Kind`].
pub type PerKind = [u64; Kind::ALL.len()];

/// Sums that software keeps of one compressor's messages.
pub struct Estimator {
    /// Sum of counts, by tuple number.
    counts: Vec<u64>,
    ratio: Option<Ratio>,
    messages: u64,
    counted: u64,
}

/// Estimates of all tuples of which messages come.
pub struct Estimates {
    tuples: Tuples,
    estimator: Estimator,
    messages: PerKind,
}

impl Estimates {
    /// For the messages of a spec's compressor, built with the same seeds.
    pub fn new(spec: &Spec, seeds: Seeds) -> Self {
        Self {
            tuples: Tuples::default(),
            estimator: Estimator::new(spec, seeds),
            messages: PerKind::default(),
        }
    }

    /// The profile of a stream with `seen` events of each kind, see [`Estimator::profile`].
    pub fn profile(&self, seen: &PerKind) -> BTreeMap<Kind, KindProfile> {
        self.estimator.profile(&self.tuples, seen, &self.messages)
    }
}

impl Sink for Estimates {
    fn message(&mut self, message: Message) {
        let number = self.tuples.number(message.kind, message.tuple);
        self.messages[message.kind as usize] += 1;
        self.estimator.message(&message, number);
    }
}

struct Ratio {
    hash: Option<Hash<u32>>,
    /// Samples of each tuple, by tuple number, and its substream.
    samples: Vec<(u64, u32)>,
    /// Samples and length of each substream.
    substreams: Vec<(u64, u64)>,
}

impl Estimator {
    /// The estimator for the messages of a spec's compressor, built with the same seeds.
    pub fn new(spec: &Spec, seeds: Seeds) -> Self {
        let substreams = match spec.level {
            Level::Sample(Sampler::Counted(_, Estimate::Ratio)) => Some(1),
            Level::Split(Sampler::Counted(_, Estimate::Ratio), n) => Some(n),
            _ => None,
        };
        Self {
            counts: Vec::new(),
            ratio: substreams.map(|n| Ratio {
                hash: (n > 1).then(|| {
                    let layout = Layout::single(n.trailing_zeros());
                    Hash::new(spec.hash, seeds.hash, layout)
                }),
                samples: Vec::new(),
                substreams: vec![(0, 0); n as usize],
            }),
            messages: 0,
            counted: 0,
        }
    }

    /// A message, with the number of its tuple in [`Tuples`].
    #[inline]
    pub fn message(&mut self, message: &Message, number: usize) {
        self.messages += 1;
        self.counted += message.count;
        if number >= self.counts.len() {
            self.counts.resize(number + 1, 0);
        }
        self.counts[number] += message.count;
        if let Some(ratio) = &mut self.ratio {
            let substream = match &mut ratio.hash {
                Some(hash) => hash.index(message.tuple),
                None => 0,
            };
            if number >= ratio.samples.len() {
                ratio.samples.resize(number + 1, (0, 0));
            }
            let samples = u64::from(message.samples);
            ratio.samples[number].0 += samples;
            ratio.samples[number].1 = substream;
            let totals = &mut ratio.substreams[substream as usize];
            totals.0 += samples;
            totals.1 += message.count;
        }
    }

    /// Messages seen.
    pub const fn messages(&self) -> u64 {
        self.messages
    }

    /// Sum of all messages' counts.
    pub const fn counted(&self) -> u64 {
        self.counted
    }

    /// The events that a tuple is estimated to stand for.
    pub fn estimate(&self, number: usize) -> f64 {
        match &self.ratio {
            None => self.counts.get(number).map_or(0.0, |n| *n as f64),
            Some(ratio) => match ratio.samples.get(number) {
                Some((samples, substream)) if *samples > 0 => {
                    let (all, length) = ratio.substreams[*substream as usize];
                    *samples as f64 / all as f64 * length as f64
                }
                _ => 0.0,
            },
        }
    }

    /// Every tuple that has messages, with its estimate.
    pub fn estimates<'a>(
        &'a self,
        tuples: &'a Tuples,
    ) -> impl Iterator<Item = (trommel_tuple::Kind, trommel_tuple::Tuple, f64)> + 'a {
        (0..self.counts.len())
            .filter(|n| self.counts[*n] > 0)
            .map(|n| {
                let (kind, tuple) = tuples.tuple(n);
                (kind, tuple, self.estimate(n))
            })
    }

    /// The profile of a stream with `seen` events of each kind, of which the compressor made
    /// `messages`: every tuple that has messages, with its estimate in whole events. A recording
    /// and an evaluation of its stream come to the same.
    pub fn profile(
        &self,
        tuples: &Tuples,
        seen: &PerKind,
        messages: &PerKind,
    ) -> BTreeMap<Kind, KindProfile> {
        let mut kinds: BTreeMap<Kind, KindProfile> = BTreeMap::new();
        for (kind, tuple, count) in self.estimates(tuples) {
            let counts = &mut kinds.entry(kind).or_default().counts;
            let values = counts.entry(tuple.pc).or_default();
            values.push((tuple.value, count.round() as u64));
        }
        for kind in Kind::ALL {
            if seen[kind as usize] != 0 {
                let profile = kinds.entry(kind).or_default();
                profile.seen = seen[kind as usize];
                profile.messages = messages[kind as usize];
            }
        }
        for profile in kinds.values_mut() {
            let all = profile.counts.values_mut();
            all.for_each(|values| values.sort_unstable());
        }
        kinds
    }
}
