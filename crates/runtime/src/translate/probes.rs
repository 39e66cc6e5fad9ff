//! Events counted in generated code, in the counters of a stratified sampler.
//!
//! An event is counted after the transfer that it is, before the app's next instruction: on the main line after a
//! branch that is not taken, in the tail of one that is taken, before a direct call's jump; in a trace after whatever it goes
//! on behind. Where nobody looks at the flags
//! ([`liveness`](super::liveness)), or a trace can make them again ([`flags`](super::flags)), that is a decrement in memory and a
//! branch; elsewhere the counter goes through `rcx`, with no flag touched. What is done at the counter's end is out of line, after the
//! fragment.

use trommel_queue::dict::{Event, Passed};
use trommel_tuple::Kind;

use super::flags::Flags;
use super::persisted::{Field, Numbered};
use super::shields::Unshielded;
use super::values::{Routine, ValueMessage};
use super::{Site, Translator, target};
use crate::base::address::{AppPc, CachePc};
use crate::base::area::WRITE_POINTER;
use crate::base::decode::{Class, Insn};
use crate::base::emit::{Code, GsOffset, Reg, Rel32};
use crate::channel::deliver::DictionaryFull;
use crate::channel::shields::Profiler;
use crate::channel::strata::Sampler;
use crate::slot;

/// A message that is written after a fragment.
#[derive(Clone, Copy)]
pub(super) struct Pending {
    /// The jump that is executed at the counter's end.
    pub(super) from: Rel32,
    /// The app's `rcx` is in its slot.
    pub(super) spilled: bool,
    pub(super) of: Sends,
    /// Where the code goes on.
    pub(super) back: CachePc,
}

/// What a message tells.
#[derive(Clone, Copy)]
pub(super) enum Sends {
    /// What is known: the counter, the path, and what the counter starts with.
    Known([u32; 3]),
    /// A value, too.
    Value(ValueMessage),
    /// A value, by a routine of the runtime.
    ByRoutine(Routine),
    /// That an event is not shielded.
    Unshielded(Unshielded),
}

pub(super) const ZERO: u8 = 4;
pub(super) const NOT_ZERO: u8 = 5;

impl Translator {
    /// Whether events are counted one by one.
    pub fn samples(&self) -> bool {
        self.ways.sampler.is_some() || self.ways.profiler.is_some()
    }

    /// What counts events, if they are counted.
    pub fn sampler(&mut self) -> Option<&mut Sampler> {
        self.ways.sampler.as_mut()
    }

    /// The counter of an event, and the path of messages about it; of a profiler its cell and its subject.
    pub fn message(
        &mut self,
        site: &mut Site<'_>,
        event: Event,
    ) -> Result<Option<(GsOffset, u32)>, DictionaryFull> {
        if self.ways.profiler.is_some() {
            let subject = self.subject(site, event)?;
            let cell = |subject| (Profiler::cell(subject), subject);
            return Ok(subject.map(cell));
        }
        let Some(sampler) = self.ways.sampler.as_mut() else {
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
        let block = self.block_without_events(site)?;
        let number = site.shared.message(block, event)?;
        self.note_path(Numbered {
            number,
            block,
            passed: Passed::default(),
            tail: Some(event),
            message: true,
        });
        Ok(number)
    }

    pub(super) fn block_without_events(
        &mut self,
        site: &mut Site<'_>,
    ) -> Result<u32, DictionaryFull> {
        let block = match self.no_events {
            Some(block) => block,
            None => site.shared.empty_block()?,
        };
        self.no_events = Some(block);
        Ok(block)
    }

    /// What the two ways of a branch are as events, that of the main line first; or what another transfer of the main line is. As far
    /// as it is wanted, and known: `turn` is where a trace goes on after the transfer, `next` what is executed next on the
    /// main line, and `closes` where a loop starts whose way ends here.
    pub(super) fn sides(
        &self,
        insn: &Insn,
        turn: Option<AppPc>,
        next: Option<AppPc>,
        closes: Option<AppPc>,
    ) -> (Option<Event>, Option<Event>) {
        let pc = target(insn.pc());
        let (call, edge) = (self.wants(Kind::Call), self.wants(Kind::Edge));
        match insn.class {
            Class::Jcc(_, to) | Class::ShortBranch(to) if edge => {
                let conditional = matches!(insn.class, Class::Jcc(..));
                let closed = conditional && closes == Some(to);
                // A trace that goes on after a branch that was taken has it the other way round.
                let other = next.filter(|&next| {
                    self.job.trace && conditional && to == insn.next() && next != to
                });
                let side = |taken| Event::Branch {
                    pc,
                    len: insn.size() as u8,
                    target: target(other.unwrap_or(to)),
                    taken,
                };
                let taken = closed || other.is_some();
                (Some(side(taken)), Some(side(!taken)))
            }
            Class::Call(to) if call => {
                let target = target(to);
                (Some(Event::Call { pc, target }), None)
            }
            Class::CallIndirect | Class::JmpIndirect => {
                let is_call = insn.class == Class::CallIndirect;
                let wanted = if is_call { call } else { edge };
                let known = turn.filter(|_| wanted).map(|to| Event::Indirect {
                    pc,
                    target: target(to),
                    call: is_call,
                });
                (known, None)
            }
            _ => (None, None),
        }
    }

    /// Counts an event, if events are counted.
    pub(super) fn probe(
        &mut self,
        site: &mut Site<'_>,
        event: Event,
    ) -> Result<(), DictionaryFull> {
        let next = follows(event);
        let Some((counter, path)) = self.message(site, event)? else {
            return Ok(());
        };
        if self.ways.profiler.is_some() {
            self.shield(site, event, (counter, path), next);
            return Ok(());
        }
        let spilled = self.job.spilled.rcx;
        let start = self.rate();
        let from = if self.flags_may_go(site, next) {
            self.job.code.decrement_gs16(counter);
            self.note_stratum(self.job.code.here() - 4, path);
            self.job.code.jcc(ZERO)
        } else {
            self.spill_rcx();
            let (from, counters) = self.job.code.count_down_with_rcx(counter);
            for at in counters {
                self.note_stratum(at, path);
            }
            from
        };
        let back = self.job.code.at(self.job.code.here());
        self.job.messages.push(Pending {
            from,
            spilled: self.job.spilled.rcx,
            of: Sends::Known([counter.0, path, start]),
            back,
        });
        if !spilled {
            self.unspill_rcx();
        }
        Ok(())
    }

    /// Out of line, what is done when counters have come to their ends. It is beside the code that it interrupts: what lies far away
    /// has to be fetched for each message.
    pub(super) fn write_messages(&mut self) {
        for n in 0..self.job.messages.len() {
            let Pending {
                from,
                spilled,
                of,
                back,
            } = self.job.messages[n];
            let here = self.job.code.here();
            self.job.code.bind(from, here);
            match of {
                Sends::Known(known) => self.send_message(spilled, known, back),
                Sends::Value(value) => {
                    let path = self.job.code.send_value(spilled, &value, back);
                    self.note(Field::Message, path);
                }
                Sends::ByRoutine(told) => self.call_routine(spilled, &told, back),
                Sends::Unshielded(of) => self.job.code.write_unshielded(spilled, &of, back),
            }
        }
    }

    pub(super) fn rate(&self) -> u32 {
        self.ways.sampler.as_ref().map_or(0, Sampler::rate)
    }

    /// Counts an event on the way out, and goes to `to`. Where flags are dead the branch that tells whether the
    /// counter has come to its end is the one that leaves.
    pub(super) fn leave_counted(
        &mut self,
        site: &mut Site<'_>,
        event: Event,
        to: AppPc,
    ) -> Result<(), DictionaryFull> {
        self.job.flags = Flags::default();
        if self.pass_in_stride() {
            return self.leave(site, to, None, 0, 0, None);
        }
        if self.ways.profiler.is_some() || !self.flags_are_dead(site, to) {
            self.probe(site, event)?;
            return self.leave(site, to, None, 0, 0, None);
        }
        let Some((counter, path)) = self.message(site, event)? else {
            return self.leave(site, to, None, 0, 0, None);
        };
        self.unspill_rdx();
        self.unspill_rcx();
        self.unspill_homes();
        self.give_back();
        let again = self.job.code.at(self.job.code.here());
        self.job.code.decrement_gs16(counter);
        self.note_stratum(self.job.code.here() - 4, path);
        self.job.code.patchable(2);
        let from = self.job.code.jcc(NOT_ZERO);
        self.stub(site.cache, from, to);
        // Counted once more on the way back.
        let known = [counter.0, path, self.rate() + 1];
        self.send_message(false, known, again);
        Ok(())
    }

    /// [`Code::send_message`] in the fragment being made.
    fn send_message(&mut self, spilled: bool, known: [u32; 3], back: CachePc) {
        let (path, counter) = self.job.code.send_message(spilled, known, back);
        self.note(Field::Message, path);
        self.note_stratum(counter, known[1]);
    }

    /// A branch that leads backward, and so is mostly taken: its taken side comes first.
    pub(super) fn branch_back(
        &mut self,
        site: &mut Site<'_>,
        (main, other): (Option<Event>, Option<Event>),
        condition: u8,
        to: AppPc,
    ) -> Result<(), DictionaryFull> {
        let over = self.job.code.jcc(condition ^ 1);
        let spilled = self.job.spilled;
        if let Some(event) = other {
            self.leave_counted(site, event, to)?;
        }
        self.job.spilled = spilled;
        let here = self.job.code.here();
        self.job.code.bind(over, here);
        self.probe_passed(site, main)
    }

    /// Counts what the main line has just done, where events are counted one by one.
    pub(super) fn probe_passed(
        &mut self,
        site: &mut Site<'_>,
        event: Option<Event>,
    ) -> Result<(), DictionaryFull> {
        match event.filter(|_| self.samples()) {
            Some(_) if self.pass_in_stride() => Ok(()),
            Some(event) => self.probe(site, event),
            None => Ok(()),
        }
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

/// What is executed after a transfer whose way is known.
fn follows(event: Event) -> AppPc {
    match event {
        Event::Branch {
            pc,
            len,
            taken: false,
            ..
        } => AppPc(pc.0 + u64::from(len)),
        Event::Branch { target, .. }
        | Event::Call { target, .. }
        | Event::Indirect { target, .. } => AppPc(target.0),
        _ => AppPc(event.pc().0),
    }
}

impl Code<'_> {
    /// `dec word gs:[slot]`, which changes all status flags but the carry.
    pub(super) fn decrement_gs16(&mut self, slot: GsOffset) {
        self.raw(&[0x66, 0x65, 0xff, 0x0c, 0x25]);
        self.raw(&slot.0.to_le_bytes());
    }

    /// Takes one from a counter of 16 bits through `rcx`, with no flag touched. Returns a jump that is executed
    /// when nothing is left, and where the counter's offset stands.
    pub fn count_down_with_rcx(&mut self, counter: GsOffset) -> (Rel32, [usize; 2]) {
        // movzx ecx, word gs:[counter]
        self.raw(&[0x65, 0x0f, 0xb7, 0x0c, 0x25]);
        self.raw(&counter.0.to_le_bytes());
        let load = self.here() - 4;
        // lea ecx, [rcx - 1]
        self.raw(&[0x8d, 0x49, 0xff]);
        // mov gs:[counter], cx
        self.raw(&[0x66, 0x65, 0x89, 0x0c, 0x25]);
        self.raw(&counter.0.to_le_bytes());
        let store = self.here() - 4;
        let end = self.jrcxz();
        let over = self.jmp_short();
        self.bind8_here(end);
        let from = self.jmp();
        self.bind8_here(over);
        (from, [load, store])
    }

    /// Out of line, a counter having come to its end: appends its message, starts it again and goes on at `back`. `spilled`: the app's
    /// `rcx` is in its slot already, and stays there. What is known: the counter, the path, and what the counter starts with.
    ///
    /// All of it is here, as a message rarely comes from where the last one did: each jump whose target is not in the instruction
    /// would be mispredicted. Returns where the path and the counter's offset stand.
    pub fn send_message(
        &mut self,
        spilled: bool,
        known: [u32; 3],
        back: CachePc,
    ) -> (usize, usize) {
        let [counter, path, start] = known;
        if !spilled {
            self.store_gs(slot!(spill_rcx), Reg::RCX);
        }
        self.load_gs(Reg::RCX, WRITE_POINTER);
        self.store_imm32(Reg::RCX, 0, path);
        let told = self.here() - 4;
        self.lea(Reg::RCX, Reg::RCX, 4);
        self.store_gs(WRITE_POINTER, Reg::RCX);
        // mov word gs:[counter], start
        self.raw(&[0x66, 0x65, 0xc7, 0x04, 0x25]);
        self.raw(&counter.to_le_bytes());
        let counted = self.here() - 4;
        self.raw(&(start as u16).to_le_bytes());
        self.second_byte_of_rcx();
        let full = self.jrcxz();
        let filled = self.here();
        if !spilled {
            self.load_gs(Reg::RCX, slot!(spill_rcx));
        }
        self.jmp_to(back);
        self.bind8_here(full);
        let rel = self.lea_rcx_rip();
        self.bind(rel, filled);
        self.jmp_gs(slot!(entry.full));
        (told, counted)
    }
}
