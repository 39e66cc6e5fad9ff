//! Two variants of the code, of which one is entered: with all probes, and without those of places whose values are known.
//!
//! # Problem
//! Code that is profiled for a millisecond now and then needs probes only for that time. To make it anew each time takes longer
//! than the time that is profiled.
//!
//! # Strategy
//! A *variant* is everything that leads to fragments and from one to the other: the lists of fragments, steps and exits, the table of addresses.
//! [`Cache`] has the current variant in its own fields. Another may be *at rest*. [`Cache::turn_over`] exchanges them. The variant that comes to rest
//! is cut off as if it were retired, by single stores: each exit that was linked leads to its stub, each checked entry to the dispatcher. But its links
//! are kept. When the variant is the current one again it is as it was, without a fragment made or an exit taken.
//!
//! # Why it is correct
//! * Both are translations of the app's code as it is, so it does not matter to the app which of them a thread is in. A thread that is in a variant when the
//!   variant comes to rest leaves it at its next exit, as all threads do when fragments are retired.
//! * Code that may have changed is put in doubt in both ([`Cache::doubt_range`]). Fragments cut off for that reason while at rest stay cut off.
//! * Exits of the variants have numbers far apart, so that an exit is never linked to a fragment of another variant.
//! * Traces, and what counts towards them, are in one of them only.
//! * Both are of one generation: they are flushed together, and their memory is reclaimed together. A variant that is given up alone is an old generation. Its
//!   memory is reclaimed with that of the other old generations.
#![allow(unsafe_code)] // reason: reads displacements of jumps.

use alloc::vec::Vec;
use core::mem::{swap, take};

use super::arena::Arena;
use super::entry::retired_entry;
use super::suspect::{Index, checked_entry_of};
use super::table::Table;
use super::{Cache, Exit, Fragment, FragmentState, Generation, Part, Step};
use crate::base::address::{AppPc, CachePc};
use crate::base::ids::{ExitId, FragmentId, VariantId};

/// A variant at rest.
pub(super) struct Variant {
    number: VariantId,
    pub(super) fragments: Vec<Fragment>,
    pub(super) steps: Vec<Step>,
    pub(super) exits: Vec<Exit>,
    pub(super) first_exit: ExitId,
    pub(super) parts: Vec<Part>,
    table: Table<FragmentId>,
    sources: Vec<u8>,
    index: Index,
    /// The exits that were linked, and the displacements by which they were.
    links: Vec<(u32, i32)>,
}

impl Variant {
    pub(super) fn into_old(self, epoch: u64, arenas: &[Arena]) -> Generation {
        Generation {
            first_exit: self.first_exit,
            fragments: self.fragments,
            steps: self.steps,
            exits: self.exits,
            ..Generation::of(epoch, self.parts, arenas)
        }
    }
}

impl Cache {
    /// The number of the current variant; no other has it.
    pub fn variant(&self) -> VariantId {
        self.variant
    }

    /// Goes on with the variant at rest, or with one that has no fragments yet. The caller empties the tables of indirect targets.
    pub fn turn_over(&mut self) {
        let links = self.lay_to_rest();
        let waking = match &mut self.resting {
            Some(resting) => {
                let waking = core::mem::replace(&mut resting.links, links);
                self.exchange();
                waking
            }
            None => {
                self.begin_variant(links);
                Vec::new()
            }
        };
        self.heads.forget_recorded();
        self.wake(waking);
    }

    /// The variant at rest, which is the one with traces if any is, is entered no more.
    pub fn discard_resting(&mut self) {
        let Some(resting) = self.resting.take() else {
            return;
        };
        self.epoch += 1;
        // The other variant has no traces, and counts towards none.
        self.heads.forget();
        self.arrivals.forget();
        for arena in &mut self.arenas {
            arena.free_counters();
        }
        let bytes = |f: &Fragment| f.end.0 - f.entry.0;
        self.dead += resting.fragments.iter().map(bytes).sum::<u64>();
        self.spare_exit = resting.first_exit.plus(resting.exits.len());
        self.spare_exit = self.exits_from(self.spare_exit);
        self.old.push(resting.into_old(self.epoch, &self.arenas));
    }

    /// Returns the entries of indirect branches into fragments of the current variant, as far as they have been made: fragments, their addresses
    /// and entries.
    pub fn checked_entries(&self) -> impl Iterator<Item = (FragmentId, AppPc, CachePc)> {
        let live = self.ids().zip(&self.fragments);
        let live = live.filter(|(_, f)| f.state == FragmentState::Live);
        live.filter_map(|(id, f)| Some((id, f.app, f.checked?)))
    }

    /// Runs `what` on both variants.
    pub(super) fn in_both<T>(&mut self, mut what: impl FnMut(&mut Self) -> T) -> (T, Option<T>) {
        let first = what(self);
        let second = self.resting.is_some().then(|| {
            self.exchange();
            let second = what(self);
            self.exchange();
            second
        });
        (first, second)
    }

    /// Exchanges the current variant with the one at rest, if there is one.
    fn exchange(&mut self) {
        let Some(resting) = &mut self.resting else {
            return;
        };
        swap(&mut self.variant, &mut resting.number);
        swap(&mut self.fragments, &mut resting.fragments);
        swap(&mut self.steps, &mut resting.steps);
        swap(&mut self.exits, &mut resting.exits);
        swap(&mut self.first_exit, &mut resting.first_exit);
        swap(&mut self.parts, &mut resting.parts);
        swap(&mut self.table, &mut resting.table);
        swap(&mut self.sources, &mut resting.sources);
        swap(&mut self.index, &mut resting.index);
        // An arena that was made since belongs to both.
        for part in &resting.parts[self.parts.len().min(resting.parts.len())..] {
            self.parts.push(part.empty());
        }
        for part in &self.parts[resting.parts.len().min(self.parts.len())..] {
            resting.parts.push(part.empty());
        }
    }

    /// Puts the current variant to rest, and begins one without fragments in its place.
    fn begin_variant(&mut self, links: Vec<(u32, i32)>) {
        self.variants += 1;
        let parts = self.parts.iter().map(Part::empty).collect();
        self.resting = Some(Variant {
            number: core::mem::replace(&mut self.variant, VariantId(self.variants)),
            fragments: take(&mut self.fragments),
            steps: take(&mut self.steps),
            exits: take(&mut self.exits),
            first_exit: core::mem::replace(&mut self.first_exit, self.spare_exit),
            parts: core::mem::replace(&mut self.parts, parts),
            table: core::mem::replace(&mut self.table, Table::new()),
            sources: take(&mut self.sources),
            index: take(&mut self.index),
            links,
        });
    }

    /// Cuts all fragments off. Returns the exits that were linked, and their displacements.
    fn lay_to_rest(&mut self) -> Vec<(u32, i32)> {
        let retired = retired_entry();
        for fragment in &self.fragments {
            if fragment.state == FragmentState::Live {
                Self::lead_entry(fragment, retired);
            }
        }
        let mut links = Vec::new();
        for (n, exit) in self.exits.iter().enumerate() {
            if exit.to != FragmentId::NONE {
                // SAFETY: the displacement of a jump in a fragment or stub of ours; written under the lock only, which is held.
                let rel = unsafe { (exit.patch.0 as *const i32).read_unaligned() };
                links.push((n as u32, rel));
                Self::patch(exit.patch, exit.stub);
            }
        }
        links
    }

    /// Restores the variant that has become current, except fragments that were put in doubt since it came to rest.
    fn wake(&mut self, links: Vec<(u32, i32)>) {
        for fragment in &self.fragments {
            if fragment.state == FragmentState::Live {
                Self::lead_entry(fragment, checked_entry_of(fragment.app));
            }
        }
        for (n, rel) in links {
            let exit = &self.exits[n as usize];
            if exit.to != FragmentId::NONE {
                Self::patch(exit.patch, rel);
            }
        }
    }
}
