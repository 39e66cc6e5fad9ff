//! Executions that stand in the value counters of a thread and in none of its records yet.
//!
//! # Problem
//! A value counter is read at each look, and becomes a record when another event takes its place. The record holds the whole count, also what looks
//! have read already. It may come long after the next look, when another stretch of profiling has begun. What was counted once may
//! neither be counted again nor be taken from a stretch that it was not counted in.
//!
//! # Strategy
//! Nothing is subtracted from a stretch. For each path and value it is known how many executions looks have counted: *live* ones, in the value counter that had
//! the pair at the last look, and *gone* ones, in value counters that have another pair since and whose records are to come. A look adds what exceeds the live ones.
//! A record stands for the gone ones first, then for the live ones. If it has fewer than these, it is of an earlier value counter. The rest is added.
//!
//! # Invariants
//! * What was added is the sum of the records and of the executions known here, in whatever order looks and records come. When all records are read and
//!   a look has followed, no gone ones are left, and each execution was added once.
//! * There are at most [`MOST`] pairs. Only a target that writes to its value counters itself reaches them. Then all are dropped.

use rustc_hash::FxHashMap;
use trommel_queue::{VALUE_COUNTERS, ValueCounter};

/// Pairs of a thread, at most.
const MOST: usize = 8 * VALUE_COUNTERS;

/// Executions of one path with one value that looks have counted and no record has told.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    live: u64,
    gone: u64,
    /// The value counter of the live ones.
    at: usize,
}

/// State of one thread.
#[derive(Debug, Default)]
pub struct Unrecorded {
    /// The value counters at the last look.
    last: Vec<ValueCounter>,
    counted: FxHashMap<(u32, u64), Counted>,
}

impl Unrecorded {
    /// Returns what value counters have gained since the last look.
    pub fn look(&mut self, now: Vec<ValueCounter>) -> Vec<ValueCounter> {
        for (last, now) in self.last.iter().zip(&now) {
            if last.count == 0 {
                continue;
            }
            let goes_on = (last.path, last.value) == (now.path, now.value);
            if let Some(counted) = self.counted.get_mut(&(last.path, last.value))
                && !(goes_on && counted.live <= now.count.into())
            {
                counted.gone += std::mem::take(&mut counted.live);
            }
        }
        let changed = |&(n, now): &(usize, &ValueCounter)| self.last.get(n) != Some(now);
        let changed: Vec<(usize, ValueCounter)> = (now.iter().enumerate())
            .filter(changed)
            .map(|(n, now)| (n, *now))
            .collect();
        if self.counted.len() + changed.len() > MOST {
            self.counted.clear();
        }
        self.last = now;
        let gained = changed.into_iter().map(|(n, now)| self.gained(n, now));
        gained.filter(|gained| gained.count != 0).collect()
    }

    /// Notes the value counter with a number, and returns what it has gained.
    fn gained(&mut self, n: usize, now: ValueCounter) -> ValueCounter {
        let all = u64::from(now.count);
        if all == 0 {
            return now;
        }
        let counted = self.counted.entry((now.path, now.value)).or_default();
        let before = std::mem::replace(&mut counted.live, all);
        counted.at = n;
        let count = all.saturating_sub(before) as u32;
        ValueCounter { count, ..now }
    }

    /// Returns how many executions of a record no look has counted.
    pub fn record(&mut self, of: &ValueCounter) -> u64 {
        let mut rest = u64::from(of.count);
        let key = (of.path, of.value);
        let Some(counted) = self.counted.get_mut(&key) else {
            return rest;
        };
        let gone = counted.gone.min(rest);
        counted.gone -= gone;
        rest -= gone;
        if counted.live != 0 && counted.live <= rest {
            rest -= std::mem::take(&mut counted.live);
            // Should it not have been this one's record, it is counted anew at the next look.
            if let Some(last) = self.last.get_mut(counted.at) {
                *last = ValueCounter::default();
            }
        }
        if (counted.live, counted.gone) == (0, 0) {
            self.counted.remove(&key);
        }
        rest
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A step of a target with two value counters.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        /// An event with a value is counted so often.
        Count(u64, u32),
        /// The oldest record that was not read is read.
        Read,
        /// The value counters are read.
        Look,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..6_u64, 1..1000_u32).prop_map(|(value, count)| Step::Count(value, count)),
            1 => Just(Step::Read),
            2 => Just(Step::Look),
        ]
    }

    proptest! {
        #[test]
        fn each_execution_is_counted_once(steps in prop::collection::vec(step(), 1..200)) {
            let mut unrecorded = Unrecorded::default();
            let mut counters = [ValueCounter::default(); 2];
            let mut records = std::collections::VecDeque::new();
            let (mut executed, mut counted) = ([0_u64; 6], [0_u64; 6]);
            let look = |unrecorded: &mut Unrecorded, counters: &[ValueCounter; 2], counted: &mut [u64; 6]| {
                for gained in unrecorded.look(counters.to_vec()) {
                    counted[gained.value as usize] += u64::from(gained.count);
                }
            };
            for step in steps {
                match step {
                    Step::Count(value, count) => {
                        executed[value as usize] += u64::from(count);
                        let counter = &mut counters[value as usize % 2];
                        if counter.value != value && counter.count != 0 {
                            records.push_back(std::mem::take(counter));
                        }
                        *counter = ValueCounter { value, path: 0, count: counter.count + count };
                    }
                    Step::Read => if let Some(record) = records.pop_front() {
                        counted[record.value as usize] += unrecorded.record(&record);
                    },
                    Step::Look => look(&mut unrecorded, &counters, &mut counted),
                }
            }
            for record in records {
                counted[record.value as usize] += unrecorded.record(&record);
            }
            look(&mut unrecorded, &counters, &mut counted);
            prop_assert_eq!(executed, counted);
        }
    }

    #[test]
    fn what_a_target_writes_takes_bounded_space() {
        let mut unrecorded = Unrecorded::default();
        for round in 0..20_u64 {
            let written = |n| ValueCounter {
                value: round << 32 | n,
                path: 1,
                count: 1,
            };
            unrecorded.look((0..VALUE_COUNTERS as u64).map(written).collect());
            assert!(unrecorded.counted.len() <= MOST);
        }
    }
}
