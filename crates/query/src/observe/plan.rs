//! From a decoded instruction to what is looked at.

use iced_x86::{
    Code, CodeSize, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register, UsedMemory,
};

use super::{Address, Loop, Observation, Segment, Source, Transfer, When, cut, general, wants};
use crate::class::Operation;
use crate::field::{Field, FieldSet};
use crate::x86;

/// Registers that an instruction reads or writes: general registers by bit, vectors from bit 16 on.
type Registers = u32;

impl Observation {
    /// Plans the observation of an instruction of which `fields` are wanted. It is decoded at its run-time address.
    pub fn of(info: &mut InstructionInfoFactory, i: &Instruction, fields: FieldSet) -> Self {
        let operation = x86::operation(info, i);
        let used = info.info(i);
        let memory = memory_of(operation, used.used_memory());
        let access: [OpAccess; 5] = core::array::from_fn(|n| used.op_access(n as u32));
        let mut written: Registers = 0;
        let mut implied = [Source::None; 2];
        let mut kept = 0;
        let mut numbers: Registers = 0;
        for register in used.used_registers() {
            if is_written(register.access()) {
                written |= bit(source_of(register.register()));
                if let Some((number, _, _)) = general(register.register()) {
                    numbers |= 1 << number;
                }
            }
        }
        let stack = moved_stack(i);
        if stack != 0 {
            written &= !(1 << 4);
        }
        let mut observation = Self {
            when: When::After,
            fields,
            operation,
            pc: i.ip(),
            next: i.next_ip(),
            sources: [Source::None; 3],
            results: [Source::None; 2],
            address: memory.map(|m| address(m, i)),
            transfer: Transfer::None,
            moves_stack: stack,
            loaded: loaded(i),
        };
        let reads = |n: u32| is_read(access[n as usize]);
        let operands = 0..i.op_count().min(5);
        match operation {
            Operation::System => {
                observation.address = None;
                observation.sources = [0, 7, 6].map(whole);
                observation.results[0] = whole(0);
            }
            Operation::Branch => {
                let to = i.near_branch_target();
                observation.transfer = branch(i, to);
            }
            Operation::Jump => observation.jump(i),
            Operation::Load => {
                let mut registers = operands.filter(|n| reads(*n)).map(|n| source(i, n));
                let first = registers.find(|s| is_register(*s));
                observation.sources[0] = first.unwrap_or(Source::None);
                observation.results[0] = Source::Memory;
            }
            Operation::Store => observation.sources[0] = stored(i),
            Operation::Alu | Operation::Multiply | Operation::Float => {
                let explicit = operands.clone().filter(|n| reads(*n)).map(|n| source(i, n));
                let explicit = explicit.filter(|s| *s != Source::None);
                let parts = [Source::Base, Source::Index];
                let parts = parts.into_iter().filter(|_| i.mnemonic() == Mnemonic::Lea);
                let all = explicit.chain(parts).chain(implied_sources(i));
                for (to, from) in observation.sources.iter_mut().zip(all) {
                    *to = from;
                }
                if i.mnemonic() == Mnemonic::Lea {
                    observation.address = Some(of_lea(i));
                }
                let explicit = operands.filter(|n| is_written(access[*n as usize]));
                let explicit = explicit.map(|n| source(i, n)).filter(|s| is_register(*s));
                for (to, from) in observation.results.iter_mut().zip(explicit) {
                    *to = from;
                }
                if observation.results[0] == Source::None {
                    for number in (0..16).filter(|n| numbers >> n & 1 != 0 && *n != 4) {
                        if kept < implied.len() {
                            implied[kept] = whole(number);
                            kept += 1;
                        }
                    }
                    observation.results = implied;
                }
            }
        }
        observation.when = observation.time(i, fields, written);
        observation
    }

    fn jump(&mut self, i: &Instruction) {
        match i.op0_kind() {
            _ if i.flow_control() == FlowControl::Return => {
                self.sources[0] = Source::Memory;
                self.address = Some(Address {
                    base: Some(4),
                    size: 8,
                    ..Address::NOWHERE
                });
                self.transfer = Transfer::Through;
            }
            OpKind::Register => {
                self.address = None;
                self.sources[0] = source_of(i.op0_register());
                self.transfer = Transfer::Through;
            }
            OpKind::Memory => {
                self.address = Some(operand(i, 8));
                self.sources[0] = Source::Memory;
                self.transfer = Transfer::Through;
            }
            _ => {
                self.address = None;
                self.transfer = Transfer::To(i.near_branch_target());
            }
        }
    }

    /// Returns when to look, of an instruction that overwrites these registers.
    fn time(&self, i: &Instruction, fields: FieldSet, written: Registers) -> When {
        let leaves = i.mnemonic() == Mnemonic::Syscall;
        if matches!(self.operation, Operation::Branch | Operation::Jump) || leaves {
            return When::Before;
        }
        let of_address = match self.address {
            Some(Address { base, index, .. }) => {
                base.map_or(0, |r| 1 << r) | index.map_or(0, |(r, _)| 1 << r)
            }
            None => 0,
        };
        let operands = [
            &[Field::Op1, Field::Op1Up][..],
            &[Field::Op2, Field::Op2Up],
            &[Field::Op3],
        ];
        let mut needed: Registers = 0;
        for (source, names) in self.sources.into_iter().zip(operands) {
            if wants(fields, names) {
                needed |= match source {
                    Source::Base | Source::Index | Source::Memory => of_address,
                    other => bit(other),
                };
            }
        }
        if self.wants_address() && matches!(self.operation, Operation::Load | Operation::Store) {
            needed |= of_address;
        }
        match needed & written {
            0 => When::After,
            _ => When::Both,
        }
    }
}

impl Address {
    const NOWHERE: Self = Self {
        segment: None,
        base: None,
        index: None,
        displacement: 0,
        short: false,
        size: 0,
        scattered: false,
    };
}

fn is_read(access: OpAccess) -> bool {
    matches!(
        access,
        OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite
    )
}

fn is_written(access: OpAccess) -> bool {
    matches!(
        access,
        OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
    )
}

fn is_register(source: Source) -> bool {
    matches!(source, Source::General { .. } | Source::Vector { .. })
}

fn whole(number: u8) -> Source {
    Source::General {
        number,
        size: 8,
        second: false,
    }
}

fn bit(source: Source) -> Registers {
    match source {
        Source::General { number, .. } => 1 << number,
        Source::Vector { number, .. } => 1 << (16 + number),
        _ => 0,
    }
}

fn source_of(register: Register) -> Source {
    if let Some((number, size, second)) = general(register) {
        return Source::General {
            number,
            size,
            second,
        };
    }
    match register.is_vector_register() && register.number() < 16 {
        true => Source::Vector {
            number: register.number() as u8,
            size: register.size() as u8,
        },
        false => Source::None,
    }
}

/// An explicit operand, if it is a register or a constant.
fn source(i: &Instruction, n: u32) -> Source {
    match i.op_kind(n) {
        OpKind::Register => source_of(i.op_register(n)),
        OpKind::Memory => Source::None,
        _ => match i.try_immediate(n) {
            Ok(value) => {
                let size = match i.op0_kind() {
                    OpKind::Register => i.op0_register().size() as u8,
                    _ => 8,
                };
                Source::Constant(cut(value, size))
            }
            Err(_) => Source::None,
        },
    }
}

/// Returns what `mul` and `div` of one operand read besides.
fn implied_sources(i: &Instruction) -> impl Iterator<Item = Source> {
    use Mnemonic as M;
    let count = match i.mnemonic() {
        M::Mul | M::Imul if i.op_count() == 1 => 1,
        M::Div | M::Idiv => 2,
        _ => 0,
    };
    [0, 2].map(whole).into_iter().take(count)
}

/// The operand that a load reads or a store writes first.
fn memory_of(operation: Operation, all: &[UsedMemory]) -> Option<&UsedMemory> {
    match operation {
        Operation::Store => all.iter().find(|m| is_written(m.access())).or(all.first()),
        Operation::Load => all.iter().find(|m| is_read(m.access())),
        _ => None,
    }
}

fn segment(register: Register) -> Option<Segment> {
    match register {
        Register::FS => Some(Segment::Fs),
        Register::GS => Some(Segment::Gs),
        _ => None,
    }
}

fn address(memory: &UsedMemory, i: &Instruction) -> Address {
    let number = |r: Register| general(r).map(|(number, ..)| number);
    Address {
        segment: segment(memory.segment()),
        base: number(memory.base()),
        index: number(memory.index()).map(|r| (r, memory.scale().trailing_zeros() as u8)),
        displacement: memory.displacement(),
        short: memory.address_size() == CodeSize::Code32,
        // Of what is repeated the first.
        size: match memory.memory_size().size() {
            0 => i.memory_size().size() as u16,
            size => size as u16,
        },
        scattered: memory.vsib_size() != 0,
    }
}

/// The explicit memory operand.
fn operand(i: &Instruction, size: u16) -> Address {
    let number = |r: Register| general(r).map(|(number, ..)| number);
    let short = [i.memory_base(), i.memory_index()].map(|r| r.is_gpr32() || r == Register::EIP);
    Address {
        segment: segment(i.memory_segment()),
        base: number(i.memory_base()),
        index: number(i.memory_index()).map(|r| (r, i.memory_index_scale().trailing_zeros() as u8)),
        displacement: i.memory_displacement64(),
        short: short.contains(&true),
        size,
        scattered: false,
    }
}

fn of_lea(i: &Instruction) -> Address {
    Address {
        segment: None,
        ..operand(i, 0)
    }
}

/// By how much `push` and `pop` move the stack pointer, where they do nothing else to it.
fn moved_stack(i: &Instruction) -> i64 {
    use Mnemonic as M;
    let into_stack = i.op_count() > 0
        && i.op0_kind() == OpKind::Register
        && i.op0_register().full_register() == Register::RSP;
    let of_memory = i.op_count() > 0 && i.op0_kind() == OpKind::Memory;
    match i.mnemonic() {
        M::Push if !of_memory => i.stack_pointer_increment().into(),
        M::Pop if !into_stack && !of_memory => i.stack_pointer_increment().into(),
        M::Pushfq => i.stack_pointer_increment().into(),
        _ => 0,
    }
}

/// Returns what memory holds after a store: where it comes from, if that is an operand as it is.
fn stored(i: &Instruction) -> Source {
    use Mnemonic as M;
    let bytes = i.memory_size().size() as u8;
    match i.mnemonic() {
        M::Mov if i.op0_kind() == OpKind::Memory && !is_special(i) => match i.op1_kind() {
            OpKind::Register => source_of(i.op1_register()),
            _ => i
                .try_immediate(1)
                .map_or(Source::Memory, |v| Source::Constant(cut(v, bytes))),
        },
        M::Push if i.op0_kind() == OpKind::Register && !is_special(i) => {
            source_of(i.op0_register())
        }
        M::Push if i.op0_kind() != OpKind::Memory && !is_special(i) => {
            let size = i.stack_pointer_increment().unsigned_abs() as u8;
            i.try_immediate(0)
                .map_or(Source::Memory, |v| Source::Constant(cut(v, size)))
        }
        _ => Source::Memory,
    }
}

/// The register whose lower bytes are what a load has loaded, of plain moves.
fn loaded(i: &Instruction) -> Source {
    use Mnemonic as M;
    let moves = matches!(i.mnemonic(), M::Mov | M::Movzx | M::Movsx | M::Movsxd);
    let bytes = i.memory_size().size();
    match i.op0_kind() {
        OpKind::Register if moves && i.op_count() == 2 && i.op1_kind() == OpKind::Memory => {
            match source_of(i.op0_register()) {
                Source::General {
                    number,
                    size,
                    second,
                } if bytes <= usize::from(size) && matches!(bytes, 1 | 2 | 4 | 8) => {
                    Source::General {
                        number,
                        size: bytes as u8,
                        second,
                    }
                }
                _ => Source::None,
            }
        }
        _ => Source::None,
    }
}

/// Returns true if a register of another kind than general ones is moved.
fn is_special(i: &Instruction) -> bool {
    (0..i.op_count()).any(|n| i.op_kind(n) == OpKind::Register && !i.op_register(n).is_gpr())
}

fn branch(i: &Instruction, to: u64) -> Transfer {
    use Mnemonic as M;
    let short = matches!(
        i.code(),
        Code::Loop_rel8_64_ECX
            | Code::Loope_rel8_64_ECX
            | Code::Loopne_rel8_64_ECX
            | Code::Jecxz_rel8_64
    );
    let count = |loops| Transfer::Count { to, short, loops };
    match i.mnemonic() {
        M::Loop => count(Loop::Again(None)),
        M::Loope => count(Loop::Again(Some(true))),
        M::Loopne => count(Loop::Again(Some(false))),
        M::Jrcxz | M::Jecxz => count(Loop::Zero),
        _ => Transfer::If(i.condition_code(), to),
    }
}
