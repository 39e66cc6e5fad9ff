//! Wrong paths: what the front end fetches until a mispredicted branch is resolved.
//!
//! # Problem
//! The trace has what was executed. A processor also fetches, dispatches and executes instructions after a branch that was predicted
//! wrongly, and squashes them. They take places in the window, units, and profile networks and buffers.
//!
//! # Strategy
//! From where the branch was predicted to lead, instructions are looked up among those of the trace, by address, and followed as the
//! predictor says. Where the trace has no instruction at an address, nothing is fetched until the branch is resolved.
//!
//! * *Fetch.* Code of wrong paths is looked for in the cache, and brings its lines.
//! * *Execution.* Registers are waited for. Which memory a wrong path touches nobody knows: loads hit, and stores store nowhere.
//! * *Profiles.* Control table entries count wrong paths down as all that comes to dispatch, and a profiled instruction takes a network
//!   and a buffer. When it is squashed both are free; or, with [`WrongPaths::Profiled`], its record goes the way of others. The record has
//!   no operands and results, and the times of what it came to.
//! * *Return.* In the cycle in which the branch is done, all that is younger than it goes.
//!
//! # Why it is right
//! Instructions of wrong paths are younger than a branch that is not done, so none retires. After their end the window, the lists of
//! those that wait, and the makers of registers are what they were without them: makers are found anew from what is left. A place's number may be used again then, as
//! no list, calendar or register names it any more.

use std::collections::HashMap;

use super::{CALENDAR, Core, NEVER, NOBODY, SOURCES};
use crate::instruction::{Instruction, REGISTERS};
use crate::parameters::WrongPaths;
use crate::predictor::{Front, Predictor};
use crate::trace::Execution;
use trommel_query::Field;
use trommel_query::record::misc;

/// The wrong path that the front end is on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Astray {
    /// Address of what is fetched next; 0 where the predictor does not know.
    at: u64,
    front: Front,
    /// The branch, and the time at which it is done, once it was issued.
    resolved: Option<(u64, u64)>,
}

impl Astray {
    /// The path that a branch is about to be predicted to.
    pub(super) fn after(branch: &Instruction, predictor: &Predictor) -> Self {
        let mut front = predictor.front();
        Self {
            at: predictor.foresee(branch, &mut front),
            front,
            resolved: None,
        }
    }

    /// The execution that is fetched next, if the code is known.
    pub(super) fn next(&self, by_address: &HashMap<u64, u32>) -> Option<Execution> {
        let code = *by_address.get(&self.at)?;
        Some(Execution {
            code,
            repeats: 1,
            ..Execution::default()
        })
    }

    /// An instruction was fetched, and the path goes on. Returns true if it does so elsewhere.
    pub(super) fn pass(&mut self, instruction: &Instruction, predictor: &Predictor) -> bool {
        self.at = predictor.foresee(instruction, &mut self.front);
        self.at != instruction.end()
    }

    /// The branch of this number is done at a time.
    pub(super) const fn resolved(&mut self, sequence: u64, at: u64) {
        self.resolved = Some((sequence, at));
    }
}

impl Core<'_, '_> {
    /// Returns true if nothing right is fetched until a branch is resolved.
    pub(super) const fn waits_for_branch(&self) -> bool {
        self.fetches == NEVER || self.astray.is_some()
    }

    /// Ends a wrong path when its branch is done.
    pub(super) fn come_back(&mut self) {
        let resolved = self.astray.and_then(|astray| astray.resolved);
        let Some((branch, at)) = resolved.filter(|(_, at)| *at <= self.now) else {
            return;
        };
        self.astray = None;
        self.fetches = at + self.parameters.redirect;
        self.pending_events = 0;
        // All that was fetched since is on the wrong path.
        self.queue.clear();
        self.squash(branch + 1);
    }

    /// Takes the instructions from this number on out of the window.
    fn squash(&mut self, from: u64) {
        let mut gone = 0_u128;
        for sequence in from..self.tail {
            let place = self.place(sequence);
            gone |= 1 << place;
            self.counts.squashed += 1;
            let entry = &mut self.window[place];
            let Some(profiled) = entry.profiled.take() else {
                continue;
            };
            if self.parameters.wrong_paths != WrongPaths::Profiled {
                self.unit.squash(&profiled.selected);
                continue;
            }
            let taken = profiled.facts.get(Field::Misc);
            let mut facts = (profiled.facts).with(Field::Misc, taken | misc::SQUASHED);
            if entry.done != NEVER {
                facts = facts.with(Field::WindowLatency, entry.issued - entry.dispatched);
            }
            if entry.done <= self.now {
                facts = facts.with(Field::ExecutionLatency, entry.done - entry.issued);
            }
            self.unit.retire(&profiled.selected, &facts);
        }
        self.tail = from;
        self.ready &= !gone;
        for day in 0..CALENDAR {
            self.calendar[day] &= !gone;
        }
        self.makers = [0; REGISTERS];
        for sequence in self.head..from {
            let place = self.place(sequence);
            for destination in &self.instruction(&self.window[place].execution).destinations {
                self.makers[usize::from(*destination)] = sequence + 1;
            }
            self.forget_waiters(place, gone);
        }
    }

    /// Takes places that are gone out of the list of those that wait for `place`.
    fn forget_waiters(&mut self, place: usize, gone: u128) {
        let mut link = std::mem::replace(&mut self.window[place].waiters, NOBODY);
        while link != NOBODY {
            let next = self.links[usize::from(link)];
            if gone >> (usize::from(link) / SOURCES) & 1 == 0 {
                self.links[usize::from(link)] = self.window[place].waiters;
                self.window[place].waiters = link;
            }
            link = next;
        }
    }
}
