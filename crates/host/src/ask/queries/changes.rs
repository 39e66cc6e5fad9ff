//! Programs that come and go while a process runs: the host's part (`trommel_runtime::engine::queries::changes`).
//!
//! A place may be filled again when the target has said that no thread is in probes of its last program, and all records up to
//! then are folded. So each message is given to the load that it was sent for.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use trommel_profile::queries::Queries;
use trommel_queue::protocol;
use trommel_queue::queries::{self as area, LOADS};

use super::Answers;
use super::loaded::Loaded;
use crate::channel::modules::Modules;
use crate::channel::question::{self, Load};
use crate::channel::shared::Shared;

/// Time between calls while a command waits, and while nobody does.
const OFTEN: Duration = Duration::from_millis(5);
const RARE: Duration = Duration::from_millis(100);

/// State of the changes of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Changes {
    /// The target has made all of them, and nothing is left of what went.
    Made,
    /// The target has made all of them. Threads may be in code with probes of what went.
    Leaving,
    /// The target has not come to make them.
    Awaited,
    /// A load waits for a place.
    Full,
}

impl Answers {
    /// Returns the places, by bit, whose programs no thread executes any more. Their last messages are to be folded.
    pub fn left(&self, shared: &Shared) -> u8 {
        let loads = self.loads.iter().enumerate();
        let left = loads.filter(|(place, load)| {
            let gone = &shared.load(*place).gone;
            let has_left = |load: &Loaded| protocol::is_free(gone, load.id);
            load.as_ref()
                .is_some_and(|load| load.goes.is_some() && has_left(load))
        });
        left.fold(0, |places, (place, _)| places | 1 << place)
    }

    /// Asks the target for what is wanted now. All records of the programs of `left` were folded. `regions`: all of the target's code. False when there
    /// are more ranges with tags than there is room for.
    pub fn change(
        &mut self,
        shared: &Shared,
        left: u8,
        regions: &[std::ops::Range<u64>],
        modules: &Modules,
    ) -> bool {
        // By what is in force still, as that is about to change.
        self.note(shared);
        for place in (0..LOADS).filter(|place| left >> place & 1 != 0) {
            self.end(place, shared, modules);
        }
        let wanted = self.question.loads().clone();
        let first = shared.queries();
        let mut fits = true;
        let mut changed = false;
        for place in 0..LOADS {
            changed |= self.take_away(shared.load(place), place, &wanted);
        }
        for load in wanted.iter().filter(|load| load.is_wanted()) {
            let has = |loaded: &Loaded| loaded.id == load.id;
            if self.loads.iter().flatten().any(has) || self.has_ended(load.id) {
                continue;
            }
            let Some(place) = self.loads.iter().position(Option::is_none) else {
                break;
            };
            fits &= self.put(shared, place, load, regions, modules);
            changed = true;
        }
        if changed {
            let change = protocol::ask(&first.changes);
            for load in self.loads.iter_mut().flatten() {
                load.goes = load.goes.map(|goes| goes.min(change));
            }
        }
        self.look(shared);
        fits
    }

    /// Returns true if anything else is wanted than the target was asked, but for what waits for a place.
    pub fn differ(&self) -> bool {
        let wanted = self.question.loads();
        self.loads.iter().flatten().any(|loaded| {
            let load = wanted.iter().find(|load| load.id == loaded.id);
            let same = |load: &Load| load.off == loaded.off && load.is_wanted();
            loaded.goes.is_none() && !load.is_some_and(same)
        })
    }

    fn has_ended(&self, id: u32) -> bool {
        self.ended.iter().any(|queries| queries.load == id)
    }

    /// Takes away what is not wanted of a place. Returns true if anything has changed.
    fn take_away(&mut self, area: &area::Queries, place: usize, wanted: &[Load]) -> bool {
        let Some(loaded) = &mut self.loads[place] else {
            return false;
        };
        let load = wanted.iter().find(|load| load.id == loaded.id);
        let off = load.map_or(u64::MAX, |load| load.off);
        if loaded.goes.is_some() || off == loaded.off && load.is_some_and(Load::is_wanted) {
            return false;
        }
        loaded.off = off;
        match load.is_some_and(Load::is_wanted) {
            true => area.off.store(off, Relaxed),
            false => {
                loaded.goes = Some(u32::MAX);
                protocol::withdraw(&area.id);
            }
        }
        true
    }

    /// Fills a place.
    fn put(
        &mut self,
        shared: &Shared,
        place: usize,
        load: &Load,
        regions: &[std::ops::Range<u64>],
        modules: &Modules,
    ) -> bool {
        let area = shared.load(place);
        let first = self.ways.take(&load.program);
        let change = shared.queries().changes.load(Relaxed).wrapping_add(1);
        let mut loaded = Loaded::new(load, first, change);
        loaded.read_before(shared);
        forget(area);
        let from = (self.files, &self.main[..]);
        let tell = |range| loaded.tell(area, range, modules, from);
        let fits = regions.iter().map(tell).fold(true, |all, one| all & one);
        question::write(area, load, first);
        self.loads[place] = Some(loaded);
        fits
    }

    /// Takes note of what the target has done: since when queries are active, and until when they were.
    pub(super) fn note(&mut self, shared: &Shared) {
        let first = shared.queries();
        let heeded = first.heeded.load(Acquire);
        let now = self.now();
        for loaded in self.loads.iter_mut().flatten() {
            let is_made = |change: u32| heeded.wrapping_sub(change) as i32 >= 0;
            if !loaded.is_active() && is_made(loaded.comes) {
                loaded.is_active_from(now);
            }
            if loaded.is_active() && heeded == first.changes.load(Relaxed) {
                loaded.was_active_until(loaded.off, now);
            }
        }
        self.noted = heeded;
    }

    /// Takes note, and calls the target if it has something to do.
    fn look(&mut self, shared: &Shared) {
        self.note(shared);
        let first = shared.queries();
        if self.question.is_by_window() {
            // The next window of any thread makes the change, and between windows nobody could be called.
            return;
        }
        match self.changes(shared) {
            Changes::Made => self.knocks.done(),
            // Who waits in the kernel executes nothing.
            Changes::Leaving => self.knocks.call(first.calls.load(Relaxed), RARE),
            Changes::Full => self.knocks.call(first.calls.load(Relaxed), OFTEN),
            Changes::Awaited => self.knocks.call(0, OFTEN),
        }
        self.knocks.ring(shared.takes_knocks());
    }

    /// A call that is under way comes to nothing.
    pub fn quiet(&mut self) {
        self.knocks.done();
    }

    /// The target is not called any more.
    pub fn hush(&mut self) {
        self.knocks.hush();
    }

    /// Returns the state of the changes.
    pub fn changes(&self, shared: &Shared) -> Changes {
        let first = shared.queries();
        let wanted = self.question.loads();
        let has = |load: &Load| {
            let mut all = self.loads.iter().flatten();
            all.any(|loaded| loaded.id == load.id) || self.has_ended(load.id)
        };
        if !wanted.iter().filter(|load| load.is_wanted()).all(has) {
            return Changes::Full;
        }
        // Made, but not noted, is not done: nobody would look again.
        if first.changes.load(Relaxed) != self.noted {
            return Changes::Awaited;
        }
        match self.loads.iter().flatten().any(|load| load.goes.is_some()) {
            true => Changes::Leaving,
            false => Changes::Made,
        }
    }

    /// Returns the results so far of each load, without messages.
    pub fn so_far(&self, shared: &Shared) -> Vec<Queries> {
        let loads = self.loads.iter().enumerate();
        loads
            .filter_map(|(place, load)| Some(load.as_ref()?.so_far(place, shared)))
            .collect()
    }
}

/// Forgets what a place has counted for others, whose probes no thread executes any more.
fn forget(area: &area::Queries) {
    for seen in &area.seen {
        for count in [&seen.executed, &seen.profiled, &seen.acted] {
            count.store(0, Relaxed);
        }
    }
    for paid in &area.paid {
        for count in [&paid.ticks, &paid.of] {
            count.store(0, Relaxed);
        }
    }
    for done in &area.done {
        let counts = [
            &done.sent,
            &done.served,
            &done.dropped,
            &done.counted,
            &done.counted_for,
            &done.interrupted,
        ];
        for count in counts {
            count.store(0, Relaxed);
        }
    }
    area.ranges.store(0, Release);
}
