//! App instructions copied, and their memory operands read for probes.
#![allow(unsafe_code)] // reason: reads the app's code.

use super::Translator;
use super::persisted::Field;
use crate::base::decode::{self, Base, Insn, Load, Operand, Rm, Segment};
use crate::base::emit::{Mem, Reg};
use crate::memory::pages::PAGE;
use crate::slot;

impl Translator {
    /// Loads `size` bytes of a memory operand into `to`, zero-extended.
    pub(super) fn load_operand(&mut self, operand: &Operand, to: Reg, size: u8) {
        let fs = operand.segment == Segment::Fs;
        if operand.base == Base::Rip && !fs && self.job.code.load_rip(to, size, operand.disp) {
            self.note(Field::Relative, self.job.code.here() - 4);
            return;
        }
        let disp = i32::try_from(operand.disp as i64);
        let mut mem = Mem {
            base: match operand.base {
                Base::Register(base) => Some(base),
                _ => None,
            },
            index: operand.index,
            disp: disp.unwrap_or(0),
            fs,
            short: operand.short,
        };
        if matches!(operand.base, Base::Rip | Base::Eip) || disp.is_err() {
            // Out of reach, or an absolute 64-bit address: through the register itself.
            if matches!(operand.base, Base::Rip | Base::Eip) {
                self.is_unfit();
            }
            self.job.code.mov_imm(to, operand.disp);
            mem.base = Some(to);
            mem.disp = 0;
        }
        self.job.code.load_mem(to, size, &mem);
    }

    /// Loads the operand of `xlat`: the byte at `rbx` + `al`.
    pub(super) fn load_table_byte(&mut self, operand: &Operand, to: Reg) {
        let rex = 0x40 | (u8::from(to.0 >= 8)) << 2;
        // movzx to, al
        self.job
            .code
            .raw(&[rex, 0x0f, 0xb6, 0xc0 | (to.0 & 7) << 3]);
        let mem = Mem {
            base: Some(Reg::RBX),
            index: Some((to, 0)),
            disp: 0,
            fs: operand.segment == Segment::Fs,
            short: operand.short,
        };
        self.job.code.load_mem(to, 1, &mem);
    }

    pub(super) fn probe_before(&mut self, insn: &Insn, load: Load, p: Reg, slot: i32) {
        if !matches!(load, Load::Before(_) | Load::BeforeStack(_) | Load::Xlat) {
            return;
        }
        let scratch = free_register(insn.used | p.bit());
        self.job.code.store_gs(slot!(spill_scratch), scratch);
        match (load, insn.rm) {
            (Load::BeforeStack(size), _) => {
                self.job.code.load(scratch, Reg::RSP, 0);
                if size == 2 {
                    self.zero_extend_16(scratch);
                }
            }
            (Load::Before(size), Rm::Memory(operand)) => {
                self.load_operand(&operand, scratch, size);
            }
            (Load::Xlat, Rm::Memory(operand)) => self.load_table_byte(&operand, scratch),
            _ => {}
        }
        self.job.code.store(p, slot, scratch);
        self.job.code.load_gs(scratch, slot!(spill_scratch));
    }

    /// `movzx reg32, reg16`
    pub(super) fn zero_extend_16(&mut self, r: Reg) {
        let high = u8::from(r.0 >= 8);
        self.job.code.raw(&[
            0x40 | high << 2 | high,
            0x0f,
            0xb7,
            0xc0 | (r.0 & 7) << 3 | r.0 & 7,
        ]);
    }

    pub(super) fn probe_after(&mut self, load: Load, p: Reg, slot: i32) {
        match load {
            Load::After(register) => self.job.code.store(p, slot, register),
            Load::AfterXmm(n) => self.job.code.store_xmm_low(p, slot, n),
            Load::AfterPartRax(size) => {
                let scratch = if p == Reg::RBX { Reg::RBP } else { Reg::RBX };
                self.job.code.store_gs(slot!(spill_scratch), scratch);
                // movzx scratch, al or ax
                self.job.code.raw(&[
                    0x0f,
                    if size == 1 { 0xb6 } else { 0xb7 },
                    0xc0 | scratch.0 << 3,
                ]);
                self.job.code.store(p, slot, scratch);
                self.job.code.load_gs(scratch, slot!(spill_scratch));
            }
            Load::Before(_) | Load::BeforeStack(_) | Load::Xlat => {}
        }
    }

    /// The bytes of an instruction of the fragment being made.
    pub(super) fn bytes_of(&self, insn: &Insn) -> &'static [u8] {
        // SAFETY: the instruction was decoded from these bytes, and they are used before the app runs again.
        unsafe { core::slice::from_raw_parts(self.job.from.at(insn.pc()), insn.size()) }
    }

    /// Appends the bytes of an instruction as they are.
    pub(super) fn copy_bytes(&mut self, insn: &Insn) {
        let (at, len) = (self.job.from.at(insn.pc()) as u64, insn.size());
        if at & (PAGE - 1) <= PAGE - 16 {
            // SAFETY: the page holds code that was just decoded, and these 16 bytes are in it.
            let bytes = unsafe { (at as *const [u8; 16]).read() };
            self.job.code.some_of(&bytes, len);
        } else {
            // SAFETY: the instruction was decoded from these bytes.
            let bytes = unsafe { core::slice::from_raw_parts(at as *const u8, len) };
            self.job.code.slice(bytes);
        }
    }

    /// Copies an instruction. Says which register is in the slot for far operands if it faults.
    pub(super) fn copy(&mut self, insn: &Insn) -> Option<Reg> {
        let len = insn.size();
        let at = self.job.code.here();
        if insn.rip_disp == 0 {
            self.copy_bytes(insn);
            return None;
        }
        let Rm::Memory(Operand { base, disp, .. }) = insn.rm else {
            return None;
        };
        // An operand addressed by EIP wraps at 4 GiB; only its own encoding can do that.
        let rel = disp.wrapping_sub(self.job.code.at(at + len).0) as i64;
        if let (Ok(rel), false) = (i32::try_from(rel), base == Base::Eip) {
            self.copy_bytes(insn);
            let field = at + usize::from(insn.rip_disp);
            self.job.code.put_u32(field, rel as u32);
            self.note(Field::Relative, field);
            return None;
        }
        self.is_unfit();
        let pointer = free_register(insn.used | self.job.stolen.map_or(0, Reg::bit));
        // SAFETY: the instruction was decoded from these bytes.
        let bytes = unsafe { core::slice::from_raw_parts(self.job.from.at(insn.pc()), len) };
        let encoded = decode::rebased(bytes, insn.pc(), pointer);
        self.job.code.store_gs(slot!(spill_far), pointer);
        self.job.code.mov_imm(pointer, disp);
        self.job.code.slice(&encoded);
        self.job.code.load_gs(pointer, slot!(spill_far));
        Some(pointer)
    }
}

/// A register among the first eight that an instruction using `used` does not touch.
pub(super) fn free_register(used: u16) -> Reg {
    const ORDER: [u8; 7] = [0, 3, 6, 7, 2, 1, 5];
    ORDER
        .into_iter()
        .map(Reg)
        .find(|r| used & r.bit() == 0)
        .unwrap_or(Reg::RAX)
}
