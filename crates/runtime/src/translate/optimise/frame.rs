//! Registers that point into the stack frame, and their distances.

use alloc::vec::Vec;

use iced_x86::{
    Code, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register, UsedMemory,
};

use super::{Access, general};

/// Knowledge about the frame at a place of the trace. Distances are from the stack pointer at its start.
#[derive(Clone)]
pub(super) struct Frame {
    registers: [Option<i64>; 16],
    /// Eight bytes of the frame that hold such an address: where, and which.
    saved: Vec<(i64, i64)>,
}

impl Frame {
    /// Creates the state at the start; `frame`: by how much the frame pointer is above the stack pointer.
    pub(super) fn new(frame: Option<i64>) -> Self {
        let mut registers = [None; 16];
        registers[4] = Some(0);
        registers[5] = frame;
        Self {
            registers,
            saved: Vec::new(),
        }
    }

    /// Returns true if the two pointers are as they were.
    pub(super) fn is_as_at_start(&self, frame: Option<i64>) -> bool {
        self.registers[4] == Some(0) && (frame.is_none() || self.registers[5] == frame)
    }

    fn value(&self, register: Register) -> Option<i64> {
        let whole = register.is_gpr64();
        general(register)
            .filter(|_| whole)
            .and_then(|r| self.registers[usize::from(r.0)])
    }

    /// Returns the place of an access in the frame.
    pub(super) fn address(&self, used: &UsedMemory) -> Option<i64> {
        let flat = !matches!(used.segment(), Register::FS | Register::GS);
        let plain = flat && used.index() == Register::None;
        let base = self.value(used.base()).filter(|_| plain)?;
        base.checked_add(used.displacement() as i64)
    }

    /// Returns the place of the operand in memory in the frame.
    pub(super) fn operand(&self, i: &Instruction) -> Option<i64> {
        let memory = (0..i.op_count()).any(|n| i.op_kind(n) == OpKind::Memory);
        let plain =
            memory && i.segment_prefix() == Register::None && i.memory_index() == Register::None;
        let base = self.value(i.memory_base()).filter(|_| plain)?;
        base.checked_add(i.memory_displacement64() as i64)
    }

    fn put(&mut self, register: Register, value: Option<i64>) {
        if let Some(r) = general(register) {
            self.registers[usize::from(r.0)] = value;
        }
    }

    fn load(&self, offset: Option<i64>) -> Option<i64> {
        let offset = offset?;
        self.saved.iter().find(|s| s.0 == offset).map(|s| s.1)
    }

    fn forget(&mut self, access: &Access) {
        let written = match access.form {
            Some((slot, form)) if form.writes() => Some((slot.offset, u64::from(slot.size))),
            _ => access.writes,
        };
        let (from, len) = match written {
            _ if access.wild => return self.saved.clear(),
            Some(written) => written,
            None => return,
        };
        let end = from.saturating_add_unsigned(len);
        self.saved.retain(|&(at, _)| at + 8 <= from || end <= at);
    }

    /// Passes an instruction.
    pub(super) fn pass(
        &mut self,
        i: &Instruction,
        info: &mut InstructionInfoFactory,
        access: &Access,
    ) {
        use Mnemonic as M;
        let sp = self.registers[4];
        let fp = self.registers[5];
        let to = i.op0_register();
        let into_register = i.op_count() > 0 && i.op0_kind() == OpKind::Register;
        // What the destination holds, where that can be said.
        let value = match i.code() {
            Code::Mov_r64_rm64 | Code::Mov_rm64_r64 if i.op1_kind() == OpKind::Register => {
                self.value(i.op1_register())
            }
            Code::Mov_r64_rm64 => self.load(self.operand(i)),
            Code::Lea_r64_m => self.operand(i),
            Code::Pop_r64 => self.load(sp),
            Code::Add_rm64_imm8 | Code::Add_rm64_imm32 | Code::Add_RAX_imm32 if into_register => {
                self.value(to)
                    .and_then(|v| v.checked_add(i.immediate(1) as i64))
            }
            Code::Sub_rm64_imm8 | Code::Sub_rm64_imm32 | Code::Sub_RAX_imm32 if into_register => {
                self.value(to)
                    .and_then(|v| v.checked_sub(i.immediate(1) as i64))
            }
            _ => None,
        };
        let stored = match i.code() {
            Code::Mov_rm64_r64 if !into_register => {
                self.operand(i).zip(self.value(i.op1_register()))
            }
            Code::Push_r64 => sp.map(|sp| sp - 8).zip(self.value(to)),
            _ => None,
        };
        let left = self.load(fp);
        self.forget(access);
        if let Some(stored) = stored {
            self.saved.push(stored);
        }
        for used in info.info(i).used_registers() {
            let kept = matches!(
                used.access(),
                OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess | OpAccess::None
            );
            if !kept {
                self.put(used.register(), None);
            }
        }
        match i.mnemonic() {
            M::Push | M::Call | M::Ret => {
                self.registers[4] = sp.map(|sp| sp + i64::from(i.stack_pointer_increment()));
            }
            M::Leave if i.code() == Code::Leaveq => {
                self.registers[4] = fp.map(|fp| fp + 8);
                self.registers[5] = left;
            }
            M::Pop => {
                self.registers[4] = sp.map(|sp| sp + i64::from(i.stack_pointer_increment()));
                self.put(to, None);
                if i.code() == Code::Pop_r64 {
                    self.put(to, value);
                }
            }
            _ if value.is_some() => self.put(to, value),
            _ => {}
        }
    }
}
