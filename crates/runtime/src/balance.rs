//! Whether control pays: the time spent in the runtime against all of it.
//!
//! # Problem
//! Code that is executed once is executed faster where it is, and so is a program whose indirect branches
//! cannot be foretold: its processor has better means for that than code has.
//!
//! # Strategy
//! Dynamo's bail-out (Bala, Duesterwald, Banerjia, PLDI 2000, section 8): where the part of the time that
//! is spent in the runtime stays above a threshold, the program is let go and runs natively. Time
//! is looked at in periods of [`PERIOD`] cycles, a few milliseconds; [`PATIENCE`] periods with more than
//! [`TOO_MUCH`] of them in the runtime are enough. A good period makes up for a bad one.
//!
//! A fickle branch (`trace`) is a loss that goes on with nobody in the runtime: at least a twelfth of the
//! time. Then the program is let go too.
//!
//! Cycles are those of the time stamp counter, of any thread; time in which nothing runs counts as well
//! spent.

/// Cycles that are looked at together.
const PERIOD: u64 = 10_000_000;
/// The runtime's part of a bad period, in percent.
const TOO_MUCH: u64 = 35;
/// Bad periods, less the good ones, that are too many.
const PATIENCE: u32 = 4;

/// The account of a process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Balance {
    /// It is kept.
    watched: bool,
    since: u64,
    spent: u64,
    bad: u32,
    fickle: bool,
}

impl Balance {
    /// An empty account, kept or not.
    pub fn new(watched: bool) -> Self {
        Self {
            watched,
            ..Self::default()
        }
    }

    /// The runtime was entered and is left, at these times.
    pub fn spend(&mut self, entered: u64, left: u64) {
        if !self.watched {
            return;
        }
        if self.since == 0 {
            self.since = entered;
        }
        self.spent += left.saturating_sub(entered);
        let all = left.saturating_sub(self.since);
        if all >= PERIOD {
            self.bad = match self.spent * 100 > all * TOO_MUCH {
                true => self.bad + 1,
                false => self.bad.saturating_sub(1),
            };
            self.since = left;
            self.spent = 0;
        }
    }

    /// A branch turned out to be fickle.
    pub fn fickle(&mut self) {
        self.fickle = true;
    }

    /// Whether the program had better run natively.
    pub fn is_lost(&self) -> bool {
        self.watched && (self.bad >= PATIENCE || self.fickle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Periods in which so many percent were spent in the runtime, one entry each.
    fn after(periods: &[u64]) -> Balance {
        let mut balance = Balance::new(true);
        let mut now = 1;
        balance.spend(now, now);
        for percent in periods {
            let spent = PERIOD * percent / 100;
            now += PERIOD - spent;
            balance.spend(now, now + spent);
            now += spent;
        }
        balance
    }

    #[test]
    fn a_program_is_let_go_that_stays_in_the_runtime() {
        assert!(after(&[90, 90, 90, 90]).is_lost());
        assert!(!after(&[90, 90, 90]).is_lost());
        assert!(!after(&[90, 90, 90, 5, 5, 5, 90, 90]).is_lost());
        assert!(!after(&[20; 100]).is_lost());
    }

    #[test]
    fn a_fickle_branch_is_enough() {
        let mut balance = after(&[]);
        assert!(!balance.is_lost());
        balance.fickle();
        assert!(balance.is_lost());
        balance.watched = false;
        assert!(!balance.is_lost());
    }
}
