//! Bursts of control within a budget: when the next begins, and what they have cost.
//!
//! # Problem
//! In a burst a process runs from the code cache and counts, and between two it is native. What a burst costs depends on the code
//! and on how much of it is translated already. The user says what may be paid, in percent, and it must be kept.
//!
//! # Strategy
//! A burst lasts for some [`length`] of the process's CPU time. Its cost is the time of the runtime's own work, which the runtime adds up, and
//! what translated code takes beyond native code. The latter is taken for half of the native time ([`SLOWDOWN`]).
//! The work of the keeper and of this process counts besides.
//! The next burst begins when the native time since the start has earned what all bursts have cost and what the last one cost.
//!
//! The first process of a run has some time in advance ([`CREDIT`]), so that a short run has a burst, too. A long run is not dearer by that.
//! Processes that it starts begin at a random time up to the one at which a burst is earned. So the bursts of many short ones keep to the budget in the mean.
//!
//! # Weights
//! A burst stands for its own native time and for the native time since the burst before. So the counts add up to those of the
//! whole time when they are scaled by the time after the last burst, as far as the slowdown is what it is taken for ([`FACTOR_ERROR`]).
//!
//! # Not measured
//! Nothing that a program executes is counted natively, so the slowdown of this program is not known. Debug registers could count, by perf events.
//! But on virtual machines the kernel then sends a SIGTRAP to the program once in some hundred thousand of these events, which ends it.

use std::time::{Duration, Instant};

use trommel_profile::windows::Windows;

use crate::kernel::clocks::stamp;

/// Time that translated code with counters takes, over that of native code: between 1.1 and 1.9 on the programs of `docs/performance.md`.
const SLOWDOWN: f64 = 1.5;
/// Its relative standard error, and so that of what a burst stands for. Nearly all of these programs are within its limits.
pub const FACTOR_ERROR: f64 = 0.136;
/// Expected cost of a burst before there was one, in nanoseconds.
const GUESS: f64 = 30e6;
/// The same for a program that another process of the run has executed, with what it takes to attach to it and to learn of its code.
const ATTACHING: f64 = 60e6;
/// Cost that may be spent before it is earned, in nanoseconds: half a point of a budget, in percent, of a run of five seconds.
const CREDIT: f64 = 25e6;
/// No burst begins sooner.
const SOONEST: Duration = Duration::from_millis(50);
/// Milliseconds of a burst for each percent of the budget, and at least and at most. Beginning and ending one takes some milliseconds.
const PER_PERCENT: f64 = 8.0;
const SHORTEST: f64 = 20.0;
const LONGEST: f64 = 40.0;
/// Native CPU time until the next try after a burst was refused, in nanoseconds.
const PATIENCE: f64 = 1e9;
/// From one look to the next, at least.
const OFTEN: Duration = Duration::from_millis(20);
/// Least part of a budget that the program may spend, whatever the host takes.
const LEAST: f64 = 0.25;

/// A burst of control that has ended, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Burst {
    /// CPU time of the process when all its threads were stopped to be attached, and when all were native again.
    pub cpu: [u64; 2],
    /// CPU time that the keeper has used so far.
    pub keeper: u64,
}

/// Terms on which the bursts of a process are begun.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Terms {
    /// Percent that may be paid.
    pub budget: f64,
    /// The process was started by us: the first burst stands for all of its time before, too.
    pub from_start: bool,
    /// It is the first process of the run: some time may be spent before it is earned.
    pub first: bool,
    /// The next begins at once, whatever it costs: for tests.
    pub hasty: bool,
}

/// The bursts of one process. Times are in nanoseconds.
#[derive(Debug)]
pub struct Bursts {
    terms: Terms,
    began: Instant,
    stamp: u64,
    taken: u64,
    /// CPU time of the process when the last burst ended; 0 before that.
    ended: u64,
    /// CPU time of the process when it was looked at last.
    seen: u64,
    /// The same, and time in which the next burst cannot become due, if one processor executes the process.
    looked: Duration,
    pause: f64,
    spent: Spent,
    /// A burst is going on, or asked for.
    on: bool,
    refused: Refused,
}

/// Time that a process and its bursts have taken, in nanoseconds.
#[derive(Debug)]
struct Spent {
    /// Native time between bursts.
    native: f64,
    /// Time of all bursts, and that part of it in which the program's code was executed.
    own: f64,
    executed: f64,
    /// The same of the last.
    last: (f64, f64),
    /// The runtime's own work so far.
    work: u64,
    /// CPU time of the keeper.
    keeper: u64,
}

/// Bursts that were refused.
#[derive(Default, Debug)]
struct Refused {
    /// Native time at which the next may be tried.
    until: f64,
    count: u64,
    /// The reason of the last.
    why: String,
}

/// A burst as a sample.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sample {
    /// Executions that each execution in it stands for.
    pub weight: f64,
    /// Native time of what it executed, in nanoseconds, at the slowdown that is assumed.
    pub covered: f64,
}

/// CPU time of a burst at a budget in percent.
pub fn length(budget: f64) -> Duration {
    Duration::from_millis((budget * PER_PERCENT).clamp(SHORTEST, LONGEST) as u64)
}

impl Bursts {
    /// CPU time that a process which another one of the run has started uses natively to earn what a first burst is expected to cost.
    pub fn earned_after(budget: f64) -> Duration {
        Duration::from_nanos((ATTACHING * 100.0 / budget) as u64)
    }

    /// CPU time that the first process of a run uses natively before its first burst.
    pub fn begins_after(budget: f64) -> Duration {
        let earned = Duration::from_nanos(((GUESS - CREDIT) * 100.0 / budget) as u64);
        earned.max(SOONEST)
    }

    /// Begins with the first burst going on.
    pub fn begin(terms: Terms) -> Self {
        Self {
            terms,
            began: Instant::now(),
            stamp: stamp(),
            taken: 0,
            ended: 0,
            seen: 0,
            looked: Duration::ZERO,
            pause: 0.0,
            spent: Spent {
                native: 0.0,
                own: 0.0,
                executed: 0.0,
                last: (GUESS, 0.0),
                work: 0,
                keeper: 0,
            },
            on: true,
            refused: Refused::default(),
        }
    }

    /// CPU time of each burst.
    pub fn length(&self) -> Duration {
        length(self.terms.budget)
    }

    /// Nanoseconds of a cycle of the time stamp counter.
    pub fn cycle(&self) -> f64 {
        let cycles = stamp().saturating_sub(self.stamp).max(1);
        self.began.elapsed().as_nanos() as f64 / cycles as f64
    }

    /// A burst has ended. `work`: what the runtime has worked so far, in nanoseconds.
    pub fn over(&mut self, burst: &Burst, work: u64) -> Sample {
        let [from, to] = burst.cpu;
        let before = match self.taken {
            0 if !self.terms.from_start => 0.0,
            _ => from.saturating_sub(self.ended) as f64,
        };
        let own = to.saturating_sub(from) as f64;
        let worked = (work.saturating_sub(self.spent.work) as f64).min(own);
        // No burst covers nothing, or its weight would be infinite.
        let executed = (own - worked).max(own / 50.0).max(1.0);
        let covered = executed / SLOWDOWN;
        self.on = false;
        self.taken += 1;
        self.ended = to;
        self.spent.work = work;
        self.spent.keeper = burst.keeper;
        self.spent.native += before;
        self.spent.own += own;
        self.spent.executed += executed;
        self.spent.last = (own, executed);
        Sample {
            weight: (before + covered) / covered,
            covered,
        }
    }

    /// Native time of what was executed in bursts.
    fn covered(&self) -> f64 {
        self.spent.executed / SLOWDOWN
    }

    /// Time by which a burst made the program longer: the last one.
    fn cost_of_last(&self) -> f64 {
        let (own, executed) = self.spent.last;
        (own - executed / SLOWDOWN).max(0.0)
    }

    /// Time by which all of them have made it longer.
    fn cost(&self) -> f64 {
        (self.spent.own - self.covered()).max(0.0)
    }

    /// A burst was refused.
    pub fn refuse(&mut self, why: String) {
        self.on = false;
        self.refused.count += 1;
        self.refused.why = why;
        self.refused.until = self.native_until(self.ended) + PATIENCE;
    }

    /// Native time up to the moment when the process has used so much CPU time, with that of what bursts executed.
    fn native_until(&self, cpu: u64) -> f64 {
        self.spent.native + self.covered() + cpu.saturating_sub(self.ended) as f64
    }

    /// Returns whether the next burst is to begin, when the process has used so much CPU time, and `host` is what it is charged of ours, without the keeper. Then
    /// it is taken for begun.
    pub fn is_due(&mut self, cpu: Duration, host: Duration) -> bool {
        let rests = std::mem::replace(&mut self.looked, cpu) == cpu;
        if self.on {
            // One that goes on ends no sooner than the process does something.
            self.pause = if rests { f64::INFINITY } else { 0.0 };
            return false;
        }
        self.seen = cpu.as_nanos() as u64;
        let native = self.native_until(self.seen);
        let own = (host.as_nanos() as f64 + self.spent.keeper as f64) / native.max(1.0);
        let budget = self.terms.budget / 100.0;
        let share = (budget - own).max(budget * LEAST);
        let credit = if self.terms.first { CREDIT } else { 0.0 };
        let due = (self.cost() + self.cost_of_last() - credit) / share;
        self.pause = due.max(self.refused.until) - native;
        self.on = self.pause <= 0.0 || self.terms.hasty;
        self.on
    }

    /// Time for which the process need not be looked at. So many processors execute it at most.
    pub fn pause(&self, processors: u32) -> Duration {
        let nanos = self.pause / f64::from(processors.max(1));
        Duration::from_nanos(nanos as u64).max(OFTEN)
    }

    /// CPU time that the process would have used without us when it was looked at last.
    pub fn used(&self) -> Duration {
        Duration::from_nanos(self.native_until(self.seen.max(self.ended)) as u64)
    }

    /// The account of a program that was over before its first burst.
    pub fn none(budget: f64) -> Windows {
        let natively = Self::begins_after(budget);
        Windows {
            budget,
            pacing: format!(
                "none: the first is after {} ms of CPU time, which a budget of {budget} % takes",
                natively.as_millis()
            ),
            ..Windows::default()
        }
    }

    /// The account so far. `host`: our CPU time, without the keeper.
    pub fn account(&self, host: Duration) -> Windows {
        let native = self.native_until(self.seen);
        let mut pacing = format!("{} ms of CPU time each", self.length().as_millis());
        if self.taken > 0 {
            pacing += &format!("; taken to be {SLOWDOWN} times as long as native code");
        }
        if self.refused.count != 0 {
            pacing += &format!("; {} refused: {}", self.refused.count, self.refused.why);
        }
        Windows {
            budget: self.terms.budget,
            taken: self.taken,
            whole: self.taken,
            rate: self.taken as f64 / native.max(1.0) * 1e9,
            cpu: native as u64,
            wall: self.began.elapsed().as_nanos() as u64,
            in_windows: self.cost() as u64,
            host: host.as_nanos() as u64 + self.spent.keeper,
            pacing,
            ..Windows::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn burst(from: u64, to: u64) -> Burst {
        Burst {
            cpu: [from * MS, to * MS],
            keeper: 0,
        }
    }

    fn terms(budget: f64, from_start: bool) -> Terms {
        Terms {
            budget,
            from_start,
            first: false,
            hasty: false,
        }
    }

    #[test]
    fn weights_add_up_to_the_native_time() {
        let mut bursts = Bursts::begin(terms(5.0, false));
        let mut sum = 0.0;
        for n in 0..10 {
            let sample = bursts.over(&burst(100 * n, 100 * n + 15), 0);
            assert!((sample.covered - 1e7).abs() < 1.0, "{sample:?}");
            sum += sample.weight * sample.covered;
        }
        // Nine times 85 ms between ten bursts of 10 ms.
        assert!((sum - (9.0 * 85e6 + 10.0 * 1e7)).abs() < 10.0, "{sum}");
        let account = bursts.account(Duration::ZERO);
        assert_eq!((account.taken, account.cpu), (10, 865 * MS));
        assert_eq!(account.in_windows, 50 * MS);
    }

    #[test]
    fn the_first_burst_of_a_started_program_stands_for_its_beginning() {
        let mut bursts = Bursts::begin(terms(5.0, true));
        let sample = bursts.over(&burst(400, 415), 0);
        assert!((sample.weight * sample.covered - 410e6).abs() < 10.0);
        // What it has cost is earned by then.
        assert_eq!(Bursts::earned_after(5.0), Duration::from_millis(1200));
        let account = bursts.account(Duration::ZERO);
        assert!(account.in_windows as f64 <= 0.05 * account.cpu as f64);
    }

    #[test]
    fn work_of_the_runtime_is_cost() {
        let mut bursts = Bursts::begin(terms(5.0, false));
        let sample = bursts.over(&burst(0, 20), 5 * MS);
        assert!((sample.covered - 1e7).abs() < 1.0);
        assert_eq!(bursts.account(Duration::ZERO).in_windows, 10 * MS);
    }

    #[test]
    fn the_budget_is_earned_before_it_is_spent() {
        let mut bursts = Bursts::begin(terms(10.0, false));
        assert!(
            !bursts.is_due(Duration::from_secs(9), Duration::ZERO),
            "one goes on"
        );
        assert_eq!(bursts.pause(2), OFTEN);
        assert!(!bursts.is_due(Duration::from_secs(9), Duration::ZERO));
        assert!(
            bursts.pause(2) > Duration::from_secs(9),
            "nothing is done in it"
        );
        let _ = bursts.over(&burst(0, 15), 0);
        // 5 ms were paid, and 5 more will be: 100 ms, of which the burst itself has 10.
        let at = |ms: u64| Duration::from_millis(15 + ms);
        assert!(!bursts.is_due(at(10), Duration::ZERO));
        assert_eq!(bursts.pause(2), Duration::from_millis(40));
        assert!(!bursts.is_due(at(89), Duration::ZERO));
        assert_eq!(bursts.pause(2), OFTEN);
        assert!(bursts.is_due(at(91), Duration::ZERO));
        assert!(!bursts.is_due(at(900), Duration::ZERO), "it goes on");
    }

    #[test]
    fn the_first_process_has_some_time_in_advance() {
        assert_eq!(Bursts::begins_after(5.0), Duration::from_millis(100));
        assert_eq!(Bursts::begins_after(50.0), SOONEST);
        let mut bursts = Bursts::begin(Terms {
            first: true,
            ..terms(1.0, true)
        });
        let _ = bursts.over(&burst(500, 515), 0);
        // 5 ms were paid and 5 more will be, of which 5.1 are earned.
        assert!(bursts.is_due(Duration::from_millis(520), Duration::ZERO));
        let _ = bursts.over(&burst(520, 535), 0);
        let _ = bursts.over(&burst(535, 550), 0);
        let _ = bursts.over(&burst(550, 565), 0);
        let _ = bursts.over(&burst(565, 580), 0);
        let _ = bursts.over(&burst(580, 595), 0);
        // 30 ms were paid and 5 will be: 10 of them are to be earned.
        assert!(!bursts.is_due(Duration::from_millis(990), Duration::ZERO));
        assert!(bursts.is_due(Duration::from_millis(1040), Duration::ZERO));
    }

    #[test]
    fn what_is_refused_is_tried_again_later() {
        let mut bursts = Bursts::begin(terms(50.0, false));
        let _ = bursts.over(&burst(0, 15), 0);
        bursts.refuse("busy".to_owned());
        assert!(!bursts.is_due(Duration::from_millis(900), Duration::ZERO));
        assert!(bursts.is_due(Duration::from_millis(1100), Duration::ZERO));
        assert!(
            bursts
                .account(Duration::ZERO)
                .pacing
                .ends_with("1 refused: busy")
        );
    }
}
