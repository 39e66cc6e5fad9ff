//! Weights of the stretches of profiling.
//!
//! # Problem
//! A place is profiled at the beginning, for long, and later for short whiles. Simple sums of counts describe mostly the beginning.
//!
//! # Strategy
//! A stretch stands for itself and for half of the unprofiled time before it and after it. Its counts have the *weight* of
//! that time over its own. The frequent values of each stretch give the factor by which the total count of a value is to be changed.
//! Factors are relative to that of all executions, so that the sum of counts stays what was profiled.
//!
//! Weights are right if executions come at one rate within that time, and profiling slows them down alike. Where all stretches are
//! alike, all factors are 1.

use std::time::Duration;

use super::sketch::Sketch;

/// Values with factors of their own.
const KEPT: usize = 16;

/// Sums over stretches: as counted, and weighted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sums {
    counted: f64,
    weighted: f64,
}

impl Sums {
    fn add(&mut self, count: f64, weight: f64) {
        self.counted += count;
        self.weighted += count * weight;
    }

    fn factor(self) -> f64 {
        match self.counted > 0.0 {
            true => self.weighted / self.counted,
            false => 1.0,
        }
    }
}

/// The weights of a place's values.
#[derive(Clone, Debug, Default)]
pub struct Weights {
    all: Sums,
    others: Sums,
    kept: Vec<(u64, Sums)>,
}

/// Time of a stretch, and the time around it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stretch {
    /// Its begin.
    pub from: Duration,
    /// Time before it that it stands for.
    pub before: Duration,
}

impl Stretch {
    /// Returns its weight when it ended at `to` and stands for so much time after it.
    fn weight(self, to: Duration, after: Duration) -> f64 {
        let own = to.saturating_sub(self.from).as_secs_f64();
        match own > 0.0 {
            true => (own + (self.before + after).as_secs_f64()) / own,
            false => 1.0,
        }
    }
}

impl Weights {
    /// Adds what was seen in a stretch, as [`Stretch::weight`].
    pub fn add(&mut self, stretch: Stretch, to: Duration, after: Duration, seen: &Sketch) {
        let weight = stretch.weight(to, after);
        self.all.add(seen.total() as f64, weight);
        let mut others = seen.total();
        for (value, count) in seen.values() {
            let known = self.kept.iter().position(|kept| kept.0 == value);
            let at = match known {
                Some(at) => at,
                None if self.kept.len() < KEPT => {
                    self.kept.push((value, Sums::default()));
                    self.kept.len() - 1
                }
                None => continue,
            };
            self.kept[at].1.add(count as f64, weight);
            others -= count.min(others);
        }
        self.others.add(others as f64, weight);
    }

    /// Changes counts accordingly. Their sum stays the same, unless there are more values than executions can be spared from the most frequent one for.
    pub fn apply(&self, counts: &mut [(u64, u64)]) {
        let sum = |counts: &[(u64, u64)]| counts.iter().map(|(_, n)| *n as f64).sum::<f64>();
        let before = sum(counts);
        let of = |value: u64| {
            let kept = self.kept.iter().find(|kept| kept.0 == value);
            kept.map_or(self.others, |kept| kept.1).factor() / self.all.factor()
        };
        let after: f64 = counts.iter().map(|(value, n)| *n as f64 * of(*value)).sum();
        if after <= 0.0 {
            return;
        }
        let sum = counts.iter().map(|(_, n)| n).sum::<u64>();
        for (value, n) in counts.iter_mut() {
            let count = *n as f64 * of(*value) * before / after;
            // What was seen was seen.
            *n = (count.round() as u64).max(1);
        }
        // What rounding has made of the sum is the most frequent value's.
        let new = counts.iter().map(|(_, n)| n).sum::<u64>();
        if let Some((_, most)) = counts.iter_mut().max_by_key(|(_, n)| *n) {
            *most = (*most + sum).saturating_sub(new).max(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn seen(values: &[(u64, u64)]) -> Sketch {
        let mut sketch = Sketch::default();
        for &(value, count) in values {
            sketch.add(value, count);
        }
        sketch
    }

    #[test]
    fn a_short_stretch_in_the_middle_of_nothing_stands_for_more() {
        let mut weights = Weights::default();
        let first = Stretch::default();
        // Two seconds and half of four; then one second, half of four and one to the end.
        weights.add(first, 2 * SECOND, 2 * SECOND, &seen(&[(1, 2000)]));
        let second = Stretch {
            from: 6 * SECOND,
            before: 2 * SECOND,
        };
        weights.add(second, 7 * SECOND, SECOND, &seen(&[(2, 1000)]));
        let mut counts = [(1, 2000), (2, 1000)];
        weights.apply(&mut counts);
        assert_eq!(counts, [(1, 1500), (2, 1500)]);
    }

    #[test]
    fn stretches_that_are_alike_change_nothing() {
        let mut weights = Weights::default();
        let mut stretch = Stretch::default();
        for n in 1..5 {
            let values: Vec<_> = (0..100).map(|v| (v + 100 * u64::from(n), 10)).collect();
            let all = [&[(7, 3000)][..], &values].concat();
            weights.add(stretch, stretch.from + SECOND, n * SECOND, &seen(&all));
            stretch.from += 2 * n * SECOND;
            stretch.before = n * SECOND;
        }
        let mut counts = [(7, 12000), (150, 10), (250, 10)];
        weights.apply(&mut counts);
        let off = counts[0].1.abs_diff(12000);
        assert!(off < 20, "{counts:?}");
    }

    #[test]
    fn the_sum_of_counts_is_what_was_profiled() {
        for n in 1..300_u64 {
            let mut weights = Weights::default();
            let mut stretch = Stretch::default();
            let mut counts: Vec<(u64, u64)> = (0..=n % 7).map(|v| (v, 0)).collect();
            for k in 1..=n % 11 + 1 {
                let values: Vec<_> = counts
                    .iter()
                    .map(|c| (c.0, 1 + (c.0 * n + k) % 97))
                    .collect();
                weights.add(
                    stretch,
                    stretch.from + SECOND,
                    SECOND * k as u32,
                    &seen(&values),
                );
                for (count, (_, new)) in counts.iter_mut().zip(&values) {
                    count.1 += new;
                }
                stretch.from += SECOND * (2 * k as u32 + 1);
                stretch.before = SECOND * k as u32;
            }
            let sum = |counts: &[(u64, u64)]| counts.iter().map(|c| c.1).sum::<u64>();
            let before = sum(&counts);
            weights.apply(&mut counts);
            assert_eq!(sum(&counts), before, "{counts:?}");
        }
    }
}
