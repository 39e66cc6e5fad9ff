//! Counting in generated code.
//!
//! An exit increments the counter of its path in memory where nobody looks at the flags from there on
//! ([`liveness`](super::liveness)), and else through a register: the addition is a `lea` then, which touches no flag. At a return,
//! a system call and in the code of a pair a register is free; elsewhere `rcx` waits in its slot.
//!
//! A trace counts like a fragment: what it goes on after costs nothing, its exits tell. A loop's round is a path that ends where the
//! next begins, and so is what comes before its other ways.

use super::{Leaving, Needs, Way};
use crate::base::address::AppPc;
use crate::base::emit::{Code, GsOffset, Reg};
use crate::base::ids::ExitNumber;
use crate::base::prefix::Prefix;
use crate::base::recipe::Recipe;
use crate::channel::counters;
use crate::channel::dictionary::DictionaryFull;
use crate::translate::persisted::Field;
use crate::translate::persisted::parts::{Count, Parts};
use crate::translate::{Site, Translator};

/// Counts exits, or records them.
pub(in crate::translate) struct Exits;

impl Exits {
    /// Returns the counter of an exit's path.
    fn counter(t: &Translator, exit: &Leaving) -> Option<GsOffset> {
        let known = exit.indirect.is_none() || exit.values == 0 && exit.dynamic.is_none();
        exit.number
            .filter(|_| known)
            .and_then(|path| t.counter(path))
    }
}

impl Way for Exits {
    fn is_on(t: &Translator) -> bool {
        t.config.counters || !t.config.kinds.is_empty() || t.config.lists()
    }

    fn needs(t: &Translator, needs: &mut Needs) {
        needs.keys |= t.config.counters;
    }

    fn plan(
        t: &mut Translator,
        site: &mut Site<'_>,
        exit: &mut Leaving,
    ) -> Result<(), DictionaryFull> {
        let ends = exit.counted || exit.call || t.job.onward == Prefix::UNKNOWN;
        let any = !exit.passed.is_empty() || exit.tail.is_some();
        let Some(block) = exit.block.filter(|_| ends && any) else {
            return Ok(());
        };
        let number = t.path_of(site, block, exit.passed, exit.tail)?;
        exit.number = Some(number);
        if exit.indirect.is_none() {
            t.job.onward_path = number.0;
        }
        exit.recorded = exit.counted && Self::counter(t, exit).is_none();
        exit.needs_rcx |= exit.recorded;
        Ok(())
    }

    fn leave(
        t: &mut Translator,
        site: &mut Site<'_>,
        exit: &mut Leaving,
    ) -> Result<(), DictionaryFull> {
        let Some(number) = exit.number.filter(|_| exit.counted) else {
            return Ok(());
        };
        match (Self::counter(t, exit), exit.scratch) {
            (Some(counter), Some(scratch)) => t.count_with(scratch, counter),
            (Some(counter), None) => t.count(site, counter, exit.to),
            (None, scratch) => {
                if scratch.is_none() {
                    t.spill_rcx();
                }
                exit.full = Some(t.record(number, exit.values, exit.dynamic));
            }
        }
        Ok(())
    }

    /// Counts a round with flags, where a trace can make them again.
    fn round(
        t: &mut Translator,
        site: &mut Site<'_>,
        exit: &Leaving,
    ) -> Result<(), DictionaryFull> {
        if t.needs.each_event || exit.passed.is_empty() && exit.tail.is_none() {
            return Ok(());
        }
        let block = match exit.block {
            Some(block) => block,
            None => site.shared.empty_block()?,
        };
        let path = site.shared.path(block, exit.passed, exit.tail)?;
        let counter = t.counter(path).ok_or(DictionaryFull)?;
        if t.flags_may_go(site, exit.to) {
            t.job.code.increment_gs64(counter);
            return Ok(());
        }
        let spilled = t.job.spilled.rcx;
        t.spill_rcx();
        t.count_with(Reg::RCX, counter);
        if !spilled {
            t.unspill_rcx();
        }
        Ok(())
    }

    fn is_kept(t: &Translator) -> bool {
        t.config.kinds.is_empty() || t.counts_now()
    }

    fn have_room(t: &Translator, site: &Site<'_>, parts: &Parts<'_>) -> bool {
        let paths = parts.count(Count::Paths) as u32;
        let Some(all) = site.shared.paths().checked_add(paths) else {
            return false;
        };
        let counted = match t.samples() || t.counts_values() {
            true => counters::have_room(all),
            false => paths == 0 || t.counter(ExitNumber(all - 1)).is_some(),
        };
        let branches = parts.count(Count::Branches);
        counted && (branches == 0 || t.counts() && site.pairs.have_room_for(branches))
    }
}

impl Translator {
    /// True if paths are counted, or events, or may be from some time on.
    pub fn counts(&self) -> bool {
        self.config.counters || self.samples()
    }

    /// True if paths are counted now.
    fn counts_paths(&self) -> bool {
        self.config.counters
    }

    /// True if paths or events are counted now.
    pub(in crate::translate) fn counts_now(&self) -> bool {
        self.counts_paths() || self.samples()
    }

    /// True if events with values are counted where they happen.
    pub(in crate::translate) fn counts_values(&self) -> bool {
        self.samples() || self.counts_paths() && self.config.wants_values()
    }

    /// Paths are recorded from now on.
    pub fn stop_counting(&mut self) {
        self.config.counters = false;
        self.ways.sampler = None;
        self.ways.profiler = None;
        self.settle();
    }

    /// Returns the counter of a path's executions, unless they are recorded.
    pub fn counter(&self, path: ExitNumber) -> Option<GsOffset> {
        counters::counter(path).filter(|_| self.counts_paths())
    }

    /// True if flags may be destroyed on the main line, which goes on at `next`: nobody looks at them, or a trace can make them again.
    pub(in crate::translate) fn flags_may_go(&mut self, site: &mut Site<'_>, next: AppPc) -> bool {
        if self.job.flags.lost || self.flags_are_dead(site, next) {
            return true;
        }
        self.lose_flags()
    }

    /// True if flags may be destroyed after a transfer as a trace can make them again; then they are lost from here on.
    fn lose_flags(&mut self) -> bool {
        // That it has moved the stack is not taken note of yet.
        let again = |recipe: &Recipe| recipe.uses() & Reg::RSP.bit() == 0;
        self.job.flags.lost = self.job.flags.recipe.as_ref().is_some_and(again);
        self.job.flags.lost
    }

    /// Does the same as [`Self::lose_flags`], after an instruction whose effect is taken note of.
    pub(in crate::translate) fn lose_flags_after(&mut self) -> bool {
        self.job.flags.lost = self.job.flags.recipe.is_some();
        self.job.flags.lost
    }

    /// Counts on the way out to `to`, with all registers but `rcx` the app's.
    fn count(&mut self, site: &mut Site<'_>, counter: GsOffset, to: AppPc) {
        if self.flags_are_dead(site, to) {
            self.job.code.increment_gs64(counter);
            self.note(Field::Counter, self.job.code.here() - 4);
        } else {
            self.spill_rcx();
            self.count_with(Reg::RCX, counter);
        }
    }

    /// [`Code::count_with`] in the fragment being made.
    pub(in crate::translate) fn count_with(&mut self, scratch: Reg, counter: GsOffset) {
        let [load, store] = self.job.code.count_with(scratch, counter);
        self.note(Field::Counter, load);
        self.note(Field::Counter, store);
    }
}

impl Code<'_> {
    /// `inc qword gs:[counter]`, which changes all status flags but the carry.
    pub(in crate::translate) fn increment_gs64(&mut self, counter: GsOffset) {
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
