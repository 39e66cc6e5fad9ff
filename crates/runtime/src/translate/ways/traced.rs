//! The events of a trace, and those of its indirect branches that go elsewhere.

use trommel_queue::dict::{Event, MAX_BLOCK_EVENTS, Passed};
use trommel_tuple::Kind;

use super::Kept;
use crate::base::address::AppPc;
use crate::base::emit::{Code, GsOffset, Reg};
use crate::base::ids::EntryId;
use crate::channel::dictionary::DictionaryFull;
use crate::observe::acyclic::pass;
use crate::translate::{Refusal, Site, Translator, target};

/// Counts to make when a comparison fails.
#[derive(Clone, Copy)]
pub(in crate::translate) struct Missed {
    counter: Option<GsOffset>,
    kept: Kept,
}

impl Missed {
    /// Counts it, through a register that is free.
    pub(in crate::translate) fn count(self, code: &mut Code<'_>, scratch: Reg) {
        if let Some(counter) = self.counter {
            code.count_with(scratch, counter);
        }
        let passed = self.kept.passed();
        if passed != 0 {
            code.take_from_left_with(scratch, passed);
        }
    }
}

impl Translator {
    /// Returns the counts of an indirect branch that goes elsewhere: the events of the block before it, if there is one, and what is kept.
    pub(in crate::translate) fn missed(
        &self,
        site: &mut Site<'_>,
        (block, passed): (Option<EntryId>, Passed),
        pc: AppPc,
        kept: Kept,
    ) -> Result<Missed, DictionaryFull> {
        let counter = match block.filter(|_| !passed.is_empty()) {
            Some(block) => {
                // What has no key is a return.
                let pc = target(pc);
                let ends = self.wants(Kind::Path).then_some(Event::Return { pc });
                let path = site.shared.path(block, passed, ends)?;
                Some(self.counter(path).ok_or(DictionaryFull)?)
            }
            None => None,
        };
        Ok(Missed { counter, kept })
    }

    /// Lists the events of a trace in its block, those of one way after those of the other.
    pub(in crate::translate) fn list_path(
        &mut self,
        site: &mut Site<'_>,
        app: AppPc,
        end: Option<AppPc>,
    ) -> Result<(), Refusal> {
        if !self.job.pairs || self.needs.each_event {
            return Ok(());
        }
        let acyclic = self.counting_acyclic().is_some();
        // Of an acyclic path that ends and another that begins there are two for an instruction.
        if acyclic && 1 + 2 * self.job.count > MAX_BLOCK_EVENTS {
            return Err(Refusal::Native);
        }
        let mut on = None;
        let (planned, mut events, mut turn) = (self.job.looped.is_planned(), 0, 0);
        if acyclic {
            let arrival = self.arrival(app);
            pass(&mut on, &arrival, site.regions);
            site.shared.event(arrival);
            events += 1;
        }
        for k in 0..self.job.looped.ways().max(1) {
            let range = self.job.looped.range_of(k).unwrap_or(0..self.job.count);
            let end = self.job.looped.end_of(k + 1, end);
            for n in range.clone() {
                let next = match n + 1 < range.end {
                    true => Some(self.job.insns[n + 1].pc()),
                    false => end,
                };
                let to = self.job.turns.get(turn).filter(|turn| turn.at == n);
                let to = to.map(|turn| turn.to);
                turn += usize::from(to.is_some());
                let closes = (planned && n + 1 == range.end).then_some(app);
                self.ways_turn_to(n);
                let insn = self.job.insns[n];
                let (main, _) = self.sides(&insn, to, next, closes);
                let main = main.or_else(|| self.ends_path(&insn));
                self.job.listed.push(events);
                let after_call = self.is_after_call(n).then(|| Event::AfterCall {
                    pc: target(insn.pc()),
                });
                if usize::from(events) + 4 > MAX_BLOCK_EVENTS {
                    return Err(Refusal::Native);
                }
                let unprofiled = self.unprofiled(n, &insn);
                if let Some(main) = &main {
                    pass(&mut on, main, site.regions);
                }
                let ends = acyclic && on.is_none();
                let begin = next
                    .filter(|_| ends)
                    .map(|pc| Event::Begin { pc: target(pc) });
                if let Some(begin) = &begin {
                    pass(&mut on, begin, site.regions);
                }
                for event in after_call
                    .into_iter()
                    .chain(unprofiled)
                    .chain(main)
                    .chain(begin)
                {
                    site.shared.event(event);
                    events += 1;
                }
            }
        }
        self.job.listed.push(events);
        Ok(())
    }
}
