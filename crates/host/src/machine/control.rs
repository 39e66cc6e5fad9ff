//! Rate of samples, chosen so that they cost what may be paid.
//!
//! Each look finds what has been paid: the samples, at a measured price ([`crate::windows::toll`]), and our own CPU
//! time. Both grow with the number of samples, but for the start. So the price of a sample is the growth since the
//! last looks. The rate is chosen so that all that is paid meets the budget after a while, which is in proportion to
//! the run.

use std::time::Duration;

/// Samples in a second of a processor, if a budget decides.
const RATES: (f64, f64) = (10.0, 10_000.0);
/// At first, when nothing is known.
const FIRST: f64 = 500.0;
/// Within what time at least a debt is paid, or credit used.
const SOON: f64 = 1.0;
/// Weight of the last look in the price of a sample.
const NEW: f64 = 0.2;

/// Controller of a recording's rate.
#[derive(Clone, Debug)]
pub(super) struct Control {
    /// Budget as a part of all processors' time, 0 to 1. `None`: the user sets the rate.
    budget: Option<f64>,
    processors: f64,
    rate: f64,
    /// Seconds of a sample.
    price: f64,
    paid: f64,
    taken: u64,
}

impl Control {
    /// `toll`: what a sample costs whatever it interrupts.
    pub(super) fn new(
        budget: f64,
        rate: Option<f64>,
        processors: usize,
        toll: Duration,
        highest: f64,
    ) -> Self {
        Self {
            budget: rate.is_none().then_some(budget / 100.0),
            processors: processors as f64,
            rate: rate.unwrap_or(FIRST).min(highest),
            // What we do with one takes about as long, until it is known.
            price: 2.0 * toll.as_secs_f64(),
            paid: 0.0,
            taken: 0,
        }
    }

    /// Returns the budget in percent; 0 where a rate is given.
    pub(super) fn budget(&self) -> f64 {
        self.budget.map_or(0.0, |budget| 100.0 * budget)
    }

    /// Samples in a second of a processor.
    pub(super) fn rate(&self) -> f64 {
        self.rate
    }

    /// Takes the account so far. Returns true if the rate is another now.
    pub(super) fn look(&mut self, elapsed: Duration, paid: Duration, taken: u64) -> bool {
        let Some(budget) = self.budget else {
            return false;
        };
        let (elapsed, paid) = (elapsed.as_secs_f64(), paid.as_secs_f64());
        let samples = taken.saturating_sub(self.taken);
        if samples > 0 {
            let price = (paid - self.paid).max(0.0) / samples as f64;
            self.price += NEW * (price - self.price);
        }
        (self.paid, self.taken) = (paid, taken);
        let soon = SOON.max(elapsed / 4.0);
        let may = budget * self.processors * (elapsed + soon) - paid;
        let rate = may.max(0.0) / soon / self.price.max(1e-7) / self.processors;
        // Not by leaps: what a sample costs is known only roughly.
        let rate = rate.clamp(self.rate / 2.0, self.rate * 2.0);
        self.rate = rate.clamp(RATES.0, RATES.1);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples that cost `price` microseconds each after a beginning that costs 20 ms: what is paid in the end, in percent.
    fn paid(budget: f64, price: f64, seconds: f64) -> f64 {
        const LOOK: f64 = 0.1;
        let toll = Duration::from_micros(3);
        let mut control = Control::new(budget, None, 2, toll, 1e5);
        let (mut paid, mut taken) = (0.02, 0.0);
        let mut elapsed = 0.0;
        while elapsed < seconds {
            elapsed += LOOK;
            let samples = control.rate() * 2.0 * LOOK;
            taken += samples;
            paid += samples * price * 1e-6;
            let time = Duration::from_secs_f64;
            control.look(time(elapsed), time(paid), taken as u64);
        }
        100.0 * paid / elapsed / 2.0
    }

    #[test]
    fn budgets_are_kept_and_used() {
        for (budget, price) in [(0.5, 10.0), (1.0, 4.0), (1.0, 30.0), (3.0, 10.0)] {
            let paid = paid(budget, price, 10.0);
            assert!(
                (budget * 0.8..budget * 1.1).contains(&paid),
                "{budget} {price}: {paid}"
            );
        }
    }

    #[test]
    fn a_rate_that_is_wanted_stays() {
        let toll = Duration::from_micros(3);
        let mut control = Control::new(0.1, Some(4000.0), 2, toll, 1e5);
        assert!(!control.look(Duration::from_secs(1), Duration::from_secs(1), 1));
        assert!((control.rate() - 4000.0).abs() < 1e-9);
    }
}
