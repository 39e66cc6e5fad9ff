//! System calls that never come back.
//!
//! # Problem
//! After most system calls the next instruction is executed. After those that end a thread or a process it is not, nor after the one that
//! returns from a signal handler. They look alike: the number of the call is in a register.
//!
//! # Strategy
//! Constants of registers are followed along the straight line that leads to the call. A number that is not known there is one that comes back.
//!
//! # Why it is right
//! A constant holds along a straight line, entered at its start. So the answer names the instruction that made the constant: a way into the line
//! after that makes it void.

use iced_x86::{Code, Instruction, InstructionInfoFactory, OpAccess, OpKind, Register};

/// `rt_sigreturn`, `exit` and `exit_group` of `syscall`.
const OF_64: [u64; 3] = [15, 60, 231];
/// `exit`, `sigreturn`, `rt_sigreturn` and `exit_group` of `int 0x80`.
const OF_32: [u64; 4] = [1, 119, 173, 252];

/// A number that is known, and the vaddr of the instruction that made it.
type Constant = Option<(u64, u64)>;

/// Returns the vaddr of the instruction from which on it is known that the last one of a straight line is a system call that never comes
/// back; `None` of all others.
pub(crate) fn never_comes_back(line: &[Instruction]) -> Option<u64> {
    let (call, before) = line.split_last()?;
    let numbers = match call.code() {
        Code::Syscall => &OF_64[..],
        Code::Int_imm8 if call.immediate8() == 0x80 => &OF_32[..],
        _ => return None,
    };
    let (number, since) = number(before)?;
    numbers.contains(&number).then_some(since)
}

/// The number in `eax` after a straight line.
fn number(line: &[Instruction]) -> Constant {
    let mut known = Known {
        registers: [None; 16],
        pushed: None,
        infos: InstructionInfoFactory::new(),
    };
    for instruction in line {
        known.step(instruction);
    }
    let (value, since) = known.registers[Register::RAX.number()]?;
    // The kernel looks at the lower half.
    Some((value & u64::from(u32::MAX), since))
}

struct Known {
    registers: [Constant; 16],
    /// The word on top of the stack.
    pushed: Constant,
    infos: InstructionInfoFactory,
}

impl Known {
    fn step(&mut self, instruction: &Instruction) {
        let made = self.made(instruction);
        let pushed = match instruction.code() {
            Code::Pushq_imm8 | Code::Pushq_imm32 => {
                Some((instruction.immediate(0), instruction.ip()))
            }
            _ => None,
        };
        let info = self.infos.info(instruction);
        for used in info.used_registers() {
            let written = !matches!(
                used.access(),
                OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess
            );
            let full = used.register().full_register();
            if written && full.is_gpr64() {
                self.registers[full.number()] = None;
            }
        }
        if let Some((register, constant)) = made {
            self.registers[register.full_register().number()] = Some(constant);
        }
        self.pushed = pushed;
    }

    /// The register that an instruction gives a constant, and that.
    fn made(&self, instruction: &Instruction) -> Option<(Register, (u64, u64))> {
        let register = instruction.op0_register();
        if !register.is_gpr() {
            return None;
        }
        let here = |value| Some((register, (value, instruction.ip())));
        let is_wide = register.is_gpr32() || register.is_gpr64();
        let source = instruction.op1_register();
        match instruction.code() {
            Code::Pop_r64 => Some((register, self.pushed?)),
            Code::Xor_r32_rm32 | Code::Xor_rm32_r32 | Code::Xor_r64_rm64 | Code::Xor_rm64_r64
                if register == source =>
            {
                here(0)
            }
            Code::Mov_r8_imm8 if register == Register::AL => {
                let (before, since) = self.registers[Register::RAX.number()]?;
                let value = before & !0xff | u64::from(instruction.immediate8());
                Some((register, (value, since)))
            }
            Code::Mov_r32_imm32
            | Code::Mov_r64_imm64
            | Code::Mov_rm64_imm32
            | Code::Mov_rm32_imm32 => here(instruction.immediate(1)),
            Code::Mov_r32_rm32 | Code::Mov_rm32_r32 | Code::Mov_r64_rm64 | Code::Mov_rm64_r64
                if is_wide && instruction.op1_kind() == OpKind::Register =>
            {
                let (value, since) = self.registers[source.full_register().number()]?;
                Some((register, (value, since)))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    fn since(bytes: &[u8]) -> Option<u64> {
        let decoder = Decoder::with_ip(64, bytes, 0x10, DecoderOptions::NONE);
        never_comes_back(&decoder.into_iter().collect::<Vec<_>>())
    }

    #[test]
    fn numbers_are_followed_through_registers_and_the_stack() {
        for (name, bytes, wanted) in [
            ("mov eax, 60", &[0xb8, 60, 0, 0, 0, 0x0f, 5][..], Some(0x10)),
            (
                "nop; mov eax, 231",
                &[0x90, 0xb8, 231, 0, 0, 0, 0x0f, 5],
                Some(0x11),
            ),
            (
                "mov edx, 60; mov eax, edx",
                &[0xba, 60, 0, 0, 0, 0x89, 0xd0, 0x0f, 5],
                Some(0x10),
            ),
            (
                "mov rax, 15",
                &[0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 5],
                Some(0x10),
            ),
            ("push 60; pop rax", &[0x6a, 60, 0x58, 0x0f, 5], Some(0x10)),
            (
                "xor eax, eax; mov al, 60",
                &[0x31, 0xc0, 0xb0, 60, 0x0f, 5],
                Some(0x10),
            ),
            (
                "mov eax, 1; int 0x80",
                &[0xb8, 1, 0, 0, 0, 0xcd, 0x80],
                Some(0x10),
            ),
            ("mov eax, 1; syscall", &[0xb8, 1, 0, 0, 0, 0x0f, 5], None),
            (
                "mov eax, 60; int 0x80",
                &[0xb8, 60, 0, 0, 0, 0xcd, 0x80],
                None,
            ),
            (
                "mov eax, 60; inc eax",
                &[0xb8, 60, 0, 0, 0, 0xff, 0xc0, 0x0f, 5],
                None,
            ),
            (
                "mov eax, 60; xor eax, edx",
                &[0xb8, 60, 0, 0, 0, 0x31, 0xd0, 0x0f, 5],
                None,
            ),
            (
                "mov eax, 60; mov eax, [rsp]",
                &[0xb8, 60, 0, 0, 0, 0x8b, 4, 0x24, 0x0f, 5],
                None,
            ),
            (
                "push 60; push rdx; pop rax",
                &[0x6a, 60, 0x52, 0x58, 0x0f, 5],
                None,
            ),
            ("mov al, 60", &[0xb0, 60, 0x0f, 5], None),
            ("syscall", &[0x0f, 5], None),
            ("mov eax, 60", &[0xb8, 60, 0, 0, 0], None),
            ("", &[], None),
        ] {
            assert_eq!(since(bytes), wanted, "{name}");
        }
    }
}
