//! Figures of an engine over time, read every few milliseconds.
//!
//! The runtime counts and the host reads the counts. So a program that stays in its cache costs nothing and
//! is in the series all the same. There are at most [`MOST`] samples. With more, every second one is left out
//! and they are taken half as often.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use trommel_queue::Control;
use trommel_queue::work::{FLUSHES, LENGTHS, PARTS, Part};

use crate::kernel::clocks::{cpu_of, stamp};

/// From one sample to the next, at first.
pub const PERIOD: Duration = Duration::from_millis(5);
/// Samples kept.
const MOST: usize = 1024;

/// Figures of an engine's work so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Figures {
    /// By part of the runtime, [`trommel_queue::work::Part`], in units of its own.
    spent: [u64; PARTS],
    /// By cause, [`trommel_queue::work::Flush`].
    pub flushes: [u64; FLUSHES],
    /// Traces by length: class `k` has those of 2^k to 2^(k+1) − 1 app instructions.
    pub lengths: [u64; LENGTHS],
    /// Bytes of app code in traces.
    pub trace_app_bytes: u64,
    /// Bytes of code in other fragments.
    pub fragment_bytes: u64,
    /// Bytes of app code in them.
    pub fragment_app_bytes: u64,
    /// Exits that were linked.
    pub links: u64,
    /// Indirect branches of traces that went elsewhere, as far as they were counted.
    pub turns_missed: u64,
    /// Indirect branches that were given up.
    pub fickle: u64,
    /// Requests of the program.
    pub requests: u64,
    /// Fragments made.
    pub fragments: u64,
    /// Traces made.
    pub traces: u64,
    /// Entries into the runtime.
    pub dispatches: u64,
    /// Indirect branches that no table led on.
    pub indirect_misses: u64,
    /// Bytes of code cache in use.
    pub cache_bytes: u64,
}

impl Figures {
    /// Nanoseconds by part of the runtime, with so many of them to a cycle of the time stamp counter.
    pub fn nanos(&self, cycle: f64) -> [u64; PARTS] {
        let mut nanos = self.spent;
        for part in [Part::Translate, Part::Dispatch] {
            let spent = &mut nanos[part as usize];
            *spent = (*spent as f64 * cycle) as u64;
        }
        nanos
    }

    /// Reads them as they are now.
    pub fn read(control: &Control) -> Self {
        let work = &control.work;
        Self {
            spent: work.spent.each_ref().map(|n| n.load(Relaxed)),
            flushes: work.flushes.each_ref().map(|n| n.load(Relaxed)),
            lengths: work.lengths.each_ref().map(|n| n.load(Relaxed)),
            trace_app_bytes: work.trace_app_bytes.load(Relaxed),
            fragment_bytes: work.fragment_bytes.load(Relaxed),
            fragment_app_bytes: work.fragment_app_bytes.load(Relaxed),
            links: work.links.load(Relaxed),
            turns_missed: work.turns_missed.load(Relaxed),
            fickle: work.fickle.load(Relaxed),
            requests: work.requests.load(Relaxed),
            fragments: control.engine.fragments.load(Relaxed),
            traces: control.traces.made.load(Relaxed),
            dispatches: control.engine.dispatches.load(Relaxed),
            indirect_misses: control.engine.indirect_misses.load(Relaxed),
            cache_bytes: control.engine.cache_bytes.load(Relaxed),
        }
    }
}

/// The figures at a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// Time since the process was first seen.
    pub wall: Duration,
    /// CPU time of the process; that of the last sample when the process is not there any more.
    pub cpu: Duration,
    /// Cycles of the time stamp counter since the process was first seen.
    pub stamp: u64,
    /// Figures of its work.
    pub figures: Figures,
}

/// The samples of a process.
#[derive(Debug)]
pub struct Series {
    began: (Instant, u64),
    period: Duration,
    samples: Vec<Sample>,
}

impl Series {
    /// None yet.
    pub fn begin() -> Self {
        Self {
            began: (Instant::now(), stamp()),
            period: PERIOD,
            samples: Vec::new(),
        }
    }

    /// Takes a sample if it is time.
    pub fn look(&mut self, pid: Pid, control: &Control) {
        let next = self
            .samples
            .last()
            .map_or(Duration::ZERO, |s| s.wall + self.period);
        if self.began.0.elapsed() >= next {
            self.take(pid, control);
        }
    }

    /// Takes a sample.
    pub fn take(&mut self, pid: Pid, control: &Control) {
        let last = self.samples.last().map_or(Duration::ZERO, |s| s.cpu);
        self.keep(Sample {
            wall: self.began.0.elapsed(),
            cpu: cpu_of(pid).unwrap_or(last).max(last),
            stamp: stamp().saturating_sub(self.began.1),
            figures: Figures::read(control),
        });
    }

    fn keep(&mut self, sample: Sample) {
        self.samples.push(sample);
        if self.samples.len() >= MOST {
            let mut n = 0;
            self.samples.retain(|_| {
                n += 1;
                n % 2 == 0
            });
            self.period *= 2;
        }
    }

    /// All of them.
    pub fn into_samples(self) -> Vec<Sample> {
        self.samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_thinned_and_stay_in_order() {
        let mut series = Series::begin();
        for n in 0..3 * MOST as u64 {
            series.keep(Sample {
                wall: Duration::from_millis(n),
                cpu: Duration::ZERO,
                stamp: n,
                figures: Figures::default(),
            });
        }
        let samples = series.into_samples();
        assert!(samples.len() < MOST && samples.len() > MOST / 4);
        assert!(samples.is_sorted_by_key(|s| s.stamp));
        assert_eq!(samples.last().map(|s| s.stamp), Some(3 * MOST as u64 - 1));
    }
}
