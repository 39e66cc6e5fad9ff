//! A budget that all throttles of a thread have together.
//!
//! # Problem
//! Each query has a budget of its own. Queries of one program, and programs that are loaded later, add up to any sum. Who asks
//! many wants to say once what all of them may cost.
//!
//! # Strategy
//! At the end of a period each query knows what it would take if all its executions were recorded, at most its own budget: its *demand*.
//! All queries get the same part of their own budgets ([`Part`]), the largest for which the demands that it leaves fit the common one.
//! So one that needs less than its part leaves the rest to the others, and if all demands fit nobody is cut.
//!
//! A demand is of the last period. A query that wakes up has what it had, spends that early, and then is cut with the others.

use super::{Group, Throttle};

/// Parts of time: 65536ths.
pub(super) const WHOLE: u64 = 1 << 16;

/// A common budget.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Together(u32);

impl Together {
    /// So many percent of a thread's time: above 0, and at most 100.
    pub fn percent(percent: f64) -> Option<Self> {
        let parts = percent * WHOLE as f64 / 100.0;
        (1.0..=WHOLE as f64)
            .contains(&parts)
            .then_some(Self(parts as u32))
    }

    /// The budget in one word; not 0.
    pub const fn word(self) -> u32 {
        self.0
    }

    /// The budget of [`Self::word`].
    pub const fn of_word(word: u32) -> Option<Self> {
        match word {
            0 => None,
            _ => Some(Self(word)),
        }
    }

    /// Returns the part of their own budgets that the throttles get, which are all of a thread.
    pub fn part<'t, T: Iterator<Item = &'t Throttle>>(self, throttles: impl Fn() -> T) -> Part {
        let taken = |part: Part| {
            let groups = throttles().flat_map(|throttle| &throttle.groups);
            groups
                .map(|group| part.of(group.own).min(group.demand))
                .fold(0, u64::saturating_add)
        };
        let fits = |part| taken(Part(part)) <= self.0.into();
        let (mut low, mut high) = (1, WHOLE);
        while low < high {
            let middle = (low + high).div_ceil(2);
            match fits(middle) {
                true => low = middle,
                false => high = middle - 1,
            }
        }
        Part(low)
    }
}

/// A part of each query's own budget.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part(u64);

impl Part {
    fn of(self, own: u64) -> u64 {
        (own * self.0 / WHOLE).max(1)
    }
}

impl Throttle {
    /// Its queries get a part of their own budgets from here on.
    pub fn limit(&mut self, part: Part) {
        for group in &mut self.groups {
            group.share = part.of(group.own);
        }
    }
}

impl Group {
    /// Takes note of what it would have taken in a period of so many ticks, given so many executions and what countdowns cost.
    pub(super) fn demands(&mut self, executed: u64, counted: u64, lasted: u64) {
        let records = (u128::from(executed) * u128::from(self.usual)) >> super::FRACTION;
        let ticks = records + u128::from(counted);
        let parts = ticks * u128::from(WHOLE) / u128::from(lasted.max(1));
        self.demand = parts.min(self.own.into()) as u64;
    }
}
