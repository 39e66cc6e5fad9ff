//! Basis of a profile that was made of windows, and the error of its figures.
//!
//! # Problem
//! A profile made of short looks at a program has few events and says something about many. The
//! events of one look are not independent: a loop of which a window sees forty turns with one value
//! says little more than one turn would.
//!
//! # Strategy
//! Windows are the units that were drawn at random, and each is a *cluster* of events (Cochran, *Sampling
//! techniques*, chapters 9 and 11) with a weight. For each instruction the sum of its weights w in windows is kept, and that
//! of their squares.
//!
//! * A *count* is the sum of w over windows, each drawn with a small probability: a Poisson sum with
//!   variance Σw².
//! * A *share* of the executions (a value of a load, a way of a branch) has the limits that Wilson (1927) gives for
//!   (Σw)²/Σw² independent draws (Kish, *Survey sampling*, 1965). That is exact where all that one window sees has
//!   one value, and too wide otherwise: of all variables on [0, w] with a mean of pw the one
//!   that is 0 or w has the largest variance.
//!
//! A report lists what was seen, so limits have to hold *for what is listed*: of a load whose values are all different some are seen, each once, and none
//! of them is frequent. Where the first draw of a value is given, those after it know nothing of that, and are one less than all at most: so the lower limit of a
//! share is that of one less out of one less, and what was drawn once has none.
//!
//! Where a [hotlist](trommel_compress::hotlist) has thinned what it counts, to a probability p, a share s of
//! n samples has the further variance s(1 − s)(1 − p)/np: as that of a share of np/(1 − p) draws. Sums of such counts: [`Sampled::add`].
//!
//! All counts may have a *common factor* that is only known about: how much native time a burst of control stands for. Its error goes into the
//! limits of counts and not into those of shares, and it does not become less by adding up.

use crate::limits::Limits;

/// Samples of one instruction.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Sampled {
    /// Samples.
    pub samples: u64,
    /// Number of times it was executed, estimated.
    pub executions: f64,
    /// The variance of that.
    pub variance: f64,
    /// The probability with which a sample is in its counter.
    pub probability: f64,
    /// The relative standard error of the factor that it has in common with all counts of the run.
    pub factor_error: f64,
}

/// The normal quantile of limits that hold in 95 of 100 cases.
pub(crate) const Z: f64 = 1.959_964;

impl Sampled {
    /// Adds what other samples of the same instruction say.
    ///
    /// Where counts were thinned, a count C of E executions has a variance of t·C·(1 − C/E) for that, t being the executions of a sample times
    /// (1 − p)/p. The sum of those of parts is at most that of the sums with the largest t, as C·(1 − C/E) is concave: the sum gets the p that
    /// comes to that.
    pub fn add(&mut self, other: &Self) {
        // Exactly, so that adding nothing rounds nothing.
        if *self == Self::default() {
            *self = *other;
            return;
        }
        if *other == Self::default() {
            return;
        }
        let thinned = self.per_count().max(other.per_count());
        let (own, more) = (
            self.factor_error * self.executions,
            other.factor_error * other.executions,
        );
        self.samples += other.samples;
        self.executions += other.executions;
        self.variance += other.variance;
        self.factor_error = match self.executions > 0.0 {
            true => (own + more) / self.executions,
            false => 0.0,
        };
        self.set_per_count(thinned);
    }

    /// Adds what the same windows may say of the same: at most, errors go together.
    pub fn add_beside(&mut self, other: &Self) {
        let variance = (self.variance.sqrt() + other.variance.sqrt()).powi(2);
        self.add(other);
        self.variance = variance;
    }

    /// The variance that thinning has given a count, for each of the count.
    fn per_count(&self) -> f64 {
        let p = self.probability;
        match self.samples > 0 && p > 0.0 && p < 1.0 {
            true => self.executions / self.samples as f64 * (1.0 - p) / p,
            false => 0.0,
        }
    }

    fn set_per_count(&mut self, thinned: f64) {
        let sample = self.executions / self.samples.max(1) as f64;
        self.probability = match sample > 0.0 {
            true => 1.0 / (1.0 + thinned / sample),
            false => 1.0,
        };
    }

    /// Counts are thinned once more, which gives each a variance of at most `variance` times it times the share that is not it.
    pub fn thin(&mut self, variance: f64) {
        self.set_per_count(self.per_count() + variance);
    }

    /// Independent draws that tell as much as the samples do at least.
    pub fn draws(&self) -> f64 {
        match self.variance > 0.0 {
            true => self.executions.powi(2) / self.variance,
            false => 0.0,
        }
    }

    /// Limits of the number of executions.
    pub fn limits(&self) -> Limits {
        self.around(self.executions, self.variance, self.draws())
    }

    /// Limits of how often something happened that is `share` of the executions.
    pub fn limits_of(&self, share: f64) -> Limits {
        let draws = self.draws() * share;
        // Its windows are part of the windows, with the same weights.
        let limits = self.around(
            self.executions * share,
            self.variance * share + self.thinned(share) * self.executions.powi(2),
            draws,
        );
        let count = self.executions * share;
        let (part, all) = (self.share(share), self.limits().high);
        Limits {
            low: limits.low.min(part.low * all).max(count.min(1.0)),
            // Of a rare one the windows are not known, and the limits of its logarithm would be without bounds.
            high: limits.high.min(part.high * all).max(count),
        }
    }

    fn around(&self, count: f64, variance: f64, draws: f64) -> Limits {
        // Few draws: those of the logarithm, which are not symmetric and not below 0.
        let relative = (variance.sqrt() / count.max(1.0)).max(1.0 / draws.max(1.0).sqrt());
        let factor = (Z * relative.hypot(self.factor_error)).exp();
        Limits {
            low: (count / factor).max(1.0_f64.min(count)),
            high: count * factor,
        }
    }

    /// Limits of a share of the executions that was seen.
    pub fn share(&self, share: f64) -> Limits {
        let n = 1.0 / (1.0 / self.draws().max(1.0) + self.thinning()).min(1.0);
        /// Draws are not whole numbers here: below this there was one.
        const TWO: f64 = 1.5;
        let drawn = n * share;
        let others = if drawn < TWO { 0.0 } else { drawn - 1.0 };
        let low = match n > 1.0 {
            true => wilson((others / (n - 1.0)).min(1.0), n - 1.0).low,
            false => 0.0,
        };
        Limits {
            low: low.min(share),
            high: wilson(share, n).high.max(share),
        }
    }

    /// The variance of a share that comes of the hotlist's coins.
    fn thinned(&self, share: f64) -> f64 {
        share * (1.0 - share) * self.thinning()
    }

    /// One to the number of independent draws that tell as much as what the coins have left.
    fn thinning(&self) -> f64 {
        let p = self.probability;
        match p > 0.0 && p < 1.0 {
            true => (1.0 - p) / (p * (self.samples as f64).max(1.0)),
            false => 0.0,
        }
    }
}

/// Limits of a share that was found in `n` independent draws (Wilson).
fn wilson(share: f64, n: f64) -> Limits {
    let z2 = Z * Z / n;
    let middle = (share + z2 / 2.0) / (1.0 + z2);
    let own = share * (1.0 - share) / n + z2 / n / 4.0;
    let off = Z * own.sqrt() / (1.0 + z2);
    Limits {
        low: (middle - off).max(0.0),
        high: (middle + off).min(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trommel_compress::hotlist::Hotlist;
    use trommel_compress::random::SplitMix64;

    #[test]
    fn what_happened_rarely_has_limits_within_those_of_all() {
        let sampled = Sampled {
            samples: 23 * 9_000_000,
            executions: 563e6,
            variance: 23.0 * (563e6 / 23.0_f64).powi(2),
            probability: 1.0,
            factor_error: 0.0,
        };
        for share in [1e-9, 2.5e-6, 1e-3, 0.1, 0.9, 1.0] {
            let limits = sampled.limits_of(share);
            let count = share * sampled.executions;
            assert!(limits.low <= count && count <= limits.high, "{share}");
            assert!(
                limits.high <= sampled.limits().high,
                "{share}: {}",
                limits.high
            );
        }
    }

    /// Windows of `per` events at a place, all with one value or each with its own, of which `percent`
    /// in 100 are looked for: how often the limits of the share hold it.
    fn held(windows: u64, per: u64, percent: u64, together: bool) -> u32 {
        let mut random = SplitMix64::new(11 + percent);
        let truth = percent as f64 / 100.0;
        let mut held = 0;
        for _ in 0..1000 {
            let mut hits = 0;
            let mut of_window = false;
            let mut sampled = Sampled {
                probability: 1.0,
                ..Sampled::default()
            };
            for _ in 0..windows {
                for n in 0..per {
                    if n == 0 || !together {
                        of_window = random.below(100) < percent;
                    }
                    hits += u64::from(of_window);
                }
                sampled.samples += per;
                sampled.executions += per as f64;
                sampled.variance += (per * per) as f64;
            }
            let limits = sampled.share(hits as f64 / sampled.samples as f64);
            held += u32::from((limits.low..=limits.high).contains(&truth));
        }
        held
    }

    #[test]
    fn the_error_of_a_common_factor_stays_in_sums_and_is_not_in_shares() {
        let exact = Sampled {
            samples: 1 << 40,
            executions: 1e6,
            variance: 1.0,
            probability: 1.0,
            factor_error: 0.0,
        };
        let mut sum = Sampled {
            factor_error: 0.1,
            ..exact
        };
        let one = sum;
        assert_eq!(one.share(0.5), exact.share(0.5));
        for _ in 0..3 {
            sum.add(&one);
        }
        for (sampled, relative) in [(&exact, 0.0), (&one, 0.196_f64), (&sum, 0.196)] {
            let limits = sampled.limits();
            let wanted = sampled.executions * relative.exp();
            assert!((limits.high / wanted - 1.0).abs() < 0.001, "{limits:?}");
            let part = sampled.limits_of(0.25);
            assert!((part.high / wanted * 4.0 - 1.0).abs() < 0.01, "{part:?}");
        }
        sum.add(&exact);
        assert!(
            (sum.factor_error - 0.08).abs() < 1e-9,
            "what is exact has none"
        );
    }

    #[test]
    fn limits_of_shares_hold_in_95_of_100_cases_also_where_windows_see_one_value() {
        for windows in [10, 40, 300] {
            for percent in [5, 20, 50, 90] {
                for together in [false, true] {
                    let held = held(windows, 20, percent, together);
                    assert!(
                        held >= 930,
                        "{windows} {percent} {together}: {held} of 1000"
                    );
                }
            }
        }
    }

    /// Returns what a list says of a value that is `percent` in 100 of a stream of `samples` with many others: how often of 1000 times the limits of its
    /// share hold it, and half of their width in the mean. Lists without it say nothing.
    fn held_by_lists(samples: u64, percent: u64) -> (f64, f64) {
        let mut random = SplitMix64::new(5 + percent);
        let truth = percent as f64 / 100.0;
        let (mut all, mut held, mut width) = (0.0, 0.0, 0.0);
        for seed in 0..1000 {
            let mut list = Hotlist::<16>::new(seed);
            for _ in 0..samples {
                let value = match random.below(100) < percent {
                    true => 0,
                    false => 1 + random.below(500),
                };
                list.add(value);
            }
            let sampled = Sampled {
                samples,
                executions: samples as f64,
                variance: samples as f64,
                probability: list.chance(samples),
                factor_error: 0.0,
            };
            let Some((_, share)) = list.shares().find(|(value, _)| *value == 0) else {
                continue;
            };
            let limits = sampled.share(share);
            all += 1.0;
            held += f64::from(u8::from((limits.low..=limits.high).contains(&truth)));
            width += (limits.high - limits.low) / 2.0;
        }
        (held / all, width / all)
    }

    #[test]
    fn limits_of_shares_in_thinned_lists_hold_and_are_narrow_for_what_is_frequent() {
        for (percent, widest) in [(20, 0.25), (50, 0.25), (90, 0.1), (97, 0.05), (99, 0.02)] {
            let (held, width) = held_by_lists(2000, percent);
            assert!(held >= 0.93 && width < widest, "{percent}: {held} {width}");
        }
    }

    /// Returns the share of listed values within their limits, of a place with `distinct` values of one share each, in windows that see one value each.
    fn listed_within(distinct: u64, windows: u64, per: u64) -> f64 {
        let mut random = SplitMix64::new(distinct ^ windows << 32);
        let (mut all, mut held) = (0_u32, 0_u32);
        for seed in 0..200 {
            let mut list = Hotlist::<16>::new(seed);
            let mut sampled = Sampled::default();
            for _ in 0..windows {
                list.add_times(random.below(distinct), per);
                sampled.samples += per;
                sampled.executions += per as f64;
                sampled.variance += (per * per) as f64;
            }
            sampled.probability = list.chance(sampled.samples);
            for (_, share) in list.shares() {
                let limits = sampled.share(share);
                all += 1;
                held += u32::from((limits.low..=limits.high).contains(&(1.0 / distinct as f64)));
            }
        }
        f64::from(held) / f64::from(all)
    }

    #[test]
    fn limits_hold_for_what_is_listed_of_many_values() {
        for distinct in [3, 20, 100, 1_000_000] {
            for (windows, per) in [(15, 1), (15, 30), (300, 1), (300, 30)] {
                let part = listed_within(distinct, windows, per);
                assert!(part >= 0.93, "{distinct} {windows} {per}: {part}");
            }
        }
    }

    #[test]
    fn limits_are_not_wider_than_they_must_be() {
        let one = Sampled {
            samples: 400,
            executions: 4e6,
            variance: 4e10,
            probability: 1.0,
            factor_error: 0.0,
        };
        let Limits { low, high } = one.share(0.5);
        assert!((0.44..0.46).contains(&low) && (0.54..0.56).contains(&high));
        let Limits { low, high } = one.limits();
        assert!((3.5e6..3.7e6).contains(&low) && (4.3e6..4.5e6).contains(&high));
    }
}
