//! Events counted in generated code, in the counters of a stratified sampler.
//!
//! An event is counted behind the transfer that it is, in front of the app's next instruction: on the main line behind a
//! branch that is not taken, in the tail of one that is taken, in front of a direct call's jump. Where nobody looks at the flags
//! ([`liveness`](super::liveness)) that is a decrement in memory and a branch; elsewhere the counter goes through `rcx`, with no
//! flag touched. What is done at the counter's end is out of line, beside the exit stubs.

use trommel_queue::dict::Event;
use trommel_tuple::Kind;

use super::{Site, Translator, target};
use crate::cache::{AppPc, CachePc};
use crate::decode::{Class, Insn};
use crate::deliver::DictionaryFull;
use crate::emit::{Code, GsOffset, Reg, Rel32};
use crate::slot;
use crate::strata::Sampler;

pub(super) const ZERO: u8 = 4;
pub(super) const NOT_ZERO: u8 = 5;

impl Translator {
    /// Whether events are counted one by one.
    pub fn samples(&self) -> bool {
        self.sampler.is_some()
    }

    /// What counts events, if they are counted.
    pub fn sampler(&mut self) -> Option<&mut Sampler> {
        self.sampler.as_mut()
    }

    /// The counter of an event, and the path of messages about it.
    pub fn message(
        &mut self,
        site: &mut Site<'_>,
        event: Event,
    ) -> Result<Option<(GsOffset, u32)>, DictionaryFull> {
        let Some(sampler) = self.sampler.as_mut() else {
            return Ok(None);
        };
        let counter = sampler.counter(site.regions, &event);
        Ok(Some((counter, self.message_path(site, event)?)))
    }

    /// The path of messages about an event, where events are counted.
    pub(super) fn message_path(
        &mut self,
        site: &mut Site<'_>,
        event: Event,
    ) -> Result<u32, DictionaryFull> {
        let block = match self.no_events {
            Some(block) => block,
            None => site.shared.empty_block()?,
        };
        self.no_events = Some(block);
        site.shared.message(block, event)
    }

    /// Counts an event, if events are counted; the app goes on at `next`.
    pub(super) fn probe(
        &mut self,
        site: &mut Site<'_>,
        event: Event,
        next: AppPc,
    ) -> Result<(), DictionaryFull> {
        let Some((counter, path)) = self.message(site, event)? else {
            return Ok(());
        };
        let spilled = self.spilled.rcx;
        let start = self.rate();
        let from = if self.flags_are_dead(site, next) {
            self.code.decrement_gs16(counter);
            self.code.jcc(ZERO)
        } else {
            self.spill_rcx();
            self.code.count_down_with_rcx(counter)
        };
        let back = self.code.at(self.code.here());
        self.lead_to_stub(from);
        let known = [counter.0, path, start];
        self.stubs.send_message(self.spilled.rcx, known, back);
        if !spilled {
            self.unspill_rcx();
        }
        Ok(())
    }

    fn rate(&self) -> u32 {
        self.sampler.as_ref().map_or(0, Sampler::rate)
    }

    /// Counts an event on the way out, and goes to `to`. Where flags are dead the branch that tells whether the
    /// counter has come to its end is the one that leaves.
    pub(super) fn leave_counted(
        &mut self,
        site: &mut Site<'_>,
        event: Event,
        to: AppPc,
    ) -> Result<(), DictionaryFull> {
        if !self.flags_are_dead(site, to) {
            self.probe(site, event, to)?;
            return self.leave(site, to, None, 0, 0, None);
        }
        let Some((counter, path)) = self.message(site, event)? else {
            return self.leave(site, to, None, 0, 0, None);
        };
        self.unspill_rdx();
        self.unspill_rcx();
        self.give_back();
        let again = self.code.at(self.code.here());
        self.code.decrement_gs16(counter);
        self.code.patchable(2);
        let from = self.code.jcc(NOT_ZERO);
        self.stub(site.cache, from, to);
        let end = self.code.jmp();
        self.lead_to_stub(end);
        // Counted once more on the way back.
        let known = [counter.0, path, self.rate() + 1];
        self.stubs.send_message(false, known, again);
        Ok(())
    }

    /// A branch that leads backward, and so is mostly taken: its taken side comes first.
    pub(super) fn branch_back(
        &mut self,
        site: &mut Site<'_>,
        insn: &Insn,
        condition: u8,
        to: AppPc,
    ) -> Result<(), DictionaryFull> {
        let over = self.code.jcc(condition ^ 1);
        let spilled = self.spilled;
        let event = Event::Branch {
            pc: target(insn.pc()),
            len: insn.size() as u8,
            target: target(to),
            taken: true,
        };
        self.leave_counted(site, event, to)?;
        self.spilled = spilled;
        let here = self.code.here();
        self.code.bind(over, here);
        self.probe_passed(site, insn, to)
    }

    /// Counts that the branch was not taken.
    pub(super) fn probe_passed(
        &mut self,
        site: &mut Site<'_>,
        insn: &Insn,
        to: AppPc,
    ) -> Result<(), DictionaryFull> {
        if !self.samples() || !self.wants(Kind::Edge) {
            return Ok(());
        }
        let event = Event::Branch {
            pc: target(insn.pc()),
            len: insn.size() as u8,
            target: target(to),
            taken: false,
        };
        self.probe(site, event, insn.next())
    }

    /// The event of a direct call, if it is counted.
    pub(super) fn counted_call(&self, insn: &Insn, to: AppPc) -> Option<Event> {
        let counted = self.samples() && self.wants(Kind::Call);
        counted.then(|| Event::Call {
            pc: target(insn.pc()),
            target: target(to),
        })
    }

    /// Where an instruction leads, if that is known and an event.
    pub(super) fn leads_to(&self, insn: &Insn) -> Option<AppPc> {
        match insn.class {
            Class::Jcc(_, to) | Class::ShortBranch(to) if self.wants(Kind::Edge) => Some(to),
            Class::Call(to) if self.wants(Kind::Call) => Some(to),
            _ => None,
        }
    }
}

impl Code<'_> {
    /// `dec word gs:[slot]`, which changes all status flags but the carry.
    pub(super) fn decrement_gs16(&mut self, slot: GsOffset) {
        self.raw(&[0x66, 0x65, 0xff, 0x0c, 0x25]);
        self.raw(&slot.0.to_le_bytes());
    }

    /// Takes one from a counter of 16 bits through `rcx`, with no flag touched. Returns a jump that is executed
    /// when nothing is left.
    pub fn count_down_with_rcx(&mut self, counter: GsOffset) -> Rel32 {
        // movzx ecx, word gs:[counter]
        self.raw(&[0x65, 0x0f, 0xb7, 0x0c, 0x25]);
        self.raw(&counter.0.to_le_bytes());
        // lea ecx, [rcx - 1]
        self.raw(&[0x8d, 0x49, 0xff]);
        // mov gs:[counter], cx
        self.raw(&[0x66, 0x65, 0x89, 0x0c, 0x25]);
        self.raw(&counter.0.to_le_bytes());
        let end = self.jrcxz();
        let over = self.jmp_short();
        self.bind8_here(end);
        let from = self.jmp();
        self.bind8_here(over);
        from
    }

    /// Out of line, a counter having come to its end: sends its message and goes on at `back`. `spilled`: the app's
    /// `rcx` is in its slot already. What is known: the counter, the path, and what the counter starts with.
    pub fn send_message(&mut self, spilled: bool, known: [u32; 3], back: CachePc) {
        if !spilled {
            self.store_gs(slot!(spill_rcx), Reg::RCX);
        }
        let rel = self.lea_rcx_rip();
        self.jmp_gs(slot!(entry.message));
        // Numbers are read with the app's flags, which may want alignment checked.
        self.align(4);
        let here = self.here();
        self.bind(rel, here);
        let behind = back.0.wrapping_sub(self.at(here).0) as u32;
        let [counter, path, start] = known;
        for number in [counter, path, behind, start] {
            self.raw(&number.to_le_bytes());
        }
    }
}
