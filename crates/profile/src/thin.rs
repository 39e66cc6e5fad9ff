//! Fewer values of an instruction, so that sums of profiles stay small.
//!
//! # Problem
//! A profile of windows has at most 16 values of an instruction, from a [hotlist](trommel_compress::hotlist). The sum of a thousand such
//! profiles may have thousands, each seen once. What is left out of a sum must not make it wrong: a value that
//! is rarely in each part may be frequent in all of them.
//!
//! # Strategy
//! Threshold sampling (Duffield, Lund, Thorup, *Learn more, sample less*, IEEE Trans. Inf. Theory 2005): for a threshold τ,
//! a count c ≥ τ is kept as it is, and a smaller one is kept with probability c/τ, and is τ then. τ is such that as
//! many are kept as are wanted; with one random number for all, by systematic sampling, so that exactly so many are, or one less.
//!
//! # Why it is right
//! Each count is unbiased: below τ, c/τ · τ = c. Its variance is c(τ − c) below τ and 0 above, which is at most τ·c(1 − c/E) of E
//! executions, as E ≥ τ. [`Sampled::thin`](crate::sampled::Sampled::thin) gives the limits
//! of shares that variance; those of what is far above τ in all parts are wider than they must be.

use trommel_compress::random::SplitMix64;
use trommel_tuple::Kind;

use crate::Profile;
use crate::callers::Callers;

/// Leaves at most `most` values of each instruction, of the kinds that hotlists are for, by each caller too, and of each register at a call, in a
/// profile of windows. Others it leaves alone.
pub fn thin(profile: &mut Profile, most: usize) {
    let Some(windows) = &mut profile.windows else {
        return;
    };
    for (kind, data) in &mut profile.kinds {
        if kind.value_is_place() || *kind == Kind::Latency {
            continue;
        }
        let sites = windows.sites.entry(*kind).or_default();
        for (place, counts) in &mut data.counts {
            if counts.len() > most
                && let Some(sampled) = sites.get_mut(place)
            {
                let threshold = one(counts, most, &mut random(place.word(), counts));
                sampled.thin(threshold);
            }
        }
    }
    if let Some(callers) = &mut windows.callers {
        thin_callers(callers, most);
    }
    for (passed, argument) in &mut windows.arguments {
        let counts = &mut argument.counts;
        if counts.len() > most {
            // Registers of a call are as independent of each other as calls are.
            let register = u64::from(passed.register);
            let call = passed.call.map_or(0, |call| call.word());
            let about = call ^ passed.target.word().rotate_left(24) ^ register << 56;
            let threshold = one(counts, most, &mut random(about, counts));
            argument.sampled.thin(threshold);
        }
    }
}

/// Thins the values of callers, as [`thin`] does.
fn thin_callers(callers: &mut Callers, most: usize) {
    for (called, values) in &mut callers.lists {
        let counts = &mut values.counts;
        if counts.len() > most {
            let call = called.call.map_or(0, |call| call.word());
            let kind = (called.kind as u64) << 56;
            let about = call ^ called.at.word().rotate_left(24) ^ kind;
            let threshold = one(counts, most, &mut random(about, counts));
            values.sampled.thin(threshold);
        }
    }
}

/// Returns what is the same for the same counts, and independent for others.
fn random(about: u64, counts: &[(u64, u64)]) -> SplitMix64 {
    let mix = |sum: u64, &(value, count): &(u64, u64)| {
        SplitMix64::new(sum ^ value.rotate_left(32) ^ count).draw()
    };
    SplitMix64::new(counts.iter().fold(about, mix))
}

/// The threshold at which `most` of the counts are expected to be kept.
fn threshold(counts: &[(u64, u64)], most: usize) -> f64 {
    let mut sorted: Vec<u64> = counts.iter().map(|(_, count)| *count).collect();
    sorted.sort_unstable();
    let mut rest: f64 = sorted.iter().map(|count| *count as f64).sum();
    // As long as the largest is kept for sure it takes one of the places.
    for places in (1..=most).rev() {
        let threshold = rest / places as f64;
        match sorted.pop() {
            Some(largest) if largest as f64 >= threshold => rest -= largest as f64,
            _ => return threshold,
        }
    }
    // Not reached: with one place left the sum of the rest is above each of it.
    rest
}

/// Thins sorted counts; what the threshold was.
fn one(counts: &mut Vec<(u64, u64)>, most: usize, random: &mut SplitMix64) -> f64 {
    const UNIT: f64 = 1.0 / (1_u64 << 53) as f64;
    let threshold = threshold(counts, most.max(1));
    let mut next = (random.draw() >> 11) as f64 * UNIT * threshold;
    let mut sum = 0.0;
    counts.retain_mut(|(_, count)| {
        if *count as f64 >= threshold {
            return true;
        }
        sum += *count as f64;
        let is_hit = sum > next;
        if is_hit {
            next += threshold;
            // To one of the whole numbers beside it, so that it is right in the mean.
            let chance = (random.draw() >> 11) as f64 * UNIT;
            *count = ((threshold + chance) as u64).max(1);
        }
        is_hit
    });
    threshold
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counts() -> impl Strategy<Value = Vec<(u64, u64)>> {
        let one = prop_oneof![1_u64..20, 1_u64..5000];
        prop::collection::btree_map(any::<u64>(), one, 20..200)
            .prop_map(|all| all.into_iter().collect())
    }

    proptest! {
        #[test]
        fn no_more_are_left_than_are_wanted_and_large_ones_are(before in counts(), most in 2_usize..15) {
            let mut after = before.clone();
            let threshold = one(&mut after, most, &mut SplitMix64::new(3));
            prop_assert!((most - 1..=most).contains(&after.len()), "{}", after.len());
            for &(value, count) in &before {
                if count as f64 >= threshold {
                    prop_assert!(after.contains(&(value, count)));
                }
            }
            prop_assert!(after.is_sorted_by_key(|(value, _)| *value));
        }
    }

    #[test]
    fn counts_are_right_in_the_mean_and_vary_no_more_than_is_said() {
        const ROUNDS: u64 = 40_000;
        let mut before: Vec<(u64, u64)> = (0..100).map(|n| (n, 50 + 10 * n)).collect();
        before[7].1 = 100_000;
        let mut sums = vec![(0.0, 0.0); before.len()];
        let mut random = SplitMix64::new(7);
        let mut threshold = 0.0;
        for _ in 0..ROUNDS {
            let mut after = before.clone();
            threshold = one(&mut after, 20, &mut random);
            for (value, count) in after {
                let (sum, squares) = &mut sums[value as usize];
                *sum += count as f64;
                *squares += (count as f64).powi(2);
            }
        }
        for (&(_, count), &(sum, squares)) in before.iter().zip(&sums) {
            let (count, rounds) = (count as f64, ROUNDS as f64);
            let mean = sum / rounds;
            let seen = squares / rounds - mean * mean;
            let error = (seen / rounds).sqrt();
            assert!((mean - count).abs() < 5.0 * error + 1e-6, "{count}: {mean}");
            assert!(seen < 1.1 * threshold * count, "{count}: {seen}");
        }
    }
}
