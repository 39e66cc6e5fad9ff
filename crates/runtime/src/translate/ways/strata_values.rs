//! Values counted in the counters of a stratified sampler.

use trommel_compress::hash::OfPlace;

use super::code::kept_rcx;
use super::pending::{Pending, Sends, ValueMessage};
use super::strata::ZERO;
use super::values::Value;
use crate::base::address::{AppPc, CachePc};
use crate::base::area::{COUNTERS_OFFSET, WRITE_POINTER};
use crate::base::emit::{Code, GsOffset, Reg, Rel32};
use crate::base::ids::ExitNumber;
use crate::slot;
use crate::translate::persisted::Field;
use crate::translate::{Site, Translator};

impl Translator {
    /// Takes one from the counter of an event at this place, whose messages name this path. `live`: flags are looked at afterwards, and are not parked. Gives the jump that is
    /// executed when nothing is left, and the register that then says which counter it was; there is none
    /// where there is but one.
    pub(super) fn count_value(
        &mut self,
        site: &mut Site<'_>,
        (pc, path): (AppPc, ExitNumber),
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
                self.note_counted(Field::Sum, self.job.code.here() - 4, path);
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
    pub(super) fn send_value(
        &mut self,
        path: ExitNumber,
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
}

impl Code<'_> {
    /// Starts the counter of a value again at its end, appends the message and goes on at `back`. Out of line. `spilled`: the
    /// app's `rcx` is in its slot. Flags are free: they have shown the counter's end. Returns the place of the path.
    pub(in crate::translate) fn send_value(
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
        self.store_imm32(s, 0, message.path.0);
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
}
