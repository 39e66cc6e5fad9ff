//! Numbers of executions: exact, or estimates with limits.

use trommel_profile::limits::Limits;

use crate::exact::Exact;

/// Ways in which a count is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// By events of an instruction that is executed equally often.
    Counted,
    /// By what flows in and out.
    Derived,
}

/// Number of times something was executed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Count {
    /// Times, to the nearest `f64`.
    pub times: f64,
    /// Limits of an estimate, as far as they are known.
    pub limits: Option<Limits>,
    /// The way in which it is known.
    pub how: How,
    /// The number less `times`: it may have more bits.
    rest: f64,
}

impl Count {
    /// Makes a count from events of the instruction itself.
    pub const fn of_events(times: f64, limits: Option<Limits>) -> Self {
        Self {
            times,
            limits,
            how: How::Counted,
            rest: 0.0,
        }
    }

    /// Makes a count of exact events: none of 64 bits is rounded.
    pub fn of_exact(times: Exact, limits: Option<Limits>) -> Self {
        Self {
            rest: times.rest,
            ..Self::of_events(times.near, limits)
        }
    }

    /// All bits of the number.
    pub const fn exact(self) -> Exact {
        Exact {
            near: self.times,
            rest: self.rest,
        }
    }

    /// The nearest whole number.
    pub fn whole(self) -> u64 {
        self.exact().whole()
    }

    pub(crate) const NONE: Self = Self::of_events(0.0, None);

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let limits = match (self.limits, other.limits) {
            (Some(a), Some(b)) => Some(Limits {
                low: a.low + b.low,
                high: a.high + b.high,
            }),
            // Nothing came, which is no estimate.
            (limits, None) if other.times == 0.0 => limits,
            (None, limits) if self.times == 0.0 => limits,
            _ => None,
        };
        Self::derived(self.exact().plus(other.exact()), limits)
    }

    /// Returns the count of something that happened so many times each time.
    #[must_use]
    pub fn times_of(self, factor: f64) -> Self {
        let limits = self.limits.map(|Limits { low, high }| Limits {
            low: low * factor,
            high: high * factor,
        });
        let Exact { near, rest } = self.exact().times(factor);
        Self {
            times: near,
            limits,
            how: self.how,
            rest,
        }
    }

    /// Returns the count of those of its executions that are `part` of `all`, as a whole number.
    #[must_use]
    pub fn part(self, part: u64, all: u64) -> Self {
        if part == all {
            return self;
        }
        let share = self.times_of(part as f64 / all.max(1) as f64);
        let exact = match self.exact() == Exact::from(all) {
            true => Exact::from(part),
            false => Exact::new(share.times.round()),
        };
        Self {
            times: exact.near,
            rest: exact.rest,
            ..share
        }
    }

    pub(crate) fn less(self, other: Self) -> Self {
        let limits = match (self.limits, other.limits) {
            (Some(a), Some(b)) => Some((a.low - b.high, a.high - b.low)),
            (Some(a), None) if other.times == 0.0 => Some((a.low, a.high)),
            _ => None,
        };
        let limits = limits.map(|(low, high)| Limits {
            low: low.max(0.0),
            high: high.max(0.0),
        });
        let less = self.exact().plus(other.exact().negative());
        let less = if less.near < 0.0 {
            Exact::default()
        } else {
            less
        };
        Self::derived(less, limits)
    }

    pub(crate) const fn derived(times: Exact, limits: Option<Limits>) -> Self {
        Self {
            times: times.near,
            limits,
            how: How::Derived,
            rest: times.rest,
        }
    }

    /// The part that it may be off by.
    pub(crate) fn doubt(&self) -> f64 {
        match self.limits {
            Some(Limits { low, high }) if self.times > 0.0 => (high - low) / self.times,
            _ => f64::INFINITY,
        }
    }
}
