//! Figures of the engine in one process.

use std::sync::atomic::Ordering::Relaxed;

use trommel_queue::Control;

use crate::ask::prefetch;
use crate::serve::audit::Shares;
use crate::serve::progress::Progress;
use crate::serve::series::{Figures, Sample};
use crate::serve::turns::Turns;

/// The engine's own figures.
#[derive(Clone, Debug, Default)]
pub struct Engine {
    /// Fragments made.
    pub fragments: u64,
    /// App instructions in them.
    pub instructions: u64,
    /// Number of them that come from earlier runs.
    pub kept_fragments: u64,
    /// Traces made.
    pub traces: u64,
    /// App instructions in them.
    pub trace_instructions: u64,
    /// Bytes of code in them.
    pub trace_bytes: u64,
    /// Paths that were recorded and of which no trace was made.
    pub traces_abandoned: u64,
    /// Returns to the dispatcher.
    pub dispatches: u64,
    /// Indirect branches that the inline lookup did not find.
    pub indirect_misses: u64,
    /// System calls the runtime handled.
    pub syscalls: u64,
    /// Signals delivered to handlers.
    pub signals: u64,
    /// Bytes of code cache.
    pub cache_bytes: u64,
    /// Times code was dropped because it changed or the cache was full.
    pub invalidations: u64,
    /// Children started, which ran natively.
    pub children: u64,
    /// Bytes of records.
    pub record_bytes: u64,
    /// Figures of its work and its time.
    pub figures: Figures,
    /// The same over time, if that was asked for.
    pub series: Vec<Sample>,
    /// Times and reason of its control: when and why it was attached, and when it was detached.
    pub turns: Turns,
    /// Shares by samples of its program counters, if some were taken.
    pub shares: Option<Shares>,
    /// Rates of the program natively and under control, if they were measured.
    pub progress: Option<Progress>,
    /// Findings of prefetching, if it was asked for.
    pub prefetch: Option<prefetch::Report>,
}

impl Engine {
    /// Reads the counts of a process's engine so far.
    pub(super) fn of(control: &Control) -> Self {
        Self {
            fragments: control.engine.fragments.load(Relaxed),
            kept_fragments: control.engine.kept_fragments.load(Relaxed),
            instructions: control.engine.instructions.load(Relaxed),
            traces: control.traces.made.load(Relaxed),
            trace_instructions: control.traces.instructions.load(Relaxed),
            trace_bytes: control.traces.bytes.load(Relaxed),
            traces_abandoned: control.traces.abandoned.load(Relaxed),
            dispatches: control.engine.dispatches.load(Relaxed),
            indirect_misses: control.engine.indirect_misses.load(Relaxed),
            syscalls: control.engine.syscalls.load(Relaxed),
            signals: control.engine.signals.load(Relaxed),
            cache_bytes: control.engine.cache_bytes.load(Relaxed),
            invalidations: control.engine.invalidations.load(Relaxed),
            figures: Figures::read(control),
            children: control.process.children.load(Relaxed).into(),
            ..Self::default()
        }
    }
}
