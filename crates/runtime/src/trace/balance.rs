//! Decides if control pays: compares the time in the runtime with all that the program takes.
//!
//! # Problem
//! Code that is executed once runs faster natively. So does a program whose indirect branches cannot be
//! predicted: its processor predicts them better than code can. The decision must be the same on an idle
//! machine and on a busy one, or a program behaves differently when others run.
//!
//! # Strategy
//! Dynamo's bail-out (Bala, Duesterwald, Banerjia, PLDI 2000, section 8): if the share of time in the
//! runtime stays above a threshold, the program is detached and runs natively.
//!
//! The unit is work, not time. Whenever the runtime has worked for `QUANTUM`, the CPU time of the process
//! shows how long that has taken in all. A quantum that was more than `TOO_MUCH` percent of it is a bad one,
//! and `PATIENCE` of them are enough. Time in which the runtime works little makes up for bad quanta, one
//! for as long as a quantum may take. A program that rarely comes to the runtime rarely asks for the clock.
//!
//! A fickle branch (`trace`) is a loss that goes on outside the runtime: at least a twelfth of the time.
//! Then the program is detached, too.
//!
//! # Why other load does not matter
//! All of the time is CPU time, of all threads. The runtime's work is measured with the time stamp counter,
//! with the lock held, so it contains no waiting. A thread that loses the processor there counts
//! [`LONG`](trommel_queue::work::LONG) cycles and not what others took. Such a loss happens once in milliseconds, so it adds a few percent
//! at most. Cycles become nanoseconds by the clock that was read at both ends of the quantum.

use trommel_queue::work::LONG as MOST;

use crate::base::sys;

/// Cycles of work that are looked at together, about a millisecond.
const QUANTUM: u64 = 2_500_000;
/// The runtime's part of a bad quantum, in percent.
const TOO_MUCH: u64 = 35;
/// Bad quanta, less those made up for, that are too many.
const PATIENCE: u64 = 10;

/// Clocks, read together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clocks {
    /// The time stamp counter.
    pub cycles: u64,
    /// Nanoseconds that pass for everybody.
    pub wall: u64,
    /// Nanoseconds of CPU time of the process.
    pub cpu: u64,
}

impl Clocks {
    /// Reads the clocks.
    pub fn now() -> Self {
        Self {
            cycles: sys::ticks(),
            wall: sys::monotonic(),
            cpu: sys::process_cpu(),
        }
    }
}

/// The account of a process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Balance {
    /// True if the balance is kept.
    watched: bool,
    since: Clocks,
    spent: u64,
    bad: u64,
    fickle: bool,
}

impl Balance {
    /// An empty account, kept or not, from now on.
    pub fn new(watched: bool, now: Clocks) -> Self {
        Self {
            watched,
            since: now,
            ..Self::default()
        }
    }

    /// The runtime has worked for so many cycles.
    pub fn spend(&mut self, cycles: u64, clocks: impl FnOnce() -> Clocks) {
        self.spent += cycles.min(MOST);
        if self.watched && self.spent >= QUANTUM {
            self.settle(clocks());
        }
    }

    fn settle(&mut self, now: Clocks) {
        let since = core::mem::replace(&mut self.since, now);
        let spent = core::mem::take(&mut self.spent);
        let Some(all) = now.cpu.checked_sub(since.cpu) else {
            // A process made by `fork`, whose clock begins anew.
            self.bad = 0;
            return;
        };
        let cycles = now.cycles.saturating_sub(since.cycles).max(1);
        let wall = now.wall.saturating_sub(since.wall);
        let work = (u128::from(spent) * u128::from(wall) / u128::from(cycles)) as u64;
        if work * 100 > all * TOO_MUCH {
            self.bad += 1;
        } else {
            let tolerable = (work * 100 / TOO_MUCH).max(1);
            self.bad = self.bad.saturating_sub(all / tolerable);
        }
    }

    /// A branch turned out to be fickle.
    pub fn fickle(&mut self) {
        self.fickle = true;
    }

    /// Returns true if the program had better run natively.
    pub fn is_lost(&self) -> bool {
        self.watched && (self.bad >= PATIENCE || self.fickle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nanoseconds of a quantum.
    const NANOS: u64 = QUANTUM * 2 / 5;

    /// Quanta that were so many percent of the CPU time, while the machine gave the process one part in
    /// `load` of its time.
    fn after(quanta: &[u64], load: u64) -> Balance {
        let mut now = Clocks::default();
        let mut balance = Balance::new(true, now);
        for percent in quanta {
            let all = NANOS * 100 / percent;
            now.cpu += all;
            now.wall += all * load;
            now.cycles += all * load * 5 / 2;
            let entries = 100;
            for _ in 0..entries {
                balance.spend(QUANTUM / entries, || now);
            }
        }
        balance
    }

    #[test]
    fn a_program_is_detach_that_stays_in_the_runtime() {
        assert!(after(&[90; 10], 1).is_lost());
        assert!(!after(&[90; 9], 1).is_lost());
        assert!(!after(&[20; 100], 1).is_lost());
        let recovers = [&[90; 9][..], &[2], &[90; 9]].concat();
        assert!(!after(&recovers, 1).is_lost());
    }

    #[test]
    fn load_changes_nothing() {
        for load in [1, 2, 10, 100] {
            assert!(after(&[40; 10], load).is_lost(), "{load}");
            assert!(!after(&[30; 100], load).is_lost(), "{load}");
        }
    }

    #[test]
    fn what_others_take_of_the_processor_is_not_ours() {
        let mut now = Clocks::default();
        let mut balance = Balance::new(true, now);
        for _ in 0..1000 {
            // 50 µs of work at 10 % of the time; once in a while, 10 ms pass in the middle of it.
            now.cpu += 500_000;
            now.wall += 10_500_000;
            now.cycles += 26_250_000;
            balance.spend(125_000 + 25_000_000, || now);
        }
        assert!(!balance.is_lost());
    }

    #[test]
    fn a_clock_that_begins_anew_is_no_loss() {
        let mut balance = after(&[90; 9], 1);
        balance.spend(MOST, Clocks::default);
        for _ in 0..20 {
            balance.spend(MOST, Clocks::default);
        }
        assert!(!balance.is_lost());
    }

    #[test]
    fn a_fickle_branch_is_enough() {
        let mut balance = after(&[], 1);
        assert!(!balance.is_lost());
        balance.fickle();
        assert!(balance.is_lost());
        balance.watched = false;
        assert!(!balance.is_lost());
    }
}
