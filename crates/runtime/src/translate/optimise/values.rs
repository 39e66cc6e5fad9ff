//! Removal of work from a round: copies of promoted registers, invariant values, and dead values.
//!
//! # Problem
//! Where variables are in registers, most of what is left of unoptimised code moves them about: each use of a variable copies it,
//! each index is extended and multiplied anew, also that of an outer loop.
//!
//! # Strategy
//! Copy propagation, invariant code motion and the removal of dead assignments (Bala, Duesterwald, Banerjia, PLDI 2000,
//! section 4.2), over the code of the second round:
//!
//! * The forward pass replaces copies of a promoted register by that register.
//! * The same pass numbers values that are the same in each round: registers and slots that no way writes, constants, and
//!   results computed from them. So constants are folded, too. The most useful values are *kept* in registers that no
//!   instruction uses. The first round saves the result, and the crossing loads it. In the second round a move is left.
//! * The backward pass removes instructions whose results are overwritten before they are read.
//!
//! # Why it is correct
//! * Only *quiet* instructions are changed or left out, and only between two of them may a register differ from the app's: moves and arithmetic of general registers, and
//!   accesses to slots that the first round has made, so none of them can fault, leave the trace, or be seen by another thread. No signal is delivered
//!   in between ([`super::Action::joined`]). Before anything else all registers and flags are what the app computes.
//! * A value that is kept was computed by the first round of what no round changes.
//! * An instruction that is left out, or whose place a move takes, has changed flags that a quiet one overwrites.

use alloc::vec::Vec;
use core::ops::Range;

use iced_x86::{
    Code, Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpKind, Register,
};

use super::known::Known;
use super::simple::{
    computes, has_access, is_pure, is_second_byte, is_simple, reads_and_kills, written,
};
use super::{Access, Action, Loop, Slot, Way, general, keep, rewrite};
use crate::base::decode::STATUS;
use crate::base::emit::Reg;

/// A register that holds what an instruction of the first round has computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Kept {
    /// The register.
    pub(crate) register: Reg,
    /// The instruction.
    pub(crate) at: usize,
    /// The register that it leaves its result in.
    pub(crate) result: Reg,
}

/// Instructions that a value must save to be kept.
const LEAST: u32 = 2;

/// Instructions executed at an instruction of the second round.
#[derive(Clone, Copy)]
struct Executed {
    insns: [Instruction; 2],
    count: usize,
    changed: bool,
}

impl Executed {
    fn insns(&self) -> &[Instruction] {
        &self.insns[..self.count]
    }
}

/// Effect of these instructions, as far as quiet instructions are concerned.
#[derive(Clone, Copy, Default)]
struct Deed {
    /// True if it can neither fault nor leave, and no other thread sees it.
    quiet: bool,
    /// True if it does nothing but write general registers and flags.
    pure: bool,
    reads: u16,
    /// Registers that it changes, or a part of them.
    writes: u16,
    /// Registers that it gives a new value, whatever theirs was.
    kills: u16,
    reads_flags: bool,
    changes_flags: bool,
    kills_flags: bool,
    /// The register that it gives a value that is the same each time.
    value: Option<(Reg, u32)>,
}

/// Origin of a value that is the same in each round.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Making {
    Register(Reg),
    Slot(i64, u8),
    Zero,
    Computed {
        code: Code,
        of: [Option<u32>; 3],
        constants: [u64; 2],
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Stays,
    /// It is left out.
    Goes,
    /// A move from this register takes its place.
    Moved(Reg),
}

struct Values<'a> {
    insns: &'a [Instruction],
    ways: &'a [Way],
    accesses: &'a [Access],
    slots: &'a [Slot],
    executed: Vec<Executed>,
    deeds: Vec<Deed>,
    /// The values that are the same in each round, and how many instructions make each.
    makings: Vec<(Making, u32)>,
    /// Registers that some way writes.
    written: u16,
}

/// Improves a second round; `free` are registers that no instruction and no promoted register uses.
pub(super) fn improve(
    plan: &mut Loop,
    insns: &[Instruction],
    ways: &[Way],
    accesses: &[Access],
    slots: &[Slot],
    mut free: u16,
) {
    let mut values = Values {
        insns,
        ways,
        accesses,
        slots,
        executed: Vec::with_capacity(insns.len()),
        deeds: Vec::with_capacity(insns.len()),
        makings: Vec::new(),
        written: 0,
    };
    let mut info = InstructionInfoFactory::new();
    values.see(plan, &mut info);
    values.pass_forward(plan, &mut info);
    let all = |id: u32| (values.makings[id as usize].1 >= LEAST).then_some(Reg::RSP);
    let ideal = values.pass_backward(all);
    let mut wanted: Vec<(u32, u32)> = Vec::new();
    for (deed, _) in (values.deeds.iter().zip(&ideal)).filter(|(_, v)| **v == Fate::Moved(Reg::RSP))
    {
        let Some((_, id)) = deed.value else { continue };
        let saved = values.makings[id as usize].1;
        match wanted.iter_mut().find(|w| w.0 == id) {
            Some(w) => w.1 += saved,
            None => wanted.push((id, saved)),
        }
    }
    wanted.sort_by_key(|w| core::cmp::Reverse(w.1));
    let main = ways[0].range.clone();
    let mut held: Vec<(u32, Reg)> = Vec::new();
    for (id, _) in wanted {
        let is_it = |n: &usize| values.deeds[*n].value.is_some_and(|v| v.1 == id);
        let (Some(at), true) = (main.clone().find(is_it), free != 0) else {
            continue;
        };
        let Some((result, _)) = values.deeds[at].value else {
            continue;
        };
        let register = Reg(free.trailing_zeros() as u8);
        free &= !register.bit();
        held.push((id, register));
        plan.kept.push(Kept {
            register,
            at,
            result,
        });
    }
    let holds = |id: u32| held.iter().find(|h| h.0 == id).map(|h| h.1);
    let verdicts = values.pass_backward(holds);
    plan.kept.retain(|kept| {
        let used = |v: &Fate| *v == Fate::Moved(kept.register);
        verdicts.iter().any(used)
    });
    values.write(plan, &verdicts);
}

impl Values<'_> {
    /// Reads the instructions that the second round executes as it is planned.
    fn see(&mut self, plan: &Loop, info: &mut InstructionInfoFactory) {
        for (i, action) in self.insns.iter().zip(&plan.actions) {
            let mut executed = Executed {
                insns: [*i; 2],
                count: usize::from(!action.replaced),
                changed: false,
            };
            for j in Decoder::with_ip(64, plan.bytes(action.code), 0, DecoderOptions::NONE) {
                if let Some(place) = executed.insns.get_mut(executed.count) {
                    *place = j;
                    executed.count += 1;
                }
            }
            for j in executed.insns() {
                self.written |= written(j, info);
            }
            self.executed.push(executed);
        }
    }

    fn slot_of(&self, n: usize) -> Option<Slot> {
        self.accesses[n].form.map(|f| f.0)
    }

    /// Returns true if the value of a slot is the same in each round.
    fn is_the_same(&self, slot: &Slot) -> bool {
        !(self.accesses.iter()).any(|a| a.changes(slot) || a.spoils(slot))
    }

    fn number(&mut self, making: Making, made_by: u32) -> u32 {
        let known = self.makings.iter().position(|m| m.0 == making);
        known.unwrap_or_else(|| {
            self.makings.push((making, made_by));
            self.makings.len() - 1
        }) as u32
    }

    /// Copies, numbers, and what each instruction does.
    fn pass_forward(&mut self, plan: &Loop, info: &mut InstructionInfoFactory) {
        let mut start = [None; 16];
        for r in (0..16).map(Reg) {
            if self.written & r.bit() == 0 {
                let promoted = plan.promoted.iter().position(|h| h.register == r);
                start[usize::from(r.0)] = match promoted.map(|h| self.slots[h]) {
                    None => Some(self.number(Making::Register(r), 0)),
                    Some(slot) if self.is_the_same(&slot) => {
                        Some(self.number(Making::Slot(slot.offset, slot.size), 0))
                    }
                    Some(_) => None,
                };
            }
        }
        let promoted = plan
            .promoted
            .iter()
            .fold(0, |mask, h| mask | h.register.bit());
        let mut at_branches: Vec<(usize, Known)> = Vec::new();
        for (k, way) in self.ways.iter().enumerate() {
            let there = at_branches.iter().find(|b| Some(b.0) == way.from);
            let mut known = match there {
                Some((_, known)) => known.clone(),
                None => Known {
                    values: start,
                    copies: [None; 16],
                },
            };
            for n in way.range.clone() {
                let action = &plan.actions[n];
                let aside = action.renewal.is_some() || action.joined;
                if action.renewal.is_some() {
                    // A promoted register changes, and its copies do not.
                    known.copies = [None; 16];
                }
                let deed = self.deed(n, k == 0, aside, &mut known, promoted, info);
                self.deeds.push(deed);
                if self.ways.iter().any(|w| w.from == Some(n)) {
                    at_branches.push((n, known.clone()));
                }
            }
        }
    }

    fn deed(
        &mut self,
        n: usize,
        main: bool,
        aside: bool,
        known: &mut Known,
        promoted: u16,
        info: &mut InstructionInfoFactory,
    ) -> Deed {
        let mut executed = self.executed[n];
        let slot = self.slot_of(n);
        let quiet = |j: &Instruction| is_simple(j) && (!has_access(j) || main && slot.is_some());
        let mut deed = Deed {
            quiet: !aside && executed.insns().iter().all(quiet),
            ..Deed::default()
        };
        deed.pure = deed.quiet && executed.count == 1 && is_pure(&executed.insns[0]);
        for k in 0..executed.count {
            let mut j = executed.insns[k];
            if deed.quiet && known.propagate(&mut j) {
                executed.insns[k] = j;
                executed.changed = true;
            }
            let value = self.value(n, &j, &known.values);
            let writes = written(&j, info);
            let (reads, kills) = reads_and_kills(&j, info);
            deed.reads |= reads & !deed.kills;
            deed.kills |= kills;
            deed.writes |= writes;
            let (read, modified) = (j.rflags_read() & STATUS, j.rflags_modified() & STATUS);
            deed.reads_flags |= read != 0 && !deed.kills_flags;
            deed.changes_flags |= modified != 0;
            deed.kills_flags |= rewrite::overwrites_flags(&j);
            known.pass(&j, writes, promoted, value);
            deed.value = value.filter(|_| deed.pure);
        }
        self.executed[n] = executed;
        deed
    }

    /// The register that an instruction gives a value that is the same in each round, and that.
    fn value(
        &mut self,
        n: usize,
        j: &Instruction,
        values: &[Option<u32>; 16],
    ) -> Option<(Reg, u32)> {
        use Mnemonic as M;
        let implicit = matches!(j.mnemonic(), M::Cdqe | M::Cwde);
        let to = match implicit {
            true => Register::RAX,
            false => j.op0_register(),
        };
        let named = implicit || j.op_count() > 0 && j.op0_kind() == OpKind::Register;
        if !named || !computes(j) || !(to.is_gpr32() || to.is_gpr64()) {
            return None;
        }
        let to = general(to)?;
        let second = j.op_count() == 2 && j.op1_kind() == OpKind::Register;
        let same = second && j.op0_register() == j.op1_register();
        if same && matches!(j.mnemonic(), M::Xor | M::Sub) {
            return Some((to, self.number(Making::Zero, 1)));
        }
        let (of, constants) = self.operands(n, j, values)?;
        if second && matches!(j.code(), Code::Mov_r64_rm64 | Code::Mov_rm64_r64) {
            return Some((to, of[1]?));
        }
        let made_by = of.iter().flatten();
        let made_by = made_by.map(|&id| self.makings[id as usize].1).max();
        let making = Making::Computed {
            code: j.code(),
            of,
            constants,
        };
        Some((to, self.number(making, 1 + made_by.unwrap_or(0))))
    }

    /// Returns the operands from which such an instruction computes its first one, if all are the same in each round.
    fn operands(
        &mut self,
        n: usize,
        j: &Instruction,
        values: &[Option<u32>; 16],
    ) -> Option<([Option<u32>; 3], [u64; 2])> {
        use Mnemonic as M;
        let of_register = |r: Register| match r {
            Register::None => Some(None),
            r if is_second_byte(r) => None,
            r => Some(Some(values[usize::from(general(r)?.0)]?)),
        };
        let mut of = [None; 3];
        let mut constants = [0; 2];
        let first = match j.mnemonic() {
            M::Mov | M::Movzx | M::Movsx | M::Movsxd | M::Lea => 1,
            M::Imul if j.op_count() == 3 => 1,
            M::Cdqe | M::Cwde => {
                of[0] = of_register(Register::RAX)?;
                0
            }
            _ => 0,
        };
        for k in first..j.op_count() {
            match j.op_kind(k) {
                OpKind::Register => of[k as usize] = of_register(j.op_register(k))?,
                OpKind::Memory if j.is_ip_rel_memory_operand() && j.mnemonic() == M::Lea => {
                    constants[0] = j.ip_rel_memory_address();
                }
                OpKind::Memory if j.mnemonic() == M::Lea => {
                    of[1] = of_register(j.memory_base())?;
                    of[2] = of_register(j.memory_index())?;
                    let scale = u64::from(j.memory_index_scale());
                    constants = [j.memory_displacement64(), scale];
                }
                OpKind::Memory => {
                    let slot = self.slot_of(n).filter(|slot| self.is_the_same(slot))?;
                    of[k as usize] = Some(self.number(Making::Slot(slot.offset, slot.size), 0));
                }
                _ => constants[1] = j.immediate(k),
            }
        }
        Some((of, constants))
    }

    /// Decides on each instruction, given the registers of values by `holds`.
    fn pass_backward(&self, holds: impl Fn(u32) -> Option<Reg>) -> Vec<Fate> {
        let mut verdicts = alloc::vec![Fate::Stays; self.deeds.len()];
        for way in self.ways {
            // What may be looked at.
            let (mut live, mut flags) = (u16::MAX, true);
            for n in way.range.clone().rev() {
                let deed = &self.deeds[n];
                if !deed.quiet {
                    (live, flags) = (u16::MAX, true);
                    continue;
                }
                let free = deed.pure && !(deed.changes_flags && flags);
                let held = deed.value.and_then(|(_, id)| holds(id));
                if free && deed.writes & live == 0 {
                    verdicts[n] = Fate::Goes;
                } else if let (Some(register), true) = (held, free) {
                    verdicts[n] = Fate::Moved(register);
                    live &= !deed.kills;
                } else {
                    live = live & !deed.kills | deed.reads;
                    flags = flags && !deed.kills_flags || deed.reads_flags;
                }
            }
        }
        verdicts
    }

    /// The actions, as they are with all that.
    fn write(&self, plan: &mut Loop, verdicts: &[Fate]) {
        let mut actions = plan.actions.clone();
        for way in self.ways {
            if self
                .write_way(plan, &mut actions, way.range.clone(), verdicts)
                .is_none()
            {
                // One that cannot be encoded: all stays as it was.
                plan.kept.clear();
                return;
            }
        }
        plan.actions = actions;
    }

    fn write_way(
        &self,
        plan: &mut Loop,
        actions: &mut [Action],
        range: Range<usize>,
        verdicts: &[Fate],
    ) -> Option<()> {
        // Registers, and flags, that are not the app's.
        let (mut wrong, mut wrong_flags) = (0, false);
        for n in range {
            let (deed, executed) = (&self.deeds[n], &self.executed[n]);
            let action = &mut actions[n];
            if wrong != 0 || wrong_flags {
                debug_assert!(deed.quiet);
                action.joined = true;
            }
            match verdicts[n] {
                Fate::Goes => {
                    wrong |= deed.writes;
                    wrong_flags |= deed.changes_flags;
                    action.replaced = true;
                    action.code = keep(&mut plan.code, &[]);
                    continue;
                }
                Fate::Moved(register) => {
                    let (result, _) = deed.value?;
                    wrong &= !result.bit();
                    wrong_flags |= deed.changes_flags;
                    let mov = rewrite::copy(result, register)?;
                    action.replaced = true;
                    action.code = keep(&mut plan.code, &mov);
                    continue;
                }
                Fate::Stays => {}
            }
            wrong &= !deed.kills;
            wrong_flags &= !deed.kills_flags;
            if executed.changed {
                let mut bytes = Vec::new();
                for j in executed.insns() {
                    rewrite::encoded(&mut bytes, j)?;
                }
                action.replaced = true;
                action.code = keep(&mut plan.code, &bytes);
            }
        }
        debug_assert!(wrong == 0 && !wrong_flags);
        Some(())
    }
}
