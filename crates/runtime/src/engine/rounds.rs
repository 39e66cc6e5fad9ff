//! Rounds of questions about prefetches ([`crate::observe::prefetch`]): when one begins and ends.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use trommel_queue::work::Flush;

use crate::base::address::CachePc;
use crate::engine::state::{Runtime, Thread};
use crate::observe::prefetch::{LONGEST, PAUSE, Prefetch, SLOW, Stage};

impl Runtime {
    /// Returns whether code has probes, and traces are none.
    pub fn asks(&self) -> bool {
        let prefetch = self.translator.ways.prefetch.as_ref();
        prefetch.is_some_and(Prefetch::asks)
    }

    /// Something is hot, at time `now`. Whether the program is asked first.
    pub fn asks_first(&mut self, now: u64) -> bool {
        let cold = |p: &Prefetch| p.stage == Stage::Cold && !p.everywhere;
        let first = self.translator.ways.prefetch.as_ref().is_some_and(cold);
        if first {
            self.ask(now);
        }
        first
    }

    /// Asks the program again, if it is time to.
    pub fn ask_if_due(&mut self, now: u64) {
        if self.is_due(now) && self.evict.is_none() {
            self.ask(now);
        }
    }

    /// A thread in the cache was called: a round may be due.
    pub fn ask_at_once(&mut self, now: u64) {
        if self.is_due(now) {
            self.ask(now);
            self.evict = None;
            // The thread goes on in its fragment.
            self.drop_all(Flush::Asked, false);
        }
    }

    /// The working set has changed.
    pub fn ask_soon(&mut self, now: u64) {
        if let Some(prefetch) = &mut self.translator.ways.prefetch
            && let Stage::Answered(at) = prefetch.stage
        {
            prefetch.stage = Stage::Answered(at.min(now));
            self.shared
                .mapped()
                .prefetch()
                .due
                .store(at.min(now), Release);
        }
    }

    fn is_due(&self, now: u64) -> bool {
        let due = |p: &Prefetch| matches!(p.stage, Stage::Answered(at) if now >= at);
        self.translator.ways.prefetch.as_ref().is_some_and(due)
    }

    fn ask(&mut self, now: u64) {
        let asked = self.shared.mapped().prefetch();
        asked.bursts.store(0, Relaxed);
        asked.begun.fetch_add(1, Relaxed);
        if let Some(prefetch) = &mut self.translator.ways.prefetch {
            prefetch.stage = Stage::Asking(now);
        }
        self.evict = Some(Flush::Asked);
    }

    /// Ends a round: the host has answered what the round has sent. A thread that executes code with probes notices it.
    pub fn end_round(&mut self, now: u64) {
        let asked = self.shared.mapped().prefetch();
        let Some(prefetch) = &mut self.translator.ways.prefetch else {
            return;
        };
        // Another thread was first.
        let Stage::Asking(since) = prefetch.stage else {
            return;
        };
        if asked.answered.load(Acquire) != asked.begun.load(Relaxed) {
            return;
        }
        prefetch.pause = match prefetch.read(asked) {
            true => PAUSE.max(prefetch.pause / 2),
            false => (prefetch.pause * 2).min(LONGEST),
        };
        let took = now.saturating_sub(since).min(SLOW);
        let due = now.saturating_add(took.saturating_mul(prefetch.pause));
        prefetch.stage = Stage::Answered(due);
        asked.due.store(due, Release);
        asked.dropped.fetch_add(1, Relaxed);
        // The calling thread goes on in its fragment.
        self.drop_all(Flush::Asked, false);
    }
}

impl Runtime {
    /// A thread in the cache was called, at `at`.
    pub fn knocked(&mut self, thread: &Thread, at: CachePc, now: u64) {
        self.ask_at_once(now);
        self.go_by_table();
        self.heed_queries_at(thread, at);
    }
}
