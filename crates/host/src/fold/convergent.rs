//! The way from counted values to the convergent profiler, and from there to the profile.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use trommel_profile::KindProfile;
use trommel_profile::filter::{Filter, Filtered};
use trommel_queue::work::Part;
use trommel_queue::{COUNTER_ARRAYS, COUNTS_PATHS, ValueCounter};
use trommel_tuple::Kind;

use super::folder::{Folder, NEVER};
use crate::ask::converge::{Converge, Moment};
use crate::channel::shared::Shared;
use crate::fold::exact::UNSELECTED;
use crate::kernel::clocks::stamp;

impl Folder {
    /// Places whose values are known are not profiled on.
    pub fn of_converge(mut self, converge: Converge) -> Self {
        self.converge = Some(Box::new(converge));
        self
    }

    /// The host has spent this CPU time on the process.
    pub fn worked(&mut self, time: Duration) {
        self.worked += time;
    }

    /// Returns the longest pause until the next call of [`Self::converge`].
    pub fn converge_pause(&self) -> Option<Duration> {
        self.converge.as_deref().map(Converge::often)
    }

    /// The program is not to be called back now, as nobody would take that for what it is.
    pub fn quiet(&mut self) {
        if let Some(converge) = &mut self.converge {
            converge.hush();
        }
        if let Some(answers) = &mut self.answers {
            answers.quiet();
        }
        if let Some(prefetch) = &mut self.prefetch {
            prefetch.ring(false);
        }
    }

    /// The program is not to be called back any more.
    pub fn hush(&mut self) {
        self.quiet();
        if let Some(answers) = &mut self.answers {
            answers.hush();
        }
        if let Some(prefetch) = &mut self.prefetch {
            prefetch.hush();
        }
    }

    /// The event of a message happened so often with a value.
    pub(super) fn watch(&mut self, met: usize, value: u64, count: u64) {
        let Some(mut converge) = self.converge.take() else {
            return;
        };
        let place = self.watched(&mut converge, met);
        converge.seen(place, value, count);
        self.converge = Some(converge);
    }

    /// A thread's value counter has become a record.
    pub(super) fn watch_record(&mut self, thread: u32, met: usize, of: &ValueCounter) {
        let Some(mut converge) = self.converge.take() else {
            return;
        };
        let place = self.watched(&mut converge, met);
        converge.recorded(thread, place, of);
        self.converge = Some(converge);
    }

    /// The number of the place that messages of a path are about.
    fn watched(&mut self, converge: &mut Converge, met: usize) -> u32 {
        if self.watched.len() <= met {
            self.watched.resize(self.paths.len(), NEVER);
        }
        if self.watched[met] == NEVER {
            let path = &self.paths[met];
            let table = (path.tables != UNSELECTED).then_some(path.tables);
            self.watched[met] = converge.place(path.about, table);
        }
        self.watched[met]
    }

    /// Looks at what values have become, when it is time to.
    pub fn converge(&mut self, shared: &Shared) {
        let at = self.since.elapsed();
        let Some(mut converge) = self.converge.take() else {
            return;
        };
        if converge.is_due(at) {
            self.learn(shared);
            if !self.has_messages() {
                self.look_at_value_counters(&mut converge, shared);
            }
            converge.look(shared.converge(), self.moment(shared));
        }
        converge.ring(shared.takes_knocks());
        self.converge = Some(converge);
    }

    /// Now.
    pub(super) fn moment(&self, shared: &Shared) -> Moment {
        let work = &shared.control().work;
        Moment {
            at: self.since.elapsed(),
            stamp: stamp(),
            translating: work.spent[Part::Translate as usize].load(Relaxed),
            going_over: Duration::from_nanos(work.spent[Part::Flush as usize].load(Relaxed)),
            host: self.worked,
            paths: shared.paths(),
        }
    }

    fn look_at_value_counters(&mut self, converge: &mut Converge, shared: &Shared) {
        for number in 0..COUNTER_ARRAYS {
            let Some(counting) = shared
                .counter_array(number)
                .filter(|counter_array| !counter_array.ended)
            else {
                continue;
            };
            // What cannot be read is told where it is counted.
            let Ok(value_counters) = shared.value_counters(number) else {
                continue;
            };
            converge.value_counters(counting.thread, value_counters, |converge, path| {
                let met = self.path(shared, path).ok()?;
                let is_value_counter = self.counters[met].value_counters;
                is_value_counter.then(|| self.watched(converge, met))
            });
        }
    }

    /// A thread has ended, and what was in its counter array is counted.
    pub(super) fn forget_value_counters(&mut self, thread: u32) {
        if let Some(converge) = &mut self.converge {
            converge.forget_value_counters(thread);
        }
    }

    /// Returns the profile's part about places that were not profiled for a while, and weights their counts.
    pub(super) fn filter(
        &self,
        converge: &Converge,
        shared: &Shared,
        folded: &mut BTreeMap<Kind, KindProfile>,
    ) -> Filter {
        let paths = shared.control().setup.counters.load(Relaxed) == COUNTS_PATHS;
        let counted = paths
            && folded.contains_key(&Kind::Edge)
            && shared.control().work.stops.load(Relaxed) == 0;
        let mut filter = Filter {
            limit: converge.limit(),
            rounds: converge.rounds().into(),
            tables: converge.tables().into(),
            ..Filter::default()
        };
        for outcome in converge.outcomes() {
            let dynamic = (outcome.table as usize).checked_sub(1 + UNSELECTED as usize);
            let Some(&(kind, place)) = dynamic.and_then(|n| self.dictionary.dynamic.get(n)) else {
                continue;
            };
            let counts = folded.get_mut(&kind).and_then(|k| k.counts.get_mut(&place));
            if let Some(counts) = counts {
                outcome.weights.apply(counts);
            }
            let unprofiled = self.unprofiled.get(&place).copied().unwrap_or(0);
            let new = Filtered {
                outs: outcome.outs.into(),
                changes: outcome.changes.into(),
                settled: outcome.settled,
                unprofiled: counted.then_some(unprofiled),
            };
            // What paths tell is of the place, whatever its addresses were.
            let known = filter.places.entry(place).or_insert(Filtered::NEVER);
            known.add(&new);
            known.unprofiled = new.unprofiled;
        }
        filter
    }
}
