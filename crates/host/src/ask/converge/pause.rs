//! Pauses between bursts: each is a multiple of what the burst before has cost, at random about that.
//!
//! What the host spends on a burst is known only when it has folded what the burst sent. So the cost is estimated at the burst's end, and mended
//! before the pause is over.

use std::time::Duration;

use trommel_compress::random::SplitMix64;

/// Length of a pause, as a multiple of the burst's cost.
const PAUSE: u64 = 8;
/// Cycles that the first burst is taken to cost.
const FIRST: u64 = 3_000_000;
/// Bursts after which pauses are twice as long, three times after twice as many, and so on.
const MANY: u64 = 256;

/// Pauses of a process.
pub(super) struct Pauses {
    random: SplitMix64,
    /// Cycles that the last burst has cost.
    cost: u64,
    /// Cycles of the host that are in the cost by an estimate; `None`: they are in it as they were.
    estimated: Option<u64>,
    /// CPU time that the host had spent when it asked for the last burst. What comes of the burst begins before it is seen to begin.
    asked: Duration,
    /// The pause is so many 256th of what it would be.
    drawn: u64,
}

impl Pauses {
    pub(super) const fn new(random: SplitMix64) -> Self {
        Self {
            random,
            cost: FIRST,
            estimated: None,
            asked: Duration::ZERO,
            drawn: 256,
        }
    }

    /// A burst is asked for.
    pub(super) const fn asks(&mut self, host: Duration) {
        self.asked = host;
    }

    /// CPU time that the host had spent then.
    pub(super) const fn asked(&self) -> Duration {
        self.asked
    }

    /// A pause begins, after a burst of this cost, of which so many cycles are the host's by an estimate; or after the first stretch.
    pub(super) fn begins(&mut self, cost: Option<(u64, u64)>) {
        self.cost = FIRST;
        if let Some((cost, hosted)) = cost {
            (self.cost, self.estimated) = (cost, Some(hosted));
        }
        self.drawn = 192 + self.random.below(128);
    }

    /// The host has spent so many cycles on the burst.
    pub(super) fn priced(&mut self, hosting: impl FnOnce() -> u64) {
        if let Some(estimated) = self.estimated.take() {
            self.cost += hosting().saturating_sub(estimated);
        }
    }

    /// The length of the pause after so many bursts, in cycles.
    pub(super) fn length(&self, bursts: u32) -> u64 {
        let times = PAUSE + PAUSE * u64::from(bursts) / MANY;
        self.cost.saturating_mul(times) / 256 * self.drawn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_a_multiple_of_what_its_burst_has_cost() {
        let mut pauses = Pauses::new(SplitMix64::new(7));
        let range = |cost: u64| PAUSE * cost / 256 * 192..PAUSE * cost / 256 * 320;
        for _ in 0..100 {
            pauses.begins(Some((1_024_000, 24_000)));
            assert!(range(1_024_000).contains(&pauses.length(0)));
            // Once, and by what was not in it.
            pauses.priced(|| 1_048_000);
            pauses.priced(|| unreachable!("it is priced"));
            assert!(range(2_048_000).contains(&pauses.length(0)));
            let [early, late] = [0, MANY as u32].map(|bursts| pauses.length(bursts));
            assert_eq!(late, 2 * early);
        }
        pauses.begins(None);
        assert!(range(FIRST).contains(&pauses.length(1)));
    }
}
