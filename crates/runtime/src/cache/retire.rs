//! Retiring: fragments that are cut off, and the end of a generation.
//!
//! A retired fragment stays in memory until every thread has left the cache twice (`mod@super::old`).

use alloc::vec::Vec;

use super::entry::retired_entry;
use super::old::Generation;
use super::suspect::Index;
use super::table::Table;
use super::{Cache, Fragment, FragmentState, Part, UNLINKED};
use crate::base::address::Range;
use crate::base::ids::FragmentId;

impl Cache {
    /// Retires the traces that keep slots of the stack frame in registers.
    pub fn retire_loops(&mut self) {
        for id in self.ids() {
            let fragment = &self.fragments[id.index()];
            if fragment.promoted != 0 && fragment.state == FragmentState::Live {
                self.cut_off(id);
                self.bury(id);
            }
        }
    }

    /// Retires the fragments that `goes` chooses, whatever their state. It is given each with the range of app addresses that it is made of.
    pub fn retire_some(&mut self, mut goes: impl FnMut(&Fragment, Range) -> bool) {
        self.heads.forget_recorded();
        self.in_both(|cache| cache.retire_in_variant(&mut goes));
    }

    fn retire_in_variant(&mut self, goes: &mut impl FnMut(&Fragment, Range) -> bool) {
        // Fragments in doubt, single ones and parts are made anew when they are needed.
        self.index.forget_unlisted();
        for id in self.ids() {
            let fragment = self.fragments[id.index()];
            match fragment.state {
                FragmentState::Retired => {}
                FragmentState::Suspect => self.bury(id),
                FragmentState::Live => {
                    if goes(&fragment, self.hull(&fragment)) {
                        self.cut_off(id);
                        self.bury(id);
                    }
                }
            }
        }
    }

    /// The range from the first to the last of the app's code that a fragment is made of.
    fn hull(&self, fragment: &Fragment) -> Range {
        /// Bytes of an instruction at most.
        const LONGEST: u64 = 15;
        let first = fragment.first_step as usize;
        let steps = &self.steps[first..first + usize::from(fragment.steps)];
        steps.iter().fold(fragment.span, |hull, step| Range {
            start: hull.start.min(step.app.0),
            end: hull.end.max(step.app.0 + LONGEST.max(step.copied.into())),
        })
    }

    /// Begins an epoch: a thread that comes out of the cache from now on is in no fragment that was retired before.
    pub fn next_epoch(&mut self) -> u64 {
        self.epoch += 1;
        self.epoch
    }

    /// Retires all fragments: a thread that is in one leaves it at its next exit, and none gets in
    /// any more but through a table of indirect targets, whose way leads to the dispatcher.
    pub fn retire_all(&mut self) {
        self.in_both(Self::retire_variant);
        self.heads.forget_recorded();
    }

    fn retire_variant(&mut self) {
        let retired = retired_entry();
        for fragment in &mut self.fragments {
            if fragment.state == FragmentState::Live {
                Self::lead_entry(fragment, retired);
                self.table.remove(fragment.key());
            }
            fragment.state = FragmentState::Retired;
            fragment.first_link = UNLINKED;
        }
        for exit in &mut self.exits {
            if exit.to != FragmentId::NONE {
                exit.to = FragmentId::NONE;
                Self::patch(exit.patch, exit.stub);
            }
        }
        self.index = Index::default();
    }

    /// Retires all fragments like [`Self::retire_all`], of a cache that may be half changed: nothing but code is changed, and no list followed.
    pub fn abandon(&mut self) {
        self.in_both(|cache| {
            let retired = retired_entry();
            for fragment in &mut cache.fragments {
                if fragment.state == FragmentState::Live {
                    Self::lead_entry(fragment, retired);
                }
            }
            for exit in &cache.exits {
                if exit.to != FragmentId::NONE {
                    Self::patch(exit.patch, exit.stub);
                }
            }
        });
    }

    /// Starts a new generation, and epoch: a thread that comes out of the cache from
    /// now on has seen it. `alone`: no other thread is in the cache.
    pub fn next_generation(&mut self, alone: bool) {
        if !alone {
            self.retire_all();
        }
        self.epoch += 1;
        self.table = Table::new();
        self.sources = Vec::new();
        self.index = Index::default();
        self.heads.forget();
        self.arrivals.forget();
        for arena in &mut self.arenas {
            arena.free_counters();
        }
        self.dead = 0;
        if let Some(resting) = self.resting.take() {
            self.spare_exit = resting.first_exit.plus(resting.exits.len());
            self.spare_exit = self.exits_from(self.spare_exit);
            self.old.push(resting.into_old(self.epoch, &self.arenas));
        }
        let exits = core::mem::take(&mut self.exits);
        let first_exit = self.first_exit;
        self.first_exit = self.exits_from(first_exit.plus(exits.len()));
        let parts = self.arenas.iter().map(|a| Part {
            code: a.code.next,
            stubs: a.stubs.next,
            fragments: Vec::new(),
        });
        let parts = core::mem::replace(&mut self.parts, parts.collect());
        let fragments = core::mem::take(&mut self.fragments);
        let steps = core::mem::take(&mut self.steps);
        self.old.push(Generation {
            first_exit,
            fragments,
            steps,
            exits,
            ..Generation::of(self.epoch, parts, &self.arenas)
        });
    }
}
