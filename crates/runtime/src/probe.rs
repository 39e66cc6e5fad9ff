//! Which instructions are events, and how a run-time value is read.
//!
//! The definitions are the project's contract (`docs/events.md`). Branches and calls are told by
//! their class alone; this module decides which instructions are *loads*, and how the probe of
//! each gets at the memory operand's value, zero-extended to 64 bits.
//!
//! A load whose whole destination register is exactly that value afterwards ([`Load::After`]) is
//! recorded from the register: one store. Any other ([`Load::Before`]) is read a second time, into
//! a scratch register, just before the instruction itself. If that read faults, the app's own
//! would have, at the same address, and no register has changed yet.

use iced_x86::{
    Code, ConditionCode, FlowControl, Instruction, InstructionInfoFactory, InstructionInfoOptions,
    MemorySize, Mnemonic, OpAccess, OpKind, Register,
};

use crate::decode::{Class, Insn};
use crate::emit::Reg;

/// How a load's value is obtained.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Load {
    /// From this general register, after the instruction.
    After(Reg),
    /// From the low half of this vector register, after the instruction.
    AfterXmm(u8),
    /// From the low byte or word of `rax`, after the instruction (`lodsb`, `lodsw`), as bytes.
    AfterPartRax(u8),
    /// By reading this many bytes (1, 2, 4 or 8) of the memory operand before the instruction.
    Before(u8),
    /// By reading the top of the stack before the instruction (`pop` into `rsp` or 16 bits).
    BeforeStack(u8),
}

/// General registers an instruction reads or writes, in part or whole, as a mask.
pub fn registers_used(info: &mut InstructionInfoFactory, i: &Instruction) -> u16 {
    match implied(i) {
        Some(implied) => implied | registers_named(i),
        None => info
            .info_options(i, InstructionInfoOptions::NO_MEMORY_USAGE)
            .used_registers()
            .iter()
            .fold(0, |mask, used| {
                mask | gpr(used.register()).map_or(0, Reg::bit)
            }),
    }
}

/// Those that are operands, or part of the memory operand's address.
fn registers_named(i: &Instruction) -> u16 {
    let bit = |r| gpr(r).map_or(0, Reg::bit);
    let operands = (0..i.op_count())
        .filter(|&n| i.op_kind(n) == OpKind::Register)
        .fold(0, |mask, n| mask | bit(i.op_register(n)));
    operands | bit(i.memory_base()) | bit(i.memory_index())
}

/// The general register that an instruction gives a new value without a look at the old one, if it
/// is one of those for which that is easily told.
pub fn overwrites(i: &Instruction) -> Option<Reg> {
    use Mnemonic as M;
    if i.op_count() == 0 || i.op0_kind() != OpKind::Register || i.op0_register().size() < 4 {
        return None;
    }
    let to = gpr(i.op0_register())?;
    let used = |r| gpr(r) == Some(to);
    let by_operand = i.op_count() > 1 && i.op1_kind() == OpKind::Register;
    let read =
        used(i.memory_base()) || used(i.memory_index()) || (by_operand && used(i.op1_register()));
    let zeroed = by_operand && i.op1_register() == i.op0_register();
    match i.mnemonic() {
        M::Mov | M::Movzx | M::Movsx | M::Movsxd | M::Lea if !read => Some(to),
        M::Pop if to != Reg::RSP => Some(to),
        M::Xor | M::Sub if zeroed => Some(to),
        _ => None,
    }
}

/// Registers used without being named, of the instructions that programs mostly consist of. Asking
/// iced-x86 takes longer than decoding.
fn implied(i: &Instruction) -> Option<u16> {
    use Mnemonic as M;
    Some(match i.mnemonic() {
        M::Push | M::Pop | M::Call | M::Ret if i.op_count() <= 1 => Reg::RSP.bit(),
        M::Imul if i.op_count() >= 2 => 0,
        M::Mov | M::Movzx | M::Movsx | M::Movsxd | M::Lea | M::Xchg | M::Bswap => 0,
        M::Add | M::Sub | M::Adc | M::Sbb | M::And | M::Or | M::Xor | M::Cmp | M::Test => 0,
        M::Inc | M::Dec | M::Neg | M::Not | M::Nop | M::Endbr64 | M::Jmp => 0,
        M::Shl | M::Shr | M::Sar | M::Rol | M::Ror | M::Shld | M::Shrd | M::Bt | M::Bts => 0,
        M::Bsf | M::Bsr | M::Tzcnt | M::Lzcnt | M::Popcnt | M::Andn | M::Blsr | M::Bzhi => 0,
        M::Movups | M::Movaps | M::Movupd | M::Movapd | M::Movdqu | M::Movdqa | M::Movss => 0,
        M::Movd | M::Movq | M::Movhps | M::Movlps | M::Movhpd | M::Movlpd | M::Pxor => 0,
        M::Movsd if !i.is_string_instruction() => 0,
        M::Pcmpeqb | M::Pminub | M::Pmovmskb | M::Por | M::Pand | M::Punpcklqdq => 0,
        M::Addsd | M::Subsd | M::Mulsd | M::Divsd | M::Ucomisd | M::Comisd | M::Cvtsi2sd => 0,
        M::Vmovdqu | M::Vmovdqa | M::Vmovups | M::Vmovaps | M::Vpxor | M::Vpcmpeqb => 0,
        M::Vpor | M::Vpminub | M::Vpmovmskb | M::Vmovd | M::Vmovq => 0,
        _ if i.condition_code() != ConditionCode::None && !i.is_loopcc() => 0,
        _ => return None,
    })
}

fn gpr(register: Register) -> Option<Reg> {
    register
        .is_gpr()
        .then(|| Reg((register.full_register() as u32 - Register::RAX as u32) as u8))
}

fn writes_register(info: &mut InstructionInfoFactory, i: &Instruction) -> bool {
    info.info_options(i, InstructionInfoOptions::NO_MEMORY_USAGE)
        .used_registers()
        .iter()
        .any(|used| {
            let r = used.register();
            let data = (r.is_gpr() && r != Register::RSP)
                || r.is_vector_register()
                || r.is_mm()
                || r.is_k();
            data && matches!(
                used.access(),
                OpAccess::Write
                    | OpAccess::CondWrite
                    | OpAccess::ReadWrite
                    | OpAccess::ReadCondWrite
            )
        })
}

/// Whether x87 arithmetic and loads with a memory operand put it on the register stack.
fn is_x87_load(i: &Instruction) -> bool {
    use Mnemonic as M;
    matches!(
        i.mnemonic(),
        M::Fld
            | M::Fild
            | M::Fbld
            | M::Fadd
            | M::Fsub
            | M::Fsubr
            | M::Fmul
            | M::Fdiv
            | M::Fdivr
            | M::Fiadd
            | M::Fisub
            | M::Fisubr
            | M::Fimul
            | M::Fidiv
            | M::Fidivr
    )
}

/// Instructions whose memory operand is no plain load: masked, scattered, control state, segments.
fn is_special(i: &Instruction) -> bool {
    use Mnemonic as M;
    i.has_op_mask()
        || i.is_vsib()
        || i.memory_size() == MemorySize::Unknown
        || matches!(
            i.mnemonic(),
            M::Push
                | M::Cmpxchg
                | M::Cmpxchg8b
                | M::Cmpxchg16b
                | M::Vmaskmovps
                | M::Vmaskmovpd
                | M::Vpmaskmovd
                | M::Vpmaskmovq
                | M::Lds
                | M::Les
                | M::Lfs
                | M::Lgs
                | M::Lss
        )
}

/// Whether the whole destination register is the zero-extended value afterwards.
fn is_plain_gpr_load(i: &Instruction) -> bool {
    use Code as C;
    matches!(
        i.code(),
        C::Mov_r64_rm64
            | C::Mov_r32_rm32
            | C::Mov_RAX_moffs64
            | C::Mov_EAX_moffs32
            | C::Movzx_r32_rm8
            | C::Movzx_r32_rm16
            | C::Movzx_r64_rm8
            | C::Movzx_r64_rm16
            | C::Xadd_rm64_r64
            | C::Xadd_rm32_r32
    )
}

fn is_plain_xmm_load(i: &Instruction) -> bool {
    use Mnemonic as M;
    matches!(
        i.mnemonic(),
        M::Movups
            | M::Movupd
            | M::Movaps
            | M::Movapd
            | M::Movdqu
            | M::Movdqa
            | M::Movss
            | M::Movsd
            | M::Movq
            | M::Movd
            | M::Vmovups
            | M::Vmovupd
            | M::Vmovaps
            | M::Vmovapd
            | M::Vmovdqu
            | M::Vmovdqa
            | M::Vmovss
            | M::Vmovsd
            | M::Vmovq
            | M::Vmovd
    )
}

/// The load that `insn` is, if it is one.
pub fn load(info: &mut InstructionInfoFactory, insn: &Insn) -> Option<Load> {
    let i = &insn.iced;
    if insn.class != Class::Plain || i.flow_control() != FlowControl::Next {
        return None;
    }
    match i.code() {
        Code::Pop_r64 if i.op0_register() == Register::RSP => return Some(Load::BeforeStack(8)),
        Code::Pop_r64 => return gpr(i.op0_register()).map(Load::After),
        Code::Pop_r16 => return Some(Load::BeforeStack(2)),
        Code::Leaveq => return Some(Load::After(Reg::RBP)),
        Code::Lodsb_AL_m8 => return Some(Load::AfterPartRax(1)),
        Code::Lodsw_AX_m16 => return Some(Load::AfterPartRax(2)),
        Code::Lodsd_EAX_m32 | Code::Lodsq_RAX_m64 => return Some(Load::After(Reg::RAX)),
        Code::Xlat_m8 => return Some(Load::Before(1)),
        _ => {}
    }
    let memory = (0..i.op_count()).find(|&n| i.op_kind(n) == OpKind::Memory)?;
    // Most loads and most of what is none, without asking iced-x86.
    match i.mnemonic() {
        Mnemonic::Mov | Mnemonic::Movzx if memory == 1 && is_plain_gpr_load(i) => {
            return gpr(i.op0_register()).map(Load::After);
        }
        Mnemonic::Mov if memory == 0 => return None,
        Mnemonic::Lea | Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Nop => return None,
        _ => {}
    }
    if i.is_string_instruction() || is_special(i) {
        return None;
    }
    let access = info.info(i).op_access(memory);
    match access {
        OpAccess::Read | OpAccess::CondRead => {}
        OpAccess::ReadWrite | OpAccess::ReadCondWrite
            if matches!(i.mnemonic(), Mnemonic::Xchg | Mnemonic::Xadd) => {}
        _ => return None,
    }
    if !is_x87_load(i) && !writes_register(info, i) {
        return None;
    }
    if is_plain_gpr_load(i) {
        let register = (0..i.op_count()).find(|&n| i.op_kind(n) == OpKind::Register)?;
        return gpr(i.op_register(register)).map(Load::After);
    }
    if matches!(i.code(), Code::Xchg_rm64_r64 | Code::Xchg_rm32_r32) {
        return gpr(i.op1_register()).map(Load::After);
    }
    if is_plain_xmm_load(i)
        && i.op0_kind() == OpKind::Register
        && i.op0_register().is_vector_register()
    {
        let n = i.op0_register().number();
        if n < 16 {
            return Some(Load::AfterXmm(n as u8));
        }
    }
    match i.memory_size().size() {
        0 => None,
        1 => Some(Load::Before(1)),
        2 => Some(Load::Before(2)),
        n if n < 8 => Some(Load::Before(4)),
        _ => Some(Load::Before(8)),
    }
}

/// The register that holds the method table in `call [reg+disp]`, if `i` has that form.
pub fn method_table(i: &Instruction) -> Option<Reg> {
    let base = i.memory_base();
    (i.op0_kind() == OpKind::Memory
        && i.memory_index() == Register::None
        && i.segment_prefix() == Register::None
        && base.is_gpr64()
        && base != Register::RSP)
        .then(|| gpr(base))
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::AppPc;
    use crate::decode::Reader;

    fn load_of(code: &[u8]) -> Option<Load> {
        load(
            &mut InstructionInfoFactory::new(),
            &Reader::new(code, AppPc(0x1000)).read(),
        )
    }

    #[test]
    fn loads_are_those_of_the_definition() {
        let cases: &[(&str, &[u8], Option<Load>)] = &[
            (
                "mov rax,[rdi]",
                &[0x48, 0x8b, 0x07],
                Some(Load::After(Reg::RAX)),
            ),
            (
                "mov r9d,[rdi]",
                &[0x44, 0x8b, 0x0f],
                Some(Load::After(Reg(9))),
            ),
            ("mov al,[rdi]", &[0x8a, 0x07], Some(Load::Before(1))),
            ("mov ax,[rdi]", &[0x66, 0x8b, 0x07], Some(Load::Before(2))),
            (
                "movzx eax,byte[rdi]",
                &[0x0f, 0xb6, 0x07],
                Some(Load::After(Reg::RAX)),
            ),
            (
                "movsx eax,byte[rdi]",
                &[0x0f, 0xbe, 0x07],
                Some(Load::Before(1)),
            ),
            (
                "movsxd rax,[rdi]",
                &[0x48, 0x63, 0x07],
                Some(Load::Before(4)),
            ),
            (
                "cmove eax,[rdi]",
                &[0x0f, 0x44, 0x07],
                Some(Load::Before(4)),
            ),
            ("pop rbx", &[0x5b], Some(Load::After(Reg::RBX))),
            ("pop rsp", &[0x5c], Some(Load::BeforeStack(8))),
            ("leave", &[0xc9], Some(Load::After(Reg::RBP))),
            ("add rax,[rdi]", &[0x48, 0x03, 0x07], Some(Load::Before(8))),
            (
                "imul qword[rdi]",
                &[0x48, 0xf7, 0x2f],
                Some(Load::Before(8)),
            ),
            ("div dword[rdi]", &[0xf7, 0x37], Some(Load::Before(4))),
            (
                "xchg [rdi],rax",
                &[0x48, 0x87, 0x07],
                Some(Load::After(Reg::RAX)),
            ),
            ("xchg [rdi],al", &[0x86, 0x07], Some(Load::Before(1))),
            (
                "xadd [rdi],rax",
                &[0x48, 0x0f, 0xc1, 0x07],
                Some(Load::After(Reg::RAX)),
            ),
            (
                "movups xmm1,[rdi]",
                &[0x0f, 0x10, 0x0f],
                Some(Load::AfterXmm(1)),
            ),
            (
                "movsd xmm1,[rdi]",
                &[0xf2, 0x0f, 0x10, 0x0f],
                Some(Load::AfterXmm(1)),
            ),
            (
                "movhps xmm1,[rdi]",
                &[0x0f, 0x16, 0x0f],
                Some(Load::Before(8)),
            ),
            (
                "addss xmm1,[rdi]",
                &[0xf3, 0x0f, 0x58, 0x0f],
                Some(Load::Before(4)),
            ),
            (
                "vpaddd ymm1,ymm0,[rdi]",
                &[0xc5, 0xfd, 0xfe, 0x0f],
                Some(Load::Before(8)),
            ),
            ("fld dword[rdi]", &[0xd9, 0x07], Some(Load::Before(4))),
            ("fld tbyte[rdi]", &[0xdb, 0x2f], Some(Load::Before(8))),
            ("fadd qword[rdi]", &[0xdc, 0x07], Some(Load::Before(8))),
            ("lodsb", &[0xac], Some(Load::AfterPartRax(1))),
            ("lodsq", &[0x48, 0xad], Some(Load::After(Reg::RAX))),
            ("xlat", &[0xd7], Some(Load::Before(1))),
            (
                "paddd mm0,[rdi]",
                &[0x0f, 0xfe, 0x07],
                Some(Load::Before(8)),
            ),
            (
                "crc32 eax,dword[rdi]",
                &[0xf2, 0x0f, 0x38, 0xf1, 0x07],
                Some(Load::Before(4)),
            ),
            ("cmp rax,[rdi]", &[0x48, 0x3b, 0x07], None),
            ("test [rdi],eax", &[0x85, 0x07], None),
            ("bt [rdi],1", &[0x0f, 0xba, 0x27, 1], None),
            ("add [rdi],rax", &[0x48, 0x01, 0x07], None),
            ("cmpxchg [rdi],rcx", &[0x48, 0x0f, 0xb1, 0x0f], None),
            ("push [rdi]", &[0xff, 0x37], None),
            ("pop [rdi]", &[0x8f, 0x07], None),
            ("mov [rdi],rax", &[0x48, 0x89, 0x07], None),
            ("lea rax,[rdi]", &[0x48, 0x8d, 0x07], None),
            ("nop [rdi]", &[0x0f, 0x1f, 0x07], None),
            ("ret", &[0xc3], None),
            ("call [rdi]", &[0xff, 0x17], None),
            ("movsq", &[0x48, 0xa5], None),
            ("rep cmpsb", &[0xf3, 0xa6], None),
            ("scasb", &[0xae], None),
            ("ucomiss xmm1,[rdi]", &[0x0f, 0x2e, 0x0f], None),
            ("ptest xmm1,[rdi]", &[0x66, 0x0f, 0x38, 0x17, 0x0f], None),
            ("fcom dword[rdi]", &[0xd8, 0x17], None),
            ("fldcw [rdi]", &[0xd9, 0x2f], None),
            ("ldmxcsr [rdi]", &[0x0f, 0xae, 0x17], None),
            ("prefetcht0 [rdi]", &[0x0f, 0x18, 0x0f], None),
            ("vgatherdps", &[0xc4, 0xe2, 0x69, 0x92, 0x0c, 0x07], None),
            ("popfq", &[0x9d], None),
            ("mov ds,[rdi]", &[0x8e, 0x1f], None),
        ];
        for (name, code, expect) in cases {
            assert_eq!(load_of(code), *expect, "{name}");
        }
    }

    /// What is answered without iced-x86 is what it would answer.
    #[test]
    fn registers_of_common_instructions_are_those_of_the_full_answer() {
        let mut info = InstructionInfoFactory::new();
        let mut x = 0x9e37_79b9_7f4a_7c15_u64;
        let (mut checked, mut code) = (0, [0_u8; 16]);
        for _ in 0..3_000_000 {
            for chunk in code.chunks_mut(8) {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                chunk.copy_from_slice(&x.to_le_bytes());
            }
            let i = Reader::new(&code, AppPc(0x1000)).read().iced;
            if let Some(implied) = implied(&i)
                && !i.is_invalid()
            {
                let full = info
                    .info_options(&i, InstructionInfoOptions::NO_MEMORY_USAGE)
                    .used_registers()
                    .iter()
                    .fold(0, |mask, u| mask | gpr(u.register()).map_or(0, Reg::bit));
                let mask = implied | registers_named(&i);
                // A no-op names registers and uses none.
                if i.mnemonic() != Mnemonic::Nop {
                    assert_eq!(mask, full, "{i:?} {code:x?}");
                }
                checked += 1;
            }
        }
        assert!(checked > 500_000, "{checked}");
    }

    #[test]
    fn registers_are_overwritten_by_what_does_not_read_them() {
        let of = |code: &[u8]| overwrites(&Reader::new(code, AppPc(0)).read().iced);
        let cases: &[(&str, &[u8], Option<Reg>)] = &[
            ("mov ecx,eax", &[0x89, 0xc1], Some(Reg::RCX)),
            ("mov rcx,[rdx]", &[0x48, 0x8b, 0x0a], Some(Reg::RCX)),
            ("mov rcx,[rcx]", &[0x48, 0x8b, 0x09], None),
            ("mov rcx,[rax+rcx]", &[0x48, 0x8b, 0x0c, 0x08], None),
            ("mov cl,al", &[0x88, 0xc1], None),
            ("mov cx,ax", &[0x66, 0x89, 0xc1], None),
            ("mov [rcx],rdx", &[0x48, 0x89, 0x11], None),
            ("mov edx,1", &[0xba, 1, 0, 0, 0], Some(Reg::RDX)),
            ("movzx edx,cl", &[0x0f, 0xb6, 0xd1], Some(Reg::RDX)),
            ("movzx edx,dl", &[0x0f, 0xb6, 0xd2], None),
            ("movsx rdx,dh", &[0x0f, 0xbe, 0xd6], None),
            (
                "lea rdx,[rip]",
                &[0x48, 0x8d, 0x15, 0, 0, 0, 0],
                Some(Reg::RDX),
            ),
            ("pop rdx", &[0x5a], Some(Reg::RDX)),
            ("xor edx,edx", &[0x31, 0xd2], Some(Reg::RDX)),
            ("xor edx,ecx", &[0x31, 0xca], None),
            ("add edx,ecx", &[0x01, 0xca], None),
            ("cmove edx,ecx", &[0x0f, 0x44, 0xd1], None),
            ("xchg rcx,rdx", &[0x48, 0x87, 0xca], None),
        ];
        for (name, code, expect) in cases {
            assert_eq!(of(code), *expect, "{name}");
        }
    }

    #[test]
    fn method_tables_are_bases_of_calls() {
        let of = |code: &[u8]| method_table(&Reader::new(code, AppPc(0)).read().iced);
        assert_eq!(of(&[0xff, 0x50, 0x10]), Some(Reg::RAX));
        assert_eq!(of(&[0x41, 0xff, 0x53, 0x10]), Some(Reg(11)));
        assert_eq!(of(&[0xff, 0x54, 0x24, 0x10]), None);
        assert_eq!(of(&[0xff, 0x15, 0, 0, 0, 0]), None);
        assert_eq!(of(&[0xff, 0xd0]), None);
        assert_eq!(of(&[0xff, 0x14, 0xc7]), None);
    }
}
