//! Phases: changes of the working set, detected by how many traces are made.
//!
//! # Problem
//! Traces follow the branches as they went when the traces were made. When the program turns to other work, the
//! old traces lie between the new. Traces that both use may go the wrong way.
//!
//! # Strategy
//! Dynamo's pre-emptive flush (Bala, Duesterwald, Banerjia, PLDI 2000, section 6): when traces are suddenly made
//! at a high rate after few were, everything is dropped. Much has to be made now anyway. What is still used
//! is made again, as its branches go now.
//!
//! Time is CPU time, in periods of `PERIOD`. A period is *busy* when it made many traces, compared with those
//! there are, and else calm. Many traces in a period and the one before it, after `CALM` calm ones, are a new
//! phase. The longer that took, the longer it must be calm before the next flush (`WORTH`). Fragments are
//! dropped too. So the more of them there are, the more time must have passed since the last flush (`PRICE`).
//! So flushes take a few percent of the time at most, however the program behaves.
//!
//! The clock is read when a trace is made, which takes a hundred times as long.

/// Length of a period in nanoseconds of CPU time.
const PERIOD: u64 = 20_000_000;
/// Calm periods before a new phase.
const CALM: u64 = 10;
/// Calm periods needed before the next flush, for each period that was busy after the last one.
const WORTH: u64 = 8;
/// Traces in a period that are many, at least.
const MANY: u64 = 8;
/// Divisor of the number of traces: one trace in so many is not a change.
const FEW: u64 = 16;
/// Number of traces in a period that are always many.
const ENOUGH: u64 = 24;
/// Nanoseconds of CPU time that each fragment there is must have been there for: some twenty times what it takes to make one.
const PRICE: u64 = 100_000;
/// Fewer traces are no working set.
const SET: u64 = 8;

/// History of traces made lately.
#[derive(Clone, Copy, Debug, Default)]
pub struct Phases {
    /// Start of the period; 0 before the first trace.
    since: u64,
    /// Traces made in it, and in the one before.
    made: u64,
    last: u64,
    /// Traces made before it, since the last flush.
    before: u64,
    /// Calm periods up to it.
    calm: u64,
    /// Busy periods since the last flush.
    busy: u64,
    /// Time of the last flush, or of the first trace. `fragments` is how many fragments had been made until then.
    flushed: u64,
    fragments: u64,
}

impl Phases {
    /// Counts a trace that was made at this CPU time of the process, with so many fragments so far. Returns true if a new phase has
    /// begun: then everything is to be dropped, and the counts start anew.
    pub fn made(&mut self, cpu: u64, fragments: u64) -> bool {
        let passed = cpu.saturating_sub(self.since) / PERIOD;
        if self.since == 0 || cpu < self.since {
            self.flushed(cpu, fragments);
        } else if passed > 0 {
            match self.are_many(self.made) {
                true => {
                    self.busy += 1;
                    self.calm = passed - 1;
                }
                false => self.calm += passed,
            }
            self.since += passed * PERIOD;
            self.before += self.last;
            self.last = 0;
            match passed {
                1 => self.last = self.made,
                _ => self.before += self.made,
            }
            self.made = 0;
        }
        self.made += 1;
        let many = self.are_many(self.made + self.last);
        let settled = self.before >= SET && self.calm >= CALM.max(self.busy * WORTH);
        let price = fragments.saturating_sub(self.fragments) * PRICE;
        let pays = cpu.saturating_sub(self.flushed) >= price;
        let begins = many && settled && pays;
        if begins {
            self.flushed(cpu, fragments);
        }
        begins
    }

    /// Everything was dropped, for this reason or another.
    pub fn flushed(&mut self, cpu: u64, fragments: u64) {
        *self = Self {
            since: cpu.max(1),
            flushed: cpu,
            fragments,
            ..Self::default()
        };
    }

    fn are_many(&self, made: u64) -> bool {
        made >= MANY && made > (self.before / FEW).min(ENOUGH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes so many traces in each period, in turn; the periods in which everything is dropped.
    fn flushes(rates: &[u64]) -> Vec<usize> {
        flushes_with(rates, 10)
    }

    /// Runs like [`flushes`], with `fragments` fragments made for each trace.
    fn flushes_with(rates: &[u64], fragments: u64) -> Vec<usize> {
        let mut phases = Phases::default();
        let mut found = Vec::new();
        let mut made = 0;
        for (n, rate) in rates.iter().enumerate() {
            for k in 0..*rate {
                let cpu = 1 + n as u64 * PERIOD + k * (PERIOD / (rate + 1));
                made += fragments;
                if phases.made(cpu, made) {
                    found.push(n);
                }
            }
        }
        found
    }

    extern crate std;
    use std::vec::Vec;

    #[test]
    fn a_new_working_set_after_a_settled_one_is_a_phase() {
        let rates = [
            &[40, 20, 5][..],
            &[0; 60],
            &[1],
            &[0; 40],
            &[30, 20],
            &[0; 9],
        ]
        .concat();
        assert_eq!(flushes(&rates), [104]);
    }

    #[test]
    fn what_takes_long_to_make_again_is_kept_longer() {
        let rates = [&[40, 20, 5][..], &[0; 100], &[30, 20], &[0; 9]].concat();
        assert_eq!(flushes_with(&rates, 100), [103]);
        assert!(flushes_with(&rates, 1000).is_empty());
    }

    #[test]
    fn neither_a_start_nor_a_trickle_is() {
        assert!(flushes(&[50; 100]).is_empty());
        let trickle: Vec<u64> = [&[100, 50][..], &[3; 200]].concat();
        assert!(flushes(&trickle).is_empty());
        let few = [&[4][..], &[0; 60], &[30]].concat();
        assert!(flushes(&few).is_empty());
    }

    #[test]
    fn a_program_that_changes_all_the_time_is_left_alone() {
        let round = [&[40, 40, 40, 40][..], &[0; 20]].concat();
        assert!(flushes(&round.repeat(20)).is_empty());
        let long = [&[40, 40][..], &[0; 60]].concat();
        let found = flushes(&long.repeat(10));
        assert_eq!(found.len(), 9, "{found:?}");
    }
}
