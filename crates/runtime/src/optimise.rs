//! The optimiser of traces: what a loop keeps in memory is kept in registers too.
//!
//! # Problem
//! Code that was compiled without optimisation, and code with more variables than registers, keeps variables in
//! its stack frame. A loop waits five cycles for each of them, from the store of one round to the load of the next.
//!
//! # Strategy
//! Dynamo's redundant load removal (Bala, Duesterwald, Banerjia, PLDI 2000, section 4.2), for a trace that comes to its own start. It is
//! laid out twice: the first time as it is, the second time as the loop that goes on, led by a [`Loop`]:
//!
//! * a *slot* is a place of the stack frame that the loop names; the most useful ones get a *home*, a general register that
//!   no instruction of the trace uses;
//! * **every store stays**, in its place, so that memory is the app's at each instruction; it is made to the home as well;
//! * a load becomes a use of the home; an instruction that reads and writes the slot is done to the home, and followed by a store.
//!
//! Between the two rounds (the *crossing*) the app's values of the homes are put away, and homes are loaded. Behind every exit the app's
//! values are loaded again; at any place in the second round they are known to lie there (`cache::Spilled::homes`).
//!
//! A store to an unknown address may have changed a slot: its home is *in doubt*, and is *renewed* in front of the next
//! use. Where the instruction overwrites all flags that is a comparison and a jump out of line when they differ, which
//! predicts the value; else a load.
//!
//! One pass forward follows addresses and takes note of slots, one backward says what is in doubt at the start of
//! a round, and one forward writes.
//!
//! # Why it is correct
//! * The first round has executed every access of the second one, to the same addresses, as the stack and frame pointers are
//!   what they were: none of those to slots can fault. Where one would be in doubt (a page whose protection
//!   changes), a system call or another thread must have come between.
//! * The addresses of slots are known from the stack pointer alone. The frame pointer's distance to it, as the path was recorded, is
//!   compared at the crossing; where it differs, the loop goes on with first rounds.
//! * Nobody else writes to slots: the process has one thread ([`crate::dispatch::Runtime::is_alone`]), the kernel writes in system calls, which
//!   end traces, and handlers of signals run outside of the trace, to which the app comes back by its start. When a second
//!   thread is made, traces with homes are retired before it runs. Memory within 64 KiB of the stack pointer is taken not to be
//!   shared with another process.
//! * Homes are used by no instruction of the trace, so each instruction that can fault has the app's registers but for them.
//!
//! Data in, data out: nothing is read or written but what is given, so that it can be tested by itself.

mod frame;
mod rewrite;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use iced_x86::{Instruction, InstructionInfoFactory, OpAccess, Register};

use crate::emit::Reg;
use frame::Frame;
use rewrite::Form;

/// A part of [`Loop::code`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Span {
    start: u32,
    end: u32,
}

/// How a home that is in doubt is renewed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Renewal {
    /// By a load.
    Load(Span),
    /// By a load if a comparison, which destroys flags, says that they differ.
    Compare(Span, Span),
}

/// What becomes of an instruction in the second round.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Action {
    /// What comes first.
    pub(crate) renewal: Option<Renewal>,
    /// The instruction itself is not executed.
    pub(crate) replaced: bool,
    /// What is executed in its place or behind it.
    pub(crate) code: Span,
    /// A signal is not delivered in front of it.
    pub(crate) joined: bool,
}

/// A place of the stack frame and the register that holds what it holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Home {
    /// The register.
    pub(crate) register: Reg,
    /// The slot's distance from the stack pointer at the start of the loop.
    pub(crate) offset: i32,
    /// Its bytes.
    pub(crate) size: u8,
}

/// The second round of a trace that comes to its own start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Loop {
    /// What is in registers all the time.
    pub(crate) homes: Vec<Home>,
    /// By how much the frame pointer must be above the stack pointer at the crossing, if that matters.
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

    /// The registers that are homes.
    pub(crate) fn registers(&self) -> u16 {
        self.homes.iter().fold(0, |mask, h| mask | h.register.bit())
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

/// What an instruction does to memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Access {
    /// The slot that its operand names, and how, where it can be done to a register.
    form: Option<(Slot, Form)>,
    /// What else it writes of the frame.
    writes: Option<(i64, u64)>,
    /// It writes, or may, where is not known.
    wild: bool,
}

/// Furthest that a frame pointer is above the stack pointer.
const FRAME: i64 = 64 << 10;

/// The second round of a trace, which goes on with its first instruction behind its last; `None` where nothing would be
/// gained. `frame` is by how much the frame pointer was above the stack pointer when it was
/// recorded; the registers of `taken` are not to be homes.
pub(crate) fn plan(insns: &[Instruction], frame: i64, taken: u16) -> Option<Loop> {
    let mut info = InstructionInfoFactory::new();
    let mut used = taken | Reg::RSP.bit() | Reg::RCX.bit() | Reg::RDX.bit();
    for i in insns {
        for register in info.info(i).used_registers() {
            used |= general(register.register()).map_or(0, Reg::bit);
        }
    }
    let framed = (0..FRAME).contains(&frame).then_some(frame);
    let with_frame = framed.and_then(|f| follow(insns, &mut info, Some(f)));
    let frame = framed.filter(|_| with_frame.is_some());
    let accesses = with_frame.or_else(|| follow(insns, &mut info, None))?;
    let homes = choose(&accesses, !used);
    if homes.is_empty() {
        return None;
    }
    Some(write(insns, &accesses, homes, frame))
}

/// What each instruction does to memory; `None` where the stack pointer, or the frame pointer if there is one, is not at
/// the end what it was at the start.
fn follow(
    insns: &[Instruction],
    info: &mut InstructionInfoFactory,
    frame: Option<i64>,
) -> Option<Vec<Access>> {
    let mut state = Frame::new(frame);
    let mut accesses = Vec::with_capacity(insns.len());
    for i in insns {
        let access = access(i, info, &state)?;
        state.pass(i, info, &access);
        accesses.push(access);
    }
    state.is_as_at_start(frame).then_some(accesses)
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

/// A slot and what a home for it would be worth.
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

/// The slots with the most to gain, and registers for them.
fn choose(accesses: &[Access], mut free: u16) -> Vec<Home> {
    let mut candidates: Vec<Candidate> = Vec::new();
    for (slot, form) in accesses.iter().filter_map(|a| a.form) {
        let n = match candidates.iter().position(|c| c.slot == slot) {
            Some(n) => n,
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
    let mut homes = Vec::new();
    for candidate in candidates.iter().filter(|c| c.worth() > 0) {
        if free == 0 {
            break;
        }
        let register = Reg(free.trailing_zeros() as u8);
        free &= !register.bit();
        homes.push(Home {
            register,
            offset: candidate.slot.offset as i32,
            size: candidate.slot.size,
        });
    }
    homes
}

impl Access {
    /// Whether it may change what a slot holds behind the back of its home.
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

    fn is_to(&self, slot: &Slot) -> bool {
        self.form.is_some_and(|(own, _)| own == *slot)
    }
}

/// The third pass.
fn write(
    insns: &[Instruction],
    accesses: &[Access],
    homes: Vec<Home>,
    frame: Option<i64>,
) -> Loop {
    let slots: Vec<Slot> = (homes.iter())
        .map(|h| Slot {
            offset: i64::from(h.offset),
            size: h.size,
        })
        .collect();
    // In doubt at the end of a round is in doubt at the start of the next.
    let mut doubt: Vec<bool> = (slots.iter())
        .map(|slot| {
            let last = accesses.iter().rev().find(|a| a.is_to(slot) || a.spoils(slot));
            last.is_some_and(|a| !a.is_to(slot))
        })
        .collect();
    let mut out = Loop {
        homes,
        frame: frame.map(|f| f as i32),
        actions: Vec::with_capacity(insns.len()),
        code: Vec::new(),
    };
    let mut joined = false;
    for (n, (i, access)) in insns.iter().zip(accesses).enumerate() {
        let home = access
            .form
            .and_then(|(slot, form)| Some((slots.iter().position(|s| *s == slot)?, form)));
        let mut action = Action::default();
        let mut in_hand = None;
        if let Some((h, form)) = home {
            let register = out.homes[h].register;
            let next = insns.get(n + 1);
            let rewritten = rewrite::with_register(i, register, form);
            if let Some(bytes) = rewritten {
                if doubt[h] && form != Form::Write {
                    let dead = rewrite::overwrites_flags(i);
                    let join = !dead && rewrite::can_be_joined(i, next);
                    action.renewal = rewrite::renewal(i, register, dead || join, &mut out.code);
                    joined = join;
                } else {
                    joined = false;
                }
                action.replaced = form != Form::Write;
                action.code = keep(&mut out.code, &bytes);
                in_hand = Some(h);
            }
        }
        if in_hand.is_none() {
            action.joined = core::mem::take(&mut joined);
        }
        for (h, slot) in slots.iter().enumerate() {
            if access.spoils(slot) || access.is_to(slot) && in_hand != Some(h) {
                doubt[h] = true;
            }
        }
        if let Some(h) = in_hand {
            doubt[h] = false;
        }
        out.actions.push(action);
    }
    out
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
