//! App instructions copied, and their memory operands read for probes.
#![allow(unsafe_code)] // reason: reads the app's code.

use iced_x86::{Encoder, Instruction, Register};

use super::{PAGE, Translator};
use crate::decode::Insn;
use crate::emit::{Mem, Reg};
use crate::probe::{self, Load};
use crate::slot;

impl Translator {
    /// Loads `size` bytes of the memory operand of `i` into `to`, zero-extended.
    pub(super) fn load_operand(&mut self, i: &Instruction, to: Reg, size: u8) {
        let fs = i.segment_prefix() == Register::FS;
        if i.code() == iced_x86::Code::Xlat_m8 {
            // Its operand is implied: the byte at rbx + al.
            let rex = 0x40 | (u8::from(to.0 >= 8)) << 2;
            // movzx to, al
            self.code.raw(&[rex, 0x0f, 0xb6, 0xc0 | (to.0 & 7) << 3]);
            let mem = Mem {
                base: Some(Reg::RBX),
                index: Some((to, 0)),
                disp: 0,
                fs,
                short: i.memory_base() == Register::EBX,
            };
            return self.code.load_mem(to, 1, &mem);
        }
        let address = if i.is_ip_rel_memory_operand() {
            i.ip_rel_memory_address()
        } else {
            i.memory_displacement64()
        };
        let plain = !fs && i.memory_base() == Register::RIP;
        if plain && self.code.load_rip(to, size, address) {
            return;
        }
        let register = |r: Register| {
            r.is_gpr()
                .then(|| Reg((r.full_register() as u32 - Register::RAX as u32) as u8))
        };
        let disp = i32::try_from(address as i64);
        let mut mem = Mem {
            base: register(i.memory_base()),
            index: register(i.memory_index())
                .map(|r| (r, i.memory_index_scale().trailing_zeros() as u8)),
            disp: disp.unwrap_or(0),
            fs,
            short: i.memory_base().is_gpr32() || i.memory_index().is_gpr32(),
        };
        if i.is_ip_rel_memory_operand() || disp.is_err() {
            // Out of reach, or an absolute 64-bit address: through the register itself.
            self.code.mov_imm(to, address);
            mem.base = Some(to);
            mem.disp = 0;
        }
        self.code.load_mem(to, size, &mem);
    }

    pub(super) fn probe_before(&mut self, insn: &Insn, load: Load, p: Reg, slot: i32, used: u16) {
        let (Load::Before(size) | Load::BeforeStack(size)) = load else {
            return;
        };
        let scratch = free_register(used | p.bit());
        self.code.store_gs(slot!(spill_scratch), scratch);
        if matches!(load, Load::BeforeStack(_)) {
            self.code.load(scratch, Reg::RSP, 0);
            if size == 2 {
                self.zero_extend_16(scratch);
            }
        } else {
            self.load_operand(&insn.iced, scratch, size);
        }
        self.code.store(p, slot, scratch);
        self.code.load_gs(scratch, slot!(spill_scratch));
    }

    /// `movzx reg32, reg16`
    pub(super) fn zero_extend_16(&mut self, r: Reg) {
        let high = u8::from(r.0 >= 8);
        self.code.raw(&[
            0x40 | high << 2 | high,
            0x0f,
            0xb7,
            0xc0 | (r.0 & 7) << 3 | r.0 & 7,
        ]);
    }

    pub(super) fn probe_after(&mut self, load: Load, p: Reg, slot: i32) {
        match load {
            Load::After(register) => self.code.store(p, slot, register),
            Load::AfterXmm(n) => self.code.store_xmm_low(p, slot, n),
            Load::AfterPartRax(size) => {
                let scratch = if p == Reg::RBX { Reg::RBP } else { Reg::RBX };
                self.code.store_gs(slot!(spill_scratch), scratch);
                // movzx scratch, al or ax
                self.code.raw(&[
                    0x0f,
                    if size == 1 { 0xb6 } else { 0xb7 },
                    0xc0 | scratch.0 << 3,
                ]);
                self.code.store(p, slot, scratch);
                self.code.load_gs(scratch, slot!(spill_scratch));
            }
            Load::Before(_) | Load::BeforeStack(_) => {}
        }
    }

    /// Appends the bytes of an instruction as they are.
    pub(super) fn copy_bytes(&mut self, insn: &Insn) {
        let (at, len) = (insn.pc().0, insn.iced.len());
        if at & (PAGE - 1) <= PAGE - 16 {
            // SAFETY: the page holds code that was just decoded, and these 16 bytes are in it.
            let bytes = unsafe { (at as *const [u8; 16]).read() };
            self.code.some_of(&bytes, len);
        } else {
            // SAFETY: the instruction was decoded from these bytes.
            let bytes = unsafe { core::slice::from_raw_parts(at as *const u8, len) };
            self.code.slice(bytes);
        }
    }

    /// Copies an instruction. Says which register is in the slot for far operands if it faults.
    pub(super) fn copy(&mut self, insn: &Insn) -> Option<Reg> {
        let len = insn.iced.len();
        let at = self.code.here();
        if insn.rip_disp == 0 {
            self.copy_bytes(insn);
            return None;
        }
        let address = insn.iced.ip_rel_memory_address();
        // An operand addressed by EIP wraps at 4 GiB; only its own encoding can do that.
        let rel = address.wrapping_sub(self.code.at(at + len).0) as i64;
        if let (Ok(rel), false) = (i32::try_from(rel), insn.iced.memory_base() == Register::EIP) {
            self.copy_bytes(insn);
            self.code
                .put_u32(at + usize::from(insn.rip_disp), rel as u32);
            return None;
        }
        let used =
            probe::registers_used(&mut self.info, &insn.iced) | self.stolen.map_or(0, Reg::bit);
        let base = free_register(used);
        let mut far = insn.iced;
        far.set_memory_base(Register::RAX + u32::from(base.0));
        far.set_memory_displacement64(0);
        far.set_memory_displ_size(0);
        self.code.store_gs(slot!(spill_far), base);
        self.code.mov_imm(base, address);
        // Made when first needed: its tables are large.
        let encoder = self.encoder.get_or_insert_with(|| Encoder::new(64));
        let _ = encoder.encode(&far, 0);
        let encoded = encoder.take_buffer();
        self.code.slice(&encoded);
        self.code.load_gs(base, slot!(spill_far));
        Some(base)
    }
}

/// A register among the first eight that an instruction using `used` does not touch.
fn free_register(used: u16) -> Reg {
    const ORDER: [u8; 7] = [0, 3, 6, 7, 2, 1, 5];
    ORDER
        .into_iter()
        .map(Reg)
        .find(|r| used & r.bit() == 0)
        .unwrap_or(Reg::RAX)
}
