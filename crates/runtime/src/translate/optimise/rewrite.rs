//! Instructions with a register in the place of their operand in memory.

use alloc::vec::Vec;

use iced_x86::{Code, Encoder, Instruction, Mnemonic, OpKind, Register};

use super::{Renewal, keep};
use crate::base::emit::Reg;

/// Use of an instruction's operand in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// It reads it.
    Read,
    /// It gives it a new value, and does nothing else.
    Write,
    /// It reads and writes it.
    Change,
}

impl Form {
    pub(super) fn writes(self) -> bool {
        self != Self::Read
    }
}

/// An instruction that a trace with promoted registers is not made with: it may write what nothing says, or needs the flow
/// of control as it is.
pub(super) fn is_strange(i: &Instruction) -> bool {
    use Mnemonic as M;
    matches!(
        i.mnemonic(),
        M::Xsave
            | M::Xsave64
            | M::Xsavec
            | M::Xsavec64
            | M::Xsaveopt
            | M::Xsaveopt64
            | M::Enter
            | M::Syscall
            | M::Xbegin
            | M::Xend
    )
}

/// Returns the use of an instruction's operand in memory, if it can do the same to a general register.
pub(super) fn form(i: &Instruction) -> Option<Form> {
    use Mnemonic as M;
    if i.has_lock_prefix() {
        return None;
    }
    let first = i.op0_kind() == OpKind::Memory;
    let second = i.op_count() > 1 && i.op1_kind() == OpKind::Memory;
    let general = |n: u32| i.op_kind(n) != OpKind::Register || i.op_register(n).is_gpr();
    if !(0..i.op_count()).all(general) {
        return None;
    }
    match i.mnemonic() {
        M::Mov if first => Some(Form::Write),
        M::Cmp | M::Test if first || second => Some(Form::Read),
        M::Mov | M::Movzx | M::Movsx | M::Movsxd if second => Some(Form::Read),
        M::Add | M::Sub | M::And | M::Or | M::Xor | M::Adc | M::Sbb | M::Imul if second => {
            Some(Form::Read)
        }
        M::Imul | M::Mul | M::Div | M::Idiv if first => Some(Form::Read),
        M::Push if first && i.code() == Code::Push_rm64 => Some(Form::Read),
        M::Add | M::Sub | M::And | M::Or | M::Xor | M::Adc | M::Sbb if first => Some(Form::Change),
        M::Inc | M::Dec | M::Neg | M::Not if first => Some(Form::Change),
        M::Shl | M::Shr | M::Sar | M::Rol | M::Ror if first => Some(Form::Change),
        _ if second && is_conditional_move(i.mnemonic()) => Some(Form::Read),
        _ => None,
    }
}

fn is_conditional_move(m: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        m,
        M::Cmova
            | M::Cmovae
            | M::Cmovb
            | M::Cmovbe
            | M::Cmove
            | M::Cmovg
            | M::Cmovge
            | M::Cmovl
            | M::Cmovle
            | M::Cmovne
            | M::Cmovno
            | M::Cmovnp
            | M::Cmovns
            | M::Cmovo
            | M::Cmovp
            | M::Cmovs
    )
}

/// The part of a register that has `size` bytes.
pub(super) fn part(register: Reg, size: usize) -> Register {
    let first = match size {
        1 => return byte(register),
        2 => Register::AX,
        4 => Register::EAX,
        _ => Register::RAX,
    };
    first + u32::from(register.0)
}

fn byte(register: Reg) -> Register {
    match register.0 {
        // Without the second bytes of the first four registers.
        n @ 0..=3 => Register::AL + u32::from(n),
        n => Register::SPL + u32::from(n - 4),
    }
}

pub(super) fn encoded(out: &mut Vec<u8>, i: &Instruction) -> Option<()> {
    let mut encoder = Encoder::new(64);
    encoder.encode(i, 0).ok()?;
    out.extend_from_slice(&encoder.take_buffer());
    Some(())
}

/// `mov to, from`
pub(super) fn copy(to: Reg, from: Reg) -> Option<Vec<u8>> {
    let (to, from) = (part(to, 8), part(from, 8));
    let mut out = Vec::new();
    encoded(
        &mut out,
        &Instruction::with2(Code::Mov_r64_rm64, to, from).ok()?,
    )?;
    Some(out)
}

/// `op memory, register` with the memory operand of an instruction.
fn with_memory(i: &Instruction, codes: [Code; 4], register: Reg, first: bool) -> Option<Vec<u8>> {
    let size = i.memory_size().size();
    let mut j = *i;
    j.set_code(codes[size.trailing_zeros() as usize]);
    let (memory, other) = if first { (0, 1) } else { (1, 0) };
    j.set_op_kind(memory, OpKind::Memory);
    j.set_op_kind(other, OpKind::Register);
    j.set_op_register(other, part(register, size));
    let mut out = Vec::new();
    encoded(&mut out, &j)?;
    Some(out)
}

/// Returns code that does to `register` what an instruction does to its operand in memory, and to memory what it writes
/// there ([`Form::Change`]). `None` if that cannot be encoded.
pub(super) fn with_register(i: &Instruction, register: Reg, form: Form) -> Option<Vec<u8>> {
    let n = (0..i.op_count()).find(|&n| i.op_kind(n) == OpKind::Memory)?;
    let mut j = *i;
    j.set_op_kind(n, OpKind::Register);
    j.set_op_register(n, part(register, i.memory_size().size()));
    let mut out = Vec::new();
    encoded(&mut out, &j)?;
    if form == Form::Change {
        const STORE: [Code; 4] = [
            Code::Mov_rm8_r8,
            Code::Mov_rm16_r16,
            Code::Mov_rm32_r32,
            Code::Mov_rm64_r64,
        ];
        out.extend_from_slice(&with_memory(i, STORE, register, true)?);
    }
    Some(out)
}

/// Returns true if an instruction gives all status flags new values, whatever they were, and cannot fault once its
/// operand is a register.
pub(super) fn overwrites_flags(i: &Instruction) -> bool {
    use Mnemonic as M;
    matches!(
        i.mnemonic(),
        M::Add | M::Sub | M::Cmp | M::Test | M::And | M::Or | M::Xor | M::Neg
    )
}

/// Returns true if nothing can happen from an instruction, done to a register, to the end of the next, which overwrites flags.
pub(super) fn can_be_joined(i: &Instruction, next: Option<&Instruction>) -> bool {
    use Mnemonic as M;
    let quiet = matches!(i.mnemonic(), M::Mov | M::Movzx | M::Movsx | M::Movsxd);
    let in_registers = |j: &&Instruction| {
        (0..j.op_count()).all(|n| j.op_kind(n) != OpKind::Memory) && overwrites_flags(j)
    };
    quiet && next.filter(in_registers).is_some()
}

/// `mov register, memory`, with the memory operand of an instruction.
pub(super) fn load(i: &Instruction, register: Reg) -> Option<Vec<u8>> {
    const LOAD: [Code; 4] = [
        Code::Mov_r8_rm8,
        Code::Mov_r16_rm16,
        Code::Mov_r32_rm32,
        Code::Mov_r64_rm64,
    ];
    with_memory(i, LOAD, register, false)
}

/// Code that gives `register` what the operand in memory holds; `free`: flags may be destroyed.
pub(super) fn renewal(
    i: &Instruction,
    register: Reg,
    free: bool,
    code: &mut Vec<u8>,
) -> Option<Renewal> {
    const COMPARE: [Code; 4] = [
        Code::Cmp_r8_rm8,
        Code::Cmp_r16_rm16,
        Code::Cmp_r32_rm32,
        Code::Cmp_r64_rm64,
    ];
    let load = keep(code, &load(i, register)?);
    if !free {
        return Some(Renewal::Load(load));
    }
    let compare = with_memory(i, COMPARE, register, false)?;
    Some(Renewal::Compare(keep(code, &compare), load))
}
