//! Observations around an execution of an x86-64 instruction that are needed to know its facts.
//!
//! # Problem
//! A query names operands and results by number. Which registers and bytes of memory those are follows
//! from the instruction alone, once. Their values are there only before it is executed (what it
//! overwrites) or only after (what it makes).
//!
//! # Strategy
//! An [`Observation`] is worked out from the decoded instruction and the fields that are collected. It says
//! [`When`] to look, and reads a [`Machine`], whoever that is: the context of a stopped thread, or what a
//! debugger sees. Where nothing that has to be known before is overwritten, looking once is enough, after
//! the instruction: then one that faults is not seen at all, and is not seen twice when it is executed
//! again. Control transfers are looked at before they happen. Their targets follow from what is there.
//!
//! | class | operands and results |
//! |---|---|
//! | loads, stores | the explicit register that is read, the parts of the address; the memory operand after it |
//! | branches, jumps | the target, the condition |
//! | the others | explicit operands that are read, in their order, then `rax` and `rdx` where `mul` and `div` imply them; registers that are written |
//!
//! The value of a store is known from the register or constant that it came from where it is a plain `mov` or
//! `push`: memory may have been written again by then, by another thread.
//!
//! Architecture invariant: nothing here reads memory or registers but through [`Machine`].

mod plan;

use iced_x86::{ConditionCode, Register};

use crate::class::Operation;
use crate::field::{Field, FieldSet};
use crate::record::{Facts, misc};

/// Registers and memory between two instructions.
pub trait Machine {
    /// A general register by its hardware number.
    fn general(&self, number: u8) -> u64;
    /// The lower 128 bits of a vector register from 0 to 15, lower half first.
    fn vector(&self, number: u8) -> [u64; 2];
    /// The flags register.
    fn flags(&self) -> u64;
    /// The base of FS or GS.
    fn segment(&self, segment: Segment) -> u64;
    /// `size` bytes of memory, 1, 2, 4 or 8, zero-extended; none where they cannot be read.
    fn memory(&self, address: u64, size: u8) -> Option<u64>;
}

/// A segment with a base.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Segment {
    /// FS.
    Fs,
    /// GS.
    Gs,
}

/// Moments of observation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// Before it is executed.
    Before,
    /// After the instruction was executed.
    After,
    /// Before ([`Observation::early`]) and after ([`Observation::late`]).
    Both,
}

/// Sources of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    /// There is none, or it is in a register that is not looked at.
    None,
    Constant(u64),
    General {
        number: u8,
        size: u8,
        /// The second byte.
        second: bool,
    },
    Vector {
        number: u8,
        size: u8,
    },
    /// The memory operand, up to 16 bytes of it.
    Memory,
    /// Base with displacement.
    Base,
    /// Index times scale.
    Index,
}

/// A memory operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Address {
    segment: Option<Segment>,
    base: Option<u8>,
    index: Option<(u8, u8)>,
    displacement: u64,
    /// Addresses are cut to 32 bits.
    short: bool,
    /// Its bytes.
    size: u16,
    /// It is several places, whose index is a vector.
    scattered: bool,
}

/// Ways in which control leaves an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Transfer {
    /// To the next instruction.
    None,
    To(u64),
    /// There if a condition holds.
    If(ConditionCode, u64),
    /// There if a count, of `rcx` or `ecx`, is or is not 0.
    Count {
        to: u64,
        short: bool,
        loops: Loop,
    },
    /// Through the first operand.
    Through,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Loop {
    /// Taken when the register is 0.
    Zero,
    /// Taken when the register minus one is not 0, and the zero flag is as given.
    Again(Option<bool>),
}

/// Observation of one instruction, for the fields that are wanted of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Observation {
    when: When,
    fields: FieldSet,
    operation: Operation,
    pc: u64,
    next: u64,
    sources: [Source; 3],
    results: [Source; 2],
    address: Option<Address>,
    transfer: Transfer,
    /// Bytes by which it moves the stack pointer, where the move is undone when looking after it.
    moves_stack: i64,
    /// The register that a load has loaded all of its memory operand to, and nothing else.
    loaded: Source,
}

/// Place of the word of a field at the time of the observation, as far as generated code can read it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Held {
    /// It is always the same.
    Constant(u64),
    /// The lower bytes of a general register.
    General {
        /// Its hardware number.
        number: u8,
        /// The bytes, 1, 2, 4 or 8.
        size: u8,
        /// The second byte is meant.
        second: bool,
    },
}

/// A machine as it was before an instruction that moved its stack pointer.
struct Moved<'m, M> {
    machine: &'m M,
    by: i64,
}

impl<M: Machine> Moved<'_, M> {
    fn general(&self, number: u8) -> u64 {
        let value = self.machine.general(number);
        match number {
            4 => value.wrapping_sub(self.by as u64),
            _ => value,
        }
    }
}

impl Observation {
    /// Returns when to look.
    pub const fn when(&self) -> When {
        self.when
    }

    /// The class of the instruction.
    pub const fn operation(&self) -> Operation {
        self.operation
    }

    /// Its address.
    pub const fn pc(&self) -> u64 {
        self.pc
    }

    /// Returns where the word of a field is, if it is in a register or always the same. Only where looking once is enough.
    pub fn held(&self, field: Field) -> Option<Held> {
        if self.when == When::Both {
            return None;
        }
        let source = match field {
            Field::Pc => return Some(Held::Constant(self.pc)),
            Field::Op1 => self.sources[0],
            // Of loads, stores and jumps these are parts of an address.
            Field::Op2 | Field::Op3 if self.address.is_some() => return None,
            Field::Op2 => self.sources[1],
            Field::Op3 => self.sources[2],
            Field::Res1 if self.operation.is_transfer() => return None,
            Field::Res1 if self.loaded != Source::None => self.loaded,
            Field::Res1 => self.results[0],
            _ => return None,
        };
        match source {
            Source::None => Some(Held::Constant(0)),
            Source::Constant(value) => Some(Held::Constant(value)),
            // The stack pointer is not what it was.
            Source::General { number: 4, .. } if self.moves_stack != 0 => None,
            Source::General {
                number,
                size,
                second,
            } => Some(Held::General {
                number,
                size,
                second,
            }),
            Source::Vector { .. } | Source::Memory | Source::Base | Source::Index => None,
        }
    }

    /// Returns what is known before: to be called before the instruction, or after it where only that
    /// is looked at.
    pub fn early(&self, machine: &impl Machine) -> Facts {
        let by = match self.when {
            When::After => self.moves_stack,
            When::Before | When::Both => 0,
        };
        self.known(machine, by)
    }

    /// Returns what is known before, of a machine as it is before the instruction, whenever it would be
    /// enough to look: for who sees both.
    pub fn before(&self, machine: &impl Machine) -> Facts {
        self.known(machine, 0)
    }

    fn known(&self, machine: &impl Machine, by: i64) -> Facts {
        let was = Moved { machine, by };
        let mut facts = Facts::NONE.with(Field::Pc, self.pc);
        let address = self.address.filter(|_| self.wants_address());
        let address = address.map(|a| a.at(&was));
        if let (Some([base, index]), Some(operand)) = (address, &self.address)
            && operand.has_parts(self.operation)
        {
            facts = facts.with(Field::Op2, base).with(Field::Op3, index);
            if !operand.scattered {
                facts = facts.with(Field::Res2, operand.sum([base, index]));
            }
        }
        let lists = [
            (Field::Op1, Some(Field::Op1Up)),
            (Field::Op2, Some(Field::Op2Up)),
            (Field::Op3, None),
        ];
        for (source, (field, upper)) in self.sources.into_iter().zip(lists) {
            if source == Source::None || source == Source::Memory && self.is_late() {
                continue;
            }
            let [low, high] = self.value(source, &was, address);
            facts = facts.with(field, low);
            if let Some(upper) = upper {
                facts = facts.with(upper, high);
            }
        }
        self.transferred(facts, machine)
    }

    /// Returns what is known only afterwards, added to what was known before.
    pub fn late(&self, machine: &impl Machine, facts: Facts) -> Facts {
        let is = Moved { machine, by: 0 };
        let mut facts = facts;
        let address = Some([facts.get(Field::Res2), 0]);
        let of_memory = self.sources[0] == Source::Memory && self.is_late();
        if of_memory && wants(self.fields, &OP1) {
            let [low, high] = self.value(Source::Memory, &is, address);
            facts = facts.with(Field::Op1, low).with(Field::Op1Up, high);
        }
        if self.operation.is_transfer() || !wants(self.fields, &RES1) {
            return facts;
        }
        let [first, second] = self.results;
        let [low, high] = self.value(first, &is, address);
        let upper = match second {
            Source::None => high,
            other => self.value(other, &is, address)[0],
        };
        facts.with(Field::Res1, low).with(Field::Res1Up, upper)
    }

    /// Returns true if anything that is wanted depends on where the memory operand is.
    fn wants_address(&self) -> bool {
        match self.operation {
            Operation::Load => wants(self.fields, &PARTS) || wants(self.fields, &RES1),
            Operation::Store => {
                let written = self.sources[0] == Source::Memory && wants(self.fields, &OP1);
                wants(self.fields, &PARTS) || written
            }
            _ => true,
        }
    }

    /// Returns true if memory is looked at when it has been written.
    const fn is_late(&self) -> bool {
        matches!(self.operation, Operation::Store)
    }

    fn value<M: Machine>(
        &self,
        source: Source,
        machine: &Moved<'_, M>,
        address: Option<[u64; 2]>,
    ) -> [u64; 2] {
        match source {
            Source::None => [0; 2],
            Source::Constant(value) => [value, 0],
            Source::General {
                number,
                size,
                second,
            } => {
                let value = machine.general(number);
                [cut(value >> if second { 8 } else { 0 }, size), 0]
            }
            Source::Vector { number, size } => {
                let [low, high] = machine.machine.vector(number);
                match size {
                    ..=8 => [cut(low, size), 0],
                    _ => [low, high],
                }
            }
            Source::Base => [address.map_or(0, |a| a[0]), 0],
            Source::Index => [address.map_or(0, |a| a[1]), 0],
            Source::Memory => self.memory(machine.machine, address),
        }
    }

    fn memory(&self, machine: &impl Machine, address: Option<[u64; 2]>) -> [u64; 2] {
        let (Some(operand), Some(parts)) = (self.address, address) else {
            return [0; 2];
        };
        if operand.scattered || operand.size == 0 {
            return [0; 2];
        }
        let at = operand.sum(parts);
        let part = |from: u64, bytes: u16| -> u64 {
            // In pieces that a machine reads at once.
            let mut value = 0;
            let mut done = 0;
            while done < bytes.min(8) {
                let left = bytes.min(8) - done;
                let piece = 1 << left.ilog2();
                let read = machine.memory(at.wrapping_add(from + u64::from(done)), piece as u8);
                value |= read.unwrap_or(0) << (8 * done);
                done += piece;
            }
            value
        };
        [
            part(0, operand.size),
            part(8, operand.size.saturating_sub(8)),
        ]
    }

    /// Returns where control goes, of a transfer.
    fn transferred(&self, facts: Facts, machine: &impl Machine) -> Facts {
        let taken = match self.transfer {
            Transfer::None => return facts,
            Transfer::To(to) => Some(to),
            Transfer::Through => Some(facts.get(Field::Op1)),
            Transfer::If(condition, to) => holds(condition, machine.flags()).then_some(to),
            Transfer::Count { to, short, loops } => {
                let count = cut(machine.general(1), if short { 4 } else { 8 });
                let zero = machine.flags() & ZERO != 0;
                let goes = match loops {
                    Loop::Zero => count == 0,
                    Loop::Again(wanted) => count != 1 && wanted.is_none_or(|w| w == zero),
                };
                goes.then_some(to)
            }
        };
        let facts = facts.with(Field::Res1, taken.unwrap_or(self.next));
        match taken {
            Some(_) => facts.with(Field::Misc, misc::TAKEN),
            None => facts,
        }
    }
}

impl Address {
    /// Base with displacement, and index times scale.
    fn at<M: Machine>(&self, machine: &Moved<'_, M>) -> [u64; 2] {
        let short = |value: u64| cut(value, if self.short { 4 } else { 8 });
        let base = self.base.map_or(0, |r| short(machine.general(r)));
        let segment = self.segment.map_or(0, |s| machine.machine.segment(s));
        let index = self.index;
        let index = index.map_or(0, |(r, scale)| short(machine.general(r)) << scale);
        let base = short(base.wrapping_add(self.displacement));
        [base.wrapping_add(segment), index]
    }

    fn sum(&self, [base, index]: [u64; 2]) -> u64 {
        let sum = base.wrapping_add(index);
        match (self.short, self.segment) {
            (true, None) => cut(sum, 4),
            _ => sum,
        }
    }

    /// Returns true if the operands of its class are its parts.
    const fn has_parts(&self, operation: Operation) -> bool {
        matches!(
            operation,
            Operation::Load | Operation::Store | Operation::Jump
        )
    }
}

const OP1: [Field; 2] = [Field::Op1, Field::Op1Up];
const RES1: [Field; 2] = [Field::Res1, Field::Res1Up];
/// An address and its parts.
const PARTS: [Field; 3] = [Field::Op2, Field::Op3, Field::Res2];

const CARRY: u64 = 1;
const PARITY: u64 = 1 << 2;
const ZERO: u64 = 1 << 6;
const SIGN: u64 = 1 << 7;
const OVERFLOW: u64 = 1 << 11;

fn holds(condition: ConditionCode, flags: u64) -> bool {
    use ConditionCode as C;
    let is = |flag: u64| flags & flag != 0;
    let less = is(SIGN) != is(OVERFLOW);
    match condition {
        C::None => true,
        C::o => is(OVERFLOW),
        C::no => !is(OVERFLOW),
        C::b => is(CARRY),
        C::ae => !is(CARRY),
        C::e => is(ZERO),
        C::ne => !is(ZERO),
        C::be => is(CARRY) || is(ZERO),
        C::a => !is(CARRY) && !is(ZERO),
        C::s => is(SIGN),
        C::ns => !is(SIGN),
        C::p => is(PARITY),
        C::np => !is(PARITY),
        C::l => less,
        C::ge => !less,
        C::le => is(ZERO) || less,
        C::g => !is(ZERO) && !less,
    }
}

/// The lower `size` bytes.
const fn cut(value: u64, size: u8) -> u64 {
    match size {
        0 => 0,
        1..=7 => value & ((1 << (8 * size)) - 1),
        _ => value,
    }
}

/// A general register: number, bytes, whether it is the second byte.
fn general(register: Register) -> Option<(u8, u8, bool)> {
    use Register as R;
    if !register.is_gpr() {
        return None;
    }
    let second = matches!(register, R::AH | R::CH | R::DH | R::BH);
    let full = register.full_register().number() as u8;
    Some((full, register.size() as u8, second))
}

/// Returns true if any of these is among `fields`.
fn wants(fields: FieldSet, any: &[Field]) -> bool {
    any.iter().any(|f| fields.has(*f))
}

#[cfg(test)]
mod tests;
