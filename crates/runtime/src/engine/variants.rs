//! Going from one variant of the code to the other ([`crate::observe::converge`]).

use alloc::vec::Vec;

use trommel_queue::work::Part;

use crate::base::address::{AppPc, CachePc};
use crate::base::ids::FragmentId;
use crate::base::prefix::Key;
use crate::engine::runtime::Began;
use crate::engine::state::Runtime;

impl Runtime {
    /// The host may have reported something, or its report may be over.
    pub fn go_by_table(&mut self) {
        let converge = self.translator.ways.converge.as_mut();
        let Some(converge) = converge.filter(|c| c.is_news() || c.is_over()) else {
            return;
        };
        let began = Began::long();
        let all = converge.wants_all();
        let new = converge.read();
        let before = core::mem::replace(&mut converge.all, all);
        if new {
            // What was made by the last table is not entered any more.
            if !before {
                self.cache.turn_over();
            }
            self.cache.discard_resting();
        }
        // With a new table the variant with all probes is the current one now.
        if all != (before || new) {
            self.cache.turn_over();
        }
        if let Some(converge) = &mut self.translator.ways.converge {
            let threshold = if all { 0 } else { converge.threshold };
            self.cache.make_traces(threshold);
            converge.settle();
        }
        self.lead_into_variant();
        self.spent_in(Part::Flush, began);
    }

    /// Goes on with the other variant (a stress option), where there are two: not of traces, nor of windows.
    pub fn turn_over(&mut self) {
        if !self.translator.leads_to_traces() && !self.has_windows() {
            self.cache.turn_over();
            self.lead_into_variant();
        }
    }

    /// Indirect branches go to fragments of the current variant only.
    fn lead_into_variant(&mut self) {
        self.loaded.clear();
        for targets in &mut self.targets {
            targets.clear();
        }
        let entries: Vec<(FragmentId, AppPc, CachePc)> = self.cache.checked_entries().collect();
        for (id, app, entry) in entries {
            let entry = match self.cache.makes_traces() {
                true => self.arrival(id, app, entry),
                false => entry,
            };
            for targets in &mut self.targets {
                targets.put(app, Key::NONE, entry);
            }
        }
    }
}
