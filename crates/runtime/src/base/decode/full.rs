//! Every instruction, decoded by iced-x86 and reduced to what the translator asks.

use iced_x86::{
    Code, Decoder, DecoderOptions, Encoder, FlowControl, Instruction, InstructionInfoFactory,
    InstructionInfoOptions, MemorySize, Mnemonic, OpAccess, OpKind, Register,
};

use super::{Base, Class, Insn, Load, Operand, Rm, Segment};
use crate::base::address::AppPc;
use crate::base::emit::Reg;
use crate::base::processor;

/// The way in which this processor decodes.
fn dialect() -> u32 {
    match processor::heeds_prefixes() {
        true => DecoderOptions::AMD,
        false => DecoderOptions::NONE,
    }
}

/// Decodes the instruction at the start of `code`.
pub(super) fn decode(code: &[u8], pc: AppPc) -> Insn {
    let mut decoder = Decoder::with_ip(64, code, pc.0, dialect());
    let mut i = Instruction::default();
    decoder.decode_out(&mut i);
    let class = classify(&i);
    let mut info = InstructionInfoFactory::new();
    let rip_disp = if i.is_ip_rel_memory_operand() {
        decoder.get_constant_offsets(&i).displacement_offset() as u8
    } else {
        0
    };
    Insn {
        pc,
        class,
        rm: rm(&i),
        load: load(&mut info, &i, class),
        overwrites: overwrites(&i),
        used: registers_used(&mut info, &i),
        len: i.len() as u8,
        rip_disp,
        stores_x87: stores_x87(&i),
        short_x87: matches!(i.code(), Code::Fnstenv_m14byte | Code::Fnsave_m94byte),
    }
}

/// Returns true if an instruction stores the x87 unit's record of its last instruction.
fn stores_x87(i: &Instruction) -> bool {
    use Mnemonic as M;
    matches!(
        i.mnemonic(),
        M::Fnstenv
            | M::Fstenv
            | M::Fnsave
            | M::Fsave
            | M::Fxsave
            | M::Fxsave64
            | M::Xsave
            | M::Xsave64
            | M::Xsavec
            | M::Xsavec64
            | M::Xsaveopt
            | M::Xsaveopt64
    )
}

/// Returns the bytes of the instruction at the start of `code`. Its RIP-relative operand is replaced by
/// one that `base` points to.
pub(crate) fn rebased(code: &[u8], pc: AppPc, base: Reg) -> alloc::vec::Vec<u8> {
    let mut i = Decoder::with_ip(64, code, pc.0, DecoderOptions::NONE).decode();
    i.set_memory_base(Register::RAX + u32::from(base.0));
    i.set_memory_displacement64(0);
    i.set_memory_displ_size(0);
    let mut encoder = Encoder::new(64);
    // What was decoded can be encoded.
    let _ = encoder.encode(&i, 0);
    encoder.take_buffer()
}

/// Returns whether the address of an instruction's memory operand starts from `base`.
pub(crate) fn is_based_on(code: &[u8], base: Reg) -> bool {
    let i = Decoder::new(64, code, DecoderOptions::NONE).decode();
    gpr(i.memory_base()) == Some(base)
}

/// Returns whether an instruction writes memory.
pub(crate) fn writes_memory(code: &[u8], pc: AppPc) -> bool {
    let i = Decoder::with_ip(64, code, pc.0, DecoderOptions::NONE).decode();
    let mut info = InstructionInfoFactory::new();
    let info = info.info_options(&i, InstructionInfoOptions::NO_REGISTER_USAGE);
    let writes = |access| {
        matches!(
            access,
            OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        )
    };
    // The decoder's tables leave out what these write.
    let state = matches!(
        i.mnemonic(),
        Mnemonic::Xsave
            | Mnemonic::Xsave64
            | Mnemonic::Xsavec
            | Mnemonic::Xsavec64
            | Mnemonic::Xsaveopt
            | Mnemonic::Xsaveopt64
    );
    state || (info.used_memory().iter()).any(|m| writes(m.access()))
}

fn rm(i: &Instruction) -> Rm {
    let memory = |n| i.op_kind(n) == OpKind::Memory;
    if !(0..i.op_count()).any(memory) {
        return match (i.op_count() > 0).then(|| gpr(i.op0_register())).flatten() {
            Some(register) if i.op0_kind() == OpKind::Register => Rm::Register(register),
            _ => Rm::None,
        };
    }
    let base = match i.memory_base() {
        Register::RIP => Base::Rip,
        Register::EIP => Base::Eip,
        register => gpr(register).map_or(Base::None, Base::Register),
    };
    let relative = i.is_ip_rel_memory_operand();
    Rm::Memory(Operand {
        base,
        index: gpr(i.memory_index()).map(|r| (r, i.memory_index_scale().trailing_zeros() as u8)),
        disp: if relative {
            i.ip_rel_memory_address()
        } else {
            i.memory_displacement64()
        },
        segment: match i.segment_prefix() {
            Register::None => Segment::None,
            Register::FS => Segment::Fs,
            _ => Segment::Flat,
        },
        short: i.memory_base().is_gpr32() || i.memory_index().is_gpr32(),
    })
}

fn uses_gs(i: &Instruction) -> bool {
    use Code as C;
    matches!(
        i.code(),
        C::Rdgsbase_r32 | C::Rdgsbase_r64 | C::Wrgsbase_r32 | C::Wrgsbase_r64
    ) || (i.segment_prefix() == Register::GS
        && (0..i.op_count()).any(|n| {
            matches!(
                i.op_kind(n),
                OpKind::Memory
                    | OpKind::MemorySegSI
                    | OpKind::MemorySegESI
                    | OpKind::MemorySegRSI
                    | OpKind::MemorySegDI
                    | OpKind::MemorySegEDI
                    | OpKind::MemorySegRDI
            )
        })
        && i.memory_size() != MemorySize::Unknown)
        || (i.op_count() > 0
            && i.op0_kind() == OpKind::Register
            && i.op0_register() == Register::GS)
}

fn classify(i: &Instruction) -> Class {
    use Code as C;
    let target = || AppPc(i.near_branch_target());
    let is_near = |kind| {
        matches!(
            kind,
            OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64
        )
    };
    // With an operand size prefix, which cuts addresses to 16 bits or does nothing: the processor knows.
    if i.op0_kind() == OpKind::NearBranch16
        || matches!(
            i.code(),
            C::Retnw | C::Retnw_imm16 | C::Call_rm16 | C::Jmp_rm16
        )
    {
        return match uses_gs(i) {
            true => Class::Gs,
            false => Class::Unknown,
        };
    }
    match i.flow_control() {
        FlowControl::Next => {
            if uses_gs(i) {
                return Class::Gs;
            }
            match i.code() {
                C::Popfw | C::Popfd | C::Popfq => Class::Popf,
                _ => Class::Plain,
            }
        }
        FlowControl::ConditionalBranch => {
            if i.op0_kind() != OpKind::NearBranch64 {
                return Class::Unsupported;
            }
            if i.is_jcc_short_or_near() {
                Class::Jcc(i.condition_code() as u8 - 1, target())
            } else {
                Class::ShortBranch(target())
            }
        }
        FlowControl::UnconditionalBranch if i.op0_kind() == OpKind::NearBranch64 => {
            Class::Jmp(target())
        }
        FlowControl::Call if i.op0_kind() == OpKind::NearBranch64 => Class::Call(target()),
        // `syscall` is a call to iced, as are `vmcall` and its kind, which only fault here.
        FlowControl::Call if i.code() == C::Syscall => Class::Syscall,
        FlowControl::Call if i.code() == C::Sysenter => Class::Unsupported,
        FlowControl::Call if !is_near(i.op0_kind()) && i.op_count() == 0 => Class::Plain,
        FlowControl::IndirectBranch if i.code() == C::Jmp_rm64 => {
            if uses_gs(i) {
                Class::Gs
            } else {
                Class::JmpIndirect
            }
        }
        FlowControl::IndirectCall if i.code() == C::Call_rm64 => {
            if uses_gs(i) {
                Class::Gs
            } else {
                Class::CallIndirect
            }
        }
        FlowControl::Return => match i.code() {
            C::Retnq => Class::Ret(0),
            C::Retnq_imm16 => Class::Ret(i.immediate16()),
            _ => Class::Unsupported,
        },
        // `int3` and `ud2` fault at their copies; `int n` may be a 32-bit system call. The trap of `int1` in
        // the cache could not be told from that of a step.
        FlowControl::Interrupt if i.code() == C::Int3 => Class::Plain,
        FlowControl::Interrupt if i.code() == C::Int1 => Class::Unknown,
        FlowControl::Exception => {
            if i.code() == C::INVALID {
                Class::Unknown
            } else {
                Class::Plain
            }
        }
        _ => Class::Unsupported,
    }
}

/// General registers an instruction reads or writes, in part or whole.
fn registers_used(info: &mut InstructionInfoFactory, i: &Instruction) -> u16 {
    info.info_options(i, InstructionInfoOptions::NO_MEMORY_USAGE)
        .used_registers()
        .iter()
        .fold(0, |mask, used| {
            mask | gpr(used.register()).map_or(0, Reg::bit)
        })
}

/// Returns the general register that an instruction gives a new value without reading the old one, if
/// the instruction is one of those for which that is easily seen.
fn overwrites(i: &Instruction) -> Option<Reg> {
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

pub(super) fn gpr(register: Register) -> Option<Reg> {
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
            let data = r.is_gpr() || r.is_vector_register() || r.is_mm() || r.is_k();
            data && matches!(
                used.access(),
                OpAccess::Write
                    | OpAccess::CondWrite
                    | OpAccess::ReadWrite
                    | OpAccess::ReadCondWrite
            )
        })
}

/// Returns whether x87 arithmetic and loads with a memory operand put it on the register stack.
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

/// Returns whether the whole destination register is the zero-extended value afterwards.
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
            | M::Vmovdqu8
            | M::Vmovdqu16
            | M::Vmovdqu32
            | M::Vmovdqu64
            | M::Vmovdqa32
            | M::Vmovdqa64
            | M::Vmovdqa
            | M::Vmovss
            | M::Vmovsd
            | M::Vmovq
            | M::Vmovd
    )
}

/// The load that the instruction is, if it is one.
fn load(info: &mut InstructionInfoFactory, i: &Instruction, class: Class) -> Option<Load> {
    if class != Class::Plain || i.flow_control() != FlowControl::Next {
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
        Code::Xlat_m8 => return Some(Load::Xlat),
        _ => {}
    }
    let memory = (0..i.op_count()).find(|&n| i.op_kind(n) == OpKind::Memory)?;
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
