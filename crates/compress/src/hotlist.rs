//! Hotlists: the values that are most frequent in a stream, in constant space.
//!
//! # Problem
//! The values of one instruction may be as many as its executions. Those that are worth anything are
//! few, and which they are is not known before.
//!
//! # Strategy
//! The *counting samples* of Gibbons and Matias as section 2.2 of *Value Sampling* gives them. A list holds at most
//! N values, each with a counter C, and a probability p, at first 1. Of each value of the stream one is
//! added to its counter with probability p. Where that makes N + 1 values, p is divided by
//! f = N/(N − 1) and each instance that was counted is kept with probability 1/f, until a value is gone.
//!
//! *Many at once.* A value that comes many times in a row is counted as often as so many coins say, in a time that does not depend
//! on how many: [`crate::binomial`]. So are the instances that are kept when p is divided.
//!
//! *Coins.* How many instances are passed over until the next one counts is drawn at once, by the distribution that tosses have; it knows nothing of
//! what was before, so it is drawn anew when p changes. Of coins of 1/f one side is up once in N times: where N is a power of two, a random word has many of them.
//!
//! # Invariants
//! * C/p is an unbiased estimate of how often the value was seen, whatever the stream.
//! * While no more than N different values have come, p is 1 and the counts are exact.
//! * Nothing is allocated but the list itself.
//!
//! # Why it is correct
//! Whether an instance is in its counter is decided by coins that know nothing of its value or of
//! other instances: one of probability p when it comes, one of 1/f whenever p is divided. At any time
//! each instance that has come is therefore in with probability p, independently.

use crate::binomial;
use crate::random::SplitMix64;

/// Values in a list of the paper's.
pub const PAPERS: usize = 16;

/// Coins up to which they are tossed: those of eight random words of the paper's lists.
const TOSSED: u64 = 128;

/// A list of at most `N` values, `N` a power of two and at least 2.
#[derive(Clone, Debug)]
pub struct Hotlist<const N: usize = PAPERS> {
    entries: [(u64, u64); N],
    used: usize,
    probability: f64,
    /// Instances that are passed over from now on.
    passed: u64,
    random: SplitMix64,
}

impl<const N: usize> Hotlist<N> {
    /// Divisor of p.
    pub const FACTOR: f64 = N as f64 / (N as f64 - 1.0);
    /// Bits of a coin of 1/f.
    const BITS: u32 = N.trailing_zeros();
    /// Coins in a random word.
    const COINS: u32 = u64::BITS / Self::BITS;
    /// The last bit of each coin.
    const LAST: u64 = {
        let mut bits = 0;
        let mut n = 0;
        while n < Self::COINS {
            bits |= 1 << (n * Self::BITS);
            n += 1;
        }
        bits
    };

    /// An empty list. Lists with the same seed toss the same coins.
    pub const fn new(seed: u64) -> Self {
        assert!(
            N >= 2 && N.is_power_of_two(),
            "coins are made of whole bits"
        );
        Self {
            entries: [(0, 0); N],
            used: 0,
            probability: 1.0,
            passed: 0,
            random: SplitMix64::new(seed),
        }
    }

    /// The next value of the stream.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.add_times(value, 1);
    }

    /// The next value of the stream, so many times in a row.
    #[inline]
    pub fn add_times(&mut self, value: u64, times: u64) {
        if times <= self.passed {
            self.passed -= times;
            return;
        }
        self.count_some(value, times);
    }

    /// At least one of so many instances counts.
    fn count_some(&mut self, value: u64, mut times: u64) {
        while times > self.passed {
            times -= self.passed + 1;
            self.count(value);
            if let Some(n) = self.position(value) {
                // It needs no room from now on, so p does not change.
                self.entries[n].1 += binomial::heads(&mut self.random, times, self.probability);
                times = 0;
            }
            self.passed = self.draw_passed();
        }
        self.passed -= times;
    }

    fn position(&self, value: u64) -> Option<usize> {
        let mut entries = self.entries[..self.used].iter();
        entries.position(|(known, _)| *known == value)
    }

    fn count(&mut self, value: u64) {
        match self.position(value) {
            Some(n) => {
                self.entries[n].1 += 1;
                // What is frequent comes to lie before, where it is found sooner.
                self.entries.swap(n, n.saturating_sub(1));
            }
            None if self.used < N => {
                self.entries[self.used] = (value, 1);
                self.used += 1;
            }
            None => self.make_room(value),
        }
    }

    /// Values whose counters are not zero, in no order, with these.
    pub fn entries(&self) -> &[(u64, u64)] {
        &self.entries[..self.used]
    }

    /// The probability with which an instance is in its counter, above 0.
    pub const fn probability(&self) -> f64 {
        self.probability
    }

    /// The probability with which one of so many samples is in its counter, each having been added as often as it weighs: as what the counters hold tells it.
    ///
    /// A share has the variance s(1 − s)(1 − p)/m for a sum of m of all counters, which is that of samples with this probability.
    pub fn chance(&self, samples: u64) -> f64 {
        let sum: u64 = self.entries().iter().map(|(_, count)| count).sum();
        let passed = (1.0 - self.probability) * samples as f64;
        1.0 / (1.0 + passed / (sum as f64).max(1.0))
    }

    /// Returns how often a value with this counter is estimated to have been in the stream.
    pub fn estimate(&self, count: u64) -> f64 {
        count as f64 / self.probability
    }

    /// The part of the stream that each value is estimated to have been: its counter to the sum of all.
    ///
    /// A value without a counter has counted none of its instances, so the sum is of a sample of the whole stream. That is a ratio of two
    /// counts that go together, and nearer to the truth than C/p to the length of the stream: of n values its variance is s(1 − s)(1 − p)/np for a
    /// share s, in place of s(1 − p)/np (Cochran, *Sampling techniques*, chapter 6).
    pub fn shares(&self) -> impl Iterator<Item = (u64, f64)> {
        let sum: u64 = self.entries().iter().map(|(_, count)| count).sum();
        let share = move |&(value, count): &(u64, u64)| (value, count as f64 / sum as f64);
        self.entries().iter().map(share)
    }

    /// Returns the number of instances before the next one that counts.
    fn draw_passed(&mut self) -> u64 {
        match self.probability {
            1.0.. => 0,
            probability => binomial::tails_before_heads(&mut self.random, probability),
        }
    }

    /// One value more than there is room for.
    #[cold]
    fn make_room(&mut self, value: u64) {
        let mut extra = true;
        loop {
            self.probability /= Self::FACTOR;
            extra = extra && self.heads(1) == 1;
            let mut kept = 0;
            for n in 0..self.used {
                let (value, count) = self.entries[n];
                let count = self.heads(count);
                if count != 0 {
                    self.entries[kept] = (value, count);
                    kept += 1;
                }
            }
            self.used = kept;
            if !extra {
                return;
            }
            if self.used < N {
                self.entries[self.used] = (value, 1);
                self.used += 1;
                return;
            }
        }
    }

    /// Heads among as many coins of probability 1/f.
    fn heads(&mut self, coins: u64) -> u64 {
        match coins {
            0..=TOSSED => self.tossed(coins),
            _ => binomial::heads(&mut self.random, coins, 1.0 / Self::FACTOR),
        }
    }

    /// Heads among few coins: those of whose bits one is set.
    fn tossed(&mut self, mut coins: u64) -> u64 {
        let mut heads = 0;
        while coins > 0 {
            let word = self.random.draw();
            let some = (1..Self::BITS).fold(word, |some, bit| some | word >> bit) & Self::LAST;
            let tossed = coins.min(u64::from(Self::COINS));
            // Bits of as many coins as are left.
            let left = u64::MAX >> (u64::BITS - tossed as u32 * Self::BITS);
            heads += u64::from((some & left).count_ones());
            coins -= tossed;
        }
        heads
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::collections::HashMap;
    use std::vec::Vec;

    use super::*;

    /// A skewed stream of about `distinct` values.
    fn stream(seed: u64, events: usize, distinct: u64) -> Vec<u64> {
        let mut random = SplitMix64::new(seed);
        let value = |random: &mut SplitMix64| {
            let bound = 1 + random.below(distinct);
            random.below(bound)
        };
        (0..events).map(|_| value(&mut random)).collect()
    }

    fn counts(stream: &[u64]) -> HashMap<u64, u64> {
        let mut counts = HashMap::new();
        for value in stream {
            *counts.entry(*value).or_default() += 1;
        }
        counts
    }

    #[test]
    fn a_stream_of_few_values_is_counted_exactly() {
        for seed in 0..50 {
            let stream = stream(seed, 1000, 1 + seed % 16);
            let mut list = Hotlist::<16>::new(seed);
            stream.iter().for_each(|v| list.add(*v));
            let told: HashMap<u64, u64> = list.entries().iter().copied().collect();
            assert_eq!(told, counts(&stream));
            assert_eq!(list.probability().to_bits(), 1.0_f64.to_bits());
        }
    }

    #[test]
    fn there_are_never_more_values_than_room_nor_counters_that_are_zero() {
        for seed in 0..30 {
            let mut list = Hotlist::<4>::new(seed);
            for value in stream(seed, 2000, 300) {
                list.add(value);
                let entries = list.entries();
                assert!(entries.len() <= 4 && entries.iter().all(|(_, count)| *count > 0));
                let mut values: Vec<u64> = entries.iter().map(|(v, _)| *v).collect();
                values.sort_unstable();
                values.dedup();
                assert_eq!(values.len(), entries.len(), "each value is there once");
            }
            assert!(list.probability() < 1.0);
        }
    }

    /// Over many seeds the mean of the estimates is the count, of hot values and of one that was seen
    /// once, within five standard errors; and so is the variance what independent coins of
    /// probability p at least make it.
    #[test]
    fn estimates_are_unbiased() {
        const RUNS: u64 = 4000;
        let mut stream = stream(99, 600, 60);
        stream.push(1_000_000);
        let exact = counts(&stream);
        let mut sums: HashMap<u64, (f64, f64)> = HashMap::new();
        for seed in 0..RUNS {
            let mut list = Hotlist::<16>::new(seed * 7919 + 1);
            stream.iter().for_each(|v| list.add(*v));
            for &(value, count) in list.entries() {
                let estimate = list.estimate(count);
                let sum = sums.entry(value).or_default();
                sum.0 += estimate;
                sum.1 += estimate * estimate;
            }
        }
        for (value, count) in exact {
            let runs = RUNS as f64;
            let (sum, squares) = sums.get(&value).copied().unwrap_or_default();
            let mean = sum / runs;
            let error = ((squares / runs - mean * mean).max(0.0) / runs).sqrt();
            let off = (mean - count as f64).abs();
            assert!(
                off <= 5.0 * error + 1e-9,
                "{value}: {mean} for {count} ± {error}"
            );
        }
    }

    /// Values that come a trillion times each take no longer than others, and their estimates stay unbiased.
    #[test]
    fn what_comes_many_times_in_a_row_is_counted_at_once() {
        const RUNS: u64 = 2000;
        const TIMES: [u64; 6] = [1, 1 << 40, 1 << 39, 1 << 41, 1 << 38, 1 << 40];
        let (mut sum, mut squares) = ([0.0; 6], [0.0; 6]);
        for seed in 0..RUNS {
            let mut list = Hotlist::<4>::new(seed * 7919 + 1);
            for turn in 0..3 {
                for n in 0..TIMES.len() {
                    let n = (n * 5 + turn) % TIMES.len();
                    list.add_times(n as u64, TIMES[n]);
                }
            }
            for &(value, count) in list.entries() {
                let estimate = list.estimate(count) / (3 * TIMES[value as usize]) as f64;
                sum[value as usize] += estimate;
                squares[value as usize] += estimate * estimate;
            }
        }
        let runs = RUNS as f64;
        // The first one is hardly ever in a list.
        for n in 1..TIMES.len() {
            let mean = sum[n] / runs;
            let error = ((squares[n] / runs - mean * mean).max(0.0) / runs).sqrt();
            assert!(
                (mean - 1.0).abs() <= 5.0 * error + 1e-9,
                "{n}: {mean} ± {error}"
            );
        }
    }

    #[test]
    fn what_is_hot_is_in_the_list() {
        let mut random = SplitMix64::new(5);
        let mut list = Hotlist::<16>::new(1);
        const EVENTS: u64 = 200_000;
        for n in 0..EVENTS {
            list.add(if n % 3 == 0 { 42 } else { random.draw() });
        }
        let hot = list.entries().iter().find(|(value, _)| *value == 42);
        let estimate = hot.map_or(0.0, |(_, count)| list.estimate(*count));
        let third = EVENTS as f64 / 3.0;
        // Of third·p instances the counter is off by its root, of which five.
        let off = 5.0 * third / (third * list.probability()).sqrt();
        assert!(
            (estimate - third).abs() < off,
            "{estimate} for {third} ± {off}"
        );
    }
}
