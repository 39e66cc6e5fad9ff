//! Arguments that calls pass in registers, recorded in windows.
//!
//! # Problem
//! A function may be called with the same arguments nearly always, and nobody can see that from its loads (*Value Sampling*, section 1:
//! procedure arguments, at a call site or at all). When a call is executed the arguments are in registers of the app's, some of which
//! may be in slots.
//!
//! # Strategy
//! Where windows are to have both values and calls, each call is preceded in the dictionary by [`Event::Arguments`], and in the record by
//! the registers that arguments are passed in: six general ones, and the lower eight bytes of eight vector registers. Which of them the callee takes is its code's to tell, when the
//! profile is looked at: nothing is known of that here.
//!
//! # Why it is correct
//! * The six general registers never hold the write pointer ([`KEPT`]), and those in slots are loaded before the call, whose step
//!   says so. Vector registers are the app's all the time. `mov` and `movq` to the record touch neither flags nor memory of the app's.
//! * A call that faults when it reads its target or pushes its return address has not been recorded: its step has the events and words
//!   before it.

use trommel_queue::dict::{ARGUMENTS, Event, GENERAL_ARGUMENTS};
use trommel_tuple::Kind;

use super::accesses::MOST_WORDS;
use super::{Needs, Way};
use crate::base::decode::{Class, Insn};
use crate::base::emit::Reg;
use crate::translate::walk::At;
use crate::translate::{Site, Translator, target};

/// The general registers, in the order in which they are recorded.
const REGISTERS: [Reg; GENERAL_ARGUMENTS] =
    [Reg::RDI, Reg::RSI, Reg::RDX, Reg::RCX, Reg(8), Reg(9)];

/// Argument registers that may be stolen otherwise.
const KEPT: u16 = Reg::RDI.bit() | Reg::RSI.bit() | Reg(8).bit() | Reg(9).bit();

/// Records the arguments of calls.
pub(in crate::translate) struct Arguments;

impl Way for Arguments {
    fn is_on(t: &Translator) -> bool {
        let kinds = t.config.kinds;
        t.config.windows && kinds.has(Kind::Value) && kinds.has(Kind::Call)
    }

    fn needs(_: &Translator, needs: &mut Needs) {
        needs.words = needs.words.max(MOST_WORDS);
        needs.kept |= KEPT;
    }

    fn list(t: &mut Translator, site: &mut Site<'_>, n: usize) -> usize {
        let insn = &t.job.insns[n];
        if !passes_arguments(insn) {
            return 0;
        }
        let pc = target(insn.pc());
        site.shared.event(Event::Arguments { pc });
        ARGUMENTS
    }

    fn registers(_: &Translator, insn: &Insn) -> u16 {
        match passes_arguments(insn) {
            true => Reg::RCX.bit() | Reg::RDX.bit(),
            false => 0,
        }
    }

    fn before_transfer(t: &mut Translator, _: &mut Site<'_>, insn: &Insn, at: &mut At) {
        let Some(p) = t.job.stolen.filter(|_| passes_arguments(insn)) else {
            return;
        };
        let slot = 4 + 8 * at.values as i32;
        for (k, register) in (0..).zip(REGISTERS) {
            t.job.code.store(p, slot + 8 * k, register);
        }
        for (xmm, k) in (0..).zip(GENERAL_ARGUMENTS as i32..ARGUMENTS as i32) {
            t.job.code.store_xmm_low(p, slot + 8 * k, xmm);
        }
        at.events += 1;
        at.values += ARGUMENTS;
    }
}

/// Returns true if an instruction passes arguments.
fn passes_arguments(insn: &Insn) -> bool {
    matches!(insn.class, Class::Call(_) | Class::CallIndirect)
}
