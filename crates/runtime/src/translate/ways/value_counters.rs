//! Exact counts of values and types in generated code.
//!
//! # Problem
//! Exact counts of values have a table of all pairs of a place and a value after them, larger than any cache, which the
//! service thread keeps. To send it a record for each event costs more than all else. But most events repeat a pair that was met
//! just before.
//!
//! # Strategy
//! Each thread has a table of *value counters* in its counter array, direct-mapped: a value, the path that is a message about its event, and
//! how often it was seen. After a load:
//!
//! ```text
//!   mov    s, start                    made of the path
//!   crc32  s, loaded
//!   and    s, gs:[mask]               as many value counters as the thread uses
//!   cmp    gs:[s + value], loaded
//!   jne    other                       out of line
//!   cmp    dword gs:[s + path], path
//!   jne    other
//!   inc    dword gs:[s + count]
//!   js     full
//! ```
//!
//! Another value takes the value counter's place (`arch/message.rs`): what was there becomes a record of path, value and count among the
//! others. At the end the host reads what is left. Registers and flags are had as for a sampler ([`super::values`]).
//!
//! A thread uses few value counters at first (`engine/value_counters.rs`): those of a whole table are on so many pages that a thread which
//! is soon over would do little else than get these from the kernel.
//!
//! An event that is met in its value counter costs far less than one that is recorded; one that is not costs a record too, of one event in place of a path.
//! No program that was measured does better with records of paths (`docs/design/history-counting.md`).
//!
//! # Why it is correct
//! * Every event is in one count: that of its value counter, or of a record that was one. A count of 2³¹ is undone, recorded, and
//!   begun again.
//! * A pair that an empty value counter happens to hold is counted in it from 0 on.
//! * A value counter becomes a record before it is emptied; the host knows one that is both (`host/src/fold/counter_arrays.rs`).

use core::mem::offset_of;

use trommel_queue::ValueCounter;
use trommel_queue::dict::Event;
use trommel_tuple::Kind;

use super::Way;
use super::pending::{Pending, Routine, Sends};
use super::strata::NOT_ZERO;
use super::values::{Counted, Value};
use crate::base::address::CachePc;
use crate::base::counted::mask_of_value_counters;
use crate::base::emit::{Code, GsOffset, Reg, Rel32};
use crate::base::ids::ExitNumber;
use crate::channel::dictionary::DictionaryFull;
use crate::memory::region::Regions;
use crate::slot;
use crate::translate::persisted::Field;
use crate::translate::{Site, Translator};

/// The condition that a number is negative.
pub(in crate::translate) const NEGATIVE: u8 = 8;

/// Counts values exactly.
pub(in crate::translate) struct ValueCounters;

impl Way for ValueCounters {
    fn is_on(t: &Translator) -> bool {
        let kinds = t.config.kinds;
        (kinds.has(Kind::Value) || kinds.has(Kind::Type)) && t.config.counters
    }

    fn value(
        t: &mut Translator,
        site: &mut Site<'_>,
        event: Event,
        counted: &Counted,
    ) -> Result<bool, DictionaryFull> {
        t.value_counter(site, event, counted)?;
        Ok(true)
    }

    fn relocate(
        _: &mut Translator,
        _: &Regions,
        _: &Event,
        number: ExitNumber,
    ) -> Option<Option<(Field, u32)>> {
        Some(Some((
            Field::ValueCounter,
            crate::base::counted::first_of_value_counter(number.0),
        )))
    }
}

impl Translator {
    /// Adds one to the value counter of an event with its value.
    fn value_counter(
        &mut self,
        site: &mut Site<'_>,
        event: Event,
        counted: &Counted,
    ) -> Result<(), DictionaryFull> {
        let scratch = counted.scratch.and_then(|scratch| self.register(scratch));
        let path = self.message_path(site, event)?;
        let CounterLookup {
            index,
            value,
            misses,
        } = self.find_value_counter((path.0, None), counted.value, scratch, counted.live);
        self.job.code.step_value_counter(index, true);
        let full = self.job.code.jcc(NEGATIVE);
        let back = self.job.code.at(self.job.code.here());
        let routine = Routine {
            entry: slot!(entry.value_counter),
            value_counter: (index, misses),
            value,
            path,
            holds: counted.holds,
        };
        self.send_by_routine(full, routine, back);
        Ok(())
    }

    /// Lets a routine of the runtime send a message where `from` jumps.
    fn send_by_routine(&mut self, from: Rel32, routine: Routine, back: CachePc) {
        self.job.messages.push(Pending {
            from,
            spilled: self.job.spilled.rcx,
            of: Sends::ByRoutine(routine),
            back,
        });
    }

    /// Calls the routine, out of line, for a value counter that is full or another's. The routine gets the subject, and
    /// leads to `back`. `spilled`: the app's `rcx` is in its slot.
    pub(in crate::translate) fn call_routine(
        &mut self,
        spilled: bool,
        routine: &Routine,
        back: CachePc,
    ) {
        let c = &mut self.job.code;
        let (s, misses) = routine.value_counter;
        // One that is full was counted already: that is undone, and counted in the next.
        c.step_value_counter(s, false);
        let here = c.here();
        for miss in misses {
            c.bind(miss, here);
        }
        if let Value::Register(_) = routine.value {
            c.store_gs(slot!(value_counter), s);
        }
        if routine.holds {
            c.store_gs(slot!(held_rcx), Reg::RCX);
        } else if !spilled {
            c.store_gs(slot!(spill_rcx), Reg::RCX);
        }
        c.keep_value(routine.value);
        let held = routine.holds.then_some(slot!(held_rcx));
        let here = c.call_with_number(routine.entry, routine.path.0, back, held);
        self.note(Field::Message, here);
    }

    /// Looks for the value counter of a value and of a message's number, or what stands in the place of one, among so many, or as many as the
    /// thread uses. `scratch`: a register for its index that is not the app's now. `live`: flags are
    /// looked at afterwards, and are not parked.
    pub(in crate::translate) fn find_value_counter(
        &mut self,
        (key, value_counters): (u32, Option<usize>),
        value: Value,
        scratch: Option<Reg>,
        live: bool,
    ) -> CounterLookup {
        let s = match scratch {
            Some(s) => s,
            None if value == Value::Register(Reg::RCX) => {
                self.spill_rdx();
                Reg::RDX
            }
            None => {
                self.spill_rcx();
                Reg::RCX
            }
        };
        let mut value = value;
        if live {
            self.park();
        }
        if self.job.spilled.flags && value == Value::Register(Reg::RAX) {
            value = Value::Slot(slot!(spill_flags));
        }
        self.job
            .code
            .mov_imm(s, crate::base::counted::first_of_value_counter(key).into());
        // A profiler's key is not kept.
        let number = ExitNumber(key);
        self.note_counted(Field::ValueCounter, self.job.code.here() - 4, number);
        self.job.code.crc32(s, value);
        match value_counters {
            Some(count) => self.job.code.mask(s, mask_of_value_counters(count)),
            None => self.job.code.mask_gs(s, slot!(value_counter_mask)),
        }
        match value {
            Value::Register(r) => self.job.code.compare_value_counter(s, r),
            Value::Slot(slot) => {
                self.job.code.store_gs(slot!(value_counter), s);
                self.job.code.load_value_counter(s);
                self.job.code.compare_gs(s, slot);
            }
        }
        let another_value = self.job.code.jcc(NOT_ZERO);
        if let Value::Slot(_) = value {
            self.job.code.load_gs(s, slot!(value_counter));
        }
        self.job.code.compare_value_counter_path(s, key);
        self.note(Field::Message, self.job.code.here() - 4);
        let another_path = self.job.code.jcc(NOT_ZERO);
        CounterLookup {
            index: s,
            value,
            misses: [another_value, another_path],
        }
    }
}

/// A value counter that has been looked for.
pub(in crate::translate) struct CounterLookup {
    /// Says which it is.
    pub(in crate::translate) index: Reg,
    /// Present place of the value.
    pub(in crate::translate) value: Value,
    /// The jumps that are executed where it is another's.
    pub(in crate::translate) misses: [Rel32; 2],
}

impl Code<'_> {
    /// An instruction on a field of the value counter whose bytes are `index` into the table.
    fn on_value_counter(&mut self, wide: bool, opcode: u8, reg: u8, index: Reg, field: usize) {
        let rex = 0x40 | u8::from(wide) << 3 | reg >> 3 << 2 | index.0 >> 3 << 1;
        let GsOffset(first) = crate::base::counted::VALUE_COUNTERS_AT;
        self.raw(&[
            0x65,
            rex,
            opcode,
            (reg & 7) << 3 | 4,
            (index.0 & 7) << 3 | 5,
        ]);
        self.raw(&(first + field as u32).to_le_bytes());
    }

    /// `cmp gs:[index + value], r`
    fn compare_value_counter(&mut self, index: Reg, r: Reg) {
        self.on_value_counter(true, 0x39, r.0, index, offset_of!(ValueCounter, value));
    }

    /// `mov r, gs:[r + value]`
    fn load_value_counter(&mut self, r: Reg) {
        self.on_value_counter(true, 0x8b, r.0, r, offset_of!(ValueCounter, value));
    }

    /// `cmp dword gs:[index + path], path`
    fn compare_value_counter_path(&mut self, index: Reg, key: u32) {
        self.on_value_counter(false, 0x81, 7, index, offset_of!(ValueCounter, path));
        self.raw(&key.to_le_bytes());
    }

    /// `inc dword gs:[index + count]`, or `dec`
    pub(in crate::translate) fn step_value_counter(&mut self, index: Reg, up: bool) {
        let down = u8::from(!up);
        self.on_value_counter(false, 0xff, down, index, offset_of!(ValueCounter, count));
    }

    /// `and r, gs:[slot]`, of 32 bits
    fn mask_gs(&mut self, r: Reg, slot: GsOffset) {
        self.raw(&[0x65, 0x40 | r.0 >> 3 << 2, 0x23, (r.0 & 7) << 3 | 4, 0x25]);
        self.raw(&slot.0.to_le_bytes());
    }

    /// `cmp r, gs:[slot]`
    fn compare_gs(&mut self, r: Reg, slot: GsOffset) {
        self.raw(&[0x65, 0x48 | r.0 >> 3 << 2, 0x3b, (r.0 & 7) << 3 | 4, 0x25]);
        self.raw(&slot.0.to_le_bytes());
    }
}
