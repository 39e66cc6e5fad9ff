//! Loads that keep a function's house in order, and that nobody would specialise.
//!
//! # Problem
//! Among loads that nearly always load the same are some that compute nothing: functions look whether their frame was overwritten, and put
//! back at their end what they took from their caller. A specialisation would have to do so too.
//!
//! # Strategy
//! * *The stack protector's canary*: a load from `fs:0x28`, where the C library keeps it for each thread (System V ABI for x86-64, and GCC's
//!   `-fstack-protector`), be it alone or as an operand (`sub rdx, fs:0x28`); and a load of the copy on the stack, into a register that
//!   the next instructions compare with `fs:0x28`.
//! * *A restored register*: a load into a register from the stack (`pop`, `leave`, `mov` from memory that `rsp` or `rbp` leads to) after which the
//!   function ends, in a straight line, and nothing on the way reads or writes that register. `mov` counts only into registers that belong to the
//!   caller; `pop` into all but those that results are returned in.
//!
//! * *Fixed memory*: a load from an address in the instruction, in a segment that the program cannot write, or that the linker protects when it has
//!   filled it in (RELRO), or in `.got.plt`. The compiler's literals are there, and addresses of functions and variables.
//!
//! A function ends with `ret`, or with a jump once its frame is gone: the stack pointer has gone up since the load, or by it. Other jumps are followed, as
//! several ends of a function may share their last instructions.
//!
//! Where control may go two ways, or is called away, nothing is said: rather too many loads are shown than too few.

use std::ops::Range;

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess,
    OpKind, Register,
};
use trommel_symbol::Code;

/// Reasons why a load is not one to specialise.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Upkeep {
    /// It loads the stack protector's canary, or the copy of it.
    Canary,
    /// It puts back what a register had when the function was called.
    Restored,
    /// It loads, from an address in the instruction, what nothing writes once the file has been linked.
    Fixed,
}

impl Upkeep {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Canary, Self::Restored, Self::Fixed];

    /// In tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Canary => "canary",
            Self::Restored => "restored",
            Self::Fixed => "fixed",
        }
    }
}

/// Offset of the canary, relative to FS.
const CANARY: u64 = 0x28;
/// So far an end is looked for: six registers, the stack pointer, and what is between.
const FAR: usize = 24;
/// So far a copy of the canary is from its comparison.
const NEAR: usize = 4;

/// Registers that a function gives back as it got them (System V ABI, 3.2.1).
const OF_CALLER: [Register; 6] = [
    Register::RBX,
    Register::RBP,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];

/// Returns why the load at `at` is not one to specialise; `None` where it may be, or where there is no code. `fixed`: addresses that nothing
/// writes once the file has been linked.
pub fn upkeep(code: &Code<'_>, fixed: &[Range<u64>], at: u64) -> Option<Upkeep> {
    let load = decoder(code, at)?.decode();
    if load.is_invalid() {
        return None;
    }
    if is_canary(&load) {
        return Some(Upkeep::Canary);
    }
    if let Some(from) = fixed_address(&load)
        && fixed.iter().any(|range| range.contains(&from))
    {
        return Some(Upkeep::Fixed);
    }
    let register = restored(&load)?;
    if is_compared(code, load.next_ip(), register) {
        return Some(Upkeep::Canary);
    }
    let belongs = match load.mnemonic() {
        Mnemonic::Pop => !matches!(register, Register::RAX | Register::RDX),
        _ => OF_CALLER.contains(&register),
    };
    (belongs && ends(code, &load, register)).then_some(Upkeep::Restored)
}

/// The instructions from an address on.
fn decoder<'c>(code: &Code<'c>, at: u64) -> Option<Decoder<'c>> {
    let bytes = code.at(at)?;
    Some(Decoder::with_ip(64, bytes, at, DecoderOptions::NONE))
}

/// Returns true if its memory operand is the canary.
fn is_canary(instruction: &Instruction) -> bool {
    let has_memory = (0..instruction.op_count()).any(|n| instruction.op_kind(n) == OpKind::Memory);
    has_memory
        && instruction.segment_prefix() == Register::FS
        && instruction.memory_base() == Register::None
        && instruction.memory_index() == Register::None
        && instruction.memory_displacement64() == CANARY
}

/// The address of a memory operand that is in the instruction, without any register.
fn fixed_address(load: &Instruction) -> Option<u64> {
    let has_memory = (0..load.op_count()).any(|n| load.op_kind(n) == OpKind::Memory);
    let alone = matches!(load.memory_base(), Register::None | Register::RIP)
        && load.memory_index() == Register::None
        && load.segment_prefix() == Register::None;
    // With the base RIP it is the sum.
    (has_memory && alone).then(|| load.memory_displacement64())
}

/// The register that all 64 bits of a word of the stack are loaded into, and nothing else is done.
fn restored(load: &Instruction) -> Option<Register> {
    let register = load.op0_register();
    match load.mnemonic() {
        Mnemonic::Leave => Some(Register::RBP),
        Mnemonic::Pop if register.is_gpr64() => Some(register),
        Mnemonic::Mov if register.is_gpr64() && load.op1_kind() == OpKind::Memory => {
            let on_stack = matches!(load.memory_base(), Register::RSP | Register::RBP)
                && load.memory_index() == Register::None
                && load.segment_prefix() == Register::None;
            on_stack.then_some(register)
        }
        _ => None,
    }
}

/// Returns true if what is in `register` is compared with the canary soon from `at` on.
fn is_compared(code: &Code<'_>, at: u64, register: Register) -> bool {
    let Some(mut decoder) = decoder(code, at) else {
        return false;
    };
    let mut infos = InstructionInfoFactory::new();
    for _ in 0..NEAR {
        if !decoder.can_decode() {
            return false;
        }
        let next = decoder.decode();
        let compares = matches!(
            next.mnemonic(),
            Mnemonic::Sub | Mnemonic::Xor | Mnemonic::Cmp
        );
        if compares && is_canary(&next) {
            return next.op0_register() == register;
        }
        if next.is_invalid()
            || next.flow_control() != FlowControl::Next
            || touches(&mut infos, &next, register)
        {
            return false;
        }
    }
    false
}

/// Returns true if the function ends after the load, and has no use for the register on the way.
fn ends(code: &Code<'_>, load: &Instruction, register: Register) -> bool {
    let Some(mut instructions) = decoder(code, load.next_ip()) else {
        return false;
    };
    let mut infos = InstructionInfoFactory::new();
    let mut gone = raises(load);
    for _ in 0..FAR {
        if !instructions.can_decode() {
            return false;
        }
        let next = instructions.decode();
        if next.is_invalid() {
            return false;
        }
        match next.flow_control() {
            FlowControl::Return => return true,
            FlowControl::IndirectBranch => return gone && !touches(&mut infos, &next, register),
            FlowControl::UnconditionalBranch if gone => return true,
            FlowControl::UnconditionalBranch => {
                let Some(there) = decoder(code, next.near_branch_target()) else {
                    return false;
                };
                instructions = there;
                continue;
            }
            FlowControl::Next => {}
            _ => return false,
        }
        if touches(&mut infos, &next, register) {
            return false;
        }
        gone |= raises(&next);
    }
    false
}

/// Returns true if it reads or writes the register, or a part of it.
fn touches(infos: &mut InstructionInfoFactory, next: &Instruction, register: Register) -> bool {
    let info = infos.info(next);
    let mut used = info.used_registers().iter();
    used.any(|u| u.access() != OpAccess::None && u.register().full_register() == register)
}

/// Returns true if it moves the stack pointer up.
fn raises(instruction: &Instruction) -> bool {
    let by = match instruction.op1_kind() {
        OpKind::Immediate8to64 | OpKind::Immediate32to64 => instruction.immediate(1) as i64,
        _ => 0,
    };
    let of_pointer = instruction.op0_register() == Register::RSP;
    match instruction.mnemonic() {
        Mnemonic::Pop | Mnemonic::Leave => true,
        Mnemonic::Add => of_pointer && by > 0,
        // -128 is shorter than 128.
        Mnemonic::Sub => of_pointer && by < 0,
        Mnemonic::Lea => match instruction.memory_base() {
            Register::RBP => of_pointer,
            Register::RSP => of_pointer && instruction.memory_displacement64() as i64 > 0,
            _ => false,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(bytes: &[u8]) -> Option<Upkeep> {
        let fixed = 0x4000..0x4010;
        upkeep(
            &Code::new(vec![(0x1000, bytes)]),
            std::slice::from_ref(&fixed),
            0x1000,
        )
    }

    #[test]
    fn the_canary_is_told_where_it_is_taken_and_where_it_is_compared() {
        for bytes in [
            // mov rax,fs:0x28; sub rdx,fs:0x28; xor rcx,fs:0x28
            &[0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0][..],
            &[0x64, 0x48, 0x2b, 0x14, 0x25, 0x28, 0, 0, 0],
            &[0x64, 0x48, 0x33, 0x0c, 0x25, 0x28, 0, 0, 0],
            // mov rax,[rsp+8]; sub rax,fs:0x28
            &[
                0x48, 0x8b, 0x44, 0x24, 8, 0x64, 0x48, 0x2b, 0x04, 0x25, 0x28, 0, 0, 0,
            ],
            // mov rdx,[rbp-8]; mov eax,ecx; xor rdx,fs:0x28
            &[
                0x48, 0x8b, 0x55, 0xf8, 0x89, 0xc8, 0x64, 0x48, 0x33, 0x14, 0x25, 0x28, 0, 0, 0,
            ],
        ] {
            assert_eq!(of(bytes), Some(Upkeep::Canary), "{bytes:x?}");
        }
        for bytes in [
            // mov rax,fs:0x30; mov rax,fs:[rdi+0x28]; mov rax,[0x28]
            &[0x64, 0x48, 0x8b, 0x04, 0x25, 0x30, 0, 0, 0][..],
            &[0x64, 0x48, 0x8b, 0x47, 0x28],
            &[0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0],
            // mov rax,[rsp+8]; sub rdx,fs:0x28: another register
            &[
                0x48, 0x8b, 0x44, 0x24, 8, 0x64, 0x48, 0x2b, 0x14, 0x25, 0x28, 0, 0, 0,
            ],
            // mov rax,[rsp+8]; inc rax; sub rax,fs:0x28
            &[
                0x48, 0x8b, 0x44, 0x24, 8, 0x48, 0xff, 0xc0, 0x64, 0x48, 0x2b, 0x04, 0x25, 0x28, 0,
                0, 0,
            ],
            // mov rax,[rdi+8]; sub rax,fs:0x28: not of the stack
            &[
                0x48, 0x8b, 0x47, 8, 0x64, 0x48, 0x2b, 0x04, 0x25, 0x28, 0, 0, 0,
            ],
        ] {
            assert_eq!(of(bytes), None, "{bytes:x?}");
        }
    }

    #[test]
    fn loads_of_fixed_memory_have_its_address_in_them() {
        for (what, bytes, wanted) in [
            (
                "mov rax,[rip+0x2ff9]",
                &[0x48, 0x8b, 0x05, 0xf9, 0x2f, 0, 0][..],
                true,
            ),
            (
                "mov rax,[0x4008]",
                &[0x48, 0x8b, 0x04, 0x25, 0x08, 0x40, 0, 0],
                true,
            ),
            (
                "mulsd xmm0,[rip+0x2ff8]",
                &[0xf2, 0x0f, 0x59, 0x05, 0xf8, 0x2f, 0, 0],
                true,
            ),
            (
                "mov rax,[rip+0x3009]",
                &[0x48, 0x8b, 0x05, 0x09, 0x30, 0, 0],
                false,
            ),
            (
                "mov rax,[rdi*8+0x4000]",
                &[0x48, 0x8b, 0x04, 0xfd, 0, 0x40, 0, 0],
                false,
            ),
            (
                "mov rax,fs:[0x4008]",
                &[0x64, 0x48, 0x8b, 0x04, 0x25, 0x08, 0x40, 0, 0],
                false,
            ),
        ] {
            assert_eq!(of(bytes), wanted.then_some(Upkeep::Fixed), "{what}");
        }
    }

    #[test]
    fn registers_are_restored_where_the_function_ends_after_them() {
        for bytes in [
            // pop rbx; ret
            &[0x5b, 0xc3][..],
            // pop rbx; pop rbp; pop r12; mov eax,1; ret
            &[0x5b, 0x5d, 0x41, 0x5c, 0xb8, 1, 0, 0, 0, 0xc3],
            // leave; ret
            &[0xc9, 0xc3],
            // mov rbx,[rsp+8]; add rsp,24; ret
            &[0x48, 0x8b, 0x5c, 0x24, 8, 0x48, 0x83, 0xc4, 24, 0xc3],
            // mov rbx,[rbp-8]; leave; jmp +0x40: a tail call
            &[0x48, 0x8b, 0x5d, 0xf8, 0xc9, 0xeb, 0x40],
            // pop rbx; jmp rax
            &[0x5b, 0xff, 0xe0],
            // mov rbx,[rsp+8]; jmp +1; nop; add rsp,24; ret: a shared end
            &[
                0x48, 0x8b, 0x5c, 0x24, 8, 0xeb, 1, 0x90, 0x48, 0x83, 0xc4, 24, 0xc3,
            ],
            // pop rcx; ret: as `add rsp,8`
            &[0x59, 0xc3],
        ] {
            assert_eq!(of(bytes), Some(Upkeep::Restored), "{bytes:x?}");
        }
        for bytes in [
            // pop rax; ret: a result
            &[0x58, 0xc3][..],
            // mov rax,[rsp+8]; add rsp,24; ret
            &[0x48, 0x8b, 0x44, 0x24, 8, 0x48, 0x83, 0xc4, 24, 0xc3],
            // mov rbx,[rsp+8]; mov rax,rbx; add rsp,24; ret: it is used
            &[
                0x48, 0x8b, 0x5c, 0x24, 8, 0x48, 0x89, 0xd8, 0x48, 0x83, 0xc4, 24, 0xc3,
            ],
            // mov rbx,[rsp+8]; mov [rbx],eax; ret
            &[0x48, 0x8b, 0x5c, 0x24, 8, 0x89, 0x03, 0xc3],
            // mov rbx,[rdi+8]; ret
            &[0x48, 0x8b, 0x5f, 8, 0xc3],
            // mov ebx,[rsp+8]; ret: half of it
            &[0x8b, 0x5c, 0x24, 8, 0xc3],
            // mov rbx,[rsp+8]; jne +0; ret
            &[0x48, 0x8b, 0x5c, 0x24, 8, 0x75, 0, 0xc3],
            // mov rbx,[rsp+8]; call +0; ret
            &[0x48, 0x8b, 0x5c, 0x24, 8, 0xe8, 0, 0, 0, 0, 0xc3],
            // mov rbx,[rsp+8]; jmp -7: a loop
            &[0x48, 0x8b, 0x5c, 0x24, 8, 0xeb, 0xf9],
            // mov rbx,[rsp+8]; jmp rax
            &[0x48, 0x8b, 0x5c, 0x24, 8, 0xff, 0xe0],
        ] {
            assert_eq!(of(bytes), None, "{bytes:x?}");
        }
        assert_eq!(upkeep(&Code::default(), &[], 0), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_looked_at(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            let _ = of(&bytes);
        }
    }
}
