//! Windows of a program's execution: how they were taken, what they cost, and what they saw.

use std::collections::BTreeMap;

use trommel_tuple::{Kind, Place};

use crate::arguments::{Argument, Passed};
use crate::callers::Callers;
use crate::custom::Custom;
use crate::memory::{Levels, Pair};
use crate::rare::Rare;
use crate::sampled::Sampled;

/// Windows of a run, and their cost. Times are in nanoseconds.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Windows {
    /// Budget of the user, in percent of the CPU time that the program would use without windows; 0: rate and length were given.
    pub budget: f64,
    /// Windows that were taken.
    pub taken: u64,
    /// Windows with events that count.
    pub counted: u64,
    /// Windows that reached their last instruction.
    pub whole: u64,
    /// Windows that ended before a system call.
    pub calls: u64,
    /// Windows that ended at a signal.
    pub signals: u64,
    /// Windows that ended before an instruction that cannot be executed under control.
    pub refused: u64,
    /// Signals that began none.
    pub skipped: u64,
    /// Instructions executed in windows, but for those passed before them.
    pub instructions: u64,
    /// Instructions of a window in the end; 0 where the program was controlled in bursts.
    pub length: u32,
    /// Windows in a second of CPU time in the end.
    pub rate: f64,
    /// CPU time of the program in which windows could be taken, without what they cost.
    pub cpu: u64,
    /// The part of it that the program spent in its own code and not in the kernel; 0: not known. No file has it.
    pub user: u64,
    /// Time from the beginning of that to its end.
    pub wall: u64,
    /// CPU time that the program spent in windows, and on the way in and out.
    pub in_windows: u64,
    /// Time that the kernel needed beyond that for signals, by measurement on this machine.
    pub in_kernel: u64,
    /// CPU time of trommel's own meanwhile.
    pub host: u64,
    /// CPU time that the instructions in windows would take natively, at one a cycle.
    pub covered: u64,
    /// Pacing of the windows, in words.
    pub pacing: String,
    /// Samples of each instruction.
    pub sites: BTreeMap<Kind, BTreeMap<Place, Sampled>>,
    /// Edges that few windows saw; `None` where that is not known, as of a part of the program.
    pub rare: Option<Rare>,
    /// Pairs of accesses that are in each other's way, and how often they were.
    pub pairs: BTreeMap<Pair, Sampled>,
    /// Arguments that calls passed in registers.
    pub arguments: BTreeMap<Passed, Argument>,
    /// Values of instructions by callers, where these were looked for.
    pub callers: Option<Callers>,
    /// Latencies that separate the levels, where they were measured.
    pub levels: Option<Levels>,
    /// Results of a customisation module, if there was one.
    pub custom: Option<Custom>,
}

impl Windows {
    /// Least CPU time, in nanoseconds, of which percents say something: what it takes to begin is earned later.
    pub const TELLING: u64 = 1_000_000_000;

    /// Returns true if the program has used so much CPU time that percents of it say something.
    pub fn tells_cost(&self) -> bool {
        self.cpu >= Self::TELLING
    }

    /// Returns what the program paid, in percent of the CPU time that it would have used without that.
    pub fn cost_of_target(&self) -> f64 {
        percent(self.in_windows + self.in_kernel, self.cpu)
    }

    /// Returns what trommel used beside it, in percent of the same.
    pub fn cost_of_host(&self) -> f64 {
        percent(self.host, self.cpu)
    }

    /// Both.
    pub fn cost(&self) -> f64 {
        self.cost_of_target() + self.cost_of_host()
    }

    /// The part of the program's CPU time that was seen, in percent.
    pub fn coverage(&self) -> f64 {
        percent(self.covered, self.cpu)
    }

    /// Returns true if these are bursts of control, which last for a time.
    pub fn are_bursts(&self) -> bool {
        self.length == 0
    }

    /// Returns what is known of an instruction.
    pub fn at(&self, kind: Kind, place: Place) -> Option<&Sampled> {
        self.sites.get(&kind)?.get(&place)
    }

    /// Adds those of another process that was observed beside the same host.
    pub fn add(&mut self, other: &Self) {
        if self.taken == 0 && other.taken > 0 {
            self.pacing.clone_from(&other.pacing);
        }
        self.add_counts(other);
        // Measured once for all.
        if self.levels.is_none() {
            self.levels.clone_from(&other.levels);
        }
        // They ran side by side, beside one host.
        self.wall = self.wall.max(other.wall);
        self.host = self.host.max(other.host);
    }

    /// Adds those of another time, or another host. What was paid is the mean of the processes then, each weighted with its time.
    pub fn add_apart(&mut self, other: &Self) {
        // In whatever order they come, that of one in which something was seen.
        let of = |windows: &Self| (windows.taken > 0, windows.pacing.clone());
        self.pacing = of(self).max(of(other)).1;
        self.add_counts(other);
        self.wall = self.wall.saturating_add(other.wall);
        self.host = self.host.saturating_add(other.host);
        self.budget = self.budget.max(other.budget);
        self.length = self.length.max(other.length);
        if self.cpu > 0 {
            // In the mean.
            self.rate = self.taken as f64 / self.cpu as f64 * 1e9;
        }
        let first = |levels: &Option<Levels>| levels.as_ref().map(|l| (l.own, l.cycle.to_bits()));
        let (own, others) = (first(&self.levels), first(&other.levels));
        if others.is_some() && (own.is_none() || others < own) {
            self.levels.clone_from(&other.levels);
        }
    }

    /// Subtracts the counts and times of `earlier`; facts about instructions are left.
    pub fn since(&mut self, earlier: &Self) {
        for (now, then) in [
            (&mut self.taken, earlier.taken),
            (&mut self.counted, earlier.counted),
            (&mut self.whole, earlier.whole),
            (&mut self.calls, earlier.calls),
            (&mut self.signals, earlier.signals),
            (&mut self.refused, earlier.refused),
            (&mut self.skipped, earlier.skipped),
            (&mut self.instructions, earlier.instructions),
            (&mut self.cpu, earlier.cpu),
            (&mut self.user, earlier.user),
            (&mut self.wall, earlier.wall),
            (&mut self.in_windows, earlier.in_windows),
            (&mut self.in_kernel, earlier.in_kernel),
            (&mut self.host, earlier.host),
            (&mut self.covered, earlier.covered),
        ] {
            *now = now.saturating_sub(then);
        }
    }

    fn add_counts(&mut self, other: &Self) {
        for (sum, more) in [
            (&mut self.taken, other.taken),
            (&mut self.counted, other.counted),
            (&mut self.whole, other.whole),
            (&mut self.calls, other.calls),
            (&mut self.signals, other.signals),
            (&mut self.refused, other.refused),
            (&mut self.skipped, other.skipped),
            (&mut self.instructions, other.instructions),
            (&mut self.cpu, other.cpu),
            (&mut self.user, other.user),
            (&mut self.in_windows, other.in_windows),
            (&mut self.in_kernel, other.in_kernel),
            (&mut self.covered, other.covered),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    match whole {
        0 => 0.0,
        _ => 100.0 * part as f64 / whole as f64,
    }
}
