//! Compressors put together from their spec.
//!
//! Problem: specs are chosen at run time, and events reach the hundred million a second.
//!
//! Strategy: two layers. A [`Compress`] is one concrete component, generic over its sink, so that
//! the loop over events is inlined and free of indirect calls. A [`FirstLevel`] is the enum of all
//! of them and dispatches once a block; a [`Compressor`] is a first level with the counter table
//! that may stand after it. Sinks may be `dyn`: they see messages, which are rare.
//!
//! How a service thread uses it:
//! ```
//! use trommel_compress::{Seeds, Spec};
//! use trommel_tuple::{Events, Kind, Message, Place, Tuple};
//!
//! let spec: Spec = "H[P2]2048+A16".parse().unwrap();
//! let mut compressor = spec.build(Seeds::default());
//! let mut counted = 0;
//! let mut sink = |message: Message| counted += message.count;
//! let tuples = [Tuple::new(Place::from_word(0x40_1000), 1); 5];
//! compressor.events(Events::of_kind(Kind::Value, &tuples), &mut sink);
//! compressor.finish(&mut sink);
//! assert_eq!(counted + compressor.held().unwrap(), 5);
//! ```

use trommel_tuple::{Events, Kind, Kinds, Message, Tuple};

use crate::hash::HashKind;
use crate::interval::{MultiHash, Statistics};
use crate::sample::{Alone, Countdown, Counted, Exact, Periodic, Random, Split};
use crate::sketch::Intervals;
use crate::sketch::count_min::CountMin;
use crate::sketch::heavy_keeper::HeavyKeeper;
use crate::sketch::sieve::Sieve;
use crate::sketch::summary::Summary;
use crate::table::{Behind, CounterTable};
use crate::tagged::Tagged;
use crate::thin::Thinned;
use crate::{Algorithm, IntervalSpec, Level, Sampler, Spec, Start};

/// Where messages go.
pub trait Sink {
    /// A message.
    fn message(&mut self, message: Message);

    /// An interval of an interval profiler ended; its messages were sent before.
    fn interval_end(&mut self) {}
}

impl<F: FnMut(Message)> Sink for F {
    #[inline]
    fn message(&mut self, message: Message) {
        self(message);
    }
}

/// A component that takes events and sends messages.
pub trait Compress {
    /// One event.
    fn event<S: Sink + ?Sized>(&mut self, kind: Kind, tuple: Tuple, out: &mut S);

    /// Events in order. The same as one after the other.
    ///
    /// Each form of the kinds has its own loop with the event inlined: as a closure shared by both
    /// it would become a call for every event.
    #[inline]
    fn events<S: Sink + ?Sized>(&mut self, events: Events<'_>, out: &mut S) {
        match events.kinds() {
            Kinds::All(kind) => {
                for tuple in events.tuples() {
                    self.event(kind, *tuple, out);
                }
            }
            Kinds::Each(kinds) => {
                for (tuple, kind) in events.tuples().iter().zip(kinds) {
                    self.event(*kind, *tuple, out);
                }
            }
        }
    }

    /// Events counted inside and not sent; `None` where message counts are estimates or
    /// candidates only, so that counts and held events need not add up to the events.
    fn held(&self) -> Option<u64>;
}

/// The seeds of everything random. Reports print them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seeds {
    /// Of the hash functions' tables.
    pub hash: u64,
    /// Of random samplers.
    pub random: u64,
}

impl Default for Seeds {
    fn default() -> Self {
        Self { hash: 1, random: 1 }
    }
}

macro_rules! first_level {
    ($($(#[$doc:meta])* $name:ident($type:ty),)*) => {
        /// A compressor without a counter table after it.
        #[derive(Clone, Debug)]
        #[non_exhaustive]
        pub enum FirstLevel {
            $($(#[$doc])* $name($type),)*
        }

        impl FirstLevel {
            /// Events in order.
            pub fn events<S: Sink + ?Sized>(&mut self, events: Events<'_>, out: &mut S) {
                match self {
                    $(Self::$name(c) => c.events(events, out),)*
                }
            }

            /// Events counted inside and not sent; see [`Compress::held`].
            pub fn held(&self) -> Option<u64> {
                match self {
                    $(Self::$name(c) => c.held(),)*
                }
            }
        }

        $(impl From<$type> for FirstLevel {
            fn from(component: $type) -> Self {
                Self::$name(component)
            }
        })*
    };
}

first_level! {
    /// `exact`
    Exact(Alone<Exact>),
    /// `P`
    Periodic(Alone<Periodic>),
    /// `R`
    Random(Alone<Random>),
    /// `D`
    Countdown(Alone<Countdown>),
    /// `CR`
    Counted(Alone<Counted>),
    /// `H[P]n`
    SplitPeriodic(Split<Periodic>),
    /// `H[R]n`
    SplitRandom(Split<Random>),
    /// `H[D]n`
    SplitCountdown(Split<Countdown>),
    /// `H[CR]n`
    SplitCounted(Split<Counted>),
    /// `T`
    Tagged(Tagged),
    /// `M`
    MultiHash(MultiHash),
    /// `SS`, `MG`
    Summary(Intervals<Summary>),
    /// `CM`
    CountMin(Intervals<CountMin>),
    /// `HK`
    HeavyKeeper(Intervals<HeavyKeeper>),
    /// `S`
    Sieve(Intervals<Sieve>),
    /// Any sampler after another
    Thinned(Thinned),
}

impl FirstLevel {
    /// The first level of a spec.
    pub fn new(spec: &Spec, seeds: Seeds) -> Self {
        if let Some(thinning) = spec.thinning {
            let behind = Spec {
                thinning: None,
                ..*spec
            };
            return Thinned::new(thinning, Self::new(&behind, seeds), seeds.random).into();
        }
        let random = |rate| Random::new(rate, seeds.random);
        let periodic = |rate, start| match start {
            Start::Zero => Periodic::new(rate),
            Start::Random => Periodic::with_phase(rate, seeds.random),
        };
        let hash = spec.hash;
        match spec.level {
            Level::Exact => Alone::new(Exact).into(),
            Level::Sample(Sampler::Periodic(rate, start)) => {
                Alone::new(periodic(rate, start)).into()
            }
            Level::Sample(Sampler::Random(rate)) => Alone::new(random(rate)).into(),
            Level::Sample(Sampler::Countdown(rate)) => {
                Alone::new(Countdown::new(rate, seeds.random)).into()
            }
            Level::Sample(Sampler::Counted(rate, _)) => Alone::new(Counted(random(rate))).into(),
            Level::Split(Sampler::Periodic(rate, start), n) => {
                Split::new(periodic(rate, start), n, hash, seeds.hash).into()
            }
            Level::Split(Sampler::Random(rate), n) => {
                Split::new(random(rate), n, hash, seeds.hash).into()
            }
            Level::Split(Sampler::Countdown(rate), n) => {
                Split::new(Countdown::new(rate, seeds.random), n, hash, seeds.hash).into()
            }
            Level::Split(Sampler::Counted(rate, _), n) => {
                Split::new(Counted(random(rate)), n, hash, seeds.hash).into()
            }
            Level::Tagged(tagged) => Tagged::new(tagged, hash, seeds.hash).into(),
            Level::Interval(interval) => Self::of_interval(interval, hash, seeds),
        }
    }

    fn of_interval(spec: IntervalSpec, hash: HashKind, seeds: Seeds) -> Self {
        let length = spec.interval;
        match spec.algorithm {
            Algorithm::MultiHash => MultiHash::new(spec, hash, seeds.hash).into(),
            Algorithm::SpaceSaving | Algorithm::MisraGries => {
                Intervals::new(Summary::new(&spec), length).into()
            }
            Algorithm::CountMin => {
                Intervals::new(CountMin::new(spec, hash, seeds.hash), length).into()
            }
            Algorithm::HeavyKeeper => {
                Intervals::new(HeavyKeeper::new(spec, hash, seeds), length).into()
            }
            Algorithm::Sieve => Intervals::new(Sieve::new(spec, hash, seeds.hash), length).into(),
        }
    }

    /// Events to come before the current interval ends, for interval profilers.
    pub fn interval_left(&self) -> Option<u64> {
        Some(match self {
            Self::MultiHash(profiler) => profiler.interval_left(),
            Self::Summary(profiler) => profiler.interval_left(),
            Self::CountMin(profiler) => profiler.interval_left(),
            Self::HeavyKeeper(profiler) => profiler.interval_left(),
            Self::Sieve(profiler) => profiler.interval_left(),
            _ => return None,
        })
    }

    /// What happened since the start, for interval profilers.
    pub fn statistics(&self) -> Option<Statistics> {
        Some(match self {
            Self::MultiHash(profiler) => profiler.statistics(),
            Self::Summary(profiler) => profiler.statistics(),
            Self::CountMin(profiler) => profiler.statistics(),
            Self::HeavyKeeper(profiler) => profiler.statistics(),
            Self::Sieve(profiler) => profiler.statistics(),
            _ => return None,
        })
    }
}

/// A compressor as a spec describes it.
#[derive(Clone, Debug)]
pub struct Compressor {
    first: FirstLevel,
    table: Option<CounterTable>,
}

impl Compressor {
    /// The compressor of a spec. All its memory is taken here.
    pub fn new(spec: &Spec, seeds: Seeds) -> Self {
        Self {
            first: FirstLevel::new(spec, seeds),
            table: spec.table.map(CounterTable::new),
        }
    }

    /// Events in order. Block boundaries make no difference.
    pub fn events<S: Sink + ?Sized>(&mut self, events: Events<'_>, out: &mut S) {
        match &mut self.table {
            Some(table) => self.first.events(events, &mut Behind { table, out }),
            None => self.first.events(events, out),
        }
    }

    /// The end of the stream: the counter table, if there is one, sends what it has. What the first
    /// level counted and did not send stays held; the last incomplete interval is dropped.
    pub fn finish<S: Sink + ?Sized>(&mut self, out: &mut S) {
        if let Some(table) = &mut self.table {
            table.finish(out);
        }
    }

    /// Events counted inside and not sent; see [`Compress::held`].
    pub fn held(&self) -> Option<u64> {
        let behind = self.table.as_ref().map_or(0, CounterTable::held);
        self.first.held().map(|n| n + behind)
    }

    /// The first level, for its statistics.
    pub const fn first_level(&self) -> &FirstLevel {
        &self.first
    }
}
