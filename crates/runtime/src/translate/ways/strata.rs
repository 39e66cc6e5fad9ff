//! Events counted in generated code, in the counters of a stratified sampler.
//!
//! An event is counted after its transfer, before the app's next instruction: on the main line after a branch that is
//! not taken, in the tail of one that is taken, before a direct call's jump, and in a trace after the transfer that it
//! continues. Where flags are dead ([`liveness`](super::liveness)), or a trace can make them again
//! ([`flags`](super::flags)), counting is a decrement in memory and a branch. Elsewhere the counter goes through `rcx`,
//! with no flag touched. The work at the counter's end is out of line, after the fragment.

use trommel_compress::hash::OfPlace;
use trommel_queue::dict::Event;

use super::events::follows;
use super::pending::{Known, Pending, Sends};
use super::values::Counted;
use super::{Needs, Way};
use crate::base::address::{AppPc, CachePc};
use crate::base::area::WRITE_POINTER;
use crate::base::emit::{Code, GsOffset, Reg, Rel32};
use crate::base::ids::ExitNumber;
use crate::channel::dictionary::DictionaryFull;
use crate::channel::strata::Sampler;
use crate::memory::region::Regions;
use crate::slot;
use crate::translate::flags::Flags;
use crate::translate::persisted::Field;
use crate::translate::{Refusal, Site, Translator};

pub(in crate::translate) const ZERO: u8 = 4;
pub(in crate::translate) const NOT_ZERO: u8 = 5;

/// Counts events in the counters of a stratified sampler.
pub(in crate::translate) struct Strata;

impl Way for Strata {
    fn is_on(t: &Translator) -> bool {
        t.ways.sampler.is_some()
    }

    fn needs(_: &Translator, needs: &mut Needs) {
        needs.each_event = true;
        needs.keys = true;
    }

    fn begin(t: &mut Translator, site: &mut Site<'_>, _: AppPc) -> Result<(), Refusal> {
        t.have_counters(site)
    }

    fn event(
        t: &mut Translator,
        site: &mut Site<'_>,
        event: Event,
    ) -> Result<bool, DictionaryFull> {
        let next = follows(event);
        let Some((counter, path)) = t.message(site, event)? else {
            return Ok(true);
        };
        let spilled = t.job.spilled.rcx;
        let start = t.rate();
        let from = if t.flags_may_go(site, next) {
            t.job.code.decrement_gs16(counter);
            t.note_counted(Field::Stratum, t.job.code.here() - 4, path);
            t.job.code.jcc(ZERO)
        } else {
            t.spill_rcx();
            let (from, counters) = t.job.code.count_down_with_rcx(counter);
            for at in counters {
                t.note_counted(Field::Stratum, at, path);
            }
            from
        };
        let back = t.job.code.at(t.job.code.here());
        let known = Known {
            counter,
            path,
            start,
        };
        t.job.messages.push(Pending {
            from,
            spilled: t.job.spilled.rcx,
            of: Sends::Known(known),
            back,
        });
        if !spilled {
            t.unspill_rcx();
        }
        Ok(true)
    }

    /// Counts an event on the way out. If flags are dead, the branch that finds the counter's end is the one that leaves.
    fn event_out(
        t: &mut Translator,
        site: &mut Site<'_>,
        event: Event,
        to: AppPc,
    ) -> Result<bool, DictionaryFull> {
        t.job.flags = Flags::default();
        if !t.flags_are_dead(site, to) {
            Self::event(t, site, event)?;
            t.leave(site, to, None, 0, 0, None)?;
            return Ok(true);
        }
        let Some((counter, path)) = t.message(site, event)? else {
            return Ok(false);
        };
        t.unspill_rdx();
        t.unspill_rcx();
        t.unspill_promoted();
        t.give_back();
        let again = t.job.code.at(t.job.code.here());
        t.job.code.decrement_gs16(counter);
        t.note_counted(Field::Stratum, t.job.code.here() - 4, path);
        t.job.code.patchable(2);
        let from = t.job.code.jcc(NOT_ZERO);
        t.stub(site.cache, from, to);
        // Counted once more on the way back.
        let known = Known {
            counter,
            path,
            start: t.rate() + 1,
        };
        t.send_message(false, known, again);
        Ok(true)
    }

    fn value(
        t: &mut Translator,
        site: &mut Site<'_>,
        event: Event,
        counted: &Counted,
    ) -> Result<bool, DictionaryFull> {
        let alone = t.ways.sampler.as_ref().is_some_and(|s| !s.hashes_values());
        let scratch = counted.scratch.filter(|_| !alone);
        let scratch = scratch.and_then(|scratch| t.register(scratch));
        let path = t.message_path(site, event)?;
        let pc = AppPc(event.pc().0);
        let ended = t.count_value(site, (pc, path), counted.value, scratch, counted.live);
        t.send_value(path, counted.value, ended, counted.holds);
        Ok(true)
    }

    fn is_kept(t: &Translator) -> bool {
        let values = t.config.wants_values();
        let sampler = t.ways.sampler.as_ref();
        sampler.is_some_and(|s| !values || !s.hashes_values() || s.sums())
    }

    /// Its counter, or the sum of a value's place; nothing where there is one counter for all values.
    fn relocate(
        t: &mut Translator,
        regions: &Regions,
        event: &Event,
        _: ExitNumber,
    ) -> Option<Option<(Field, u32)>> {
        let sampler = t.ways.sampler.as_mut()?;
        match *event {
            Event::Dynamic { pc, .. } => match sampler.of_place(regions, AppPc(pc.0)) {
                None => Some(None),
                Some(OfPlace::Sum { start, .. }) => Some(Some((Field::Sum, start))),
                Some(OfPlace::Product { .. }) => None,
            },
            _ => Some(Some((Field::Stratum, sampler.counter(regions, event).0))),
        }
    }
}

impl Translator {
    /// Events that a message of the sampler stands for.
    pub(super) fn rate(&self) -> u32 {
        self.ways.sampler.as_ref().map_or(0, Sampler::rate)
    }

    /// [`Code::send_message`] in the fragment being made.
    pub(super) fn send_message(&mut self, spilled: bool, known: Known, back: CachePc) {
        let (path, counter) = self.job.code.send_message(spilled, known, back);
        self.note(Field::Message, path);
        self.note_counted(Field::Stratum, counter, known.path);
    }
}

impl Code<'_> {
    /// `dec word gs:[slot]`, which changes all status flags but the carry.
    pub(in crate::translate) fn decrement_gs16(&mut self, slot: GsOffset) {
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
    /// `rcx` is in its slot already, and stays there.
    ///
    /// All of it is here, as a message rarely comes from where the last one did: each jump whose target is not in the instruction
    /// would be mispredicted. Returns where the path and the counter's offset stand.
    pub fn send_message(&mut self, spilled: bool, known: Known, back: CachePc) -> (usize, usize) {
        if !spilled {
            self.store_gs(slot!(spill_rcx), Reg::RCX);
        }
        self.load_gs(Reg::RCX, WRITE_POINTER);
        self.store_imm32(Reg::RCX, 0, known.path.0);
        let path_at = self.here() - 4;
        self.lea(Reg::RCX, Reg::RCX, 4);
        self.store_gs(WRITE_POINTER, Reg::RCX);
        // mov word gs:[counter], start
        self.raw(&[0x66, 0x65, 0xc7, 0x04, 0x25]);
        self.raw(&known.counter.0.to_le_bytes());
        let counted = self.here() - 4;
        self.raw(&(known.start as u16).to_le_bytes());
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
        (path_at, counted)
    }
}
