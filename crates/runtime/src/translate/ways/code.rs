//! Instructions that counting in generated code consists of.

use super::values::Value;
use crate::base::address::CachePc;
use crate::base::area::COUNTERS_OFFSET;
use crate::base::emit::{Code, GsOffset, Reg, Rel32};
use crate::slot;

/// Returns the slot that keeps `rcx` while it is needed out of line. `holds`: it is not the app's, and needed afterwards;
/// `spilled`: the app's is in its slot, and it is not needed.
pub(super) fn kept_rcx(holds: bool, spilled: bool) -> Option<GsOffset> {
    match (holds, spilled) {
        (true, _) => Some(slot!(held_rcx)),
        (false, false) => Some(slot!(spill_rcx)),
        (false, true) => None,
    }
}

impl Code<'_> {
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

    /// Calls a routine with a number, to go on at `back`. If there is `kept`, `rcx` is loaded from there first. Returns
    /// the position of the number.
    pub(super) fn call_with_number(
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
    pub(super) fn zero_extend(&mut self, r: Reg) {
        let (low, high) = (r.0 & 7, r.0 >> 3);
        self.raw(&[0x40 | high << 2 | high, 0x0f, 0xb7, 0xc0 | low << 3 | low]);
    }

    /// `dec word gs:[2 * index + counters]`
    pub(super) fn decrement_counter(&mut self, index: Reg) {
        self.raw(&[0x66, 0x65]);
        if index.0 >= 8 {
            self.raw(&[0x42]);
        }
        self.raw(&[0xff, 0x0c, 0x45 | (index.0 & 7) << 3]);
        self.raw(&(COUNTERS_OFFSET as u32).to_le_bytes());
    }

    /// `movq gs:[slot], xmmN`, of the low half
    pub(super) fn store_xmm_low_gs(&mut self, slot: GsOffset, xmm: u8) {
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
    pub(super) fn low_of_rax(&mut self, to: Reg, bytes: u8) {
        let opcode = if bytes == 1 { 0xb6 } else { 0xb7 };
        self.raw(&[0x40 | to.0 >> 3 << 2, 0x0f, opcode, 0xc0 | (to.0 & 7) << 3]);
    }

    /// `rol r, 32`
    pub(super) fn rotate_by_32(&mut self, r: Reg) {
        self.raw(&[0x48 | r.0 >> 3, 0xc1, 0xc0 | r.0 & 7, 32]);
    }

    /// `shr r, by`
    pub(super) fn shift_right(&mut self, r: Reg, by: u8) {
        self.raw(&[0x48 | r.0 >> 3, 0xc1, 0xe8 | r.0 & 7, by]);
    }

    /// `imul r, gs:[slot]`
    pub(super) fn multiply_gs(&mut self, r: Reg, slot: GsOffset) {
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
    pub(super) fn xor_gs(&mut self, r: Reg, slot: GsOffset) {
        self.raw(&[0x65, 0x48 | r.0 >> 3 << 2, 0x33, (r.0 & 7) << 3 | 4, 0x25]);
        self.raw(&slot.0.to_le_bytes());
    }

    /// `add r, [rip + …]`
    pub(super) fn add_rip(&mut self, r: Reg) -> Rel32 {
        self.raw(&[0x48 | r.0 >> 3 << 2, 0x03, (r.0 & 7) << 3 | 5]);
        self.raw(&[0; 4]);
        Rel32(self.here() - 4)
    }
}
