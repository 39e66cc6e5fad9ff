//! The time that a program has had for itself: without probes, as far as their cost is known, and without making code.
//!
//! What stretches stand for is told by this time. By the time of clocks, code with many probes would be seen less often than it is executed.

use std::time::Duration;

/// A program is hardly slowed down more than so many times.
const SLOWEST: u32 = 32;

/// Time of a program's own, about, up to a moment.
#[derive(Debug, Default)]
pub(super) struct OwnTime {
    sum: Duration,
    /// The moment.
    at: Duration,
    /// Cycles that had been spent for profiling then.
    spent: u64,
}

impl OwnTime {
    /// Returns it.
    pub(super) const fn so_far(&self) -> Duration {
        self.sum
    }

    /// Goes on to the moment `at`, by which so many cycles have been `spent` for profiling in all, and returns it. `frequency`: cycles in a second.
    pub(super) fn up_to(&mut self, at: Duration, spent: u64, frequency: f64) -> Duration {
        let before = std::mem::replace(&mut self.spent, spent);
        let since = at.saturating_sub(self.at);
        self.at = self.at.max(at);
        let new = spent.saturating_sub(before) as f64 / frequency.max(1.0);
        let own = since.saturating_sub(Duration::try_from_secs_f64(new).unwrap_or(since));
        self.sum += own.max(since / SLOWEST);
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_for_profiling_is_not_the_programs_own() {
        let ms = Duration::from_millis;
        let mut own = OwnTime::default();
        assert_eq!(own.up_to(ms(10), 4_000_000, 1e9), ms(6));
        // A moment that was before.
        assert_eq!(own.up_to(ms(9), 4_000_000, 1e9), ms(6));
        // More than all: a part is left.
        assert_eq!(own.up_to(ms(42), 1_000_000_000, 1e9), ms(7));
        assert_eq!(own.so_far(), ms(7));
    }
}
