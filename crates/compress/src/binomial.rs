//! Numbers of heads among many coins: random numbers of the binomial distribution.
//!
//! # Problem
//! An observation of a profile within a budget stands for the time since the last one, so it is added to a sample some
//! millions of times. To toss that many coins one by one costs more than the observation.
//!
//! # Strategy
//! Three ways, by how many coins there are and how many heads are expected:
//! * few heads: the coins from one head to the next are drawn at once, by the geometric distribution;
//! * many: transformed rejection (BTRS of W. Hörmann, *The generation of binomial random variates*, Journal of
//!   Statistical Computation and Simulation 46, 1993), some two draws whatever the number of coins;
//! * above a probability of a half: tails are drawn in place of heads.
//!
//! # Why it is correct
//! Each way is exact but for the rounding of `f64`. Rejection needs a hull above the density, which Hörmann proves for ten
//! expected heads or more, and for a probability of at most a half.

use libm::{floor, log, log1p, sqrt};

use crate::random::SplitMix64;

/// Expected heads from which rejection is right.
const MANY: f64 = 10.0;

/// Returns the number of heads among `coins`, each of which is heads with `probability`.
///
/// `probability` is above 0 and at most 1.
pub(crate) fn heads(random: &mut SplitMix64, coins: u64, probability: f64) -> u64 {
    if probability >= 1.0 {
        return coins;
    }
    if probability > 0.5 {
        return coins - up_to_half(random, coins, 1.0 - probability);
    }
    up_to_half(random, coins, probability)
}

/// Returns the number of coins that are tails before the first one that is heads with `probability`, above 0 and below 1.
pub(crate) fn tails_before_heads(random: &mut SplitMix64, probability: f64) -> u64 {
    // k or more are tails with probability (1 − p)ᵏ.
    (log(unit(random)) / log1p(-probability)) as u64
}

/// A number above 0 and at most 1.
fn unit(random: &mut SplitMix64) -> f64 {
    const UNIT: f64 = 1.0 / (1_u64 << 53) as f64;
    ((random.draw() >> 11) + 1) as f64 * UNIT
}

/// The number of heads, for a probability of at most a half.
fn up_to_half(random: &mut SplitMix64, coins: u64, probability: f64) -> u64 {
    if coins as f64 * probability >= MANY {
        return rejected(random, coins, probability);
    }
    let (mut heads, mut left) = (0, coins);
    loop {
        let tails = tails_before_heads(random, probability);
        if tails >= left {
            return heads;
        }
        heads += 1;
        left -= tails + 1;
    }
}

/// BTRS, with the names of the article.
fn rejected(random: &mut SplitMix64, coins: u64, p: f64) -> u64 {
    let n = coins as f64;
    let spq = sqrt(n * p * (1.0 - p));
    let b = 1.15 + 2.53 * spq;
    let a = -0.0873 + 0.0248 * b + 0.01 * p;
    let c = n * p + 0.5;
    let v_r = 0.92 - 4.2 / b;
    let alpha = (2.83 + 5.1 / b) * spq;
    let r = p / (1.0 - p);
    let m = floor((n + 1.0) * p);
    loop {
        let u = unit(random) - 0.5;
        let v = unit(random);
        let us = 0.5 - u.abs();
        let k = floor((2.0 * a / us + b) * u + c);
        if us >= 0.07 && v <= v_r {
            return k as u64;
        }
        // Also where `us` is 0, so that `k` is not finite.
        if !(0.0..=n).contains(&k) {
            continue;
        }
        let density = (m + 0.5) * log((m + 1.0) / (r * (n - m + 1.0)))
            + (n + 1.0) * log((n - m + 1.0) / (n - k + 1.0))
            + (k + 0.5) * log(r * (n - k + 1.0) / (k + 1.0))
            + correction(m)
            + correction(n - m)
            - correction(k)
            - correction(n - k);
        if log(v * alpha / (a / (us * us) + b)) <= density {
            return k as u64;
        }
    }
}

/// The error of Stirling's formula for the logarithm of k!.
fn correction(k: f64) -> f64 {
    /// For the first ones the series is too far off.
    const FIRST: [f64; 10] = [
        0.081_061_466_795_327_26,
        0.041_340_695_955_409_29,
        0.027_677_925_684_998_34,
        0.020_790_672_103_765_09,
        0.016_644_691_189_821_19,
        0.013_876_128_823_070_75,
        0.011_896_709_945_891_77,
        0.010_411_265_261_972_1,
        0.009_255_462_182_712_733,
        0.008_330_563_433_362_87,
    ];
    if let Some(known) = FIRST.get(k as usize) {
        return *known;
    }
    let next = k + 1.0;
    let square = next * next;
    (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / 1260.0 / square) / square) / next
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec;
    use std::vec::Vec;

    use super::*;

    const RUNS: u32 = 40_000;

    /// Probabilities of 0 to `coins` heads.
    fn exact(coins: u64, probability: f64) -> Vec<f64> {
        let ln = |n: u64| -> f64 { (1..=n).map(|n| (n as f64).ln()).sum() };
        let of = |k: u64| {
            let ways = ln(coins) - ln(k) - ln(coins - k);
            let each = k as f64 * probability.ln() + (coins - k) as f64 * (1.0 - probability).ln();
            (ways + each).exp()
        };
        (0..=coins).map(of).collect()
    }

    /// Each number of heads is drawn as often as the distribution says, by chi-square of all numbers that are expected
    /// often enough: within five deviations of its mean.
    #[test]
    fn each_number_of_heads_is_as_frequent_as_it_should_be() {
        for (coins, probability) in [
            (1, 0.3_f64),
            (7, 0.5),
            (50, 0.02),
            (25, 0.4),
            (40, 0.25),
            (200, 0.06),
            (300, 0.5),
            (300, 0.9375),
            (12, 0.9375),
        ] {
            let mut random = SplitMix64::new(coins ^ probability.to_bits());
            let mut seen = vec![0_u32; coins as usize + 1];
            for _ in 0..RUNS {
                seen[heads(&mut random, coins, probability) as usize] += 1;
            }
            let (mut sum, mut classes) = (0.0, -1.0);
            for (seen, share) in seen.iter().zip(exact(coins, probability)) {
                let expected = share * f64::from(RUNS);
                if expected >= 10.0 {
                    sum += (f64::from(*seen) - expected).powi(2) / expected;
                    classes += 1.0;
                }
            }
            let off = (sum - classes) / (2.0 * f64::max(classes, 1.0)).sqrt();
            assert!(off < 5.0, "{coins} coins of {probability}: {off}");
        }
    }

    /// Mean and variance are those of coins for numbers that nobody could toss.
    #[test]
    fn many_coins_have_the_mean_and_the_variance_of_coins() {
        for (coins, probability) in [(1 << 40, 0.9375), (1 << 50, 0.01), (3_000_000, 1e-3)] {
            let mut random = SplitMix64::new(coins);
            let (mean, variance) = {
                let n = coins as f64;
                (n * probability, n * probability * (1.0 - probability))
            };
            let (mut sum, mut squares) = (0.0, 0.0);
            for _ in 0..RUNS {
                let off = heads(&mut random, coins, probability) as f64 - mean;
                sum += off;
                squares += off * off;
            }
            let runs = f64::from(RUNS);
            assert!((sum / runs).abs() < 5.0 * (variance / runs).sqrt());
            let ratio = squares / runs / variance;
            assert!((ratio - 1.0).abs() < 5.0 * (2.0 / runs).sqrt(), "{ratio}");
        }
    }
}
