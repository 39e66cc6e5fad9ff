//! Epochs: the results of a run, given away from time to time while it goes on.
//!
//! The program does not stop for that. Its records are folded as far as they are written, and the counts are taken
//! from the folder, which begins anew. Or the latest intervals of an interval profiler are given away, and nothing is taken.
//! A window that has not ended belongs to the epoch in which it ends. Epochs end at
//! multiples of their length since 1970, so that those of processes and machines are the same.

use std::time::{Duration, Instant, SystemTime};

use nix::unistd::Pid;
use trommel_profile::Profile;

use crate::fold::intervals::Ended;
use crate::kernel::clocks;

/// Ends of epochs, and the receiver of their results.
pub struct Epochs<'a> {
    every: Duration,
    number: u128,
    give: Receiver<'a>,
    beside: Option<Beside>,
}

/// A process that shows what is given away. Its CPU time is a part of what is paid.
#[derive(Clone, Copy)]
struct Beside {
    pid: Pid,
    /// CPU time that it had used before.
    before: Duration,
    /// Part of the time that giving and showing may take.
    share: f64,
    /// The last time, CPU time that was used by then, and what it took.
    last: Option<(Instant, Duration)>,
    took: Duration,
    /// Least time to the next.
    pause: Duration,
}

/// Part of a budget that results may take. The rest is for windows.
const PART: f64 = 0.4;
/// Longest time between results that a budget alone demands: people wait for them.
const PATIENCE: Duration = Duration::from_secs(5);

/// Receivers of results.
enum Receiver<'a> {
    Windows(&'a mut dyn FnMut(Profile)),
    Intervals(&'a mut dyn FnMut(LatestIntervals)),
}

/// Latest intervals of an interval profiler at the end of an epoch.
#[derive(Clone, Debug)]
pub struct LatestIntervals {
    /// Profile without counts: the process and its modules.
    pub profile: Profile,
    /// CPU time of the process in the epoch.
    pub cpu: Duration,
    /// Intervals that have ended so far.
    pub ended: u64,
    /// The latest one of each thread, the last one first.
    pub latest: Vec<Ended>,
}

impl Beside {
    /// Takes note of what giving has taken, and of the process's CPU time, which has shown what was given before.
    fn took(&mut self, given: Duration, cpu: Duration) {
        let shown = self
            .last
            .map_or(Duration::ZERO, |(_, before)| cpu.saturating_sub(before));
        let took = given + shown;
        // The first time reads files, and others may too: one alone says little.
        let usual = took.min(std::mem::replace(&mut self.took, took));
        self.pause = usual.div_f64(self.share).min(PATIENCE);
        self.last = Some((Instant::now(), cpu));
    }

    /// Returns true if the next results would be too early.
    fn waits(&self) -> bool {
        self.last.is_some_and(|(at, _)| at.elapsed() < self.pause)
    }
}

impl<'a> Epochs<'a> {
    /// Makes epochs of this length. `give` gets a profile at the end of each. Events after the last one are the recording's own.
    pub fn new(every: Duration, give: &'a mut dyn FnMut(Profile)) -> Self {
        Self::giving(every, Receiver::Windows(give))
    }

    /// Makes epochs of a run with an interval profiler. `give` gets the latest intervals at the end of each, and at the end of the run.
    pub fn of_intervals(every: Duration, give: &'a mut dyn FnMut(LatestIntervals)) -> Self {
        Self::giving(every, Receiver::Intervals(give))
    }

    fn giving(every: Duration, give: Receiver<'a>) -> Self {
        let every = every.max(Duration::from_millis(1));
        Self {
            every,
            number: number(every),
            give,
            beside: None,
        }
    }

    /// The same, shown by a process whose CPU time counts as ours. Epochs are longer where they would take much of a budget in percent.
    #[must_use]
    pub fn shown_by(mut self, pid: i32, budget: f64) -> Self {
        let pid = Pid::from_raw(pid);
        self.beside = Some(Beside {
            pid,
            before: clocks::cpu_of(pid).unwrap_or_default(),
            share: PART * budget / 100.0,
            last: None,
            took: Duration::ZERO,
            pause: Duration::ZERO,
        });
        self
    }

    /// Takes note of the CPU time that giving has taken.
    pub(super) fn took(&mut self, given: Duration) {
        let cpu = self.cpu_beside();
        if let Some(beside) = &mut self.beside {
            beside.took(given, cpu);
        }
    }

    /// CPU time of the process that shows what is given.
    pub(super) fn cpu_beside(&self) -> Duration {
        let cpu = |beside: Beside| Some(clocks::cpu_of(beside.pid)?.saturating_sub(beside.before));
        self.beside.and_then(cpu).unwrap_or_default()
    }

    /// The same, for no longer than something else.
    pub fn shorter<'b>(self) -> Epochs<'b>
    where
        'a: 'b,
    {
        Epochs {
            every: self.every,
            number: self.number,
            beside: self.beside,
            give: match self.give {
                Receiver::Windows(give) => Receiver::Windows(give),
                Receiver::Intervals(give) => Receiver::Intervals(give),
            },
        }
    }

    /// Returns true if the latest intervals are given.
    pub(super) const fn are_of_intervals(&self) -> bool {
        matches!(self.give, Receiver::Intervals(_))
    }

    /// Returns true if another has begun since this was asked last.
    pub(super) fn is_over(&mut self) -> bool {
        if self.beside.is_some_and(|beside| beside.waits()) {
            return false;
        }
        let now = number(self.every);
        // The clock may have been set back.
        now != std::mem::replace(&mut self.number, now)
    }

    pub(super) fn give(&mut self, profile: Profile) {
        if let Receiver::Windows(give) = &mut self.give {
            give(profile);
        }
    }

    pub(super) fn give_latest(&mut self, latest: LatestIntervals) {
        if let Receiver::Intervals(give) = &mut self.give {
            give(latest);
        }
    }
}

/// Returns the number of the epoch that it is now.
fn number(every: Duration) -> u128 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap_or_default().as_nanos() / every.as_nanos()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn time_of_the_process_that_shows_is_ours() {
        let busy = ["-c", "while :; do :; done"];
        let mut child = Command::new("sh").args(busy).spawn().expect("a shell");
        let mut give = |_| {};
        let epochs = Epochs::new(Duration::from_secs(1), &mut give);
        assert_eq!(epochs.cpu_beside(), Duration::ZERO);
        let epochs = epochs.shown_by(child.id() as i32, 1.0);
        while epochs.cpu_beside() < Duration::from_millis(5) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(epochs.shorter().cpu_beside() >= Duration::from_millis(5));
        child.kill().expect("it is there");
        child.wait().expect("its end");
    }

    #[test]
    fn results_that_take_much_of_the_budget_come_less_often() {
        let ms = Duration::from_millis;
        let mut give = |_| {};
        let epochs = Epochs::new(ms(1000), &mut give).shown_by(std::process::id() as i32, 1.0);
        let mut beside = epochs.beside.expect("this process");
        // 4 ms a second: the first time is none to judge by.
        beside.took(ms(30), ms(0));
        assert_eq!((beside.pause, beside.waits()), (ms(0), false));
        // 2 ms were given, and 6 ms it took to show what was given before.
        beside.took(ms(2), ms(6));
        assert_eq!((beside.pause, beside.waits()), (ms(2000), true));
        beside.took(ms(30), ms(6));
        assert_eq!(beside.pause, ms(2000));
        beside.took(ms(40), ms(6));
        assert_eq!(beside.pause, PATIENCE);
    }
}
