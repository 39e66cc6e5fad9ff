//! The enum of all components that see events first.

use trommel_tuple::{Events, Kind, Tuple};

use crate::component::{Compress, Sink};
use crate::converge::Converging;
use crate::hash::HashKind;
use crate::interval::{MultiHash, Statistics};
use crate::nested::Nested;
use crate::sample::{Alone, Countdown, Counted, Exact, Periodic, Random, Split};
use crate::seeds::Seeds;
use crate::sketch::Intervals;
use crate::sketch::count_min::CountMin;
use crate::sketch::heavy_keeper::HeavyKeeper;
use crate::sketch::sieve::Sieve;
use crate::sketch::summary::Summary;
use crate::spec::{Algorithm, IntervalSpec, Level, Sampler, Spec, Start};
use crate::tagged::Tagged;
use crate::thin::Thinned;

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
    /// `H[H[P]n]m`
    NestedPeriodic(Nested<Periodic>),
    /// `H[H[R]n]m`
    NestedRandom(Nested<Random>),
    /// `H[H[D]n]m`
    NestedCountdown(Nested<Countdown>),
    /// `H[H[CR]n]m`
    NestedCounted(Nested<Counted>),
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
    Thinned(Thinned<FirstLevel>),
    /// Any sampler after a filter
    Converging(Converging<FirstLevel>),
}

impl Compress for FirstLevel {
    fn event<S: Sink + ?Sized>(&mut self, kind: Kind, tuple: Tuple, out: &mut S) {
        Self::events(self, Events::of_kind(kind, &[tuple]), out);
    }

    fn events<S: Sink + ?Sized>(&mut self, events: Events<'_>, out: &mut S) {
        Self::events(self, events, out);
    }

    fn held(&self) -> Option<u64> {
        Self::held(self)
    }
}

impl FirstLevel {
    /// The first level of a spec.
    pub fn new(spec: &Spec, seeds: Seeds) -> Self {
        if let Some(filter) = spec.filter {
            let after = Spec {
                filter: None,
                ..*spec
            };
            return Converging::new(filter, Self::new(&after, seeds)).into();
        }
        if let Some(thinning) = spec.thinning {
            let after = Spec {
                thinning: None,
                ..*spec
            };
            return Thinned::new(thinning, Self::new(&after, seeds), seeds.random).into();
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
            Level::Nested(nested) => match nested.sampler {
                Sampler::Periodic(rate, start) => {
                    Nested::new(periodic(rate, start), &nested, hash, seeds.hash).into()
                }
                Sampler::Random(rate) => {
                    Nested::new(random(rate), &nested, hash, seeds.hash).into()
                }
                Sampler::Countdown(rate) => {
                    let rule = Countdown::new(rate, seeds.random);
                    Nested::new(rule, &nested, hash, seeds.hash).into()
                }
                Sampler::Counted(rate, _) => {
                    Nested::new(Counted(random(rate)), &nested, hash, seeds.hash).into()
                }
            },
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

    /// Returns what happened since the start, for interval profilers.
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
