//! App instructions, classified by what the translator must do with them.
//!
//! The decoder is iced-x86; this module reduces its answer to [`Class`]. Most instructions are
//! [`Class::Plain`]: their bytes are copied, with the displacement of a RIP-relative operand
//! rewritten. What changes the flow of control is taken apart further, and what cannot run in a
//! code cache at all is [`Class::Unsupported`].

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, MemorySize, OpKind, Register,
};

use crate::cache::AppPc;

/// How an instruction is translated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Copied.
    Plain,
    /// `jcc`, with its condition code.
    Jcc(u8, AppPc),
    /// `loop`, `loope`, `loopne`, `jrcxz`, `jecxz`: only a short form exists.
    ShortBranch(AppPc),
    /// `jmp` to a known target.
    Jmp(AppPc),
    /// `call` of a known target.
    Call(AppPc),
    /// `jmp` through a register or memory.
    JmpIndirect,
    /// `call` through a register or memory.
    CallIndirect,
    /// `ret`, with the bytes it releases.
    Ret(u16),
    /// `syscall`.
    Syscall,
    /// Runs natively, alone, and the CPU decides: unknown encodings.
    Unknown,
    /// Cannot run in the cache: far transfers, 32-bit system calls, anything with GS.
    Unsupported,
    /// As unsupported, because it uses the GS segment.
    Gs,
}

/// An instruction of the app.
#[derive(Clone, Copy)]
pub struct Insn {
    /// As decoded.
    pub iced: Instruction,
    /// How to translate it.
    pub class: Class,
    /// Offset of its RIP-relative 32-bit displacement in its bytes, 0 when it has none.
    pub rip_disp: u8,
}

impl Insn {
    /// Its address.
    pub fn pc(&self) -> AppPc {
        AppPc(self.iced.ip())
    }

    /// The address behind it.
    pub fn next(&self) -> AppPc {
        AppPc(self.iced.next_ip())
    }
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
    match i.flow_control() {
        FlowControl::Next => {
            if uses_gs(i) {
                return Class::Gs;
            }
            Class::Plain
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
        // `int3` and `ud2` fault at their copies; `int n` may be a 32-bit system call.
        FlowControl::Interrupt if matches!(i.code(), C::Int3 | C::Int1) => Class::Plain,
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

/// Decodes instruction after instruction of a run of code bytes.
pub struct Reader<'a> {
    decoder: Decoder<'a>,
}

impl<'a> Reader<'a> {
    /// Starts at `pc`, whose bytes `code` are.
    pub fn new(code: &'a [u8], pc: AppPc) -> Self {
        Self {
            decoder: Decoder::with_ip(64, code, pc.0, DecoderOptions::NONE),
        }
    }

    /// The next instruction.
    pub fn read(&mut self) -> Insn {
        let mut iced = Instruction::default();
        self.decoder.decode_out(&mut iced);
        let class = classify(&iced);
        let rip_disp = if iced.is_ip_rel_memory_operand() {
            self.decoder
                .get_constant_offsets(&iced)
                .displacement_offset() as u8
        } else {
            0
        };
        Insn {
            iced,
            class,
            rip_disp,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(code: &[u8]) -> Class {
        Reader::new(code, AppPc(0x1000)).read().class
    }

    #[test]
    fn every_way_to_leave_is_told_apart() {
        assert_eq!(class(&[0x74, 0x10]), Class::Jcc(4, AppPc(0x1012)));
        assert_eq!(
            class(&[0x0f, 0x8f, 0, 1, 0, 0]),
            Class::Jcc(15, AppPc(0x1106))
        );
        assert_eq!(class(&[0xe2, 0xfe]), Class::ShortBranch(AppPc(0x1000)));
        assert_eq!(class(&[0xeb, 0x00]), Class::Jmp(AppPc(0x1002)));
        assert_eq!(class(&[0xe8, 0, 0, 0, 0]), Class::Call(AppPc(0x1005)));
        assert_eq!(class(&[0xff, 0xe0]), Class::JmpIndirect);
        assert_eq!(class(&[0xff, 0x10]), Class::CallIndirect);
        assert_eq!(class(&[0xc3]), Class::Ret(0));
        assert_eq!(class(&[0xf3, 0xc3]), Class::Ret(0));
        assert_eq!(class(&[0xc2, 8, 0]), Class::Ret(8));
        assert_eq!(class(&[0x0f, 0x05]), Class::Syscall);
        assert_eq!(class(&[0x0f, 0x34]), Class::Unsupported);
        assert_eq!(class(&[0xcd, 0x80]), Class::Unsupported);
        assert_eq!(class(&[0xcc]), Class::Plain);
        assert_eq!(class(&[0x0f, 0x0b]), Class::Plain);
        assert_eq!(class(&[0xf4]), Class::Plain);
        assert_eq!(class(&[0x06]), Class::Unknown);
        assert_eq!(class(&[0xcb]), Class::Unsupported);
        assert_eq!(
            class(&[0x65, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0]),
            Class::Gs
        );
        assert_eq!(
            class(&[0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0]),
            Class::Plain
        );
        // A GS prefix on an instruction without memory means nothing.
        assert_eq!(class(&[0x65, 0x90]), Class::Plain);
    }

    #[test]
    fn the_displacement_of_a_rip_operand_is_found_before_an_immediate() {
        let i = Reader::new(&[0x48, 0xc7, 0x05, 1, 2, 3, 4, 5, 6, 7, 8], AppPc(0)).read();
        assert_eq!((i.rip_disp, i.iced.len()), (3, 11));
        assert_eq!(
            Reader::new(&[0x48, 0x89, 0xd8], AppPc(0)).read().rip_disp,
            0
        );
    }
}
