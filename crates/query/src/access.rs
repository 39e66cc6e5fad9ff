//! Memory accesses of an x86-64 instruction, and the registers that carry data through it.
//!
//! # Problem
//! Whoever records the addresses of accesses and whoever interprets them afterwards must agree on how many an
//! instruction has, and in which order. And whether two accesses can be in each other's way depends on when
//! their addresses are known, that is on the instructions that compute those.
//!
//! # Strategy
//! Both follow from the decoded instruction alone. [`accesses`] gives those whose addresses are sums of general registers and a
//! constant, and whose size is known; [`flow`] the registers that are read and written, and how many cycles lie
//! between.
//!
//! Left out are: accesses through FS or GS, whose base is in no general register; `xlat`, and bits named by a register; gathers and
//! scatters, and those under a mask, which access what a vector says; repeated string instructions, whose size is in a
//! register; state saved as a whole; what `call`, `ret` and indirect jumps do to memory. [`all`] has also those through FS, those of `call`,
//! `ret` and indirect jumps, and of repeated `movs`, `stos` and `lods`, whose number of elements is recorded beside their addresses.

use iced_x86::{
    CodeSize, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register,
};

use crate::class::Operation;
use crate::x86;

/// Accesses of an instruction at most.
pub const MOST: usize = 2;

/// An access to memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// Number of the base register.
    pub base: Option<u8>,
    /// Number of the index register, and the logarithm of its scale.
    pub index: Option<(u8, u8)>,
    /// The number that is added; the whole address where it is relative to the instruction.
    pub displacement: u64,
    /// Addresses are cut to 32 bits.
    pub short: bool,
    /// The base of FS is added. Its displacement has 32 bits.
    pub thread_local: bool,
    /// Its bytes.
    pub size: u16,
    /// It reads.
    pub reads: bool,
    /// It writes.
    pub writes: bool,
    /// It is one of a row, upward from its address, of as many as `rcx` says. A word with that number follows the addresses.
    pub repeated: bool,
}

impl Access {
    /// The registers that its address is made of.
    pub fn registers(&self) -> Registers {
        let index = self.index.map(|(register, _)| register);
        let bit = |register: u8| Registers(1 << register);
        let all = self.base.into_iter().chain(index).map(bit);
        all.fold(Registers::NONE, Registers::with)
    }
}

/// The accesses of an instruction, in the order in which they are reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Accesses([Option<Access>; MOST]);

impl Accesses {
    /// Returns the number of accesses.
    pub fn count(&self) -> usize {
        self.iter().count()
    }

    /// Returns the number of words that record them.
    pub fn words(&self) -> usize {
        self.count() + usize::from(self.is_repeated())
    }

    /// Returns true if the last word says how often they are repeated.
    pub fn is_repeated(&self) -> bool {
        self.iter().any(|access| access.repeated)
    }

    /// One by one.
    pub fn iter(&self) -> impl Iterator<Item = &Access> {
        self.0.iter().flatten()
    }
}

/// The accesses of an instruction, without those of transfers and repeated instructions, and without those through FS.
pub fn accesses(info: &mut InstructionInfoFactory, instruction: &Instruction) -> Accesses {
    let leaves = !matches!(
        instruction.flow_control(),
        FlowControl::Next | FlowControl::XbeginXabortXend
    );
    match leaves || is_repeated(instruction) {
        true => Accesses::default(),
        false => all(info, instruction, false),
    }
}

fn is_repeated(i: &Instruction) -> bool {
    i.is_string_instruction() && (i.has_rep_prefix() || i.has_repne_prefix())
}

/// The accesses of an instruction, with those of transfers, and of repeated instructions where `rcx` says how many there are.
/// `thread_local`: and those through FS.
pub fn all(
    info: &mut InstructionInfoFactory,
    instruction: &Instruction,
    thread_local: bool,
) -> Accesses {
    use Mnemonic as M;
    let i = instruction;
    let repeated = is_repeated(i);
    // What these compare says when they end.
    let compares = matches!(
        i.mnemonic(),
        M::Cmpsb | M::Cmpsw | M::Cmpsd | M::Cmpsq | M::Scasb | M::Scasw | M::Scasd | M::Scasq
    );
    // The address of what `pop` writes is taken when the stack pointer has moved.
    let moved = i.mnemonic() == Mnemonic::Pop && i.op0_kind() == OpKind::Memory;
    if moved || i.has_op_mask() || i.is_vsib() || repeated && compares {
        return Accesses::default();
    }
    let mut found = Accesses::default();
    let used = info.info(i).used_memory();
    for (place, memory) in found.0.iter_mut().zip(used) {
        let (reads, writes) = match memory.access() {
            OpAccess::Read | OpAccess::CondRead => (true, false),
            OpAccess::Write | OpAccess::CondWrite => (false, true),
            OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
            _ => return Accesses::default(),
        };
        // Of a repeated instruction, of one element.
        let size = match repeated {
            true => i.memory_size().size() as u16,
            false => memory.memory_size().size() as u16,
        };
        let through_fs = memory.segment() == Register::FS;
        let short = memory.address_size() == CodeSize::Code32;
        let is_near = i32::try_from(memory.displacement() as i64).is_ok();
        let known = |r: Register| r == Register::None || is_relative(r) || number(r).is_some();
        if memory.segment() == Register::GS
            || through_fs && (!thread_local || short || !is_near)
            || size == 0
            || !known(memory.base())
            || !known(memory.index())
            || is_masked(i)
            || is_bit_string(i)
        {
            return Accesses::default();
        }
        *place = Some(Access {
            base: number(memory.base()),
            index: number(memory.index()).map(|r| (r, memory.scale().trailing_zeros() as u8)),
            displacement: memory.displacement(),
            short,
            thread_local: through_fs,
            size,
            reads,
            writes,
            repeated,
        });
    }
    match used.len() <= MOST {
        true => found,
        false => Accesses::default(),
    }
}

fn is_relative(register: Register) -> bool {
    matches!(register, Register::RIP | Register::EIP)
}

fn is_masked(i: &Instruction) -> bool {
    use Mnemonic as M;
    matches!(
        i.mnemonic(),
        M::Vmaskmovps
            | M::Vmaskmovpd
            | M::Vpmaskmovd
            | M::Vpmaskmovq
            | M::Maskmovq
            | M::Maskmovdqu
            | M::Vmaskmovdqu
    )
}

/// Returns true if an instruction accesses the bit that a register names, wherever that is.
fn is_bit_string(i: &Instruction) -> bool {
    use Mnemonic as M;
    let bit = matches!(i.mnemonic(), M::Bt | M::Bts | M::Btr | M::Btc);
    bit && i.op1_kind() == OpKind::Register
}

/// The number of a general register that addresses are made of: the table of `xlat` is indexed by a part of one.
fn number(register: Register) -> Option<u8> {
    let is = register.is_gpr32() || register.is_gpr64();
    is.then(|| (register.full_register() as u32 - Register::RAX as u32) as u8)
}

/// Registers that carry data: 16 general ones, 32 vector registers, and one each for the flags, all masks, and the stack of x87
/// and MMX.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Registers(u64);

/// Registers that a set can have.
pub const REGISTERS: usize = 51;
const STACK_POINTER: u32 = 4;
const VECTORS: u32 = 16;
const FLAGS: u32 = 48;
const MASKS: u32 = 49;
const STACK: u32 = 50;

impl Registers {
    /// None.
    pub const NONE: Self = Self(0);

    /// Returns the union of both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Numbers below [`REGISTERS`], one by one.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        core::iter::from_fn(move || {
            let next = left.trailing_zeros();
            left &= left.wrapping_sub(1);
            (next < 64).then_some(next as usize)
        })
    }

    fn of(register: Register) -> Self {
        let bit = match register {
            r if r.is_gpr() => number(r.full_register()).map(u32::from),
            r if r.is_vector_register() => Some(VECTORS + r.number() as u32),
            r if r.is_k() => Some(MASKS),
            r if r.is_mm() || r.is_st() => Some(STACK),
            _ => None,
        };
        Self(bit.map_or(0, |bit| 1 << bit))
    }
}

/// Flow of data through an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flow {
    /// Registers that are read, those of addresses included.
    pub reads: Registers,
    /// Registers that are written.
    pub writes: Registers,
    /// Cycles from what it reads to what it writes, of memory nothing counted: about as on processors of this decade.
    pub cycles: u8,
    /// Set when everything before the instruction, stores included, is done before it.
    pub serialises: bool,
}

/// Returns how data goes through an instruction.
pub fn flow(info: &mut InstructionInfoFactory, instruction: &Instruction) -> Flow {
    let operation = x86::operation(info, instruction);
    let mut flow = Flow {
        reads: Registers::NONE,
        writes: Registers::NONE,
        cycles: cycles(operation, instruction),
        serialises: instruction.has_lock_prefix()
            || instruction.mnemonic() == Mnemonic::Xchg
                && (0..2).any(|n| instruction.op_kind(n) == OpKind::Memory)
            || matches!(
                instruction.mnemonic(),
                Mnemonic::Mfence | Mnemonic::Cpuid | Mnemonic::Serialize
            ),
    };
    if instruction.rflags_read() != 0 {
        flow.reads = flow.reads.with(Registers(1 << FLAGS));
    }
    if instruction.rflags_modified() != 0 {
        flow.writes = flow.writes.with(Registers(1 << FLAGS));
    }
    // The stack pointer's own changes are known when an instruction is decoded.
    let stack = match instruction.is_stack_instruction() {
        true => Registers(1 << STACK_POINTER),
        false => Registers::NONE,
    };
    for used in info.info(instruction).used_registers() {
        let register = Registers(Registers::of(used.register()).0 & !stack.0);
        let (reads, writes) = match used.access() {
            OpAccess::Read | OpAccess::CondRead => (true, false),
            OpAccess::Write => (false, true),
            // What is not written stays.
            OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
            OpAccess::None | OpAccess::NoMemAccess => (false, false),
        };
        if reads {
            flow.reads = flow.reads.with(register);
        }
        if writes {
            flow.writes = flow.writes.with(register);
        }
    }
    flow
}

fn cycles(operation: Operation, i: &Instruction) -> u8 {
    use Mnemonic as M;
    const SIMPLE: u8 = 1;
    const MULTIPLY: u8 = 3;
    const FLOAT: u8 = 4;
    const DIVIDE: u8 = 14;
    match i.mnemonic() {
        M::Div
        | M::Idiv
        | M::Divss
        | M::Divsd
        | M::Divps
        | M::Divpd
        | M::Vdivss
        | M::Vdivsd
        | M::Vdivps
        | M::Vdivpd
        | M::Sqrtss
        | M::Sqrtsd
        | M::Sqrtps
        | M::Sqrtpd
        | M::Vsqrtss
        | M::Vsqrtsd
        | M::Vsqrtps
        | M::Vsqrtpd
        | M::Fdiv
        | M::Fdivp
        | M::Fdivr
        | M::Fsqrt => DIVIDE,
        _ => match operation {
            Operation::Multiply => MULTIPLY,
            Operation::Float => FLOAT,
            _ => SIMPLE,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};
    use std::vec::Vec;

    fn decoded(bytes: &[u8]) -> Instruction {
        let instruction = Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE).decode();
        assert_eq!(instruction.len(), bytes.len(), "{bytes:x?}");
        instruction
    }

    /// (base, displacement, size, reads, writes)
    type Told = (Option<u8>, i64, u16, bool, bool);

    fn told(bytes: &[u8]) -> Vec<Told> {
        let mut info = InstructionInfoFactory::new();
        let found = accesses(&mut info, &decoded(bytes));
        let tell = |a: &Access| (a.base, a.displacement as i64, a.size, a.reads, a.writes);
        found.iter().map(tell).collect()
    }

    #[test]
    fn accesses_are_those_of_the_manual() {
        let cases: &[(&[u8], &[Told], &str)] = &[
            (
                &[0x48, 0x8b, 0x47, 8],
                &[(Some(7), 8, 8, true, false)],
                "mov rax, [rdi+8]",
            ),
            (
                &[0x89, 0x07],
                &[(Some(7), 0, 4, false, true)],
                "mov [rdi], eax",
            ),
            (
                &[0x01, 0x07],
                &[(Some(7), 0, 4, true, true)],
                "add [rdi], eax",
            ),
            (&[0x50], &[(Some(4), -8, 8, false, true)], "push rax"),
            (&[0x58], &[(Some(4), 0, 8, true, false)], "pop rax"),
            (&[0xc9], &[(Some(5), 0, 8, true, false)], "leave"),
            (
                &[0xa4],
                &[(Some(7), 0, 1, false, true), (Some(6), 0, 1, true, false)],
                "movsb",
            ),
            (
                &[0x8b, 0x05, 0, 1, 0, 0],
                &[(None, 0x1106, 4, true, false)],
                "mov eax, [rip+0x100]",
            ),
            (
                &[0x0f, 0x10, 0x07],
                &[(Some(7), 0, 16, true, false)],
                "movups xmm0, [rdi]",
            ),
            (&[0x48, 0x8d, 0x47, 8], &[], "lea rax, [rdi+8]"),
            (&[0xf3, 0xa4], &[], "rep movsb"),
            (
                &[0x64, 0x8b, 0x04, 0x25, 0, 0, 0, 0],
                &[],
                "mov eax, fs:[0]",
            ),
            (&[0x0f, 0x18, 0x0f], &[], "prefetcht0 [rdi]"),
            (&[0xc4, 0xe2, 0x69, 0x90, 0x04, 0x0f], &[], "vpgatherdd"),
            (&[0xff, 0x10], &[], "call [rax]"),
            (&[0xc3], &[], "ret"),
            (&[0xd7], &[], "xlatb"),
            (&[0x48, 0x0f, 0xab, 0x0f], &[], "bts [rdi], rcx"),
            (&[0x0f, 0xae, 0x27], &[], "xsave [rdi]"),
        ];
        for (bytes, expected, text) in cases {
            let mut found = told(bytes);
            let mut expected = expected.to_vec();
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn transfers_and_repeated_instructions_have_theirs_too() {
        let cases: &[(&[u8], &[Told], bool, &str)] = &[
            (
                &[0xe8, 0, 0, 0, 0],
                &[(Some(4), -8, 8, false, true)],
                false,
                "call",
            ),
            (&[0xc3], &[(Some(4), 0, 8, true, false)], false, "ret"),
            (
                &[0xff, 0x10],
                &[(Some(0), 0, 8, true, false), (Some(4), -8, 8, false, true)],
                false,
                "call [rax]",
            ),
            (
                &[0xff, 0x20],
                &[(Some(0), 0, 8, true, false)],
                false,
                "jmp [rax]",
            ),
            (&[0xff, 0xe0], &[], false, "jmp rax"),
            (&[0x74, 0], &[], false, "je"),
            (
                &[0xf3, 0x48, 0xa5],
                &[(Some(7), 0, 8, false, true), (Some(6), 0, 8, true, false)],
                true,
                "rep movsq",
            ),
            (
                &[0xf3, 0xaa],
                &[(Some(7), 0, 1, false, true)],
                true,
                "rep stosb",
            ),
            (&[0xf3, 0xa6], &[], false, "repe cmpsb"),
            (&[0xf2, 0xae], &[], false, "repne scasb"),
            (&[0x50], &[(Some(4), -8, 8, false, true)], false, "push rax"),
            (
                &[0x64, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0],
                &[(None, 0x28, 4, true, false)],
                false,
                "mov eax, fs:[0x28]",
            ),
            (
                &[0x64, 0x01, 0x44, 0x8b, 0xf8],
                &[(Some(3), -8, 4, true, true)],
                false,
                "add fs:[rbx+rcx*4-8], eax",
            ),
            (&[0x64, 0x67, 0x8b, 0x03], &[], false, "mov eax, fs:[ebx]"),
            (
                &[0x65, 0x8b, 0x04, 0x25, 0, 0, 0, 0],
                &[],
                false,
                "mov eax, gs:[0]",
            ),
        ];
        for (bytes, expected, repeated, text) in cases {
            let found = all(&mut InstructionInfoFactory::new(), &decoded(bytes), true);
            let tell = |a: &Access| (a.base, a.displacement as i64, a.size, a.reads, a.writes);
            let mut told: Vec<Told> = found.iter().map(tell).collect();
            let mut expected = expected.to_vec();
            told.sort_unstable();
            expected.sort_unstable();
            assert_eq!(told, expected, "{text}");
            assert_eq!(found.is_repeated(), *repeated, "{text}");
            assert_eq!(found.words(), told.len() + usize::from(*repeated), "{text}");
        }
    }

    #[test]
    fn addresses_are_of_all_their_registers() {
        // mov eax, [rbx + 4 * r9]
        let mut info = InstructionInfoFactory::new();
        let found = accesses(&mut info, &decoded(&[0x42, 0x8b, 0x04, 0x8b]));
        let access = found.iter().next().expect("one");
        assert_eq!(access.index, Some((9, 2)));
        assert!(access.registers().iter().eq([3, 9]));
        // mov eax, [edi]
        let found = accesses(&mut info, &decoded(&[0x67, 0x8b, 0x07]));
        assert!(found.iter().all(|a| a.short) && found.count() == 1);
    }

    fn registers(bytes: &[u8]) -> (Vec<usize>, Vec<usize>, u8, bool) {
        let flow = flow(&mut InstructionInfoFactory::new(), &decoded(bytes));
        let list = |r: Registers| r.iter().collect();
        let Flow {
            reads,
            writes,
            cycles,
            serialises,
        } = flow;
        (list(reads), list(writes), cycles, serialises)
    }

    #[test]
    fn data_goes_where_the_manual_says() {
        const F: usize = FLAGS as usize;
        /// Bytes, what is read, what is written, text.
        type Case = (
            &'static [u8],
            &'static [usize],
            &'static [usize],
            &'static str,
        );
        let cases: &[Case] = &[
            (&[0x48, 0x01, 0xc8], &[0, 1], &[0, F], "add rax, rcx"),
            (&[0x31, 0xc0], &[], &[0, F], "xor eax, eax"),
            (&[0x48, 0x89, 0x07], &[0, 7], &[], "mov [rdi], rax"),
            (&[0x0f, 0x44, 0xc1], &[0, 1, F], &[0], "cmove eax, ecx"),
            (&[0x50], &[0], &[], "push rax"),
            (&[0x58], &[], &[0], "pop rax"),
            (&[0x0f, 0x10, 0x07], &[7], &[16], "movups xmm0, [rdi]"),
        ];
        for (bytes, reads, writes, text) in cases {
            let (read, written, ..) = registers(bytes);
            assert_eq!((&read[..], &written[..]), (*reads, *writes), "{text}");
        }
        let (.., cycles, _) = registers(&[0x48, 0x0f, 0xaf, 0xc1]);
        assert_eq!(cycles, 3, "imul rax, rcx");
        for (bytes, expected) in [
            (&[0x48, 0x87, 0x07][..], true),
            (&[0x48, 0x87, 0xc1], false),
            (&[0xf0, 0x48, 0x01, 0x07], true),
            (&[0x0f, 0xae, 0xf0], true),
            (&[0x48, 0x01, 0x07], false),
        ] {
            assert_eq!(registers(bytes).3, expected, "{bytes:x?}");
        }
    }
}
