//! Facts that the core needs of an instruction: registers, memory accesses, the unit that executes it.
//!
//! # Problem
//! The paper's machine executes PISA, whose instructions load, compute or store; ours are those of x86-64,
//! which may do all three, and which move the stack pointer and the flags along.
//!
//! # Decisions
//! * One x86-64 instruction is one instruction of the machine: one place in the window, one slot of each stage.
//!   It is issued when all its registers are there; what it loads comes before what it computes. So rates per
//!   instruction are those of programs as they are.
//! * Latencies are SimpleScalar's, on which the paper's simulator stands: integer 1, multiplication 3, division
//!   20 (not pipelined), floating point addition 2, multiplication 4, division 12, square root 24.
//! * `push`, `pop`, `call` and `ret` move the stack pointer in the front end, as machines for x86-64 do: no
//!   instruction waits for another's move. A register machine has no such chain.
//! * The flags are one register. An instruction that writes one or two bytes of a register reads the rest.
//! * At most two memory accesses count, the first two; of gathers and scatters, the first element.

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction as X86, InstructionInfoFactory, Mnemonic,
    OpAccess, OpKind, Register,
};
use trommel_query::{Operation, x86};

/// Memory accesses of an instruction at most.
pub const ACCESSES: usize = 2;
/// Registers that instructions depend on each other through.
pub const REGISTERS: usize = 68;
/// The number of the flags register, after the sixteen general ones.
const FLAGS: u8 = 16;
const VECTORS: u8 = 17;
const X87: u8 = 49;
const MASKS: u8 = 60;
const STACK: u8 = 4;

/// Units that execute instructions, apart from memory ports.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Unit {
    /// Integers, logic, moves, branches.
    Alu,
    /// Integer multiplication and division.
    Multiplier,
    /// Floating point addition, comparison, conversion.
    FloatAdder,
    /// Floating point multiplication, division, roots.
    FloatMultiplier,
}

impl Unit {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 4] = [
        Self::Alu,
        Self::Multiplier,
        Self::FloatAdder,
        Self::FloatMultiplier,
    ];
}

/// Control flow after an instruction, as a predictor sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// With the next one.
    Next,
    /// There or here, by a condition.
    Conditional,
    /// Always to the same place.
    Direct,
    /// Through a register or memory.
    Indirect,
    /// A direct call: like `Direct`, and a return address.
    Call,
    /// An indirect call.
    IndirectCall,
    /// To a return address.
    Return,
}

/// A memory access.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Access {
    /// It reads.
    pub reads: bool,
    /// It writes.
    pub writes: bool,
    /// Bytes.
    pub size: u16,
}

/// An instruction of the program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Instruction {
    /// Its address.
    pub pc: u64,
    /// Its bytes.
    pub length: u8,
    /// Its class for queries.
    pub operation: Operation,
    /// Its profile tag.
    pub tag: u8,
    /// Registers it waits for.
    pub sources: Vec<u8>,
    /// Registers it makes.
    pub destinations: Vec<u8>,
    /// Its accesses to memory.
    pub accesses: Vec<Access>,
    /// Its unit; none for those that only move between memory and a register.
    pub unit: Option<Unit>,
    /// Cycles in the unit.
    pub latency: u32,
    /// Cycles for which the unit takes no other.
    pub interval: u32,
    /// Its control flow.
    pub flow: Flow,
    /// Address that it leads to, of direct branches and calls that are taken; otherwise 0.
    pub target: u64,
    /// It is repeated (`rep`).
    pub repeats: bool,
}

impl Instruction {
    /// The instruction of bytes at an address, with profile tag 0.
    pub fn decode(info: &mut InstructionInfoFactory, pc: u64, bytes: &[u8]) -> Self {
        let i = Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE).decode();
        Self::of(info, &i)
    }

    /// The instruction as it was decoded.
    pub fn of(info: &mut InstructionInfoFactory, i: &X86) -> Self {
        let operation = x86::operation(info, i);
        let (sources, destinations) = registers(info, i);
        let accesses: Vec<Access> = memory(info, i).map(|(access, _)| access).collect();
        let (unit, latency, interval) = execution(i, &accesses);
        Self {
            pc: i.ip(),
            length: i.len() as u8,
            operation,
            tag: 0,
            sources,
            destinations,
            accesses,
            unit,
            latency,
            interval,
            flow: flow(i),
            target: i.near_branch_target(),
            repeats: is_repeated(i),
        }
    }

    /// The address after it.
    pub fn end(&self) -> u64 {
        self.pc.wrapping_add(self.length.into())
    }

    /// Returns true if it reads memory.
    pub fn loads(&self) -> bool {
        self.accesses.iter().any(|a| a.reads)
    }
}

/// Returns true if it is executed until a count is used up.
pub(crate) fn is_repeated(i: &X86) -> bool {
    (i.has_rep_prefix() || i.has_repne_prefix()) && i.is_string_instruction()
}

fn reads(access: OpAccess) -> bool {
    matches!(
        access,
        OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite
    )
}

fn writes(access: OpAccess) -> bool {
    matches!(
        access,
        OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
    )
}

/// Its memory accesses, with what tells their addresses.
pub(crate) fn memory<'a>(
    info: &'a mut InstructionInfoFactory,
    i: &X86,
) -> impl Iterator<Item = (Access, iced_x86::UsedMemory)> + 'a {
    let used = info.info(i).used_memory().iter();
    let seen = used.filter(|m| reads(m.access()) || writes(m.access()));
    seen.take(ACCESSES).map(|m| {
        let access = Access {
            reads: reads(m.access()),
            writes: writes(m.access()),
            size: m.memory_size().size().clamp(1, 64) as u16,
        };
        (access, *m)
    })
}

fn number(register: Register) -> Option<u8> {
    let full = register.full_register();
    let number = full.number() as u8;
    if full.is_gpr() {
        Some(number)
    } else if full.is_vector_register() {
        Some(VECTORS + number)
    } else if full.is_st() || full.is_mm() {
        // The register stack moves: its registers are one.
        Some(X87)
    } else if full.is_k() {
        Some(MASKS + number)
    } else {
        None
    }
}

fn registers(info: &mut InstructionInfoFactory, i: &X86) -> (Vec<u8>, Vec<u8>) {
    let (mut sources, mut destinations) = (Vec::new(), Vec::new());
    let add = |list: &mut Vec<u8>, n: u8| {
        if !list.contains(&n) {
            list.push(n);
        }
    };
    let names_stack = i.op0_kind() == OpKind::Register
        && i.op_count() > 0
        && i.op0_register().full_register() == Register::RSP;
    let moves_stack = i.stack_pointer_increment() != 0 && !names_stack;
    for used in info.info(i).used_registers() {
        let (register, access) = (used.register(), used.access());
        let Some(n) = number(register) else { continue };
        let is_move = moves_stack && n == STACK;
        let merges = writes(access) && register.is_gpr() && register.size() < 4;
        let conditional = matches!(access, OpAccess::CondWrite | OpAccess::ReadCondWrite);
        if reads(access) || merges || conditional {
            add(&mut sources, n);
        }
        if writes(access) && !is_move {
            add(&mut destinations, n);
        }
    }
    if i.rflags_read() != 0 {
        add(&mut sources, FLAGS);
    }
    if i.rflags_modified() != 0 {
        add(&mut destinations, FLAGS);
    }
    (sources, destinations)
}

fn flow(i: &X86) -> Flow {
    match i.flow_control() {
        FlowControl::ConditionalBranch => Flow::Conditional,
        FlowControl::UnconditionalBranch => Flow::Direct,
        FlowControl::IndirectBranch => Flow::Indirect,
        FlowControl::Call if i.mnemonic() == Mnemonic::Call => Flow::Call,
        FlowControl::IndirectCall => Flow::IndirectCall,
        FlowControl::Return => Flow::Return,
        _ => Flow::Next,
    }
}

/// Unit, latency and interval.
fn execution(i: &X86, accesses: &[Access]) -> (Option<Unit>, u32, u32) {
    use Mnemonic as M;
    // The decoder's tables of names are the shortest way to say which of 1500 mnemonics compute what.
    let name = format!("{:?}", i.mnemonic()).to_ascii_lowercase();
    let moves = name.starts_with("mov")
        || name.starts_with("vmov")
        || name.starts_with("vbroadcast")
        || matches!(
            i.mnemonic(),
            M::Push | M::Pop | M::Leave | M::Fld | M::Fst | M::Fstp | M::Lddqu | M::Lodsb
        );
    match i.mnemonic() {
        M::Mul | M::Imul | M::Mulx => return (Some(Unit::Multiplier), 3, 1),
        M::Div | M::Idiv => return (Some(Unit::Multiplier), 20, 19),
        _ => {}
    }
    let of_floats = is_float(&name);
    match () {
        () if moves && !accesses.is_empty() => (None, 0, 0),
        () if of_floats && name.contains("sqrt") => (Some(Unit::FloatMultiplier), 24, 24),
        () if of_floats && name.contains("div") => (Some(Unit::FloatMultiplier), 12, 12),
        () if of_floats
            && (name.contains("mul") || name.contains("fm") || name.contains("fnm")) =>
        {
            (Some(Unit::FloatMultiplier), 4, 1)
        }
        () if of_floats => (Some(Unit::FloatAdder), 2, 1),
        () => (Some(Unit::Alu), 1, 1),
    }
}

/// Returns true if a name is of floating point arithmetic; integers and logic in vectors are not.
fn is_float(name: &str) -> bool {
    let name = name.strip_prefix('v').unwrap_or(name);
    let arithmetic = [
        "add", "sub", "mul", "div", "sqrt", "min", "max", "cmp", "comi", "ucomi", "round", "fm",
        "fnm", "hadd", "hsub", "rcp", "rsqrt", "dp",
    ];
    let of_vectors = ["ps", "pd", "ss", "sd"].iter().any(|s| name.ends_with(s))
        && arithmetic.iter().any(|a| name.starts_with(a))
        && name != "cmpsd";
    let of_stack = [
        "fadd", "fsub", "fmul", "fdiv", "fsqrt", "fcom", "fucom", "fiadd", "fimul",
    ];
    of_vectors || name.starts_with("cvt") || of_stack.iter().any(|s| name.starts_with(s))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(bytes: &[u8]) -> Instruction {
        Instruction::decode(&mut InstructionInfoFactory::new(), 0x1000, bytes)
    }

    #[test]
    fn registers_are_those_that_make_one_wait_for_another() {
        // add rax, rcx
        let add = decode(&[0x48, 0x01, 0xc8]);
        assert_eq!(
            (add.sources, add.destinations),
            (vec![0, 1], vec![0, FLAGS])
        );
        // xor eax, eax depends on nothing; adc reads the carry
        assert!(decode(&[0x31, 0xc0]).sources.is_empty());
        assert!(decode(&[0x48, 0x11, 0xc8]).sources.contains(&FLAGS));
        // mov al, 1 keeps the rest of rax
        assert_eq!(decode(&[0xb0, 1]).sources, [0]);
        // push rax moves the stack pointer in the front end; add rsp, 8 does not
        let push = decode(&[0x50]);
        assert!(push.sources.contains(&STACK) && !push.destinations.contains(&STACK));
        assert!(decode(&[0x48, 0x83, 0xc4, 8]).destinations.contains(&STACK));
        // pop rsp names it
        assert!(decode(&[0x5c]).destinations.contains(&STACK));
    }

    #[test]
    fn units_and_latencies_are_the_table_s() {
        let timing = |bytes: &[u8]| {
            let i = decode(bytes);
            (i.unit, i.latency, i.interval)
        };
        use Unit as U;
        let cases: [(&[u8], _); 9] = [
            (&[0x48, 0x01, 0xc8], (Some(U::Alu), 1, 1)),
            (&[0x48, 0x0f, 0xaf, 0xc1], (Some(U::Multiplier), 3, 1)),
            (&[0x48, 0xf7, 0xf1], (Some(U::Multiplier), 20, 19)),
            (&[0xf2, 0x0f, 0x58, 0xc1], (Some(U::FloatAdder), 2, 1)),
            (&[0xf2, 0x0f, 0x59, 0xc1], (Some(U::FloatMultiplier), 4, 1)),
            (
                &[0xf2, 0x0f, 0x5e, 0xc1],
                (Some(U::FloatMultiplier), 12, 12),
            ),
            (
                &[0xf2, 0x0f, 0x51, 0xc1],
                (Some(U::FloatMultiplier), 24, 24),
            ),
            (&[0x66, 0x0f, 0xef, 0xc0], (Some(U::Alu), 1, 1)),
            (&[0x48, 0x8b, 0x07], (None, 0, 0)),
        ];
        for (bytes, expected) in cases {
            assert_eq!(timing(bytes), expected, "{bytes:x?}");
        }
    }

    #[test]
    fn accesses_and_control_flow() {
        let access = |bytes: &[u8]| -> Vec<(bool, bool, u16)> {
            let i = decode(bytes);
            i.accesses
                .iter()
                .map(|a| (a.reads, a.writes, a.size))
                .collect()
        };
        assert_eq!(access(&[0x48, 0x01, 0x07]), [(true, true, 8)]); // add [rdi], rax
        assert_eq!(access(&[0xc3]), [(true, false, 8)]); // ret
        assert_eq!(access(&[0xff, 0x10]).len(), 2); // call [rax]
        assert!(access(&[0x48, 0x8d, 0x47, 8]).is_empty()); // lea
        let flows = [
            (&[0x74, 0][..], Flow::Conditional),
            (&[0xeb, 0], Flow::Direct),
            (&[0xe8, 0, 0, 0, 0], Flow::Call),
            (&[0xff, 0xd0], Flow::IndirectCall),
            (&[0xff, 0xe0], Flow::Indirect),
            (&[0xc3], Flow::Return),
            (&[0x0f, 0x05], Flow::Next),
        ];
        for (bytes, flow) in flows {
            assert_eq!(decode(bytes).flow, flow, "{bytes:x?}");
        }
        assert!(decode(&[0xf3, 0x48, 0xab]).repeats);
    }
}
