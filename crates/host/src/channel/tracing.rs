//! Terms of optimisation: what `trommel run` may ask for, and what `record` does.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use trommel_queue::Control;
pub use trommel_queue::Optimise;

/// Times that a start of a trace is reached before one is made, by default.
///
/// Counting once takes a few instructions, and making a trace as long as counting thousands of times.
/// So a start that was counted so often has cost little, and is likely to be worth a trace.
pub const THRESHOLD: u32 = 1000;

/// The same where events are counted. They make each trace dearer, and leave less time to save
/// (`docs/design/history-translate.md`).
const OBSERVED_THRESHOLD: u32 = 4 * THRESHOLD;

/// Terms of optimisation. Traces are made only where no events are collected, or all collected events are counted in the code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tracing {
    /// Times that a start is reached before a trace is made; 0: no traces.
    pub threshold: u32,
    /// The level at which traces are optimised.
    pub optimise: Optimise,
    /// Exits are linked to what they lead to.
    pub link: bool,
    /// Traces go on after returns.
    pub returns: bool,
    /// The program is not detached because control does not pay.
    pub stay: bool,
    /// A program detached for that reason is reattached when its behaviour changes.
    pub retake: bool,
    /// Bytes that the code cache may have; 0: as many as there is room for.
    pub cache: u64,
    /// The engine's work is sampled every few milliseconds.
    pub series: bool,
    /// CPU time that a process uses natively before it is attached; zero: it is attached at its first instruction.
    pub after: Duration,
}

impl Tracing {
    /// No traces.
    pub const NONE: Self = Self {
        threshold: 0,
        optimise: Optimise::Off,
        link: true,
        returns: true,
        stay: true,
        retake: false,
        cache: 0,
        series: false,
        after: Duration::ZERO,
    };

    /// Terms of an observed run: traces where they can be, all of the run attached.
    pub const OBSERVED: Self = Self {
        threshold: OBSERVED_THRESHOLD,
        optimise: Optimise::Conservative,
        ..Self::NONE
    };

    /// Returns the CPU time that a process uses natively first, if any.
    pub(crate) fn late(&self) -> Option<Duration> {
        Some(self.after).filter(|after| !after.is_zero())
    }

    /// Returns whether program counters are sampled: for reports, or to detach the program.
    pub(crate) const fn audits(&self) -> bool {
        self.threshold > 1 && (self.series || !self.stay)
    }

    /// Returns whether what was detached is watched. That needs samples, and those of its control for what that cost.
    pub(crate) const fn retakes(&self) -> bool {
        self.retake && !self.stay && self.audits()
    }

    /// Tells the runtime.
    pub(crate) fn write(&self, control: &Control) {
        let trace = &control.trace;
        trace.threshold.store(self.threshold, Relaxed);
        trace.optimise.store(self.optimise as u32, Relaxed);
        trace.unlinked.store((!self.link).into(), Relaxed);
        trace.no_returns.store((!self.returns).into(), Relaxed);
        trace.stay.store(self.stay.into(), Relaxed);
        trace.audit.store(self.audits().into(), Relaxed);
        trace.cache.store(self.cache, Relaxed);
    }
}
