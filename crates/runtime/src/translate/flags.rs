//! Flags in traces: destroyed by comparisons, and made again where they may be looked at.
//!
//! # Strategy
//! The second pass of a trace follows how the app's flags could be made again ([`Recipe`]): from the
//! instruction that left them, until one writes a register that the recipe needs. An indirect branch
//! at which there is a recipe compares with flags, which are *lost* from there on. An instruction
//! that overwrites all of them ends that. Before one that reads them, or that would
//! spoil the recipe, and before every way out of the trace, they are made again.
//!
//! # Why it is correct
//! * While flags are lost the recipe holds, and each step says so: a signal that is delivered at a
//!   step, and a fault in it, finds flags that are made from the registers then.
//! * A comparison that fails makes them again, out of line, before anything else.
//!
//! **I15 (flags).** Generated code keeps the app's flags, or its steps say how to restore them. Counters overwrite flags only where the app overwrites them before it reads them.
#![allow(unsafe_code)] // reason: reads the app's code.

use super::Translator;
use crate::base::decode::{Class, Effect, Insn, effect};
use crate::base::emit::{Code, Reg};
use crate::base::recipe::{Op, Recipe, Right};
use crate::cache::Spilled;
use crate::slot;

/// The app's flags at a point of the second pass.
#[derive(Clone, Copy, Default)]
pub(super) struct Flags {
    /// Recipe to make them again, if there is one.
    pub(super) recipe: Option<Recipe>,
    /// True if they are lost.
    pub(super) lost: bool,
}

impl Flags {
    /// The recipe, if it is needed.
    pub(super) fn needed(&self) -> Option<Recipe> {
        self.recipe.filter(|_| self.lost)
    }
}

impl Translator {
    /// Returns the effect of an instruction on flags, in a trace. Makes them again before it if need be.
    /// `leaves`: it is the last, and leads out of the trace.
    pub(super) fn flags_before(&mut self, insn: &Insn, leaves: bool) -> Option<Effect> {
        if !self.job.trace || !self.config.optimise {
            return None;
        }
        let len = insn.size();
        // SAFETY: the instruction was decoded from these bytes.
        let bytes = unsafe { core::slice::from_raw_parts(self.job.from.at(insn.pc()), len) };
        let effect = effect(bytes, insn.pc());
        let Some(recipe) = self.job.flags.needed() else {
            return Some(effect);
        };
        let looks = matches!(
            insn.class,
            Class::ShortBranch(_) | Class::Syscall | Class::Popf
        );
        let spoils = !effect.overwrites && after(recipe, &effect).is_none();
        if leaves || looks || effect.reads || spoils {
            self.make_flags();
        }
        Some(effect)
    }

    /// Takes note of what an instruction has done to flags.
    pub(super) fn flags_after(&mut self, effect: Option<Effect>) {
        let Some(effect) = effect else { return };
        if effect.overwrites {
            self.job.flags = Flags {
                recipe: effect.recipe,
                lost: false,
            };
        } else if effect.modifies {
            self.job.flags.recipe = None;
        } else if let Some(recipe) = self.job.flags.recipe {
            self.job.flags.recipe = after(recipe, &effect);
        }
    }

    /// Makes the flags again that are lost.
    pub(super) fn make_flags(&mut self) {
        if let Some(recipe) = self.job.flags.needed() {
            if recipe.uses() & Reg::RCX.bit() != 0 {
                self.unspill_rcx();
            }
            if recipe.uses() & Reg::RDX.bit() != 0 {
                self.unspill_rdx();
            }
            if self
                .job
                .stolen
                .is_some_and(|p| recipe.uses() & p.bit() != 0)
            {
                self.give_back();
            }
            if !is_direct(&recipe) {
                self.spill_rcx();
            }
            write(&mut self.job.code, &recipe, Reg::RCX);
        }
        self.job.flags.lost = false;
    }
}

/// The recipe after an instruction that leaves flags alone.
fn after(recipe: Recipe, effect: &Effect) -> Option<Recipe> {
    let spoiled = recipe.uses() & effect.writes;
    match spoiled & !Reg::RSP.bit() {
        0 if spoiled == 0 => Some(recipe),
        0 => recipe.with_stack_moved(effect.moves_stack?),
        _ => None,
    }
}

/// Returns true if it is made from registers as they are.
pub(super) fn is_direct(recipe: &Recipe) -> bool {
    recipe.adjust == 0 && recipe.op != Op::Add
}

/// Writes code that makes the flags, with `scratch` if they are not made from registers as they are.
pub(super) fn write(code: &mut Code<'_>, recipe: &Recipe, scratch: Reg) {
    let left = match is_direct(recipe) {
        true => recipe.left,
        false => {
            code.lea(scratch, recipe.left, recipe.adjust);
            scratch
        }
    };
    code.flags(recipe, left);
}

/// Loads the registers that a recipe needs and that are not the app's.
pub(super) fn load_for(code: &mut Code<'_>, recipe: &Recipe, spilled: Spilled) {
    if spilled.rcx && recipe.uses() & Reg::RCX.bit() != 0 {
        code.load_gs(Reg::RCX, slot!(spill_rcx));
    }
    if spilled.rdx && recipe.uses() & Reg::RDX.bit() != 0 {
        code.load_gs(Reg::RDX, slot!(spill_rdx));
    }
}

impl Code<'_> {
    /// The operation of a recipe on a first operand in `left`.
    fn flags(&mut self, recipe: &Recipe, left: Reg) {
        let byte = recipe.size == 1;
        if recipe.size == 2 {
            self.raw(&[0x66]);
        }
        let rex = 0x40 | u8::from(recipe.size == 8) << 3 | u8::from(left.0 >= 8);
        match recipe.right {
            Right::Register(right) => {
                let opcode = match recipe.op {
                    Op::Compare => 0x39,
                    Op::Add => 0x01,
                    Op::Test => 0x85,
                };
                let rex = rex | u8::from(right.0 >= 8) << 2;
                let modrm = 0xc0 | (right.0 & 7) << 3 | left.0 & 7;
                self.raw(&[rex, opcode - u8::from(byte), modrm]);
            }
            Right::Constant(c) => {
                let (opcode, field) = match recipe.op {
                    Op::Compare => (0x81, 7),
                    Op::Add => (0x81, 0),
                    Op::Test => (0xf7, 0),
                };
                let modrm = 0xc0 | field << 3 | left.0 & 7;
                self.raw(&[rex, opcode - u8::from(byte), modrm]);
                match recipe.size {
                    1 => self.raw(&[c as u8]),
                    2 => self.raw(&(c as u16).to_le_bytes()),
                    _ => self.raw(&c.to_le_bytes()),
                }
            }
        }
    }
}
