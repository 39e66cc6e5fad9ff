//! Candidates of intervals that are about to end.
//!
//! The service thread's profiler reports those of all threads together. A profiler in generated code is a thread's own: its candidates come as
//! records, and a mark at an interval's end. An interval without its mark has not ended, and is left out.

use std::collections::BTreeMap;

use trommel_profile::intervals::{CANDIDATES, Intervals, Keeper};
use trommel_tuple::Message;

/// Number of the thread for a profiler of all threads.
pub(super) const ALL_THREADS: u32 = 0;

/// Intervals that have ended, and candidates of those that are about to, by thread.
#[derive(Default)]
pub(super) struct Ending {
    keeper: Keeper,
    candidates: BTreeMap<u32, Vec<Message>>,
}

impl Ending {
    /// A candidate of the thread's interval.
    pub(super) fn candidate(&mut self, thread: u32, message: Message) {
        let candidates = self.candidates.entry(thread).or_default();
        // With one more the interval is not kept, however many there are.
        if candidates.len() <= CANDIDATES {
            candidates.push(message);
        }
    }

    /// The thread's interval, of so many events, has ended.
    pub(super) fn ended(&mut self, thread: u32, events: u64) {
        let candidates = self.candidates.remove(&thread).unwrap_or_default();
        self.keeper.add(thread, events, candidates);
    }

    /// All intervals that have ended.
    pub(super) fn finish(self) -> Intervals {
        self.keeper.finish()
    }
}
