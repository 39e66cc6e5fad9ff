//! Confidence limits of a profile's counts.
//!
//! Problem: a sampled count is a number without a meaning until its error is known. What can be said
//! differs by compressor, and must not be more than is true.
//!
//! Strategy, by compressor, for limits that hold in 95 of 100 entries of a report:
//! * `exact`: nothing to say, the limits are the count.
//! * `R`, `H[R]`: every event was chosen independently with probability 1/r; exact binomial limits.
//! * `P`, `D`, `CR`: the length of each substream is counted (`D`: nearly), so only the *share* of a
//!   tuple in it is estimated: binomial limits of the share, times the length. A tuple that has its
//!   substream to itself is known to within r − 1 events and the doubt about the others. That
//!   assumes that the order of events does not keep step with the period.
//! * `P:phase`: as `P`, but a substream may as well have been r − 1 events shorter than told.
//! * `D16+…` and `R16+…` before `R` or `P:phase`: as if each event had been chosen independently at both
//!   rates together. Strata make it no worse, so these limits are wide. Before others: none.
//! * `T`: none. A slot hands its counts to other tuples, and nothing bounds how many.
//! * Windows: see [`crate::sampled`].
//! * `M`: certain limits under `R0`. A promoted tuple had between 1 and T events when its count began
//!   at T; in an interval in which it is no candidate it had fewer than T. Under `R1` the lower one.
//!
//! What a counter table after a sampler merges changes nothing. Limits are conditional on an entry
//! being listed at all, see [`binomial`].
//!
//! Source: *Stratified Sampling*, section 3.1 (a periodic sampler knows its length, a random one estimates it);
//! *Multi-Hash*, sections 5.2 and 5.4.

mod binomial;

use std::collections::HashMap;

use trommel_compress::hash::{Hash, Layout};
use trommel_compress::{Algorithm, IntervalSpec, Level, Sampler, Seeds, Spec, Start};
use trommel_tuple::Tuple;

use crate::limits::Limits;
use crate::profile::{Counted, Profile};
use crate::sampled::Sampled;

/// Grounds that limits rest on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Basis {
    /// Counts are exact.
    Exact,
    /// Events were chosen independently.
    Binomial,
    /// The share in a substream of counted length is binomial.
    Stratum,
    /// Windows were drawn at random moments, each of which is one draw.
    Windows,
    /// The same of bursts.
    Bursts,
    /// There was one burst, which says nothing of the phases of the program that it did not meet.
    OneBurst,
    /// Samples were taken at moments that nothing decides, each of which is one draw.
    Samples,
    /// Certain, by how the profiler counts.
    Bound,
    /// Nothing can be said.
    Unknown,
}

impl Basis {
    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Binomial => "binomial",
            Self::Stratum => "stratum",
            Self::Windows | Self::Bursts | Self::OneBurst => "windows",
            Self::Samples => "samples",
            Self::Bound => "bound",
            Self::Unknown => "unknown",
        }
    }

    /// Returns what has to be true for the limits to hold.
    pub const fn assumes(self) -> &'static str {
        match self {
            Self::Exact => "nothing: every event is counted",
            Self::Binomial => "nothing about the program: events are chosen independently",
            Self::Stratum => "that the order of events does not keep step with the sampling period",
            Self::Windows => {
                "that all code executes one instruction a cycle: shares of an instruction and counts of places executed together need no assumption"
            }
            Self::Bursts => {
                "that bursts slow all code down alike: shares of an instruction and counts of places executed together need no assumption"
            }
            Self::OneBurst => {
                "that the only burst was like the rest of the run, and that bursts slow all code down alike; with several bursts limits rest on how these differ"
            }
            Self::Samples => {
                "that nothing keeps step with the clock; code that lets no interrupts come counts where they come again"
            }
            Self::Bound => "that the accumulator table never was full",
            Self::Unknown => {
                "no limits are known; `trommel compress` measures the error on a stream"
            }
        }
    }
}

/// Limits for the counts of one profile.
pub struct Confidence {
    basis: Basis,
    rule: Rule,
    memo: HashMap<(u64, u64), (f64, f64)>,
}

enum Rule {
    Exact,
    Unknown,
    Binomial { rate: u64 },
    Stratum(Strata),
    Intervals { spec: IntervalSpec, events: u64 },
}

struct Strata {
    rate: u64,
    counting: Counting,
    hash: Option<Hash<u32>>,
    /// Events that the messages of each substream stand for.
    lengths: Vec<u64>,
}

/// Ways in which the length of a substream is known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counting {
    /// `P`: to r − 1 events, held.
    Periodic,
    /// `P:phase`: to r − 1 events more or less.
    Phase,
    /// `D`: as long as its messages say, give or take.
    Countdown,
    /// `CR`: to the last sample; how many came after it is geometric.
    Counted,
}

impl Strata {
    fn of(&mut self, tuple: Tuple) -> usize {
        self.hash.as_mut().map_or(0, |h| h.index(tuple) as usize)
    }
}

impl Confidence {
    /// Limits for the counts of `profile`, whose compressor had the default seeds.
    pub fn new(profile: &Profile) -> Self {
        let tuples = || {
            let places = profile.kinds.values().flat_map(|k| &k.counts);
            places.flat_map(|(place, values)| {
                let tuple = |&(value, count)| (Tuple::new(*place, value), count);
                values.iter().map(tuple)
            })
        };
        let events = profile.kinds.values().map(|k| k.seen);
        let events = events.fold(0, u64::saturating_add);
        if let Some(windows) = &profile.windows {
            let basis = match windows.are_bursts() {
                true if windows.counted < 2 => Basis::OneBurst,
                true => Basis::Bursts,
                false => Basis::Windows,
            };
            return Self::of(basis, Rule::Unknown);
        }
        if profile.samples.is_some() {
            return Self::of(Basis::Samples, Rule::Unknown);
        }
        let Ok(spec) = profile.compressor.parse::<Spec>() else {
            return Self::of(Basis::Unknown, Rule::Unknown);
        };
        let one = Self::for_spec(&spec, Seeds::default(), events, tuples());
        // Each thread has counters of its own then.
        let threads = profile.threads.started.max(1) as usize;
        let summed = profile.sum.is_some_and(|sum| sum.processes > 1);
        match profile.counted {
            Counted::Code if threads > 1 => one.of_several(),
            _ if summed => one.of_several(),
            _ => one,
        }
    }

    /// Limits for sums of the counts of several such compressors.
    fn of_several(self) -> Self {
        match self.basis() {
            Basis::Stratum | Basis::Bound => Self::of(Basis::Unknown, Rule::Unknown),
            _ => self,
        }
    }

    /// Limits for the counts of several processes added up, each of which had a compressor of its own.
    /// Those that rest on what one compressor saw in all do not hold for the sum.
    pub fn of_processes(profile: &Profile, processes: usize) -> Self {
        let one = Self::new(profile);
        match processes {
            0 | 1 => one,
            _ => one.of_several(),
        }
    }

    /// Limits for estimated counts of all tuples that a compressor reported of `events` events.
    pub fn for_spec(
        spec: &Spec,
        seeds: Seeds,
        events: u64,
        tuples: impl Iterator<Item = (Tuple, u64)>,
    ) -> Self {
        let strata = |rate, counting, n: u32| {
            let layout = Layout::single(n.trailing_zeros());
            let hash = (n > 1).then(|| Hash::new(spec.hash, seeds.hash, layout));
            let mut strata = Strata {
                rate: u64::from(rate),
                counting,
                hash,
                lengths: vec![0; n as usize],
            };
            for (tuple, count) in tuples {
                let substream = strata.of(tuple);
                strata.lengths[substream] += count;
            }
            Rule::Stratum(strata)
        };
        // Events that were dropped are made up for by weights: nothing bounds what came and went meanwhile.
        if spec.filter.is_some() {
            return Self::of(Basis::Unknown, Rule::Unknown);
        }
        let (sampler, n) = match spec.level {
            Level::Exact if spec.thinning.is_none() => return Self::of(Basis::Exact, Rule::Exact),
            Level::Interval(spec)
                if spec.algorithm == Algorithm::MultiHash
                    && spec.early == 1
                    && !spec.is_adaptive() =>
            {
                return Self::of(Basis::Bound, Rule::Intervals { spec, events });
            }
            Level::Sample(sampler) => (sampler, 1),
            Level::Split(sampler, n) => (sampler, n),
            _ => return Self::of(Basis::Unknown, Rule::Unknown),
        };
        if let Some(thinning) = spec.thinning {
            let random = matches!(thinning, Sampler::Random(_) | Sampler::Countdown(_));
            let told = matches!(
                sampler,
                Sampler::Random(_) | Sampler::Periodic(_, Start::Random)
            );
            if !random || !told {
                return Self::of(Basis::Unknown, Rule::Unknown);
            }
            let rate = u64::from(thinning.rate()) * u64::from(sampler.rate());
            return Self::of(Basis::Binomial, Rule::Binomial { rate });
        }
        match sampler {
            Sampler::Random(rate) => {
                let rate = u64::from(rate);
                Self::of(Basis::Binomial, Rule::Binomial { rate })
            }
            Sampler::Periodic(rate, start) => {
                let counting = match start {
                    Start::Zero => Counting::Periodic,
                    Start::Random => Counting::Phase,
                };
                Self::of(Basis::Stratum, strata(rate, counting, n))
            }
            Sampler::Countdown(rate) => {
                Self::of(Basis::Stratum, strata(rate, Counting::Countdown, n))
            }
            Sampler::Counted(rate, trommel_compress::Estimate::Ratio) => {
                Self::of(Basis::Stratum, strata(rate, Counting::Counted, n))
            }
            Sampler::Counted(..) => Self::of(Basis::Unknown, Rule::Unknown),
        }
    }

    /// Limits for counts of executions of which one in `rate` was chosen, at random distances.
    pub fn of_rate(rate: u64) -> Self {
        Self::of(Basis::Binomial, Rule::Binomial { rate })
    }

    fn of(basis: Basis, rule: Rule) -> Self {
        Self {
            basis,
            rule,
            memo: HashMap::new(),
        }
    }

    /// Returns what the limits rest on.
    pub const fn basis(&self) -> Basis {
        self.basis
    }

    /// The limits of one tuple's `count`; `None` where nothing is known.
    pub fn count(&mut self, tuple: Tuple, count: u64) -> Option<Limits> {
        let (low, high) = match &mut self.rule {
            Rule::Exact => (count as f64, count as f64),
            Rule::Unknown => return None,
            Rule::Binomial { rate } => {
                let samples = (count / *rate).max(1);
                let rate = *rate as f64;
                let known = self.memo.entry((samples, 0));
                *known.or_insert_with(|| binomial::events(samples, rate))
            }
            Rule::Stratum(strata) => {
                let substream = strata.of(tuple);
                let samples = |events: u64| (events + strata.rate / 2) / strata.rate;
                let all = samples(strata.lengths[substream]).max(1);
                let own = samples(count).clamp(1, all);
                let known = self.memo.entry((own, all));
                let share = *known.or_insert_with(|| binomial::share(own, all));
                let length = strata.lengths[substream] as f64;
                strata.limits(length, own, all, share)
            }
            Rule::Intervals { spec, events } => interval_limits(spec, *events, count),
        };
        Some(Limits { low, high })
    }

    /// The limits of an instruction's executions, the sum over its tuples, and of each tuple's
    /// share of it.
    pub fn values(&mut self, tuples: &[(Tuple, u64)]) -> Option<Executions> {
        let total: f64 = tuples.iter().map(|(_, count)| *count as f64).sum();
        let parts: Option<Vec<Limits>> = tuples.iter().map(|(t, n)| self.count(*t, *n)).collect();
        let parts = parts?;
        let all = match &mut self.rule {
            Rule::Exact | Rule::Unknown => Limits {
                low: total,
                high: total,
            },
            Rule::Binomial { rate } => {
                let (low, high) = binomial::events((total as u64 / *rate).max(1), *rate as f64);
                Limits { low, high }
            }
            Rule::Intervals { events, .. } => Limits {
                low: parts.iter().map(|l| l.low).sum(),
                high: *events as f64,
            },
            Rule::Stratum(strata) => strata.sum(tuples),
        };
        Some(Executions {
            total,
            all,
            parts,
            shares: Vec::new(),
        })
    }
}

/// Limits for an instruction and its tuples.
pub struct Executions {
    total: f64,
    /// Limits of the executions.
    pub all: Limits,
    /// Limits of each tuple's count, in their order.
    pub parts: Vec<Limits>,
    /// Limits of each share, where these are known better than from counts.
    shares: Vec<Limits>,
}

impl Executions {
    /// Returns the limits of an instruction that was seen in windows, with the estimated counts of its values.
    pub fn of_windows(sampled: &Sampled, counts: &[(u64, u64)]) -> Self {
        let total = sampled.executions;
        let share = |&(_, count): &(u64, u64)| (count as f64 / total.max(1.0)).min(1.0);
        Self {
            total,
            all: sampled.limits(),
            parts: counts.iter().map(|c| sampled.limits_of(share(c))).collect(),
            shares: counts.iter().map(|c| sampled.share(share(c))).collect(),
        }
    }

    /// The limits of the share of the tuple at `index` with this count: its own doubt against that
    /// of all others together.
    pub fn share(&self, index: usize, count: u64) -> Limits {
        if let Some(known) = self.shares.get(index) {
            return *known;
        }
        let part = self.parts[index];
        let rest = self.total - count as f64;
        let scale = (rest / self.total.max(1.0)).sqrt();
        let rest_low = (rest - (self.total - self.all.low).max(0.0) * scale).max(0.0);
        let rest_high = rest + (self.all.high - self.total).max(0.0) * scale;
        let of = |own: f64, others: f64| match own + others {
            whole if whole > 0.0 => own / whole,
            _ => 0.0,
        };
        Limits {
            low: of(part.low, rest_high),
            high: of(part.high, rest_low),
        }
    }
}

impl Strata {
    /// From `own` of `all` samples of a substream of `sent` events, and the limits of the share.
    fn limits(&self, sent: f64, own: u64, all: u64, share: (f64, f64)) -> (f64, f64) {
        let (rate, messages) = (self.rate as f64, all as f64);
        // Uniform on 1..2r−1: a standard deviation of r/√3 each.
        let slack = match self.counting {
            Counting::Countdown => binomial::Z * rate * (messages / 3.0).sqrt(),
            Counting::Phase => rate - 1.0,
            Counting::Periodic | Counting::Counted => 0.0,
        };
        let longest = match self.counting {
            Counting::Phase => sent + slack,
            _ => sent + slack + self.unsent(),
        };
        let others = messages - own as f64;
        let low = (share.0 * (sent - slack)).max(own as f64);
        let high = (share.1 * longest).min(longest - others);
        (low, high.max(low))
    }

    /// The events that a substream may have had since its last message.
    fn unsent(&self) -> f64 {
        let rate = self.rate as f64;
        match self.counting {
            Counting::Periodic | Counting::Phase => rate - 1.0,
            Counting::Countdown => 2.0 * rate - 2.0,
            Counting::Counted => -rate * binomial::TAIL.ln(),
        }
    }

    /// Returns limits of a sum over tuples of many substreams: as if each event was chosen independently, and
    /// closer by as much as substreams that few tuples share lower the variance.
    fn sum(&mut self, tuples: &[(Tuple, u64)]) -> Limits {
        let (mut total, mut variance, mut unsent) = (0.0, 0.0, 0.0);
        for (tuple, count) in tuples {
            let substream = self.of(*tuple);
            let count = *count as f64;
            let share = (count / self.lengths[substream].max(1) as f64).min(1.0);
            let doubt = match self.counting {
                Counting::Countdown => 1.0 - share * 2.0 / 3.0,
                _ => 1.0 - share,
            };
            total += count;
            variance += count * doubt;
            unsent += share * self.unsent();
        }
        let rate = self.rate as f64;
        let samples = (total / rate).round().max(1.0);
        let (low, high) = binomial::events(samples as u64, rate);
        let closer = (variance / total.max(1.0)).sqrt();
        let fewer = match self.counting {
            Counting::Phase => unsent,
            _ => 0.0,
        };
        Limits {
            low: (total - fewer - (total - low).max(0.0) * closer).max(tuples.len() as f64),
            high: total + (high - total).max(0.0) * closer + unsent,
        }
    }
}

/// Certain limits of a count that an interval profiler summed over its intervals.
fn interval_limits(spec: &IntervalSpec, events: u64, count: u64) -> (f64, f64) {
    let (length, threshold) = (u64::from(spec.interval), u64::from(spec.threshold_count()));
    let intervals = events / length;
    let most = intervals.min(count / threshold.max(1));
    let fewest = count.div_ceil(length);
    let low = count.saturating_sub(most * (threshold - 1)).max(fewest);
    let high = match spec.reset {
        true => events,
        false => count + intervals.saturating_sub(fewest) * (threshold - 1) + events % length,
    };
    (low as f64, high.min(events) as f64)
}
