//! The optimiser of traces: promotes variables of a loop from memory to registers.
//!
//! # Problem
//! Code that was compiled without optimisation, and code with more variables than registers, keeps variables in
//! its stack frame. A loop waits five cycles for each of them, from the store of one round to the load of the next.
//!
//! # Strategy
//! Dynamo's redundant load removal (Bala, Duesterwald, Banerjia, PLDI 2000, section 4.2), for a trace that comes to its own start.
//! The trace is laid out twice: first as it is, then as the loop that a [`Loop`] describes.
//!
//! * A *slot* is a place of the stack frame that the loop names. The most useful ones get a *promoted register*, a general
//!   register that no instruction of the trace uses.
//! * **Every store stays**, in its place, so that memory is the app's at each instruction. The promoted register is written, too.
//! * A load becomes a use of the promoted register. An instruction that reads and writes the slot operates on the promoted
//!   register, and a store follows.
//!
//! Between the two rounds (the *crossing*) the app's values of the promoted registers are saved, and the slots are loaded into
//! them. After every exit the app's values are loaded again. At any place in the second round they are known to lie there
//! (`cache::Spilled::promoted`).
//!
//! A store to an unknown address may have changed a slot. Its promoted register is then *in doubt*, and is *renewed* before
//! the next use. If the instruction overwrites all flags, the renewal is a comparison and a jump out of line when they differ,
//! which predicts the value. Otherwise it is a load.
//!
//! One pass forward follows addresses and lists slots. One backward finds what is in doubt at the start of a round.
//! One forward writes. Then [`values`] improves what is left.
//!
//! # Why it is correct
//! * The first round has executed every access of the second one, to the same addresses, as the stack and frame pointers are
//!   what they were: none of those to slots can fault. Where one would be in doubt (a page whose protection
//!   changes), a system call or another thread must have come between.
//! * The addresses of slots are known from the stack pointer alone. The frame pointer's distance to it, as the path was recorded, is
//!   compared at the crossing; where it differs, the loop goes on with first rounds.
//! * Nobody else writes to slots: the process has one thread ([`crate::engine::state::Runtime::is_alone`]), the kernel writes in system calls, which
//!   end traces, and handlers of signals run outside of the trace, to which the app comes back by its start. Before a second
//!   thread is made, or the kernel may write at any time (`io_uring_setup`, `io_setup`), traces with promoted registers are retired. The
//!   stack is a private mapping, which is looked at when the trace is made.
//! * Promoted registers are used by no instruction of the trace, so each instruction that can fault has the app's registers but for them.
//!
//! Data in, data out: nothing is read or written but what is given, so that it can be tested by itself.
//!
//! **I9 (stores in order).** The optimiser keeps all stores, in order.
//!
//! **I10 (private promoted memory).** Memory of promoted registers is written by the thread alone. Traces with promoted registers are retired before a second thread runs.

mod frame;
mod known;
mod rewrite;
mod simple;
#[cfg(test)]
mod tests;
mod values;

use alloc::vec::Vec;
use core::ops::Range;

use iced_x86::{Instruction, InstructionInfoFactory, OpAccess, Register};

use crate::base::emit::Reg;
use frame::Frame;
use rewrite::Form;
pub(crate) use values::Kept;

/// A part of [`Loop::code`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Span {
    start: u32,
    end: u32,
}

/// Renewal of a promoted register whose value is in doubt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Renewal {
    /// Load of its value.
    Load(Span),
    /// Load of its value if a comparison, which destroys flags, says that they differ.
    Compare(Span, Span),
}

/// Action on an instruction in the second round.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Action {
    /// Renewal that comes first.
    pub(crate) renewal: Option<Renewal>,
    /// The instruction itself is not executed.
    pub(crate) replaced: bool,
    /// Code that is executed in its place or after it.
    pub(crate) code: Span,
    /// A signal is not delivered before it.
    pub(crate) joined: bool,
}

/// A place of the stack frame and the register that holds what it holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Promoted {
    /// The register.
    pub(crate) register: Reg,
    /// The slot's distance from the stack pointer at the start of the loop.
    pub(crate) offset: i32,
    /// Its bytes.
    pub(crate) size: u8,
}

impl Promoted {
    fn slot(&self) -> Slot {
        Slot {
            offset: i64::from(self.offset),
            size: self.size,
        }
    }
}

/// The second round of a trace that comes to its own start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Loop {
    /// Promoted registers: they hold variables all the time.
    pub(crate) promoted: Vec<Promoted>,
    /// Values that the first round computes, and the second has in registers.
    pub(crate) kept: Vec<Kept>,
    /// Distance of the frame pointer above the stack pointer at the crossing, if that matters.
    pub(crate) frame: Option<i32>,
    /// One for each instruction.
    pub(crate) actions: Vec<Action>,
    /// Code that actions refer to.
    pub(crate) code: Vec<u8>,
}

impl Loop {
    /// The bytes of a part of the code.
    pub(crate) fn bytes(&self, span: Span) -> &[u8] {
        self.code
            .get(span.start as usize..span.end as usize)
            .unwrap_or_default()
    }

    /// The registers that are not the app's.
    pub(crate) fn registers(&self) -> u16 {
        let promoted = self.promoted.iter().map(|h| h.register);
        let kept = self.kept.iter().map(|k| k.register);
        promoted.chain(kept).fold(0, |mask, r| mask | r.bit())
    }
}

/// A place of the stack frame: distance from the stack pointer at the start, and bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Slot {
    offset: i64,
    size: u8,
}

impl Slot {
    fn overlaps(&self, offset: i64, size: u64) -> bool {
        let end = offset.saturating_add_unsigned(size);
        self.offset < end && offset < self.offset + i64::from(self.size)
    }
}

/// Access of an instruction to memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Access {
    /// The slot that its operand names, and how, where it can be done to a register.
    form: Option<(Slot, Form)>,
    /// Range of the frame that it writes, too.
    writes: Option<(i64, u64)>,
    /// True if it writes, or may, to an unknown address.
    wild: bool,
}

/// Least worth of a promoted register: each costs a store and a load on the way in, and a load on the way out.
const WORTH: u32 = 3;
/// Promoted registers of a loop.
const MOST_PROMOTED: usize = 6;
/// Furthest that a frame pointer is above the stack pointer.
const FRAME: i64 = 64 << 10;

/// A way from the start of a loop to its start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Way {
    /// Its instructions.
    pub(crate) range: Range<usize>,
    /// The conditional branch of an earlier way by which it leaves that; the first way starts at the start.
    pub(crate) from: Option<usize>,
}

/// The second round of a trace, which goes on with its first instruction after the last of each way; `None` where
/// nothing would be gained. `frame` is by how much the frame pointer was above the stack pointer when it was
/// recorded.
pub(crate) fn plan(insns: &[Instruction], ways: &[Way], frame: i64) -> Option<Loop> {
    let mut info = InstructionInfoFactory::new();
    let mut used = Reg::RSP.bit() | Reg::RCX.bit() | Reg::RDX.bit();
    for i in insns {
        for register in info.info(i).used_registers() {
            used |= general(register.register()).map_or(0, Reg::bit);
        }
    }
    let framed = (0..FRAME).contains(&frame).then_some(frame);
    let with_frame = framed.and_then(|f| follow(insns, ways, &mut info, Some(f)));
    let frame = framed.filter(|_| with_frame.is_some());
    let accesses = with_frame.or_else(|| follow(insns, ways, &mut info, None))?;
    let main = ways.first()?.range.clone();
    let promoted = choose(&accesses, main, !used);
    if promoted.is_empty() {
        return None;
    }
    let free = promoted
        .iter()
        .fold(!used, |free, h| free & !h.register.bit());
    let slots: Vec<Slot> = promoted.iter().map(Promoted::slot).collect();
    let mut found = write(insns, ways, &accesses, promoted, &slots, frame);
    values::improve(&mut found, insns, ways, &accesses, &slots, free);
    Some(found)
}

/// Returns the accesses of each instruction to memory; `None` if the stack pointer, or the frame pointer if there is one,
/// is not at the end of a way what it was at the start.
fn follow(
    insns: &[Instruction],
    ways: &[Way],
    info: &mut InstructionInfoFactory,
    frame: Option<i64>,
) -> Option<Vec<Access>> {
    let mut accesses = Vec::with_capacity(insns.len());
    let mut at_branches: Vec<(usize, Frame)> = Vec::new();
    for way in ways {
        let there = at_branches.iter().find(|b| Some(b.0) == way.from);
        let mut state = match way.from {
            Some(_) => there?.1.clone(),
            None => Frame::new(frame),
        };
        for n in way.range.clone() {
            let i = &insns[n];
            let access = access(i, info, &state)?;
            state.pass(i, info, &access);
            accesses.push(access);
            if ways.iter().any(|w| w.from == Some(n)) {
                at_branches.push((n, state.clone()));
            }
        }
        if !state.is_as_at_start(frame) {
            return None;
        }
    }
    Some(accesses)
}

fn access(i: &Instruction, info: &mut InstructionInfoFactory, state: &Frame) -> Option<Access> {
    if rewrite::is_strange(i) {
        return None;
    }
    let mut access = Access::default();
    let repeated = i.has_rep_prefix() || i.has_repne_prefix();
    for used in info.info(i).used_memory() {
        let writes = !matches!(used.access(), OpAccess::Read | OpAccess::CondRead)
            && used.access() != OpAccess::NoMemAccess;
        if !writes {
            continue;
        }
        let size = used.memory_size().size() as u64;
        match state.address(used) {
            Some(offset) if size != 0 && !repeated => access.writes = Some((offset, size)),
            _ => access.wild = true,
        }
    }
    let slot = state.operand(i).and_then(|offset| {
        let size = i.memory_size().size();
        let in_reach = i32::try_from(offset).is_ok_and(|o| i64::from(o).abs() < 2 * FRAME);
        (matches!(size, 1 | 2 | 4 | 8) && in_reach).then_some(Slot {
            offset,
            size: size as u8,
        })
    });
    if let (Some(slot), Some(form)) = (slot, rewrite::form(i))
        && !repeated
    {
        access.form = Some((slot, form));
        if form.writes() {
            access.writes = None;
        }
    }
    Some(access)
}

/// A slot and the worth of a promoted register for it.
struct Candidate {
    slot: Slot,
    loads: u32,
    stores: u32,
}

impl Candidate {
    fn worth(&self) -> u32 {
        /// A value that one round leaves to the next.
        const CARRIED: u32 = 4;
        match (self.loads, self.stores) {
            (0, _) => 0,
            (loads, 0) => loads,
            (loads, _) => 2 * loads + CARRIED,
        }
    }
}

/// The slots of the first way with the most to gain, and registers for them.
fn choose(accesses: &[Access], main: Range<usize>, mut free: u16) -> Vec<Promoted> {
    let mut candidates: Vec<Candidate> = Vec::new();
    for (n, access) in accesses.iter().enumerate() {
        let Some((slot, form)) = access.form else {
            continue;
        };
        let n = match candidates.iter().position(|c| c.slot == slot) {
            Some(n) => n,
            None if !main.contains(&n) => continue,
            None => {
                candidates.push(Candidate {
                    slot,
                    loads: 0,
                    stores: 0,
                });
                candidates.len() - 1
            }
        };
        candidates[n].loads += u32::from(form != Form::Write);
        candidates[n].stores += u32::from(form != Form::Read);
    }
    candidates.sort_by_key(|c| core::cmp::Reverse(c.worth()));
    let mut promoted = Vec::new();
    for candidate in candidates.iter().filter(|c| c.worth() >= WORTH) {
        if free == 0 || promoted.len() == MOST_PROMOTED {
            break;
        }
        let register = Reg(free.trailing_zeros() as u8);
        free &= !register.bit();
        promoted.push(Promoted {
            register,
            offset: candidate.slot.offset as i32,
            size: candidate.slot.size,
        });
    }
    promoted
}

impl Access {
    /// Returns true if it may change the slot's memory without changing its promoted register.
    fn spoils(&self, slot: &Slot) -> bool {
        let other = match self.form {
            Some((own, Form::Write | Form::Change)) => {
                own != *slot && slot.overlaps(own.offset, u64::from(own.size))
            }
            _ => false,
        };
        let writes = |(offset, size)| slot.overlaps(offset, size);
        self.wild || other || self.writes.is_some_and(writes)
    }

    fn changes(&self, slot: &Slot) -> bool {
        self.form
            .is_some_and(|(own, form)| own == *slot && form.writes())
    }

    fn is_to(&self, slot: &Slot) -> bool {
        self.form.is_some_and(|(own, _)| own == *slot)
    }
}

/// Returns true if the value of a slot is in doubt at the end of a way; `None` if nothing on the way decides it.
fn doubt_at_end(ways: &[Way], way: &Way, accesses: &[Access], slot: &Slot) -> Option<bool> {
    let mut range = way.range.clone();
    let mut from = way.from;
    loop {
        let last = accesses[range]
            .iter()
            .rev()
            .find(|a| a.is_to(slot) || a.spoils(slot));
        if let Some(last) = last {
            return Some(!last.is_to(slot));
        }
        let branch = from?;
        let parent = ways.iter().find(|w| w.range.contains(&branch))?;
        range = parent.range.start..branch;
        from = parent.from;
    }
}

/// The third pass.
fn write(
    insns: &[Instruction],
    ways: &[Way],
    accesses: &[Access],
    promoted: Vec<Promoted>,
    slots: &[Slot],
    frame: Option<i64>,
) -> Loop {
    // In doubt at the end of a round is in doubt at the start of the next.
    let ends = |slot: &Slot| {
        let at_end = |way| doubt_at_end(ways, way, accesses, slot);
        ways.iter().any(|way| at_end(way) == Some(true))
    };
    let mut writer = Writer {
        accesses,
        written: (slots.iter())
            .map(|slot| {
                accesses[ways[0].range.clone()]
                    .iter()
                    .any(|a| a.changes(slot))
            })
            .collect(),
        doubt: slots.iter().map(ends).collect(),
        slots,
        out: Loop {
            promoted,
            kept: Vec::new(),
            frame: frame.map(|f| f as i32),
            actions: Vec::with_capacity(insns.len()),
            code: Vec::new(),
        },
        joined: false,
    };
    let mut at_branches: Vec<(usize, Vec<bool>)> = Vec::new();
    for way in ways {
        if let Some((_, doubt)) = at_branches.iter().find(|b| Some(b.0) == way.from) {
            writer.doubt.clone_from(doubt);
        }
        writer.joined = false;
        for n in way.range.clone() {
            let next = insns.get(n + 1).filter(|_| way.range.contains(&(n + 1)));
            let action = writer.action(n, &insns[n], next);
            writer.out.actions.push(action);
            if ways.iter().any(|w| w.from == Some(n)) {
                at_branches.push((n, writer.doubt.clone()));
            }
        }
    }
    writer.out
}

struct Writer<'a> {
    accesses: &'a [Access],
    slots: &'a [Slot],
    /// Slots that the first round writes for certain.
    written: Vec<bool>,
    doubt: Vec<bool>,
    out: Loop,
    joined: bool,
}

impl Writer<'_> {
    fn action(&mut self, n: usize, i: &Instruction, next: Option<&Instruction>) -> Action {
        let access = &self.accesses[n];
        let promoted = access.form.and_then(|(slot, form)| {
            let h = self.slots.iter().position(|s| *s == slot)?;
            Some((h, form))
        });
        let mut action = Action {
            joined: core::mem::take(&mut self.joined),
            ..Action::default()
        };
        let mut in_hand = None;
        if let Some((h, form)) = promoted
            && let Some(found) = self.rewritten(i, next, h, form)
        {
            action = found;
            in_hand = Some(h);
        }
        for (h, slot) in self.slots.iter().enumerate() {
            if access.spoils(slot) || access.is_to(slot) {
                self.doubt[h] = in_hand != Some(h);
            }
        }
        action
    }

    fn rewritten(
        &mut self,
        i: &Instruction,
        next: Option<&Instruction>,
        h: usize,
        form: Form,
    ) -> Option<Action> {
        let register = self.out.promoted[h].register;
        if form == Form::Change && !self.written[h] {
            // The store may fault: done to memory, and loaded.
            let load = rewrite::load(i, register)?;
            return Some(Action {
                code: keep(&mut self.out.code, &load),
                ..Action::default()
            });
        }
        let bytes = rewrite::with_register(i, register, form)?;
        let mut action = Action {
            replaced: form != Form::Write,
            ..Action::default()
        };
        if self.doubt[h] && form != Form::Write {
            let dead = rewrite::overwrites_flags(i);
            self.joined = !dead && rewrite::can_be_joined(i, next);
            let free = dead || self.joined;
            action.renewal = rewrite::renewal(i, register, free, &mut self.out.code);
        }
        action.code = keep(&mut self.out.code, &bytes);
        Some(action)
    }
}

/// Appends to the code.
fn keep(code: &mut Vec<u8>, bytes: &[u8]) -> Span {
    let start = code.len() as u32;
    code.extend_from_slice(bytes);
    Span {
        start,
        end: code.len() as u32,
    }
}

/// A general register by its number, for any part of it.
fn general(register: Register) -> Option<Reg> {
    let full = register.full_register();
    (full.is_gpr64()).then(|| Reg(full as u8 - Register::RAX as u8))
}
