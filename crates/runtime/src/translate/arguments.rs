//! What calls pass in registers, recorded in windows.
//!
//! # Problem
//! A function may be called with the same arguments nearly always, and nobody can see that from its loads (*Value Sampling*, section 1:
//! procedure arguments, at a call site or at all). When a call is executed the arguments are in registers of the app's, some of which
//! may be in slots.
//!
//! # Strategy
//! Where windows are to have both values and calls, each call is preceded in the dictionary by [`Event::Arguments`], and in the record by
//! the registers that integers and pointers are passed in. Which of them the callee takes is its code's to tell, when the
//! profile is looked at: nothing is known of that here.
//!
//! # Why it is correct
//! * The six registers never hold the write pointer ([`KEPT`]), and those in slots are loaded before the call, whose step
//!   says so. `mov` to the record touches neither flags nor memory of the app's.
//! * A call that faults when it reads its target or pushes its return address has not been recorded: its step has the events and words
//!   before it.

use trommel_queue::dict::{ARGUMENTS, Event};
use trommel_tuple::Kind;

use super::{Config, Translator, target};
use crate::base::decode::{Class, Insn};
use crate::base::emit::Reg;
use crate::channel::deliver::Shared;

/// The registers, in the order in which they are recorded.
const REGISTERS: [Reg; ARGUMENTS] = [Reg::RDI, Reg::RSI, Reg::RDX, Reg::RCX, Reg(8), Reg(9)];

/// Those that may be stolen otherwise.
pub(super) const KEPT: u16 = Reg::RDI.bit() | Reg::RSI.bit() | Reg(8).bit() | Reg(9).bit();

impl Config {
    /// Whether arguments of calls are recorded.
    pub(super) fn wants_arguments(&self) -> bool {
        self.windows && self.kinds.has(Kind::Value) && self.kinds.has(Kind::Call)
    }
}

impl Translator {
    /// Whether those of this instruction are.
    pub(super) fn passes_arguments(&self, insn: &Insn) -> bool {
        matches!(insn.class, Class::Call(_) | Class::CallIndirect) && self.config.wants_arguments()
    }

    /// First pass: lists them, before the call's own events. How many words they are.
    pub(super) fn list_arguments(&self, insn: &Insn, to: &mut Shared) -> usize {
        if !self.passes_arguments(insn) {
            return 0;
        }
        let pc = target(insn.pc());
        to.event(Event::Arguments { pc });
        ARGUMENTS
    }

    /// The registers that must be the app's for that.
    pub(super) fn arguments_in_slots(&self, insn: &Insn) -> u16 {
        match self.passes_arguments(insn) {
            true => Reg::RCX.bit() | Reg::RDX.bit(),
            false => 0,
        }
    }

    /// Second pass, before a call: to the record, from its word `values` on. How many words they are.
    pub(super) fn record_arguments(&mut self, insn: &Insn, values: usize) -> usize {
        let Some(p) = self.job.stolen.filter(|_| self.passes_arguments(insn)) else {
            return 0;
        };
        let slot = 4 + 8 * values as i32;
        for (k, register) in (0..).zip(REGISTERS) {
            self.job.code.store(p, slot + 8 * k, register);
        }
        ARGUMENTS
    }
}
