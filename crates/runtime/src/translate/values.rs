//! Values and types counted in generated code, in the counters of a stratified sampler; exactly in [`super::value_counters`].
//!
//! # Problem
//! The counter of an event with a run-time value depends on that value: it must be hashed where it is loaded, in a few
//! instructions, with no register and no flag of the app's lost.
//!
//! # Strategy
//! The hash functions that a sampler can have here ([`OfPlace`]) are known for a place up to the value. After a load,
//! one register is enough for what is left:
//!
//! ```text
//!   mov    s, start          what the place has made of the sum
//!   crc32  s, loaded
//!   and    s, mask
//!   dec    word gs:[2 * s + counters]
//!   jz     message           out of line, once in as many events as a message stands for
//! ```
//!
//! *The register* is `rcx` or `rdx` where one of them waits in its slot anyway, as in fragments that an indirect branch has led to.
//! Else it is one that no instruction of the fragment uses. It is stolen at the first load that needs it and
//! given back at each exit after that. A trace uses all registers: there it is the one that fewest instructions use, which
//! get it back.
//!
//! *The flags* are destroyed where the app overwrites them before it looks at them ([`super::liveness`]). Elsewhere they are *parked*:
//! `rax` goes to its slot, and `lahf` and `seto` put the flags there, until an instruction has to do with flags or `rax`, or
//! leaves the main line. Loads after each other, as at the end of a function, park them once.
//!
//! *A value that no register holds afterwards* is read before its instruction, as it is for records, and waits in a slot;
//! it is counted after the instruction.
//!
//! # Why it is correct
//! * An event is counted when its instruction is done: one that faults has not been counted, and the fault finds all
//!   registers as its [`Step`](crate::cache::Step) says.
//! * Parked flags are part of what a step says: whoever looks at the app's state at a boundary gets them out of `rax`.
//! * What is hashed is what the dictionary's message tells: the value is taken once, and kept until it is sent.

use trommel_compress::hash::OfPlace;
use trommel_queue::dict::Event;
use trommel_tuple::Kind;

use super::persisted::Field;
use super::probes::{Pending, Sends, ZERO};
use super::{Site, Translator, liveness, target};
use crate::base::address::{AppPc, CachePc};
use crate::base::area::{COUNTERS_OFFSET, WRITE_POINTER};
use crate::base::decode::{Class, Insn, Load, Rm};
use crate::base::emit::{Code, GsOffset, Reg, Rel32};
use crate::channel::deliver::DictionaryFull;
use crate::slot;

/// Where an event's value is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    /// In a general register.
    Register(Reg),
    /// In a slot.
    Slot(GsOffset),
}

impl Translator {
    /// Puts aside the value of a load that no general register holds afterwards, as far as it is to be read before.
    pub(super) fn read_value(&mut self, insn: &Insn, load: Load) {
        if !matches!(load, Load::Before(_) | Load::BeforeStack(_) | Load::Xlat) {
            return;
        }
        // Of an instruction of a trace that uses both a third is lent, and given back before the instruction.
        let found = self.scratch(insn.used);
        let (s, lent) = match found {
            Some(s) => (s, false),
            None => match super::stealable(insn.used) {
                Some(s) => (s, true),
                None => return,
            },
        };
        if lent {
            self.job.code.store_gs(slot!(held_rcx), s);
        }
        match (load, insn.rm) {
            (Load::BeforeStack(size), _) => {
                self.job.code.load(s, Reg::RSP, 0);
                if size == 2 {
                    self.zero_extend_16(s);
                }
            }
            (Load::Before(size), Rm::Memory(operand)) => self.load_operand(&operand, s, size),
            (Load::Xlat, Rm::Memory(operand)) => self.load_table_byte(&operand, s),
            _ => {}
        }
        self.job.code.store_gs(slot!(value), s);
        if lent {
            self.job.code.load_gs(s, slot!(held_rcx));
        }
    }

    /// Counts a load that has been executed; `rest` is what follows it in the fragment, as in
    /// [`Translator::all_flags_are_dead`].
    pub(super) fn sample(
        &mut self,
        site: &mut Site<'_>,
        insn: &Insn,
        load: Load,
        rest: &[Insn],
        end: Option<AppPc>,
    ) -> Result<(), DictionaryFull> {
        let value = match load {
            Load::After(register) => Value::Register(register),
            Load::AfterXmm(n) => {
                self.job.code.store_xmm_low_gs(slot!(value), n);
                Value::Slot(slot!(value))
            }
            Load::AfterPartRax(size) => {
                if let Some(s) = self.scratch(Reg::RAX.bit()) {
                    self.job.code.low_of_rax(s, size);
                    self.job.code.store_gs(slot!(value), s);
                }
                Value::Slot(slot!(value))
            }
            Load::Before(_) | Load::BeforeStack(_) | Load::Xlat => Value::Slot(slot!(value)),
        };
        let avoid = match value {
            Value::Register(r) => r.bit(),
            Value::Slot(_) => 0,
        };
        let alone = self
            .ways
            .sampler
            .as_ref()
            .is_some_and(|s| !s.hashes_values());
        let scratch = match alone {
            true => None,
            false => self.scratch(avoid),
        };
        let dead = self.job.spilled.flags
            || self.job.flags.lost
            || self.all_flags_are_dead(site, rest, end)
            || self.lose_flags_behind();
        let event = Event::Dynamic {
            kind: Kind::Value,
            pc: target(insn.pc()),
        };
        if self.ways.profiler.is_some() {
            return self.shield_value(site, event, value, (scratch, !dead, false));
        }
        if !self.samples() {
            return self.value_counter(site, event, value, scratch, !dead, false);
        }
        let path = self.message_path(site, event)?;
        let ended = self.count_value(site, (insn.pc(), path), value, scratch, !dead);
        self.send_value(path, value, ended, false);
        Ok(())
    }

    /// Counts a call by a method table, if that is counted: its target is in `rcx`, and the app's `rcx` in its slot. So is its `rdx`
    /// then.
    pub(super) fn sample_type(
        &mut self,
        site: &mut Site<'_>,
        insn: &Insn,
    ) -> Result<(), DictionaryFull> {
        let call = insn.class == Class::CallIndirect;
        let Some(table) = insn
            .method_table()
            .filter(|_| call && self.counts_values() && self.wants(Kind::Type))
            .filter(|_| !self.is_quiet(self.job.passed - 1))
        else {
            return Ok(());
        };
        if self.pass_in_stride() {
            return Ok(());
        }
        self.spill_rdx();
        let value = match table {
            Reg::RCX => Value::Slot(slot!(spill_rcx)),
            Reg::RDX => Value::Slot(slot!(spill_rdx)),
            table => Value::Register(table),
        };
        let event = Event::Dynamic {
            kind: Kind::Type,
            pc: target(insn.pc()),
        };
        if self.ways.profiler.is_some() {
            let live = !self.job.flags.lost;
            self.shield_value(site, event, value, (Some(Reg::RDX), live, true))?;
        } else if self.samples() {
            let live = !self.job.flags.lost;
            let path = self.message_path(site, event)?;
            let ended = self.count_value(site, (insn.pc(), path), value, Some(Reg::RDX), live);
            self.send_value(path, value, ended, true);
        } else {
            let live = !self.job.flags.lost;
            self.value_counter(site, event, value, Some(Reg::RDX), live, true)?;
        }
        self.unpark();
        Ok(())
    }

    /// Has a message sent by a routine of the runtime where `from` jumps.
    pub(super) fn send_by_routine(&mut self, from: Rel32, told: Routine, back: CachePc) {
        self.job.messages.push(Pending {
            from,
            spilled: self.job.spilled.rcx,
            of: Sends::ByRoutine(told),
            back,
        });
    }

    /// Out of line, a value counter being full or another's: the routine is told what it is about, and leads
    /// to `back`. `spilled`: the app's `rcx` is in its slot.
    pub(super) fn call_routine(&mut self, spilled: bool, told: &Routine, back: CachePc) {
        let c = &mut self.job.code;
        let (s, misses) = told.value_counter;
        // One that is full was counted already: that is taken back, and counted in the next.
        c.step_value_counter(s, false);
        let here = c.here();
        for miss in misses {
            c.bind(miss, here);
        }
        if let Value::Register(_) = told.value {
            c.store_gs(slot!(value_counter), s);
        }
        if told.holds {
            c.store_gs(slot!(held_rcx), Reg::RCX);
        } else if !spilled {
            c.store_gs(slot!(spill_rcx), Reg::RCX);
        }
        c.keep_value(told.value);
        let held = told.holds.then_some(slot!(held_rcx));
        let here = c.call_told(told.entry, told.path, back, held);
        self.note(Field::Message, here);
    }

    /// Takes one from the counter of an event at this place, whose messages name this path. `live`: flags are looked at afterwards, and are not parked. Gives the jump that is
    /// executed when nothing is left, and the register that then says which counter it was; there is none
    /// where there is but one.
    fn count_value(
        &mut self,
        site: &mut Site<'_>,
        (pc, path): (AppPc, u32),
        value: Value,
        scratch: Option<Reg>,
        live: bool,
    ) -> (Rel32, Option<Reg>) {
        let of = self.ways.sampler.as_ref();
        let of = of.and_then(|sampler| sampler.of_place(site.regions, pc));
        let (Some(of), Some(s)) = (of, scratch) else {
            if live {
                self.park();
            }
            self.job
                .code
                .decrement_gs16(GsOffset(COUNTERS_OFFSET as u32));
            return (self.job.code.jcc(ZERO), None);
        };
        match of {
            OfPlace::Sum { start, mask } => {
                self.job.code.mov_imm(s, start.into());
                self.note_sum(self.job.code.here() - 4, path);
                self.job.code.crc32(s, value);
                // What is masked with no flag touched can be looked at where flags live.
                if live {
                    self.park();
                }
                self.job.code.mask(s, mask);
            }
            OfPlace::Product { offset, shift, .. } => {
                match value {
                    Value::Register(r) => self.job.code.mov(s, r),
                    Value::Slot(slot) => self.job.code.load_gs(s, slot),
                }
                if live {
                    self.park();
                }
                self.job.code.rotate_by_32(s);
                self.job.code.multiply_gs(s, slot!(factors));
                let rel = self.job.code.add_rip(s);
                self.job.constants.push((rel, offset));
                self.is_unfit();
                self.job.code.store_gs(slot!(value_counter), s);
                self.job.code.shift_right(s, 32);
                self.job.code.xor_gs(s, slot!(value_counter));
                let GsOffset(first) = slot!(factors);
                self.job.code.multiply_gs(s, GsOffset(first + 8));
                self.job.code.shift_right(s, shift as u8);
            }
        }
        self.job.code.decrement_counter(s);
        (self.job.code.jcc(ZERO), Some(s))
    }

    /// Out of line, a counter having come to its end: sends the message. `holds`: `rcx` is not the app's, and needed afterwards.
    fn send_value(
        &mut self,
        path: u32,
        value: Value,
        (from, counter): (Rel32, Option<Reg>),
        holds: bool,
    ) {
        let back = self.job.code.at(self.job.code.here());
        let parked = self.job.spilled.flags && value == Value::Register(Reg::RAX);
        let value = match parked {
            true => Value::Slot(slot!(spill_flags)),
            false => value,
        };
        self.job.messages.push(Pending {
            from,
            spilled: self.job.spilled.rcx,
            of: Sends::Value(ValueMessage {
                counter,
                start: self.rate() as u16,
                value,
                path,
                holds,
            }),
            back,
        });
    }

    /// A register whose app value is in its slot, and not one of `avoid`.
    fn scratch(&mut self, avoid: u16) -> Option<Reg> {
        if self.job.spilled.rcx && avoid & Reg::RCX.bit() == 0 {
            return Some(Reg::RCX);
        }
        if self.job.spilled.rdx && avoid & Reg::RDX.bit() == 0 {
            return Some(Reg::RDX);
        }
        let p = self.job.stolen?;
        if avoid & p.bit() != 0 {
            // A trace uses it, too, if rarely.
            let rcx = avoid & Reg::RCX.bit() == 0;
            if rcx {
                self.spill_rcx();
            } else if avoid & Reg::RDX.bit() == 0 {
                self.spill_rdx();
            } else {
                return None;
            }
            return Some(if rcx { Reg::RCX } else { Reg::RDX });
        }
        if !self.job.spilled.stolen {
            self.job.code.store_gs(slot!(spill_stolen), p);
            self.job.spilled.stolen = true;
        }
        Some(p)
    }

    /// The flags to `rax`, and that to its slot.
    pub(super) fn park(&mut self) {
        if !self.job.spilled.flags {
            self.job.code.store_gs(slot!(spill_flags), Reg::RAX);
            self.job.code.raw(&[0x9f, 0x0f, 0x90, 0xc0]); // lahf; seto al
            self.job.spilled.flags = true;
        }
    }

    /// Makes flags and `rax` the app's again.
    pub(super) fn unpark(&mut self) {
        if core::mem::take(&mut self.job.spilled.flags) {
            self.job.code.raw(&[0x04, 0x7f, 0x9e]); // add al, 127; sahf
            self.job.code.load_gs(Reg::RAX, slot!(spill_flags));
        }
    }

    /// Does so before an instruction that has to do with them.
    pub(super) fn unpark_for(&mut self, insn: &Insn) {
        if !self.job.spilled.flags {
            return;
        }
        let passes = match insn.class {
            Class::Jmp(_) => true,
            Class::Plain => {
                insn.used & Reg::RAX.bit() == 0 && liveness::leaves_flags(self.bytes_of(insn))
            }
            _ => false,
        };
        if !passes {
            self.unpark();
        }
    }
}

/// A message about a value that a routine of the runtime sends.
#[derive(Clone, Copy)]
pub(super) struct Routine {
    /// The slot of the routine.
    pub(super) entry: GsOffset,
    /// The register that says which value counter it was, and the jumps that are executed where that is another's.
    pub(super) value_counter: (Reg, [Rel32; 2]),
    pub(super) value: Value,
    pub(super) path: u32,
    /// `rcx` is not the app's, and needed afterwards.
    pub(super) holds: bool,
}

/// A message about a value.
#[derive(Clone, Copy)]
pub(super) struct ValueMessage {
    /// Says which counter it was, and is free; nothing is where there is but one.
    counter: Option<Reg>,
    /// What that starts with.
    start: u16,
    value: Value,
    path: u32,
    /// `rcx` is not the app's, and needed afterwards.
    holds: bool,
}

/// Where `rcx` is kept while it is needed out of line. `holds`: it is not the app's, and needed afterwards; `spilled`: the app's is in its
/// slot, and it is not needed.
pub(super) fn kept_rcx(holds: bool, spilled: bool) -> Option<GsOffset> {
    match (holds, spilled) {
        (true, _) => Some(slot!(held_rcx)),
        (false, false) => Some(slot!(spill_rcx)),
        (false, true) => None,
    }
}

impl Code<'_> {
    /// Out of line, the counter of a value having come to its end: starts it again, appends the message and goes on at `back`. `spilled`: the
    /// app's `rcx` is in its slot. Flags are free: the counter's end was told by them. Returns where the path stands.
    pub(super) fn send_value(
        &mut self,
        spilled: bool,
        message: &ValueMessage,
        back: CachePc,
    ) -> usize {
        let s = match (message.counter, message.value) {
            (Some(counter), _) => counter,
            (None, Value::Register(Reg::RCX)) => Reg::RDX,
            (None, _) => Reg::RCX,
        };
        let lent = message.counter.is_none() && !(s == Reg::RCX && spilled && !message.holds);
        if lent {
            self.store_gs(slot!(held_rcx), s);
        }
        self.raw(&[0x66, 0x65]);
        match message.counter {
            // mov word gs:[2 * s + counters], start
            Some(_) => {
                if s.0 >= 8 {
                    self.raw(&[0x42]);
                }
                self.raw(&[0xc7, 0x04, 0x45 | (s.0 & 7) << 3]);
            }
            // mov word gs:[counters], start
            None => self.raw(&[0xc7, 0x04, 0x25]),
        }
        self.raw(&(COUNTERS_OFFSET as u32).to_le_bytes());
        self.raw(&message.start.to_le_bytes());
        let slot = match message.value {
            Value::Slot(slot) => Some(slot),
            Value::Register(Reg::RSP) => {
                self.store_gs(slot!(value), Reg::RSP);
                Some(slot!(value))
            }
            Value::Register(_) => None,
        };
        self.load_gs(s, WRITE_POINTER);
        self.store_imm32(s, 0, message.path);
        let path = self.here() - 4;
        // In halves, which are aligned: the app's flags may want that checked.
        if let Some(slot) = slot {
            let half = if s == Reg::RCX { Reg::RDX } else { Reg::RCX };
            self.store_gs(slot!(held_half), half);
            for n in 0..2 {
                self.load_gs_32(half, GsOffset(slot.0 + 4 * n));
                self.store_32(s, 4 + 4 * n as i32, half);
            }
            self.load_gs(half, slot!(held_half));
        } else if let Value::Register(value) = message.value {
            for n in 0..2 {
                self.store_32(s, 4 + 4 * n, value);
                self.rotate_by_32(value);
            }
        }
        self.lea(s, s, 12);
        self.store_gs(WRITE_POINTER, s);
        // test s, 0xff00
        self.raw(&[0x40 | s.0 >> 3, 0xf7, 0xc0 | s.0 & 7]);
        self.raw(&0xff00_u32.to_le_bytes());
        if lent {
            self.load_gs(s, slot!(held_rcx));
        }
        let full = self.jcc(ZERO);
        self.jmp_to(back);
        let here = self.here();
        self.bind(full, here);
        self.cross(slot!(entry.full), kept_rcx(message.holds, spilled), back);
        path
    }

    /// Puts a value into its slot, for a routine. `rcx` is free.
    pub(super) fn keep_value(&mut self, value: Value) {
        match value {
            Value::Register(r) => self.store_gs(slot!(value), r),
            Value::Slot(slot) if slot != slot!(value) => {
                self.load_gs(Reg::RCX, slot);
                self.store_gs(slot!(value), Reg::RCX);
            }
            Value::Slot(_) => {}
        }
    }

    /// Has a routine do what it is told by a number, and go on at `back`; where `kept` is, `rcx` is loaded from there first. Returns where
    /// the number stands.
    pub(super) fn call_told(
        &mut self,
        entry: GsOffset,
        number: u32,
        back: CachePc,
        kept: Option<GsOffset>,
    ) -> usize {
        let rel = self.lea_rcx_rip();
        self.jmp_gs(entry);
        // Numbers are read with the app's flags, which may want alignment checked.
        self.align(4);
        let here = self.here();
        self.bind(rel, here);
        let from = self.at(here).0;
        // Two numbers of four bytes, and after them the way back where that is not the main line.
        let to = if kept.is_some() { from + 8 } else { back.0 };
        self.raw(&number.to_le_bytes());
        self.raw(&(to.wrapping_sub(from) as u32).to_le_bytes());
        if let Some(kept) = kept {
            self.load_gs(Reg::RCX, kept);
            self.jmp_to(back);
        }
        here
    }

    /// Leaves for the dispatcher, and goes on at `back` then, with `rcx` as it is, which is kept in `kept`.
    pub(super) fn cross(&mut self, entry: GsOffset, kept: Option<GsOffset>, back: CachePc) {
        if let Some(kept) = kept {
            self.store_gs(kept, Reg::RCX);
        }
        let rel = self.lea_rcx_rip();
        self.jmp_gs(entry);
        let here = self.here();
        self.bind(rel, here);
        if let Some(kept) = kept {
            self.load_gs(Reg::RCX, kept);
        }
        self.jmp_to(back);
    }

    /// `jmp to`, which is in the same arena.
    pub(super) fn jmp_to(&mut self, to: CachePc) {
        let jump = self.jmp();
        let rel = to.0 as i64 - self.at(jump.0).0 as i64 - 4;
        self.put_u32(jump.0, rel as i32 as u32);
    }

    /// `mov r, gs:[slot]` (32 bits)
    pub(super) fn load_gs_32(&mut self, r: Reg, slot: GsOffset) {
        self.raw(&[0x65, 0x40 | r.0 >> 3 << 2, 0x8b, (r.0 & 7) << 3 | 4, 0x25]);
        self.raw(&slot.0.to_le_bytes());
    }

    /// `crc32 sum, value` (64 bits)
    pub(super) fn crc32(&mut self, sum: Reg, value: Value) {
        let (r, low) = (sum.0 >> 3 << 2, (sum.0 & 7) << 3);
        match value {
            Value::Register(v) => {
                let rex = 0x48 | r | v.0 >> 3;
                self.raw(&[0xf2, rex, 0x0f, 0x38, 0xf1, 0xc0 | low | v.0 & 7]);
            }
            Value::Slot(slot) => {
                self.raw(&[0x65, 0xf2, 0x48 | r, 0x0f, 0x38, 0xf1, low | 4, 0x25]);
                self.raw(&slot.0.to_le_bytes());
            }
        }
    }

    /// Leaves of a sum of 32 bits what a mask of the lowest does. Changes flags.
    pub(super) fn mask(&mut self, sum: Reg, mask: u32) {
        let (low, high) = (sum.0 & 7, sum.0 >> 3);
        match mask {
            0xffff => self.zero_extend(sum),
            0..0x80 => {
                // and sum, imm8
                self.raw(&[0x40 | high, 0x83, 0xe0 | low, mask as u8]);
            }
            _ => {
                // and sum, imm32
                if high != 0 {
                    self.raw(&[0x41]);
                }
                self.raw(&[0x81, 0xe0 | low]);
                self.raw(&mask.to_le_bytes());
            }
        }
    }

    /// `movzx r, r` of 16 bits
    fn zero_extend(&mut self, r: Reg) {
        let (low, high) = (r.0 & 7, r.0 >> 3);
        self.raw(&[0x40 | high << 2 | high, 0x0f, 0xb7, 0xc0 | low << 3 | low]);
    }

    /// `dec word gs:[2 * index + counters]`
    fn decrement_counter(&mut self, index: Reg) {
        self.raw(&[0x66, 0x65]);
        if index.0 >= 8 {
            self.raw(&[0x42]);
        }
        self.raw(&[0xff, 0x0c, 0x45 | (index.0 & 7) << 3]);
        self.raw(&(COUNTERS_OFFSET as u32).to_le_bytes());
    }

    /// `movq gs:[slot], xmmN`, of the low half
    fn store_xmm_low_gs(&mut self, slot: GsOffset, xmm: u8) {
        self.raw(&[
            0x65,
            0x66,
            0x40 | xmm >> 3 << 2,
            0x0f,
            0xd6,
            (xmm & 7) << 3 | 4,
        ]);
        self.raw(&[0x25]);
        self.raw(&slot.0.to_le_bytes());
    }

    /// `movzx to, al`, or `ax` with two bytes
    fn low_of_rax(&mut self, to: Reg, bytes: u8) {
        let opcode = if bytes == 1 { 0xb6 } else { 0xb7 };
        self.raw(&[0x40 | to.0 >> 3 << 2, 0x0f, opcode, 0xc0 | (to.0 & 7) << 3]);
    }

    /// `rol r, 32`
    fn rotate_by_32(&mut self, r: Reg) {
        self.raw(&[0x48 | r.0 >> 3, 0xc1, 0xc0 | r.0 & 7, 32]);
    }

    /// `shr r, by`
    fn shift_right(&mut self, r: Reg, by: u8) {
        self.raw(&[0x48 | r.0 >> 3, 0xc1, 0xe8 | r.0 & 7, by]);
    }

    /// `imul r, gs:[slot]`
    fn multiply_gs(&mut self, r: Reg, slot: GsOffset) {
        self.raw(&[
            0x65,
            0x48 | r.0 >> 3 << 2,
            0x0f,
            0xaf,
            (r.0 & 7) << 3 | 4,
            0x25,
        ]);
        self.raw(&slot.0.to_le_bytes());
    }

    /// `xor r, gs:[slot]`
    fn xor_gs(&mut self, r: Reg, slot: GsOffset) {
        self.raw(&[0x65, 0x48 | r.0 >> 3 << 2, 0x33, (r.0 & 7) << 3 | 4, 0x25]);
        self.raw(&slot.0.to_le_bytes());
    }

    /// `add r, [rip + …]`
    fn add_rip(&mut self, r: Reg) -> Rel32 {
        self.raw(&[0x48 | r.0 >> 3 << 2, 0x03, (r.0 & 7) << 3 | 5]);
        self.raw(&[0; 4]);
        Rel32(self.here() - 4)
    }
}
