//! Parameters of a function: the registers that it takes arguments from, and what it does with them.
//!
//! # Problem
//! At a call all registers hold something. Only the function that is called knows which of them are arguments.
//!
//! # Strategy
//! A register is a *parameter* where on some way from the function's first instruction it is read before it is written. All ways are
//! followed: both of a branch, jumps (also into another function, a tail call), and into functions called directly, which may
//! take what is still there. After a call nothing is left of it. The widest read of the register is the parameter's width:
//! what callers leave in the bytes above is no part of the argument.
//!
//! The instructions from the function's first on show what the argument is, and how many of them work with it. A copy of the
//! register is followed as values of loads are ([`crate::usage`]), through calls where it is in a register that those keep, and through the
//! stack frame where that is addressed by `rbp`.
//!
//! # Limits
//! After indirect jumps and calls nothing is seen, nor is what system calls take. A register that is stored only to be restored counts as read, as those
//! of functions with variable arguments do.

use std::collections::HashMap;

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess,
    OpKind, Register,
};
use trommel_symbol::Code;

use crate::usage::{Use, Value};

/// The registers that the System V ABI passes integers and pointers in, the first argument's first; then those of floating-point numbers.
pub const REGISTERS: [Register; 14] = [
    Register::RDI,
    Register::RSI,
    Register::RDX,
    Register::RCX,
    Register::R8,
    Register::R9,
    // All of each register: names of its parts have it as their whole.
    Register::ZMM0,
    Register::ZMM1,
    Register::ZMM2,
    Register::ZMM3,
    Register::ZMM4,
    Register::ZMM5,
    Register::ZMM6,
    Register::ZMM7,
];

/// An argument that a function takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parameter {
    /// Lower bytes of the register that are read at most: 1, 2, 4 or 8.
    pub bytes: u8,
    /// Instructions that work with it, as far as they were found.
    pub uses: u32,
    /// Use of the value.
    pub usage: Use,
}

/// Instructions that are looked at in all to find the parameters of a function.
const MOST: usize = 4096;
/// Calls that are followed one into the other.
const DEEP: u8 = 4;
/// So far an argument is followed.
const FAR: usize = 256;

/// The parameters of the function whose first instruction is at `entry`, by register; `None` where there is no code.
pub fn parameters(code: &Code<'_>, entry: u64) -> Option<[Option<Parameter>; REGISTERS.len()]> {
    code.at(entry)?;
    let widths = Ways::new(entry).explore(code);
    Some(std::array::from_fn(|n| {
        let bytes = widths[n];
        (bytes != 0).then(|| follow(code, entry, REGISTERS[n], bytes))
    }))
}

/// Returns where a stub jumps by which a function in another file is called: its indirect jump, with nothing before but what may be jumped to.
pub fn forwarded_by(code: &Code<'_>, stub: u64) -> Option<u64> {
    let mut decoder = Decoder::with_ip(64, code.at(stub)?, stub, DecoderOptions::NONE);
    let mut next = decoder.decode();
    if next.mnemonic() == Mnemonic::Endbr64 {
        next = decoder.decode();
    }
    let jumps =
        next.flow_control() == FlowControl::IndirectBranch && next.is_ip_rel_memory_operand();
    jumps.then(|| next.ip())
}

/// A set of [`REGISTERS`].
type Set = u16;

/// The ways through a function.
struct Ways {
    infos: InstructionInfoFactory,
    /// Registers that were unwritten where an instruction was met.
    met: HashMap<u64, Set>,
    left: Vec<(u64, Set, u8)>,
    widths: [u8; REGISTERS.len()],
    looked_at: usize,
}

impl Ways {
    fn new(entry: u64) -> Self {
        Self {
            infos: InstructionInfoFactory::new(),
            met: HashMap::new(),
            left: vec![(entry, (1 << REGISTERS.len()) - 1, 0)],
            widths: [0; REGISTERS.len()],
            looked_at: 0,
        }
    }

    fn explore(mut self, code: &Code<'_>) -> [u8; REGISTERS.len()] {
        while let Some((from, unwritten, depth)) = self.left.pop() {
            self.straight(code, from, unwritten, depth);
        }
        self.widths
    }

    /// One after the other, until control leaves or all is written.
    fn straight(&mut self, code: &Code<'_>, from: u64, mut unwritten: Set, depth: u8) {
        let Some(bytes) = code.at(from) else {
            return;
        };
        let mut decoder = Decoder::with_ip(64, bytes, from, DecoderOptions::NONE);
        while unwritten != 0 && decoder.can_decode() && self.looked_at < MOST {
            self.looked_at += 1;
            let next = decoder.decode();
            let met = self.met.entry(next.ip()).or_default();
            unwritten &= !*met;
            *met |= unwritten;
            if next.is_invalid() || unwritten == 0 {
                return;
            }
            unwritten = self.pass(&next, unwritten);
            match next.flow_control() {
                FlowControl::Next => {}
                FlowControl::ConditionalBranch => {
                    self.left
                        .push((next.near_branch_target(), unwritten, depth));
                }
                FlowControl::UnconditionalBranch => {
                    self.left
                        .push((next.near_branch_target(), unwritten, depth));
                    return;
                }
                FlowControl::Call => {
                    if depth < DEEP {
                        let target = next.near_branch_target();
                        self.left.push((target, unwritten, depth + 1));
                    }
                    return;
                }
                _ => return,
            }
        }
    }

    /// Returns what an instruction reads of the unwritten registers; those that it leaves.
    fn pass(&mut self, next: &Instruction, unwritten: Set) -> Set {
        if next.mnemonic() == Mnemonic::Nop {
            return unwritten;
        }
        let mut written = 0;
        let info = self.infos.info(next);
        for used in info.used_registers() {
            let whole = used.register().full_register();
            let Some(n) = REGISTERS.iter().position(|r| *r == whole) else {
                continue;
            };
            let size = used.register().size().min(8) as u8;
            let access = match keeps_rest(next, whole) {
                true => OpAccess::Write,
                false => used.access(),
            };
            let reads = matches!(
                access,
                OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite
            );
            if reads && unwritten >> n & 1 != 0 && !saves(next, whole) {
                // Of a sum of addresses no more counts than is kept.
                let size = match next.mnemonic() {
                    Mnemonic::Lea => size.min(next.op0_register().size() as u8),
                    _ => size,
                };
                self.widths[n] = self.widths[n].max(size);
            }
            let writes = matches!(access, OpAccess::Write | OpAccess::ReadWrite);
            if writes && size >= 4 {
                written |= 1 << n;
            }
        }
        unwritten & !written
    }
}

/// Returns what becomes of an argument.
fn follow(code: &Code<'_>, entry: u64, register: Register, bytes: u8) -> Parameter {
    let mut parameter = Parameter {
        bytes,
        uses: 0,
        usage: Use::Unknown {
            bytes,
            general: true,
        },
    };
    let Some(there) = code.at(entry) else {
        return parameter;
    };
    let mut known = None;
    let mut value = Value::in_register(register, bytes);
    let mut kept: Vec<u64> = Vec::new();
    let mut decoder = Decoder::with_ip(64, there, entry, DecoderOptions::NONE);
    for _ in 0..FAR {
        if !decoder.can_decode() || value.is_gone() && kept.is_empty() {
            break;
        }
        let next = decoder.decode();
        if next.is_invalid() {
            break;
        }
        let in_frame = frame_slot(&next);
        let loads = in_frame.is_some_and(|slot| kept.contains(&slot) && reads_memory(&next));
        let uses = value.reads(&next);
        parameter.uses += u32::from(uses || loads);
        if let Some(slot) = in_frame.filter(|_| next.op0_kind() == OpKind::Memory) {
            kept.retain(|k| *k != slot);
            let stores = moves_number(&next)
                && next.op1_kind() == OpKind::Register
                && value.is(next.op1_register());
            if stores {
                kept.push(slot);
            }
        }
        let told = value.by_use(&next, false);
        if loads && moves_number(&next) {
            value.is_in(next.op0_register());
        }
        // What is stored in the frame is used when it comes back.
        known = known.or(told);
        match next.flow_control() {
            FlowControl::Next | FlowControl::ConditionalBranch => {}
            FlowControl::Call | FlowControl::IndirectCall => value.across_call(),
            _ => break,
        }
    }
    parameter.usage = known.unwrap_or(parameter.usage);
    if register.is_vector_register() {
        // Its bits may be worked with as a number's, and are passed there because they are none.
        (parameter.bytes, parameter.usage) = match parameter.usage {
            Use::Float32 => (4, Use::Float32),
            Use::Float32s => (8, Use::Float32s),
            _ => (8, Use::Float64),
        };
    }
    parameter
}

/// Returns true if an instruction writes a number into a vector register, and reads of it only the rest, which it leaves.
fn keeps_rest(next: &Instruction, whole: Register) -> bool {
    use Mnemonic as M;
    let converts = matches!(
        next.mnemonic(),
        M::Cvtsi2sd
            | M::Cvtsi2ss
            | M::Cvtsd2ss
            | M::Cvtss2sd
            | M::Sqrtsd
            | M::Sqrtss
            | M::Rcpss
            | M::Rsqrtss
            | M::Roundsd
            | M::Roundss
            | M::Movsd
            | M::Movss
    );
    let is =
        |n| next.op_kind(n) == OpKind::Register && next.op_register(n).full_register() == whole;
    converts && is(0) && !is(1)
}

/// Returns true if an instruction saves all of a vector register on the stack, as functions of variable arguments do with all of them.
fn saves(next: &Instruction, whole: Register) -> bool {
    use Mnemonic as M;
    let moves = matches!(next.mnemonic(), M::Movaps | M::Vmovaps);
    let on_stack = matches!(next.memory_base(), Register::RSP | Register::RBP);
    moves && on_stack && next.op0_kind() == OpKind::Memory && whole.is_vector_register()
}

/// Returns true if an instruction moves a number between the stack frame and a register.
fn moves_number(next: &Instruction) -> bool {
    matches!(
        next.mnemonic(),
        Mnemonic::Mov | Mnemonic::Movsd | Mnemonic::Movss | Mnemonic::Vmovsd | Mnemonic::Vmovss
    )
}

/// The displacement of an operand in the stack frame.
fn frame_slot(next: &Instruction) -> Option<u64> {
    let memory = (0..next.op_count()).any(|n| next.op_kind(n) == OpKind::Memory);
    let frame = next.memory_base() == Register::RBP && next.memory_index() == Register::None;
    (memory && frame && next.mnemonic() != Mnemonic::Lea).then(|| next.memory_displacement64())
}

fn reads_memory(next: &Instruction) -> bool {
    next.op0_kind() != OpKind::Memory || !moves_number(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(bytes: &[u8]) -> [Option<Parameter>; REGISTERS.len()] {
        parameters(&Code::new(vec![(0x1000, bytes)]), 0x1000).expect("code")
    }

    fn widths(bytes: &[u8]) -> [u8; 6] {
        let all = of(bytes).map(|p| p.map_or(0, |p| p.bytes));
        std::array::from_fn(|n| all[n])
    }

    #[test]
    fn what_is_read_before_it_is_written_is_taken() {
        for (what, bytes, wanted) in [
            (
                "lea eax,[rdi+rsi]; ret",
                &[0x8d, 0x04, 0x37, 0xc3][..],
                [4, 4, 0, 0, 0, 0],
            ),
            (
                "xor edi,edi; mov eax,edi; ret",
                &[0x31, 0xff, 0x89, 0xf8, 0xc3],
                [0; 6],
            ),
            (
                "mov rax,[rdi]; mov edi,1; ret",
                &[0x48, 0x8b, 0x07, 0xbf, 1, 0, 0, 0, 0xc3],
                [8, 0, 0, 0, 0, 0],
            ),
            (
                "mov dil,1; mov eax,edi",
                &[0x40, 0xb7, 1, 0x89, 0xf8],
                [4, 0, 0, 0, 0, 0],
            ),
            (
                "test dil,dil; ret",
                &[0x40, 0x84, 0xff, 0xc3],
                [1, 0, 0, 0, 0, 0],
            ),
            (
                "nop [rdi+rcx]; ret",
                &[0x0f, 0x1f, 0x04, 0x0f, 0xc3],
                [0; 6],
            ),
            (
                "je +2; mov eax,edx; mov eax,r8d",
                &[0x74, 2, 0x89, 0xd0, 0x44, 0x89, 0xc0],
                [0, 0, 4, 0, 4, 0],
            ),
            (
                "jmp +1; ret; mov eax,r9d; ret",
                &[0xeb, 1, 0xc3, 0x44, 0x89, 0xc8, 0xc3],
                [0, 0, 0, 0, 0, 4],
            ),
            // What the callee takes and was not written is passed on, and nothing is left behind it.
            (
                "mov esi,1; call +3; mov eax,ecx; ret; lea rax,[rdi+rsi]",
                &[
                    0xbe, 1, 0, 0, 0, 0xe8, 3, 0, 0, 0, 0x89, 0xc8, 0xc3, 0x48, 0x8d, 0x04, 0x37,
                ],
                [8, 0, 0, 0, 0, 0],
            ),
            // A loop around to what was written.
            (
                "mov edi,1; mov eax,edi; jmp -4",
                &[0xbf, 1, 0, 0, 0, 0x89, 0xf8, 0xeb, 0xfc],
                [0; 6],
            ),
            (
                "cmove edi,esi; mov eax,edi",
                &[0x0f, 0x44, 0xfe, 0x89, 0xf8],
                [4, 4, 0, 0, 0, 0],
            ),
        ] {
            assert_eq!(widths(bytes), wanted, "{what}");
        }
    }

    /// Bytes of `xmm0`, `xmm1` and `xmm2` that are taken.
    #[test]
    fn numbers_in_vector_registers_are_taken() {
        for (what, bytes, wanted) in [
            (
                "mulsd xmm0,xmm1; ret",
                &[0xf2, 0x0f, 0x59, 0xc1, 0xc3][..],
                [8, 8, 0],
            ),
            (
                "addss xmm0,xmm0; ret",
                &[0xf3, 0x0f, 0x58, 0xc0, 0xc3],
                [4, 0, 0],
            ),
            (
                "movss [rbp-4],xmm0; ret",
                &[0xf3, 0x0f, 0x11, 0x45, 0xfc, 0xc3],
                [4, 0, 0],
            ),
            (
                "pxor xmm0,xmm0; addsd xmm0,xmm2; ret",
                &[0x66, 0x0f, 0xef, 0xc0, 0xf2, 0x0f, 0x58, 0xc2, 0xc3],
                [0, 0, 8],
            ),
            // Its upper half stays, and is no argument.
            (
                "cvtsi2sd xmm0,edi; mulsd xmm0,xmm1; ret",
                &[0xf2, 0x0f, 0x2a, 0xc7, 0xf2, 0x0f, 0x59, 0xc1, 0xc3],
                [0, 8, 0],
            ),
            (
                "sqrtsd xmm0,xmm1; addsd xmm0,xmm0; ret",
                &[0xf2, 0x0f, 0x51, 0xc1, 0xf2, 0x0f, 0x58, 0xc0, 0xc3],
                [0, 8, 0],
            ),
            (
                "sqrtsd xmm0,xmm0; ret",
                &[0xf2, 0x0f, 0x51, 0xc0, 0xc3],
                [8, 0, 0],
            ),
            // Of variable arguments.
            (
                "test al,al; je +5; movaps [rsp+16],xmm0; ret",
                &[0x84, 0xc0, 0x74, 5, 0x0f, 0x29, 0x44, 0x24, 0x10, 0xc3],
                [0, 0, 0],
            ),
        ] {
            let all = of(bytes).map(|p| p.map_or(0, |p| p.bytes));
            assert_eq!(all[6..9], wanted, "{what}");
        }
        // movsd [rbp-8],xmm0; movsd xmm1,[rbp-8]; mulsd xmm1,xmm1; ret
        let first = of(&[
            0xf2, 0x0f, 0x11, 0x45, 0xf8, 0xf2, 0x0f, 0x10, 0x4d, 0xf8, 0xf2, 0x0f, 0x59, 0xc9,
            0xc3,
        ])[6];
        let first = first.expect("taken");
        assert_eq!((first.usage, first.uses), (Use::Float64, 3));
    }

    #[test]
    fn what_an_argument_is_and_how_much_of_the_code_works_with_it_is_told() {
        // push rbx; mov rbx,rdi; call +0; mov eax,[rbx]; add eax,[rbx+8]; ret
        let first = of(&[
            0x53, 0x48, 0x89, 0xfb, 0xe8, 0, 0, 0, 0, 0x8b, 0x03, 0x03, 0x43, 8, 0xc3,
        ])[0];
        let first = first.expect("taken");
        assert_eq!((first.usage, first.uses), (Use::Pointer, 3));
        // mov [rbp-4],edi; mov [rbp-8],esi; mov eax,[rbp-4]; imul eax,[rbp-8]; ret
        let both = of(&[
            0x89, 0x7d, 0xfc, 0x89, 0x75, 0xf8, 0x8b, 0x45, 0xfc, 0x0f, 0xaf, 0x45, 0xf8, 0xc3,
        ]);
        let signed = Use::Integer {
            bytes: 4,
            signed: true,
        };
        let first = both[0].expect("taken");
        assert_eq!((first.usage, first.uses), (signed, 3));
        assert_eq!(both[1].expect("taken").uses, 2);
        assert_eq!(both[2], None);
    }

    #[test]
    fn stubs_are_told_from_functions() {
        let jump = |bytes: &[u8]| forwarded_by(&Code::new(vec![(0x1000, bytes)]), 0x1000);
        // endbr64; bnd jmp [rip+x] / jmp [rip+x] / jmp [rdi] / ret
        let endbr = [0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25, 1, 2, 3, 0];
        assert_eq!(jump(&endbr), Some(0x1004));
        assert_eq!(jump(&[0xff, 0x25, 1, 2, 3, 0]), Some(0x1000));
        assert_eq!(jump(&[0xff, 0x27]), None);
        assert_eq!(jump(&[0xc3]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_looked_at(bytes in prop::collection::vec(any::<u8>(), 1..200)) {
            let _ = of(&bytes);
            let _ = forwarded_by(&Code::new(vec![(0, &bytes)]), 0);
        }
    }
}
