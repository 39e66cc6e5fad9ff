//! Results of a folder: of an epoch, and of the whole run.

use std::collections::BTreeMap;

use trommel_profile::windows::Windows;
use trommel_profile::{KindProfile, Module, Site};
use trommel_symbol::Symbols;
use trommel_tuple::{Kind, KindSet, Place};

use crate::channel::shared::Shared;
use crate::fold::folded::{Epoch, Folded};
use crate::fold::folder::{Folder, Mode};
use crate::fold::intervals::Ended;
use crate::fold::threads::threads;

impl Folder {
    /// Returns how the executed branches and calls transfer control.
    pub(super) fn reached(&self, kinds: &BTreeMap<Kind, KindProfile>) -> BTreeMap<Place, Site> {
        // Nothing else is a branch or a call.
        let transfers = kinds.iter().filter(|(kind, _)| kind.value_is_place());
        let places = transfers.flat_map(|(_, k)| k.counts.keys());
        let site = |place: &Place| Some((*place, *self.dictionary.sites.get(place)?));
        places.filter_map(site).collect()
    }

    /// Returns the results of the windows since the last time, where there are windows. `windows`: their costs.
    pub fn take(&mut self, shared: &Shared, kinds: KindSet, mut windows: Windows) -> Option<Epoch> {
        let mut folded: BTreeMap<Kind, KindProfile> =
            kinds.iter().map(|k| (k, KindProfile::default())).collect();
        let mut windowed = self.take_windowed()?;
        let scale = windowed.take(&mut folded, &mut windows);
        let mut queries = self
            .answers
            .as_mut()
            .map_or_else(Vec::new, |answers| answers.take(shared));
        windowed
            .queried
            .take(scale, &self.dictionary.modules, &mut queries);
        self.mode = Mode::Windowed(windowed);
        Some(Epoch {
            queries,
            sites: self.reached(&folded),
            kinds: folded,
            modules: self.dictionary.modules.list.clone(),
            windows,
        })
    }

    /// Returns the latest intervals of what was folded, the last one first, the number of all that have ended, and the modules of their places.
    pub fn latest(&mut self) -> Option<(Vec<Ended>, u64, Vec<Module>)> {
        if !self.keeps_latest() {
            return None;
        }
        // Taken out while the modules are read, and back.
        let mut ordered = self.take_ordered()?;
        let modules = &self.dictionary.modules;
        let (latest, ended) = ordered.latest(modules);
        let modules = modules.list.clone();
        self.mode = Mode::Ordered(ordered);
        Some((latest, ended, modules))
    }

    /// The profile of everything folded, and the stream file finished. `windows`: what they cost, where
    /// there were any.
    pub fn finish(mut self, shared: &Shared, kinds: KindSet, windows: Option<Windows>) -> Folded {
        self.last_intervals();
        let queries = self.answers.take();
        let modules = &self.dictionary.modules;
        let mut queries = queries.map_or_else(Vec::new, |answers| answers.finish(shared, modules));
        queries.extend(self.listeners.take().map(|of| of.finish(modules)));
        let prefetch = self.prefetch.take().map(|p| p.report(shared.prefetch()));
        let mut stream_error = None;
        let mut simulated = None;
        let mut intervals = None;
        let mut converge = self.converge.take();
        let mut folded: BTreeMap<Kind, KindProfile> =
            kinds.iter().map(|k| (k, KindProfile::default())).collect();
        let mut windows = windows;
        let mut after_calls = None;
        let mut deliveries = BTreeMap::new();
        match std::mem::take(&mut self.mode) {
            Mode::Windowed(mut windowed) => {
                let windows = windows.get_or_insert_default();
                let each = windowed.take(&mut folded, windows);
                let all = &self.dictionary;
                windowed.queried.take(each, &all.modules, &mut queries);
                let custom = windowed.custom.take();
                windows.custom = custom.map(|c| c.finish(each, &all.instructions, &all.modules));
                // Nothing tells them apart.
                self.threads.clear();
            }
            Mode::Ordered(mut ordered) => {
                let modules = &self.dictionary.modules;
                let simulator = ordered.simulator.take();
                // Without kinds its compressor is that of queues' messages.
                let ended = ordered.take_intervals(modules);
                intervals = ended.filter(|_| !folded.is_empty());
                stream_error = ordered.finish(modules, &mut self.tables, &mut folded);
                simulated = simulator.map(|s| s.finish(modules, &mut self.tables, &mut folded));
            }
            Mode::Counted => {
                self.settle();
                let whole = self.counts_after_calls && self.bursts.is_none();
                after_calls = whole.then(|| std::mem::take(&mut self.after_calls));
                if whole {
                    deliveries = std::mem::take(&mut self.deliveries);
                }
                for (kind, counts) in std::mem::take(&mut self.settled).by_kind() {
                    let profile = folded.entry(kind).or_default();
                    let all = counts.iter().flat_map(|(_, values)| values);
                    profile.seen = all.map(|(_, count)| count).sum();
                    profile.messages = profile.seen;
                    profile.counts = counts.into_iter().collect();
                }
            }
        }
        let filter = converge.as_mut().map(|converge| {
            converge.finish(self.moment(shared));
            self.filter(converge, shared, &mut folded)
        });
        let threads = match self.threads.is_empty() {
            true => Vec::new(),
            false => threads(&folded, self.first_tid, &self.threads),
        };
        let contexts = self.contexts.take().map(|contexts| {
            let files = self.dictionary.files();
            let modules = &self.dictionary.modules.list;
            let mut symbols = Symbols::new(files, modules).with_debug_limit(0);
            contexts.finish(&mut symbols)
        });
        Folded {
            contexts,
            after_calls,
            deliveries,
            sites: self.reached(&folded),
            kinds: folded,
            threads,
            modules: self.dictionary.modules,
            windows,
            queries,
            prefetch,
            filter,
            simulated,
            intervals,
            stream_error,
            lost: self.tables.lost(),
        }
    }
}
