//! The queries of a thread: its engine, and where that is.

use alloc::boxed::Box;
use core::sync::atomic::{AtomicU64, Ordering};

use trommel_query::pair::Member;
use trommel_query::throttle::{Rehearsal, Throttle};
use trommel_query::{Engine, Facts, QueryPc};
use trommel_queue::queries::{ENTRIES, LOADS, Queries};

use crate::base::signals;
use crate::engine::queries::counts::InWindow;
use crate::observe::prefetch::Bursts;
use crate::observe::query::{Prepared, Site};

/// The queries of one thread.
#[derive(Default)]
pub struct Asking {
    /// Programs that it has reached a probe of, by place.
    pub(crate) underway: [Option<Box<Underway>>; LOADS],
    /// Interrupts of a query that is being executed.
    pub(crate) raised: Raised,
    /// The thread's bursts, where executions are profiled in bursts.
    pub(crate) bursts: Option<Bursts>,
    /// The last message of a round was sent, or is about to be.
    pub(crate) last_of_round: bool,
    /// Counts of the window that the thread is in, where they are reported by window.
    pub(crate) by_window: Option<Box<InWindow>>,
}

/// A program under way in a thread.
pub(crate) struct Underway {
    /// Number of the load.
    pub(crate) id: u32,
    /// Its place.
    pub(crate) place: usize,
    pub(crate) engine: Engine<'static>,
    pub(crate) prepared: &'static Prepared,
    /// Start values of the countdowns.
    pub(crate) drawn: [u32; ENTRIES],
    /// Facts seen before an instruction that is not done yet, and how it was chosen.
    pub(crate) begun: Option<(&'static Site, Facts, Chosen)>,
    /// Source of the rates, if any.
    pub(crate) rates: Rates,
}

/// Choice of an execution.
#[derive(Clone, Copy)]
pub(crate) struct Chosen {
    /// Rank of the rate, where that changes.
    pub(crate) rank: u8,
    /// Its part in a record.
    pub(crate) member: Member,
}

/// Source of the rates of `every auto`.
pub(crate) enum Rates {
    /// No entry asks for one.
    Fixed,
    /// Their cost.
    Throttled(Box<Throttle>),
    /// A test.
    Rehearsed(Box<Rehearsal>),
}

/// Interrupts of a query that are the app's, to be sent when it has ended.
#[derive(Default)]
pub(crate) struct Raised {
    pub(crate) signal: i32,
    /// Instructions, and the first words of their records.
    pub(crate) by: [(u8, u64); Self::MOST],
    pub(crate) len: usize,
}

impl Raised {
    /// Capacity: more entries than one record can match. Further ones are lost.
    const MOST: usize = 16;

    pub(crate) fn push(&mut self, signal: i32, at: QueryPc, value: u64) -> bool {
        self.signal = signal;
        let Some(place) = self.by.get_mut(self.len) else {
            return false;
        };
        *place = (at.number() as u8, value);
        self.len += 1;
        true
    }

    /// The thread's own handler keeps the first, and it is delivered at the next boundary.
    pub(crate) fn send(&mut self, area: &Queries) {
        for &(at, value) in &self.by[..core::mem::take(&mut self.len)] {
            if !signals::raise(self.signal, value) {
                add(&area.done[usize::from(at)].dropped, 1);
            }
        }
    }
}

pub(crate) fn add(to: &AtomicU64, n: u64) {
    to.fetch_add(n, Ordering::Relaxed);
}
