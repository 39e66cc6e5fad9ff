//! The second pass: app instructions into code of the cache.

use super::persisted::Field;
use super::walk::{At, Walk};
use super::{Refusal, Site, Tail, Translator};
use crate::base::address::AppPc;
use crate::base::area::WRITE_POINTER;
use crate::base::decode::Class;
use crate::base::emit::Reg;
use crate::base::ids::{EntryId, FragmentId};
use crate::cache::entry::tag_check;
use crate::cache::{Fragment, Head, Spilled, UNLINKED};
use crate::channel::dictionary::DictionaryFull;
use crate::slot;

impl Translator {
    /// Second pass.
    pub(super) fn emit(
        &mut self,
        site: &mut Site<'_>,
        app: AppPc,
        end: Option<AppPc>,
        checked: bool,
    ) -> Result<Fragment, Refusal> {
        let (entry, checked) = self.write_entry(app, checked);
        if self.job.from.guarded {
            self.guard(site.cache, app);
        }
        let first_step = site.cache.steps.len();
        let block = site.shared.close_block();
        self.ways_enter(site, block, end)?;
        if let (Some(p), false) = (self.job.stolen, self.needs.late) {
            self.job.code.store_gs(slot!(spill_stolen), p);
            self.job.code.load_gs(p, WRITE_POINTER);
            self.job.spilled.stolen = true;
        }
        // Instructions are taken out while they are walked over, and put back for their memory.
        let walk = Walk {
            insns: core::mem::take(&mut self.job.insns),
            rounds: self.rounds(),
            app,
            end,
            entry,
            block,
            first_step,
        };
        let done = self.walk(site, &walk);
        self.job.insns = walk.insns;
        done?;
        self.write_rest(site, app, block)?;
        Ok(Fragment {
            app,
            prefix: self.job.prefix,
            entry: self.job.code.at(entry),
            checked: checked.map(|at| self.job.code.at(at)),
            end: self.job.code.at(self.job.code.here()),
            stolen: self.job.stolen.map(|r| r.0),
            promoted: self.job.looped.promoted(),
            first_step: first_step as u32,
            steps: (site.cache.steps.len() - first_step) as u16,
            insns: self.job.count as u16,
            block,
            span: self.job.span,
            source: None,
            guarded: self.job.from.guarded,
            strides: self.passes_events(),
            probes: self.job.probes,
            operations: self.job.operations,
            state: self.job.from.state(),
            head: match self.job.trace {
                true => Head::Trace,
                false => Head::Unknown,
            },
            first_link: UNLINKED,
            older: FragmentId::NONE,
        })
    }

    /// Writes the entry of direct links, and the checked entry, if it has one.
    fn write_entry(&mut self, app: AppPc, checked: bool) -> (usize, Option<usize>) {
        self.job.spilled = Spilled::NONE;
        if !checked {
            return (0, None);
        }
        let c = &mut self.job.code;
        if self.job.trace {
            // Before the entry, so that a loop back to that does not reach here.
            let check = c.here();
            tag_check(c, app);
            c.load_gs(Reg::RDX, slot!(spill_rdx));
            c.load_gs(Reg::RCX, slot!(spill_rcx));
            c.align(32);
            return (c.here(), Some(check));
        }
        c.store_gs(slot!(spill_rcx), Reg::RCX);
        c.store_gs(slot!(spill_rdx), Reg::RDX);
        let over = c.jmp_short();
        c.align8();
        let check = c.here();
        tag_check(c, app);
        c.bind8_here(over);
        self.note(Field::Negative, check + 2);
        self.job.spilled = Spilled::BOTH;
        (0, Some(check))
    }

    /// The main line, in all its rounds, and its end.
    fn walk(&mut self, site: &mut Site<'_>, walk: &Walk) -> Result<(), Refusal> {
        let mut at = At::new(self.job.arrivals);
        for round in 0..walk.rounds.len() {
            for n in walk.rounds[round].1.clone() {
                at.turn_to(walk, round, n);
                self.write_insn(site, walk, &mut at)?;
            }
        }
        self.write_end(site, walk, &mut at)?;
        self.ways_walked(site, walk, &mut at)
    }

    /// Writes the end of the main line, after its last instruction.
    pub(super) fn write_end(
        &mut self,
        site: &mut Site<'_>,
        walk: &Walk,
        at: &mut At,
    ) -> Result<(), Refusal> {
        let Walk {
            app, end, block, ..
        } = *walk;
        self.job.passed = self.job.count;
        self.flags_after(at.effect.take());
        let mut events = at.events;
        if let Some(&listed) = self.job.listed.last().filter(|_| !self.is_looped()) {
            events = usize::from(listed);
        }
        if self.is_looped() {
            self.end_way(site, app, block)?;
        } else if let Some(to) = end {
            self.make_flags();
            self.unpark();
            self.leave(site, to, block, events, at.values, None)?;
        }
        Ok(())
    }

    /// Writes the code after the main line.
    fn write_rest(
        &mut self,
        site: &mut Site<'_>,
        app: AppPc,
        block: Option<EntryId>,
    ) -> Result<(), Refusal> {
        let kept = self.kept();
        for n in 0..self.job.tails.len() {
            self.write_tail(site, n, block)?;
        }
        self.go_on(kept);
        self.ways_finish(site);
        self.write_loop_tails(site, app)?;
        self.write_misses(site, block)?;
        self.write_messages();
        for n in 0..self.job.constants.len() {
            let (from, value) = self.job.constants[n];
            let here = self.job.code.here();
            self.job.code.bind(from, here);
            self.note(Field::Absolute, here);
            self.job.code.u64(value);
        }
        Ok(())
    }

    /// A branch that leaves, out of line.
    fn write_tail(
        &mut self,
        site: &mut Site<'_>,
        n: usize,
        block: Option<EntryId>,
    ) -> Result<(), DictionaryFull> {
        let Tail {
            from,
            target,
            pc,
            first,
            events,
            values,
            event,
            spilled,
            passed,
            kept,
        } = self.job.tails[n];
        self.go_on(kept);
        self.job.spilled = spilled;
        self.job.passed = passed;
        self.job.first = first;
        self.job.here = pc;
        self.job.class = Class::Plain;
        self.job.stores_x87 = false;
        let here = self.job.code.here();
        self.job.code.bind(from, here);
        if let Some(event) = event.filter(|_| self.needs.each_event) {
            return self.ways_event_out(site, event, target);
        }
        let block = match block {
            None if event.is_some() => Some(site.shared.empty_block()?),
            other => other,
        };
        self.leave(site, target, block, events, values, event)
    }
}
