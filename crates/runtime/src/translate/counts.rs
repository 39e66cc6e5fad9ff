//! Counting in generated code.
//!
//! An exit increments the counter of its path in memory where nobody looks at the flags from there on
//! ([`liveness`](super::liveness)), and else through a register: the addition is a `lea` then, which touches no flag. At a return,
//! a system call and in the code of a pair a register is free; elsewhere `rcx` waits in its slot.
//!
//! A trace counts like a fragment: what it goes on after costs nothing, its exits tell. A loop's round is a path that ends where the
//! next begins, and so is what comes before its other ways.

use trommel_queue::dict::Event;

use super::persisted::Field;
use super::{Site, Translator};
use crate::base::address::AppPc;
use crate::base::emit::{Code, GsOffset, Reg};
use crate::cache::Recipe;
use crate::channel::counters;
use crate::channel::deliver::DictionaryFull;

impl Translator {
    /// Whether paths are counted, or events, or may be from some time on.
    pub fn counts(&self) -> bool {
        self.config.counters || self.samples()
    }

    /// Whether paths are counted now.
    fn counts_paths(&self) -> bool {
        self.config.counters
    }

    /// Whether paths or events are counted now.
    pub(super) fn counts_now(&self) -> bool {
        self.counts_paths() || self.samples()
    }

    /// Whether events with values are counted where they happen.
    pub(super) fn counts_values(&self) -> bool {
        self.samples() || self.counts_paths() && self.config.wants_values()
    }

    /// Paths are recorded from now on.
    pub fn stop_counting(&mut self) {
        self.config.counters = false;
        self.ways.sampler = None;
        self.ways.profiler = None;
    }

    /// Where executions of a path are counted, unless they are recorded.
    pub fn counter(&self, path: u32) -> Option<GsOffset> {
        counters::counter(path).filter(|_| self.counts_paths())
    }

    /// Whether flags may be destroyed on the main line, which goes on at `next`: nobody looks at them, or a trace can make them again.
    pub(super) fn flags_may_go(&mut self, site: &mut Site<'_>, next: AppPc) -> bool {
        if self.job.flags.lost || self.flags_are_dead(site, next) {
            return true;
        }
        self.lose_flags()
    }

    /// Whether flags may be destroyed after a transfer as a trace can make them again; then they are lost from here on.
    fn lose_flags(&mut self) -> bool {
        // That it has moved the stack is not taken note of yet.
        let again = |recipe: &Recipe| recipe.uses() & Reg::RSP.bit() == 0;
        self.job.flags.lost = self.job.flags.recipe.as_ref().is_some_and(again);
        self.job.flags.lost
    }

    /// As [`Self::lose_flags`], after an instruction whose effect is taken note of.
    pub(super) fn lose_flags_behind(&mut self) -> bool {
        self.job.flags.lost = self.job.flags.recipe.is_some();
        self.job.flags.lost
    }

    /// Counts a path on the main line of a trace, up to `events` of its way and with `tail`; it goes on at `to`.
    pub(super) fn count_round(
        &mut self,
        site: &mut Site<'_>,
        block: Option<u32>,
        (events, tail): (usize, Option<Event>),
        to: AppPc,
    ) -> Result<(), DictionaryFull> {
        let passed = self.passed_up_to(events);
        if self.samples() || passed.is_empty() && tail.is_none() {
            return Ok(());
        }
        let block = match block {
            Some(block) => block,
            None => site.shared.empty_block()?,
        };
        let path = site.shared.path(block, passed, tail)?;
        let counter = self.counter(path).ok_or(DictionaryFull)?;
        if self.flags_may_go(site, to) {
            self.job.code.increment_gs64(counter);
            return Ok(());
        }
        let spilled = self.job.spilled.rcx;
        self.spill_rcx();
        self.count_with(Reg::RCX, counter);
        if !spilled {
            self.unspill_rcx();
        }
        Ok(())
    }

    /// Counts on the way out to `to`, with all registers but `rcx` the app's.
    pub(super) fn count(&mut self, site: &mut Site<'_>, counter: GsOffset, to: AppPc) {
        if self.flags_are_dead(site, to) {
            self.job.code.increment_gs64(counter);
            self.note(Field::Counter, self.job.code.here() - 4);
        } else {
            self.spill_rcx();
            self.count_with(Reg::RCX, counter);
        }
    }

    /// [`Code::count_with`] in the fragment being made.
    pub(super) fn count_with(&mut self, scratch: Reg, counter: GsOffset) {
        let [load, store] = self.job.code.count_with(scratch, counter);
        self.note(Field::Counter, load);
        self.note(Field::Counter, store);
    }
}

impl Code<'_> {
    /// `inc qword gs:[counter]`, which changes all status flags but the carry.
    pub(super) fn increment_gs64(&mut self, counter: GsOffset) {
        self.raw(&[0x65, 0x48, 0xff, 0x04, 0x25]);
        self.raw(&counter.0.to_le_bytes());
    }

    /// Adds one to a counter, through a register and with no flag touched. Returns where the counter's offset stands.
    pub fn count_with(&mut self, scratch: Reg, counter: GsOffset) -> [usize; 2] {
        self.load_gs(scratch, counter);
        let load = self.here() - 4;
        self.lea(scratch, scratch, 1);
        self.store_gs(counter, scratch);
        [load, self.here() - 4]
    }
}
