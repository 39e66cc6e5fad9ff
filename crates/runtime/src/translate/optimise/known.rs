//! Knowledge about registers at a place of the second round: copies of promoted registers, and values that are the same in each round.

use iced_x86::{Code, Instruction, Mnemonic, OpKind, Register};

use super::simple::{compares_any, is_second_byte};
use super::{general, rewrite};
use crate::base::emit::Reg;

/// Knowledge at a place of the second round.
#[derive(Clone)]
pub(super) struct Known {
    /// Registers whose value is the same in each round.
    pub(super) values: [Option<u32>; 16],
    /// Registers that hold the value of a promoted register, in so many bytes.
    pub(super) copies: [Option<(Reg, usize)>; 16],
}

impl Known {
    /// Replaces copies of promoted registers by the registers themselves in an instruction.
    pub(super) fn propagate(&self, j: &mut Instruction) -> bool {
        use Mnemonic as M;
        let copy = |r: Register| {
            let copy = self.copies[usize::from(general(r)?.0)];
            copy.filter(|c| !is_second_byte(r) && c.1 >= r.size())
                .map(|c| rewrite::part(c.0, r.size()))
        };
        if j.mnemonic() == M::Cdqe
            && let Some(source) = copy(Register::EAX)
        {
            let ip = j.next_ip();
            if let Ok(i) = Instruction::with2(Code::Movsxd_r64_rm32, Register::RAX, source) {
                *j = i;
                j.set_next_ip(ip);
                return true;
            }
        }
        let mut changed = false;
        let shifts = matches!(j.mnemonic(), M::Shl | M::Shr | M::Sar | M::Rol | M::Ror);
        let first = u32::from(!compares_any(j));
        for k in first..j.op_count() {
            if j.op_kind(k) == OpKind::Register
                && !shifts
                && let Some(source) = copy(j.op_register(k))
            {
                j.set_op_register(k, source);
                changed = true;
            }
        }
        if j.mnemonic() == M::Lea && !j.is_ip_rel_memory_operand() {
            if let Some(source) = copy(j.memory_base()).filter(|r| r.is_gpr64()) {
                j.set_memory_base(source);
                changed = true;
            }
            if let Some(source) = copy(j.memory_index()).filter(|r| r.is_gpr64()) {
                j.set_memory_index(source);
                changed = true;
            }
        }
        changed
    }

    /// Passes an instruction that writes these registers.
    pub(super) fn pass(
        &mut self,
        j: &Instruction,
        writes: u16,
        promoted: u16,
        value: Option<(Reg, u32)>,
    ) {
        for r in (0..16).map(Reg) {
            let copy = &mut self.copies[usize::from(r.0)];
            if (r.bit() | copy.map_or(0, |c| c.0.bit())) & writes != 0 {
                *copy = None;
            }
            if r.bit() & writes != 0 {
                self.values[usize::from(r.0)] = None;
            }
        }
        if let Some((r, id)) = value {
            self.values[usize::from(r.0)] = Some(id);
        }
        let moves = j.mnemonic() == Mnemonic::Mov
            && j.op0_kind() == OpKind::Register
            && j.op1_kind() == OpKind::Register;
        let (to, from) = (j.op0_register(), j.op1_register());
        if moves
            && (to.is_gpr32() || to.is_gpr64())
            && let (Some(r), Some(source)) = (general(to), general(from))
            && promoted & source.bit() != 0
            && r != source
        {
            self.copies[usize::from(r.0)] = Some((source, to.size()));
        }
    }
}
