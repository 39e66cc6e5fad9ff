//! Effects of instructions on flags and registers, for traces.

use iced_x86::{
    Code, Decoder, DecoderOptions, Instruction, InstructionInfoFactory, InstructionInfoOptions,
    Mnemonic, OpAccess, OpKind, Register, RflagsBits,
};

use super::full::gpr;
use crate::base::address::AppPc;
use crate::base::emit::Reg;
use crate::base::recipe::{Op, Recipe, Right};

/// Effect of an instruction on flags and registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effect {
    /// True if the instruction gives all status flags new values, whatever they were.
    pub(crate) overwrites: bool,
    /// True if the instruction depends on a status flag, or leaves or may leave one as it was and changes another.
    pub(crate) reads: bool,
    /// True if the instruction changes some status flags, or may.
    pub(crate) modifies: bool,
    /// Recipe of the flags that the instruction leaves, from what it leaves in registers.
    pub(crate) recipe: Option<Recipe>,
    /// General registers that the instruction writes.
    pub(crate) writes: u16,
    /// Change of `rsp`, if the instruction changes it by a known constant.
    pub(crate) moves_stack: Option<i32>,
}

/// The flags that arithmetic leaves.
pub(crate) const STATUS: u32 = RflagsBits::OF
    | RflagsBits::SF
    | RflagsBits::ZF
    | RflagsBits::AF
    | RflagsBits::CF
    | RflagsBits::PF;

/// The effect of the instruction at the start of `code`.
pub(crate) fn effect(code: &[u8], pc: AppPc) -> Effect {
    use Mnemonic as M;
    let i = Decoder::with_ip(64, code, pc.0, DecoderOptions::NONE).decode();
    // Those of which it is certain, on every processor.
    let overwrites = matches!(
        i.mnemonic(),
        M::Add | M::Sub | M::Cmp | M::Test | M::And | M::Or | M::Xor | M::Neg
    );
    let modifies = i.rflags_modified() & STATUS != 0;
    let touched = modifies || i.rflags_read() & STATUS != 0;
    let mut info = InstructionInfoFactory::new();
    let info = info.info_options(&i, InstructionInfoOptions::NO_MEMORY_USAGE);
    let mut writes = 0;
    for used in info.used_registers() {
        let written = !matches!(
            used.access(),
            OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess | OpAccess::None
        );
        if written && let Some(r) = gpr(used.register()) {
            writes |= r.bit();
        }
    }
    Effect {
        overwrites,
        reads: touched && !overwrites || matches!(i.code(), Code::Syscall),
        modifies,
        recipe: if overwrites { recipe(&i) } else { None },
        writes,
        moves_stack: moves_stack(&i),
    }
}

fn moves_stack(i: &Instruction) -> Option<i32> {
    use Mnemonic as M;
    let into_stack = i.op_count() > 0
        && i.op0_kind() == OpKind::Register
        && i.op0_register().full_register() == Register::RSP;
    match i.mnemonic() {
        M::Push | M::Call | M::Ret => Some(i.stack_pointer_increment()),
        M::Pop if !into_stack => Some(i.stack_pointer_increment()),
        M::Lea if i.code() == Code::Lea_r64_m && into_stack => {
            let plain = i.memory_base() == Register::RSP && i.memory_index() == Register::None;
            plain
                .then(|| i32::try_from(i.memory_displacement64() as i64).ok())
                .flatten()
        }
        _ => None,
    }
}

/// A general register by its number, and its size, unless it is the second byte of one.
fn operand(register: Register) -> Option<(Reg, u8)> {
    let second = matches!(
        register,
        Register::AH | Register::BH | Register::CH | Register::DH
    );
    let reg = gpr(register).filter(|_| !second)?;
    Some((reg, register.size() as u8))
}

fn recipe(i: &Instruction) -> Option<Recipe> {
    use Mnemonic as M;
    if i.op0_kind() != OpKind::Register {
        return None;
    }
    let (left, size) = operand(i.op0_register())?;
    let zeroed = i.mnemonic() == M::Sub
        && i.op1_kind() == OpKind::Register
        && i.op1_register() == i.op0_register();
    // Whose flags tell of the result alone.
    let of_result = Recipe {
        op: Op::Test,
        size,
        left,
        adjust: 0,
        right: Right::Register(left),
    };
    match i.mnemonic() {
        M::And | M::Or | M::Xor => return Some(of_result),
        M::Sub if zeroed => return Some(of_result),
        _ => {}
    }
    let right = match i.op1_kind() {
        OpKind::Register => {
            let (right, same) = operand(i.op1_register())?;
            (same == size).then_some(Right::Register(right))?
        }
        OpKind::Memory => return None,
        _ => {
            let value = i.try_immediate(1).ok()?;
            Right::Constant(match size {
                1 => i32::from(value as i8),
                2 => i32::from(value as i16),
                4 => value as i32,
                _ => i32::try_from(value as i64).ok()?,
            })
        }
    };
    let (op, adjust) = match (i.mnemonic(), right) {
        (M::Cmp, _) => (Op::Compare, 0),
        (M::Test, _) => (Op::Test, 0),
        (M::Add, Right::Constant(c)) if size >= 4 => (Op::Add, c.checked_neg()?),
        (M::Sub, Right::Constant(c)) if size >= 4 => (Op::Compare, c),
        _ => return None,
    };
    Some(Recipe {
        op,
        size,
        left,
        adjust,
        right,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> Effect {
        effect(bytes, AppPc(0x40_0000))
    }

    #[test]
    fn flags_that_can_be_made_again_have_recipes() {
        let recipe = |op, size, left, adjust, right| {
            Some(Recipe {
                op,
                size,
                left,
                adjust,
                right,
            })
        };
        let c = Right::Constant;
        let r = Right::Register;
        let (sp, ax, bx, di) = (Reg::RSP, Reg::RAX, Reg::RBX, Reg::RDI);
        for (bytes, wanted) in [
            // add rsp, 0x18
            (
                &[0x48, 0x83, 0xc4, 0x18][..],
                recipe(Op::Add, 8, sp, -0x18, c(0x18)),
            ),
            // sub rdi, 0x10
            (
                &[0x48, 0x83, 0xef, 0x10],
                recipe(Op::Compare, 8, di, 0x10, c(0x10)),
            ),
            // cmp ebx, -1
            (&[0x83, 0xfb, 0xff], recipe(Op::Compare, 4, bx, 0, c(-1))),
            // test al, al; xor eax, eax; and rax, [rbx]
            (&[0x84, 0xc0], recipe(Op::Test, 1, ax, 0, r(ax))),
            (&[0x31, 0xc0], recipe(Op::Test, 4, ax, 0, r(ax))),
            (&[0x48, 0x23, 0x03], recipe(Op::Test, 8, ax, 0, r(ax))),
            // cmp ah, 1; cmp rax, [rbx]; add rax, rbx; neg rax
            (&[0x80, 0xfc, 0x01], None),
            (&[0x48, 0x3b, 0x03], None),
            (&[0x48, 0x01, 0xd8], None),
            (&[0x48, 0xf7, 0xd8], None),
        ] {
            let effect = of(bytes);
            assert!(effect.overwrites && !effect.reads, "{bytes:x?}");
            assert_eq!(effect.recipe, wanted, "{bytes:x?}");
        }
    }

    #[test]
    fn what_depends_on_flags_or_leaves_some_looks_at_them() {
        // inc eax, shl eax, cl, adc eax, 0, pushf, sete al, je, cmovne eax, ebx, syscall
        for bytes in [
            &[0xff, 0xc0][..],
            &[0xd3, 0xe0],
            &[0x83, 0xd0, 0x00],
            &[0x9c],
            &[0x0f, 0x94, 0xc0],
            &[0x74, 0x00],
            &[0x0f, 0x45, 0xc3],
            &[0x0f, 0x05],
        ] {
            let effect = of(bytes);
            assert!(effect.reads && !effect.overwrites, "{bytes:x?}");
        }
        // mov rax, rbx and lea leave them alone.
        for bytes in [&[0x48, 0x89, 0xd8][..], &[0x48, 0x8d, 0x43, 0x01]] {
            let effect = of(bytes);
            assert!(!effect.reads && !effect.modifies && effect.writes == Reg::RAX.bit());
        }
    }

    #[test]
    fn the_stack_pointer_moves_as_said() {
        for (bytes, by) in [
            (&[0x53][..], Some(-8)),
            (&[0x5b], Some(8)),
            (&[0xc3], Some(8)),
            (&[0xc2, 0x08, 0x00], Some(16)),
            (&[0xe8, 0, 0, 0, 0], Some(-8)),
            // lea rsp, [rsp + 0x20]; lea rsp, [rbp]; pop rsp; mov rsp, rax
            (&[0x48, 0x8d, 0x64, 0x24, 0x20], Some(0x20)),
            (&[0x48, 0x8d, 0x65, 0x00], None),
            (&[0x5c], None),
            (&[0x48, 0x89, 0xc4], None),
        ] {
            assert_eq!(of(bytes).moves_stack, by, "{bytes:x?}");
            assert!(of(bytes).writes & Reg::RSP.bit() != 0, "{bytes:x?}");
        }
    }
}
