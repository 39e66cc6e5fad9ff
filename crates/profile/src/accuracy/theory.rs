//! Theoretical bounds for both papers' designs.

use std::collections::BTreeMap;

/// The probability that a tuple becomes a false positive of a multi-hash profiler: (100·n ÷ (t·Z))^n
/// for n tables with Z counters in all and a threshold of t percent. At most 100/t counters of each
/// table can be at the threshold, and a false positive meets one in every table. At most 1.
///
/// A loose upper bound: it knows nothing of the stream, shielding or conservative update.
/// Source: *Multi-Hash*, section 6.2 and figure 9.
pub fn false_positive_bound(tables: u32, counters: u32, threshold_percent: f64) -> f64 {
    let n = f64::from(tables);
    let one = 100.0 * n / (threshold_percent * f64::from(counters));
    one.powf(n).min(1.0)
}

/// The same probability where the counts of an interval's tuples are known: the mean over tuples below the threshold.
/// `tuples` has the number of tuples of each count. `None` where no tuple is below the threshold.
///
/// A tuple with f events is promoted only if others add T − f to its counter in every table. Each other does so with
/// probability n ÷ Z, and a candidate, shielded at T, adds T. With ideal hash functions this is exact for counters
/// that only count. Retained tuples and conservative update only lower counters, so it is an upper bound for them.
pub fn false_positive_bound_of(
    tables: u32,
    counters: u32,
    threshold: u64,
    tuples: &BTreeMap<u64, u64>,
) -> Option<f64> {
    let met = f64::from(tables) / f64::from(counters);
    let loads = loads(met, threshold as usize, tuples);
    let one = |count: u64| {
        let (count, needed) = (count as usize, (threshold - count) as usize);
        // The sum of the others: the tuple's own term is divided out.
        let mut others: Vec<f64> = Vec::with_capacity(needed);
        for (k, load) in loads.iter().take(needed).enumerate() {
            let own = k.checked_sub(count).map_or(0.0, |k| others[k]);
            others.push((load - met * own) / (1.0 - met));
        }
        let less: f64 = others.iter().sum();
        (1.0 - less).clamp(0.0, 1.0).powf(f64::from(tables))
    };
    let below = tuples.range(..threshold);
    let (number, probabilities) = below.fold((0, 0.0), |(number, sum), (count, tuples)| {
        (number + tuples, sum + one(*count) * *tuples as f64)
    });
    match number {
        0 => None,
        // All tuples share the one counter of a table: no more is said here.
        _ if met >= 1.0 => Some(1.0),
        _ => Some(probabilities / number as f64),
    }
}

/// Probabilities that a counter has 0, 1, … and less than `threshold`, if each tuple is in it with probability `met`.
///
/// They are coefficients of the product of 1 − met + met·x^count over all tuples: the exponential of a power series.
fn loads(met: f64, threshold: usize, tuples: &BTreeMap<u64, u64>) -> Vec<f64> {
    let odds = met / (1.0 - met);
    let mut logarithm = vec![0.0; threshold];
    for (count, number) in tuples.range(1..threshold as u64) {
        let (mut sign, mut power) = (1.0, odds);
        for (nth, at) in (*count as usize..threshold)
            .step_by(*count as usize)
            .enumerate()
        {
            logarithm[at] += sign * power / (nth + 1) as f64 * *number as f64;
            (sign, power) = (-sign, power * odds);
        }
    }
    let all: u64 = tuples.values().sum();
    let mut loads = vec![(all as f64 * (-met).ln_1p()).exp()];
    for k in 1..threshold {
        let terms = (1..=k).map(|j| j as f64 * logarithm[j] * loads[k - j]);
        loads.push(terms.sum::<f64>() / k as f64);
    }
    loads
}

/// Ways in which a sampler learns the length of its input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Length {
    /// Estimated: `R`, stateless.
    Estimated,
    /// Counted: `P`, `CR` with the ratio estimator.
    Counted,
}

/// The mean absolute error, in percent, of the estimated count of a tuple that occurs `t` times in
/// an input in random order where it makes up the share `bias`, sampled one in `rate`.
///
/// The mean of |error| is √(2/π)·σ, with σ² = (r − 1)/t where the length is estimated and
/// (r − 1)(1 − bias)/t where it is counted. Source: *Stratified Sampling*, section 3.3; `docs/papers.md`.
pub fn sampling_error(length: Length, rate: f64, t: f64, bias: f64) -> f64 {
    let spread = match length {
        Length::Estimated => 1.0,
        Length::Counted => 1.0 - bias,
    };
    let variance = (rate - 1.0) * spread / t;
    100.0 * (std::f64::consts::FRAC_2_PI * variance).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_that_of_figure_9() {
        // 1000 counters, 1 %: one table meets one of 100 hot counters with probability 0.1.
        assert!((false_positive_bound(1, 1000, 1.0) - 0.1).abs() < 1e-12);
        assert!((false_positive_bound(4, 1000, 1.0) - 0.4_f64.powi(4)).abs() < 1e-12);
        // More tables help, up to about four for 1000 counters.
        let at = |n| false_positive_bound(n, 1000, 1.0);
        assert!(at(3) < at(2) && at(2) < at(1) && at(6) > at(4));
        assert_eq!(false_positive_bound(1, 50, 1.0), 1.0);
    }

    /// The share of tuples below the threshold whose counters all reach it, with random tables.
    fn drawn(tables: u32, counters: u32, threshold: u64, counts: &[u64], seed: u64) -> f64 {
        let mut random = trommel_compress::random::SplitMix64::new(seed);
        let each = u64::from(counters / tables);
        let mut loads = vec![vec![0; each as usize]; tables as usize];
        let places: Vec<Vec<usize>> = counts
            .iter()
            .map(|_| (0..tables).map(|_| random.below(each) as usize).collect())
            .collect();
        for (count, places) in counts.iter().zip(&places) {
            for (load, at) in loads.iter_mut().zip(places) {
                load[*at] += count.min(&threshold);
            }
        }
        let reaches =
            |places: &[usize]| loads.iter().zip(places).all(|(l, at)| l[*at] >= threshold);
        let below = || counts.iter().zip(&places).filter(|(c, _)| **c < threshold);
        below().filter(|(_, places)| reaches(places)).count() as f64 / below().count() as f64
    }

    #[test]
    fn random_tables_have_as_many_false_positives_as_the_bound_that_knows_the_counts() {
        const DRAWS: u32 = 40;
        for (tables, counters) in [(1, 256), (2, 256), (4, 512), (1, 2048), (4, 128), (8, 256)] {
            for hot in [0, 20, 60] {
                // Candidates, tuples of some events, and many of one.
                let counts: Vec<u64> = (0..hot)
                    .map(|n| 100 + n)
                    .chain((0..400).map(|n| 1 + n % 30))
                    .chain((0..1500).map(|_| 1))
                    .collect();
                let mut tuples = BTreeMap::new();
                for count in &counts {
                    *tuples.entry(*count).or_insert(0) += 1;
                }
                let bound = false_positive_bound_of(tables, counters, 100, &tuples);
                let bound = bound.expect("tuples below the threshold");
                let drawn = |seed| drawn(tables, counters, 100, &counts, u64::from(seed));
                let seen: Vec<f64> = (1..=DRAWS).map(drawn).collect();
                let mean = seen.iter().sum::<f64>() / f64::from(DRAWS);
                let squares: f64 = seen.iter().map(|s| (s - mean).powi(2)).sum();
                let error = (squares / f64::from(DRAWS * (DRAWS - 1))).sqrt();
                let apart = (mean - bound).abs();
                // None at all may be seen of what is rare.
                let apart_by_chance = apart <= 5.0 * error + 1e-3;
                assert!(
                    apart_by_chance,
                    "{tables} {counters} {hot}: {mean}, {bound}"
                );
            }
        }
    }

    #[test]
    fn without_tuples_below_the_threshold_there_is_no_bound() {
        assert_eq!(false_positive_bound_of(2, 512, 100, &BTreeMap::new()), None);
        let candidates = BTreeMap::from([(100, 3), (4000, 1)]);
        assert_eq!(false_positive_bound_of(2, 512, 100, &candidates), None);
        // A tuple alone meets nobody.
        let alone = false_positive_bound_of(2, 512, 100, &BTreeMap::from([(99, 1)]));
        assert!(alone.is_some_and(|p| p.abs() < 1e-9), "{alone:?}");
    }

    #[test]
    fn the_papers_two_lengths_give_four_percent() {
        let r = sampling_error(Length::Estimated, 10.0, 0.3 * 12_000.0, 0.3);
        let n = 4600.0;
        // One of four substreams holds the tuple and a quarter of the rest.
        let bias = 0.3 / (0.3 + 0.7 / 4.0);
        let h = sampling_error(Length::Counted, 10.0, 0.3 * n, bias);
        assert!((r - 4.0).abs() < 0.1 && (h - 4.0).abs() < 0.2, "{r} {h}");
    }
}
