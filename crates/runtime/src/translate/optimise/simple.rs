//! Simple instructions: what they are, and what they do to registers.

use iced_x86::{Code, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};

use super::general;
use crate::base::emit::Reg;

/// Returns true if it is one of the second bytes of the first four registers.
pub(super) fn is_second_byte(r: Register) -> bool {
    matches!(r, Register::AH | Register::BH | Register::CH | Register::DH)
}

/// Returns true if an instruction compares a first operand that may be any.
pub(super) fn compares_any(j: &Instruction) -> bool {
    let fixed = matches!(
        j.code(),
        Code::Cmp_AL_imm8
            | Code::Cmp_AX_imm16
            | Code::Cmp_EAX_imm32
            | Code::Cmp_RAX_imm32
            | Code::Test_AL_imm8
            | Code::Test_AX_imm16
            | Code::Test_EAX_imm32
            | Code::Test_RAX_imm32
    );
    matches!(j.mnemonic(), Mnemonic::Cmp | Mnemonic::Test) && !fixed
}

/// Returns true if an instruction does nothing but move, or compute, general registers, flags and its operand in memory,
/// and cannot fault for any other reason than that operand.
pub(super) fn is_simple(j: &Instruction) -> bool {
    use Mnemonic as M;
    let known = matches!(
        j.mnemonic(),
        M::Mov
            | M::Movzx
            | M::Movsx
            | M::Movsxd
            | M::Lea
            | M::Add
            | M::Sub
            | M::And
            | M::Or
            | M::Xor
            | M::Neg
            | M::Not
            | M::Inc
            | M::Dec
            | M::Cmp
            | M::Test
            | M::Imul
            | M::Shl
            | M::Shr
            | M::Sar
            | M::Rol
            | M::Ror
            | M::Cdqe
            | M::Cwde
            | M::Cdq
            | M::Cqo
            | M::Nop
    );
    let general = |k: u32| j.op_kind(k) != OpKind::Register || j.op_register(k).is_gpr();
    known && !j.has_lock_prefix() && (0..j.op_count()).all(general)
}

/// Returns true if a simple instruction computes its first operand of nothing but its operands.
pub(super) fn computes(j: &Instruction) -> bool {
    use Mnemonic as M;
    let by_constant = |k: u32| j.op_count() > k && j.op_kind(k) == OpKind::Immediate8;
    match j.mnemonic() {
        M::Mov | M::Movzx | M::Movsx | M::Movsxd | M::Lea | M::Add | M::Sub | M::And => true,
        M::Or | M::Xor | M::Neg | M::Not | M::Inc | M::Dec | M::Cdqe | M::Cwde => true,
        M::Imul => j.op_count() > 1,
        M::Shl | M::Shr | M::Sar | M::Rol | M::Ror => by_constant(1),
        _ => false,
    }
}

/// Returns true if it accesses memory.
pub(super) fn has_access(j: &Instruction) -> bool {
    let memory = (0..j.op_count()).any(|k| j.op_kind(k) == OpKind::Memory);
    memory && !matches!(j.mnemonic(), Mnemonic::Lea | Mnemonic::Nop)
}

/// Returns true if it leaves memory alone.
pub(super) fn is_pure(j: &Instruction) -> bool {
    let first = j.op_count() > 0 && j.op0_kind() == OpKind::Memory;
    !first || matches!(j.mnemonic(), Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Nop)
}

/// General registers that an instruction writes, or a part of them, or may write.
pub(super) fn written(j: &Instruction, info: &mut InstructionInfoFactory) -> u16 {
    let mut writes = 0;
    for used in info.info(j).used_registers() {
        let reads = matches!(
            used.access(),
            OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess | OpAccess::None
        );
        if !reads {
            writes |= general(used.register()).map_or(0, Reg::bit);
        }
    }
    writes
}

/// General registers whose value matters to an instruction, and those that it gives a new one as a whole.
pub(super) fn reads_and_kills(j: &Instruction, info: &mut InstructionInfoFactory) -> (u16, u16) {
    let (mut reads, mut kills) = (0, 0);
    for used in info.info(j).used_registers() {
        let (register, access) = (used.register(), used.access());
        let Some(r) = general(register) else { continue };
        let whole = register.is_gpr64() || register.is_gpr32();
        match access {
            OpAccess::Write if whole => kills |= r.bit(),
            OpAccess::ReadWrite if whole => {
                kills |= r.bit();
                reads |= r.bit();
            }
            OpAccess::NoMemAccess | OpAccess::None => {}
            _ => reads |= r.bit(),
        }
    }
    (reads, kills)
}
