//! Events of a multi-hash profiler ([`crate::channel::shields`]), counted where they happen.
//!
//! Of an edge or a call, whose tuple is known, where flags are dead or can be made again:
//!
//! ```text
//!   dec   dword gs:[cell]
//!   js    unshielded              out of line
//!   dec   dword gs:[left]
//!   jz    ended                   out of line
//! ```
//!
//! Elsewhere the same through `rcx`, with no flag touched: a cell that is 0 is not shielded. Of a value its value counter is looked for
//! ([`super::value_counters`]), and that is the cell. All events but those of the most frequent kind are counted by kind, too: one increment.
//!
//! Out of line, in traces where flags are dead, the carry too, the tuple's counters are incremented on the spot: where they are is known, so that takes a third of the
//! routine's instructions, and no jump whose target is not in it. Elsewhere the routine gets the subject and the place to go on; it changes
//! neither registers nor flags.

use trommel_queue::VALUE_COUNTERS;
use trommel_queue::dict::Event;
use trommel_tuple::Kind;

use super::code::kept_rcx;
use super::events::follows;
use super::pending::{Of, Pending, Sends, Unmet, Unshielded};
use super::strata::ZERO;
use super::value_counters::NEGATIVE;
use super::values::{Counted, Value};
use super::{Needs, Way};
use crate::base::address::{AppPc, CachePc};
use crate::base::emit::{Code, GsOffset, Reg, Rel32};
use crate::channel::dictionary::DictionaryFull;
use crate::channel::shields::{Counters, LEFT, Profiler};
use crate::channel::strata;
use crate::slot;
use crate::translate::flags::Flags;
use crate::translate::{Refusal, Site, Translator};

/// The condition that a number is not below another.
const NOT_BELOW: u8 = 3;

/// Counts events in the counters of a multi-hash profiler.
pub(in crate::translate) struct Shields;

impl Way for Shields {
    fn is_on(t: &Translator) -> bool {
        t.ways.profiler.is_some()
    }

    fn needs(_: &Translator, needs: &mut Needs) {
        needs.each_event = true;
        needs.keys = true;
        needs.room = true;
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
        if let Some(subject) = t.subject(site, event)? {
            t.shield(site, event, subject, next);
        }
        Ok(true)
    }

    fn event_out(
        t: &mut Translator,
        site: &mut Site<'_>,
        event: Event,
        _: AppPc,
    ) -> Result<bool, DictionaryFull> {
        t.job.flags = Flags::default();
        Self::event(t, site, event)?;
        Ok(false)
    }

    fn value(
        t: &mut Translator,
        site: &mut Site<'_>,
        event: Event,
        counted: &Counted,
    ) -> Result<bool, DictionaryFull> {
        t.shield_value(site, event, counted)?;
        Ok(true)
    }

    fn is_kept(_: &Translator) -> bool {
        false
    }
}

impl Translator {
    /// Returns the multi-hash profiler that counts events, if there is one.
    pub fn profiler(&self) -> Option<&Profiler> {
        self.ways.profiler.as_ref()
    }

    /// The subject of a known tuple.
    pub fn subject(
        &mut self,
        site: &mut Site<'_>,
        event: Event,
    ) -> Result<Option<u32>, DictionaryFull> {
        let Some(kind) = kind_of(&event) else {
            return Ok(None);
        };
        let tuple = strata::tuple_of(site.regions, &event);
        let value = (!matches!(event, Event::Dynamic { .. })).then_some(tuple.value);
        let place = tuple.pc.word();
        let known = value.unwrap_or_default();
        let found = self.ways.profiler.as_ref();
        let found = found.and_then(|profiler| profiler.find(kind, place, known));
        if found.is_some() {
            return Ok(found);
        }
        let path = self.message_path(site, event)?;
        let Some(profiler) = &mut self.ways.profiler else {
            return Ok(None);
        };
        let added = profiler.add(kind, place, value, path);
        added.ok_or(DictionaryFull).map(Some)
    }

    fn of_kind(&self, event: &Event) -> Option<GsOffset> {
        let profiler = self.ways.profiler.as_ref()?;
        profiler.of_kind(kind_of(event)?)
    }

    /// Counts an event of a known tuple; `next` is what is executed after it.
    fn shield(&mut self, site: &mut Site<'_>, event: Event, subject: u32, next: AppPc) {
        let cell = Profiler::cell(subject);
        let of_kind = self.of_kind(&event);
        let spilled = self.job.spilled.rcx;
        let [from, ended];
        let back;
        let mut free = self.flags_may_go(site, next);
        if free {
            if let Some(of_kind) = of_kind {
                self.job.code.increment_gs64(of_kind);
            }
            self.job.code.decrement_gs32(cell);
            from = self.job.code.jcc(NEGATIVE);
            back = self.job.code.at(self.job.code.here());
            self.job.code.decrement_gs32(LEFT);
            ended = self.job.code.jcc(ZERO);
        } else {
            self.spill_rcx();
            let found = self.job.code.shield_with_rcx(cell, of_kind);
            (from, back, ended) = (found.from, found.back, found.ended);
        }
        let after = self.job.code.at(self.job.code.here());
        // Decrements leave the carry alone. What is not hot had better be short.
        free = free
            && self.job.trace
            && (self.job.flags.lost || self.all_flags_are_dead(site, &[], Some(next)));
        let profiler = self.ways.profiler.as_ref().filter(|_| free);
        let of = match profiler {
            Some(profiler) => Of::Here(profiler.counters(subject)),
            None => Of::Known,
        };
        self.job.messages.push(Pending {
            from,
            spilled: self.job.spilled.rcx,
            of: Sends::Unshielded(Unshielded {
                subject,
                of,
                ended,
                after,
                holds: false,
            }),
            back,
        });
        if !spilled {
            self.unspill_rcx();
        }
    }

    /// Counts an event with its value.
    fn shield_value(
        &mut self,
        site: &mut Site<'_>,
        event: Event,
        counted: &Counted,
    ) -> Result<(), DictionaryFull> {
        let scratch = counted.scratch.and_then(|scratch| self.register(scratch));
        let Some(subject) = self.subject(site, event)? else {
            return Ok(());
        };
        let of_kind = self.of_kind(&event);
        let key = crate::channel::shields::key(subject);
        let profiler = self.ways.profiler.as_ref();
        let value_counters = Some(profiler.map_or(VALUE_COUNTERS, Profiler::value_counters));
        let found =
            self.find_value_counter((key, value_counters), counted.value, scratch, counted.live);
        self.job.code.step_value_counter(found.index, true);
        let back = self.job.code.at(self.job.code.here());
        if let Some(of_kind) = of_kind {
            self.job.code.increment_gs64(of_kind);
        }
        self.job.code.decrement_gs32(LEFT);
        let ended = self.job.code.jcc(ZERO);
        let after = self.job.code.at(self.job.code.here());
        let [from, other] = found.misses;
        let sums = self.ways.profiler.as_ref().is_some_and(Profiler::sums);
        self.job.messages.push(Pending {
            from,
            spilled: self.job.spilled.rcx,
            of: Sends::Unshielded(Unshielded {
                subject,
                of: Of::Value(Unmet {
                    value: found.value,
                    index: found.index,
                    other,
                    entry: match sums {
                        true => slot!(entry.unshielded_sum),
                        false => slot!(entry.unshielded_product),
                    },
                }),
                ended,
                after,
                holds: counted.holds,
            }),
            back,
        });
        Ok(())
    }
}

/// The kind of an event that is counted.
fn kind_of(event: &Event) -> Option<Kind> {
    match *event {
        Event::Branch { .. } | Event::Indirect { call: false, .. } => Some(Kind::Edge),
        Event::Call { .. } | Event::Indirect { call: true, .. } => Some(Kind::Call),
        Event::Dynamic { kind, .. } => Some(kind),
        _ => None,
    }
}

/// Jumps by which [`Code::shield_with_rcx`] leaves its way, and the place where it comes back.
pub struct Detours {
    /// Executed where the event is not shielded, with the app's `rcx` in its slot.
    pub from: Rel32,
    /// Place at which that goes on.
    pub back: CachePc,
    /// Executed where the interval has ended.
    pub ended: Rel32,
}

impl Code<'_> {
    /// Counts a known tuple through `rcx`, which is free, with no flag touched.
    pub fn shield_with_rcx(&mut self, cell: GsOffset, of_kind: Option<GsOffset>) -> Detours {
        if let Some(of_kind) = of_kind {
            self.count_with(Reg::RCX, of_kind);
        }
        self.load_gs_32(Reg::RCX, cell);
        let none = self.jrcxz();
        self.less_one(cell);
        let over = self.jmp_short();
        self.bind8_here(none);
        let from = self.jmp();
        self.bind8_here(over);
        let back = self.at(self.here());
        let ended = self.count_down_32(LEFT);
        Detours { from, back, ended }
    }

    /// Out of line, an event whose tuple is known: `spilled`: the app's `rcx` is in its slot, and stays there.
    pub fn unshielded(&mut self, spilled: bool, subject: u32, ways: &Detours) {
        let here = self.here();
        self.bind(ways.from, here);
        let after = None;
        if !spilled {
            self.store_gs(slot!(spill_rcx), Reg::RCX);
        }
        self.call_with_number(slot!(entry.unshielded), subject, ways.back, after);
    }

    /// Writes, out of line, the end of an interval. It goes on at `after`, with `rcx` as it is, which is kept in `kept`.
    pub fn interval_ended(&mut self, ended: Rel32, after: CachePc, kept: Option<GsOffset>) {
        let here = self.here();
        self.bind(ended, here);
        self.cross(slot!(entry.interval_ended), kept, after);
    }

    /// Out of line, an event that is not shielded, and an interval that has ended.
    pub(in crate::translate) fn write_unshielded(
        &mut self,
        spilled: bool,
        of: &Unshielded,
        back: CachePc,
    ) {
        let kept = kept_rcx(of.holds, spilled);
        if let Of::Value(unmet) = of.of {
            let here = self.here();
            self.bind(unmet.other, here);
            if let Value::Register(_) = unmet.value {
                self.store_gs(slot!(value_counter), unmet.index);
            }
        }
        if let Some(kept) = kept {
            self.store_gs(kept, Reg::RCX);
        }
        let held = kept.filter(|_| of.holds);
        match of.of {
            Of::Here(counters) => self.count_here(&counters, of.subject, back),
            Of::Known => {
                self.call_with_number(slot!(entry.unshielded), of.subject, back, held);
            }
            Of::Value(unmet) => {
                self.keep_value(unmet.value);
                self.call_with_number(unmet.entry, of.subject, back, held);
            }
        }
        self.interval_ended(of.ended, of.after, kept);
    }

    /// Increments the counters of a tuple that is not shielded, and goes on at `back`. Flags are free; the app's `rcx` is in its slot.
    fn count_here(&mut self, counters: &Counters, subject: u32, back: CachePc) {
        let kept = slot!(message_rdx);
        self.store_gs(kept, Reg::RDX);
        // mov dword gs:[cell], 0
        self.raw(&[0x65, 0xc7, 0x04, 0x25]);
        self.raw(&counters.cell.0.to_le_bytes());
        self.raw(&[0; 4]);
        self.load_gs(Reg::RCX, slot!(counters));
        // mov edx, [rcx + at]; and of each other table: cmp edx, [rcx + at]; cmova edx, [rcx + at]
        for (n, at) in counters.at().enumerate() {
            if n == 0 {
                self.on_counter(&[0x8b, 0x91], at);
            } else {
                self.on_counter(&[0x3b, 0x91], at);
                self.on_counter(&[0x0f, 0x47, 0x91], at);
            }
        }
        for at in counters.at() {
            if counters.conservative {
                // cmp edx, [rcx + at]; sbb dword [rcx + at], -1
                self.on_counter(&[0x3b, 0x91], at);
                self.on_counter(&[0x83, 0x99], at);
                self.raw(&[0xff]);
            } else {
                // inc dword [rcx + at]
                self.on_counter(&[0xff, 0x81], at);
            }
        }
        // cmp edx, gs:[promotes_at]
        self.raw(&[0x65, 0x3b, 0x14, 0x25]);
        self.raw(&slot!(promotes_at).0.to_le_bytes());
        self.load_gs(Reg::RDX, kept);
        let promoted = self.jcc(NOT_BELOW);
        self.load_gs(Reg::RCX, slot!(spill_rcx));
        self.jmp_to(back);
        let here = self.here();
        self.bind(promoted, here);
        self.call_with_number(slot!(entry.promoted), subject, back, None);
    }

    /// An instruction on the counter at `rcx` and an offset.
    fn on_counter<const N: usize>(&mut self, opcode: &[u8; N], at: u32) {
        self.raw(opcode);
        self.raw(&(size_of::<u32>() as u32 * at).to_le_bytes());
    }

    /// Writes `ecx` less one to a slot.
    fn less_one(&mut self, slot: GsOffset) {
        // lea ecx, [rcx - 1]
        self.raw(&[0x8d, 0x49, 0xff]);
        // mov gs:[slot], ecx
        self.raw(&[0x65, 0x89, 0x0c, 0x25]);
        self.raw(&slot.0.to_le_bytes());
    }
}
