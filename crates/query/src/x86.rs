//! Classes of x86-64 instructions (Table 1).
//!
//! The paper's machine loads, computes and stores with different instructions; an x86-64 instruction may do
//! all three. It is of *one* class: the first of [`RULES`] that fits. What it does to memory comes before
//! what it computes, so that a query on stores sees every instruction that writes memory, as a
//! store barrier must, and a query on loads every other one that reads it; only control transfers,
//! whose stack accesses nobody means, and what leaves the program stand before them.

use iced_x86::{
    CpuidFeature, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register,
};

use crate::class::Operation;

/// An instruction and what it does to memory and registers.
struct Seen<'a> {
    instruction: &'a Instruction,
    reads: bool,
    writes: bool,
    vectors: bool,
}

/// Class, who belongs to it, and the words for that in the manual.
type Rule = (Operation, fn(&Seen<'_>) -> bool, &'static str);

const RULES: [Rule; 8] = [
    (
        Operation::System,
        is_system,
        "`syscall`, `sysenter`, `int n`, `int3`, `ud2` and invalid encodings, privileged \
         instructions, ports, transactions, `cpuid`, `rdtsc`, `rdtscp`, `rdpmc`, `xgetbv`, fences, \
         `pause`, monitors",
    ),
    (
        Operation::Branch,
        |i| i.instruction.flow_control() == FlowControl::ConditionalBranch,
        "`jcc`, `loop`, `loope`, `loopne`, `jrcxz`, `jecxz`",
    ),
    (
        Operation::Jump,
        is_jump,
        "`jmp`, `call` and `ret`, direct, indirect and far",
    ),
    (
        Operation::Store,
        |i| i.writes,
        "whatever else writes memory: `mov` to memory, `add [m], r`, `push`, `xchg`, `cmpxchg`, \
         `stos`, `movs`, vector, x87 and masked stores, `xsave`",
    ),
    (
        Operation::Load,
        |i| i.reads,
        "whatever else reads memory: `mov` from memory, `add r, [m]`, `cmp [m], r`, `pop`, `leave`, \
         `lods`, `scas`, `cmps`, vector and x87 loads, gathers",
    ),
    (
        Operation::Multiply,
        is_multiply,
        "`mul`, `imul`, `mulx`, `div`, `idiv` of registers",
    ),
    (
        Operation::Float,
        |i| i.vectors,
        "whatever else uses x87, MMX, vector or mask registers, integers in them included",
    ),
    (
        Operation::Alu,
        |_| true,
        "the rest: moves between registers, `lea`, arithmetic and logic, `cmov`, `setcc`, `nop`, \
         prefetches",
    ),
];

/// Classes in the order in which they are tried, with the words for who belongs to them.
pub fn rules() -> impl Iterator<Item = (Operation, &'static str)> {
    RULES
        .into_iter()
        .map(|(operation, _, words)| (operation, words))
}

/// The class of an instruction.
pub fn operation(info: &mut InstructionInfoFactory, instruction: &Instruction) -> Operation {
    let info = info.info(instruction);
    let accesses = |wanted: &[OpAccess]| {
        let memory = info.used_memory().iter();
        memory.into_iter().any(|m| wanted.contains(&m.access()))
    };
    let seen = Seen {
        instruction,
        reads: accesses(&[
            OpAccess::Read,
            OpAccess::CondRead,
            OpAccess::ReadWrite,
            OpAccess::ReadCondWrite,
        ]),
        writes: accesses(&[
            OpAccess::Write,
            OpAccess::CondWrite,
            OpAccess::ReadWrite,
            OpAccess::ReadCondWrite,
        ]) || saves_state(instruction),
        vectors: (info.used_registers().iter()).any(|r| is_vector(r.register()))
            || is_x87(instruction),
    };
    let found = RULES.into_iter().find(|(_, fits, _)| fits(&seen));
    found.map_or(Operation::Alu, |(operation, ..)| operation)
}

fn is_system(i: &Seen<'_>) -> bool {
    use Mnemonic as M;
    let instruction = i.instruction;
    let leaves = match instruction.flow_control() {
        FlowControl::Interrupt | FlowControl::Exception | FlowControl::XbeginXabortXend => true,
        // `syscall` and its kind are calls without an operand.
        FlowControl::Call => instruction.op_count() == 0,
        _ => false,
    };
    leaves
        || instruction.is_privileged()
        || matches!(
            instruction.mnemonic(),
            M::In
                | M::Out
                | M::Insb
                | M::Insw
                | M::Insd
                | M::Outsb
                | M::Outsw
                | M::Outsd
                | M::Cli
                | M::Sti
                | M::Cpuid
                | M::Rdtsc
                | M::Rdtscp
                | M::Rdpmc
                | M::Xgetbv
                | M::Xtest
                | M::Mfence
                | M::Lfence
                | M::Sfence
                | M::Serialize
                | M::Pause
                | M::Monitorx
                | M::Mwaitx
                | M::Umonitor
                | M::Umwait
                | M::Tpause
        )
}

fn is_jump(i: &Seen<'_>) -> bool {
    matches!(
        i.instruction.flow_control(),
        FlowControl::UnconditionalBranch
            | FlowControl::IndirectBranch
            | FlowControl::Call
            | FlowControl::IndirectCall
            | FlowControl::Return
    )
}

fn is_multiply(i: &Seen<'_>) -> bool {
    matches!(
        i.instruction.mnemonic(),
        Mnemonic::Mul | Mnemonic::Imul | Mnemonic::Mulx | Mnemonic::Div | Mnemonic::Idiv
    )
}

/// Returns what writes memory though the decoder's tables do not say so.
fn saves_state(i: &Instruction) -> bool {
    use Mnemonic as M;
    let has_memory = (0..i.op_count()).any(|n| i.op_kind(n) == OpKind::Memory);
    has_memory
        && matches!(
            i.mnemonic(),
            M::Xsave | M::Xsave64 | M::Xsavec | M::Xsavec64 | M::Xsaveopt | M::Xsaveopt64
        )
}

fn is_vector(register: Register) -> bool {
    register.is_vector_register() || register.is_mm() || register.is_st() || register.is_k()
}

/// Returns true if it works on the register stack, with operands or without.
fn is_x87(i: &Instruction) -> bool {
    i.cpuid_features().iter().any(|feature| {
        matches!(
            feature,
            CpuidFeature::FPU
                | CpuidFeature::FPU287
                | CpuidFeature::FPU287XL_ONLY
                | CpuidFeature::FPU387
                | CpuidFeature::FPU387SL_ONLY
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};
    use std::vec::Vec;

    fn class(bytes: &[u8]) -> Operation {
        let instruction = Decoder::new(64, bytes, DecoderOptions::NONE).decode();
        operation(&mut InstructionInfoFactory::new(), &instruction)
    }

    #[test]
    fn each_instruction_has_the_class_that_the_manual_says() {
        use Operation as O;
        let cases: &[(O, &[u8], &str)] = &[
            (O::Jump, &[0xeb, 0], "jmp +0"),
            (O::Jump, &[0xe8, 0, 0, 0, 0], "call +0"),
            (O::Jump, &[0xff, 0x10], "call [rax]"),
            (O::Jump, &[0xff, 0xe0], "jmp rax"),
            (O::Jump, &[0xc3], "ret"),
            (O::Branch, &[0x74, 0], "je +0"),
            (O::Branch, &[0xe3, 0], "jrcxz +0"),
            (O::Branch, &[0xe2, 0], "loop +0"),
            (O::Load, &[0x48, 0x8b, 0x07], "mov rax, [rdi]"),
            (O::Load, &[0x48, 0x03, 0x07], "add rax, [rdi]"),
            (O::Load, &[0x48, 0x39, 0x07], "cmp [rdi], rax"),
            (O::Load, &[0x48, 0x0f, 0xaf, 0x07], "imul rax, [rdi]"),
            (O::Load, &[0x58], "pop rax"),
            (O::Load, &[0xc9], "leave"),
            (O::Load, &[0xf3, 0xa6], "repe cmpsb"),
            (O::Load, &[0x0f, 0x10, 0x07], "movups xmm0, [rdi]"),
            (O::Load, &[0xf2, 0x0f, 0x58, 0x07], "addsd xmm0, [rdi]"),
            (O::Load, &[0xd9, 0x07], "fld [rdi]"),
            (
                O::Load,
                &[0xc4, 0xe2, 0x69, 0x90, 0x04, 0x0f],
                "vpgatherdd xmm0, [rdi+xmm1], xmm2",
            ),
            (O::Store, &[0x48, 0x89, 0x07], "mov [rdi], rax"),
            (O::Store, &[0x48, 0x01, 0x07], "add [rdi], rax"),
            (O::Store, &[0x50], "push rax"),
            (O::Store, &[0x48, 0x87, 0x07], "xchg [rdi], rax"),
            (
                O::Store,
                &[0xf0, 0x48, 0x0f, 0xb1, 0x0f],
                "lock cmpxchg [rdi], rcx",
            ),
            (O::Store, &[0xf3, 0x48, 0xab], "rep stosq"),
            (O::Store, &[0xa4], "movsb"),
            (O::Store, &[0xdd, 0x1f], "fstp [rdi]"),
            (O::Store, &[0x0f, 0xae, 0x27], "xsave [rdi]"),
            (
                O::Store,
                &[0xc4, 0xe2, 0x71, 0x2e, 0x07],
                "vmaskmovps [rdi], xmm1, xmm0",
            ),
            (O::Alu, &[0x48, 0x01, 0xc8], "add rax, rcx"),
            (O::Alu, &[0x48, 0x8d, 0x47, 0x08], "lea rax, [rdi+8]"),
            (O::Alu, &[0x0f, 0x1f, 0x40, 0x00], "nop [rax]"),
            (O::Alu, &[0x0f, 0x18, 0x0f], "prefetcht0 [rdi]"),
            (O::Alu, &[0x48, 0x0f, 0x44, 0xc1], "cmove rax, rcx"),
            (O::Multiply, &[0x48, 0x0f, 0xaf, 0xc1], "imul rax, rcx"),
            (O::Multiply, &[0x48, 0xf7, 0xf1], "div rcx"),
            (O::Float, &[0xf2, 0x0f, 0x58, 0xc1], "addsd xmm0, xmm1"),
            (O::Float, &[0x66, 0x0f, 0xef, 0xc0], "pxor xmm0, xmm0"),
            (O::Float, &[0x66, 0x48, 0x0f, 0x7e, 0xc0], "movq rax, xmm0"),
            (O::Float, &[0xd9, 0xe8], "fld1"),
            (O::Float, &[0xd8, 0xc1], "fadd st0, st1"),
            (O::Float, &[0xc5, 0xf8, 0x77], "vzeroupper"),
            (O::System, &[0x0f, 0x05], "syscall"),
            (O::System, &[0xcc], "int3"),
            (O::System, &[0xcd, 0x80], "int 0x80"),
            (O::System, &[0x0f, 0x0b], "ud2"),
            (O::System, &[0xf4], "hlt"),
            (O::System, &[0x0f, 0xa2], "cpuid"),
            (O::System, &[0x0f, 0x31], "rdtsc"),
            (O::System, &[0x0f, 0xae, 0xf0], "mfence"),
            (O::System, &[0x06], "(invalid)"),
        ];
        for (expected, bytes, text) in cases {
            assert_eq!(class(bytes), *expected, "{text}");
        }
    }

    #[test]
    fn each_class_has_one_rule() {
        let mut classes: Vec<Operation> = rules().map(|(operation, _)| operation).collect();
        classes.sort();
        assert_eq!(classes, Operation::ALL);
    }
}
