//! Query programs that come and go while the process runs ([`crate::observe::query`]).
//!
//! # Problem
//! The user puts other queries to a program that runs. A query that stays must miss no execution and count none twice. Messages of one
//! that goes must arrive. Code that no change is about should stay as it is, and no thread may be stopped.
//!
//! # Strategy
//! The host fills a place for a program, or clears it, and counts a change ([`trommel_queue::queries`]). A thread that enters the
//! dispatcher makes the change, with the lock held. If no thread does, the host calls one ([`crate::base::knock`]). Fragments with probes of what
//! goes are retired, as are those with instructions that what comes is about. They are translated anew when they are reached.
//!
//! Threads leave a retired fragment at its next exit. A place may be used again when none can be in such a fragment: each thread has
//! come out of the cache since, waits in a system call, which ends its fragment, or was found by a signal of the host in code without such probes.
//! A thread goes from retired code to other code by links and tables, without coming out. So the host calls the threads that have not, one by one
//! ([`Queries::calls`](trommel_queue::queries::Queries::calls)). Then the place is *at rest*: its
//! countdowns are 1 in every thread. So the first execution of each entry crosses over, and there its thread begins an engine.
//!
//! # Why it is correct
//! * A probe is in its instruction's step, and a fragment is left at an exit. So each execution has the probes of one state of the programs.
//! * Each fragment has the probes of all programs that stay, before and after the change.
//! * A place has one program until no thread can be in code with probes of it. So what a probe writes belongs to the program that it was made for.
//! * Live code leads to retired fragments no more: links were cut, and the checked entries that tables name lead to the dispatcher.
//! * A thread that has not noticed a change meets new probes with its place at rest. A new place is at rest from the thread's beginning.
//!
//! **I41 (one program a place).** While any thread may execute a probe of a place, the place has the program that the probe was made for.

#![allow(unsafe_code)] // reason: threads are reached by their addresses.

use core::sync::atomic::Ordering::Relaxed;

use trommel_queue::protocol;
use trommel_queue::queries::LOADS;

use crate::base::address::CachePc;
use crate::base::sys;
use crate::cache::FragmentState;
use crate::engine::state::{Runtime, Thread};
use crate::observe::query::Asked;

/// Ticks between two looks at where threads are that do not come out.
const PATIENCE: u64 = 1 << 24;

impl Runtime {
    /// Makes the host's changes, and takes note of what is left.
    pub fn heed_queries(&mut self) {
        let mapped = self.shared.mapped();
        let area = mapped.queries();
        let change = protocol::asked(&area.changes, &area.heeded);
        if change.is_none() && !self.queries_leave {
            return;
        }
        let Some(asked) = &mut self.translator.ways.asked else {
            return;
        };
        if let Some(change) = change {
            let changed = asked.change(mapped);
            self.cache.retire_some(|fragment, hull| {
                fragment.probes & changed.goes != 0
                    || asked.concerns(mapped, changed.comes, hull, fragment.operations)
            });
            let epoch = self.cache.next_epoch();
            asked.leave_in(epoch);
            self.queries_leave = asked.leaves().is_some();
            protocol::answer(&area.heeded, change, || {});
        }
        self.rest_left_places();
    }

    /// The host has called a thread, which was at a place in the cache.
    pub fn heed_queries_at(&mut self, thread: &Thread, at: CachePc) {
        if self.queries_leave {
            let found = self.cache.fragment_at(at);
            let places = self
                .translator
                .ways
                .asked
                .as_ref()
                .map_or(0, Asked::leaving);
            let is_clear = found.is_some_and(|(fragment, _)| {
                fragment.state == FragmentState::Live && fragment.probes & places == 0
            });
            if is_clear {
                let epoch = self.cache.epoch();
                thread.presence.clear.store(epoch, Relaxed);
            }
        }
        self.queries_looked = 0;
        self.heed_queries();
    }

    /// Puts the places at rest that no thread has probes of any more.
    fn rest_left_places(&mut self) {
        let mapped = self.shared.mapped();
        let asked = self.translator.ways.asked.as_ref();
        let Some(epoch) = asked.and_then(Asked::leaves) else {
            return;
        };
        let now = sys::ticks();
        let thorough = now.wrapping_sub(self.queries_looked) >= PATIENCE;
        if thorough {
            self.queries_looked = now;
        }
        let calls = &mapped.queries().calls;
        if let Some(thread) = self.in_old_probes(epoch, thorough) {
            // Else it may wait in the kernel, where no call reaches it.
            if thorough {
                calls.store(thread.thread_page().tid.load(Relaxed), Relaxed);
            }
            return;
        }
        calls.store(0, Relaxed);
        let Some(asked) = &mut self.translator.ways.asked else {
            return;
        };
        let ids: [u32; LOADS] = core::array::from_fn(|n| mapped.load(n).put.load(Relaxed));
        let places = asked.left(mapped, epoch);
        self.queries_leave = asked.leaves().is_some();
        for place in (0..LOADS).filter(|place| places >> place & 1 != 0) {
            self.rest_everywhere(place);
            protocol::leave(&mapped.load(place).gone, ids[place]);
        }
    }

    /// Puts a place at rest in all threads, those between two windows included.
    fn rest_everywhere(&self, place: usize) {
        for thread in self.all_threads() {
            thread.rest(place);
        }
        for &(_, area) in &self.windows.areas {
            // SAFETY: areas stay. A thread that is just beginning a window waits for the lock before it reads countdowns.
            unsafe { &*area }.rest(place);
        }
    }
}
