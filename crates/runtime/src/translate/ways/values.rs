//! Values and types counted in generated code, in the counters of a stratified sampler; exactly in [`super::value_counters`].
//!
//! # Problem
//! The counter of an event with a run-time value depends on that value: it must be hashed where it is loaded, in a few
//! instructions, with no register and no flag of the app's lost.
//!
//! # Strategy
//! The hash functions that a sampler can have here ([`OfPlace`]) are known for a place up to the value. After a load,
//! one register is enough for what is left:
//!
//! ```text
//!   mov    s, start          what the place has made of the sum
//!   crc32  s, loaded
//!   and    s, mask
//!   dec    word gs:[2 * s + counters]
//!   jz     message           out of line, once in as many events as a message stands for
//! ```
//!
//! *The register* is `rcx` or `rdx` where one of them waits in its slot anyway, as in fragments that an indirect branch has led to.
//! Else it is one that no instruction of the fragment uses. It is stolen at the first load that needs it and
//! given back at each exit after that. A trace uses all registers: there it is the one that fewest instructions use, which
//! get it back.
//!
//! *The flags* are destroyed where the app overwrites them before it looks at them ([`super::liveness`]). Elsewhere they are *parked*:
//! `rax` goes to its slot, and `lahf` and `seto` put the flags there, until an instruction has to do with flags or `rax`, or
//! leaves the main line. Loads after each other, as at the end of a function, park them once.
//!
//! *A value that no register holds afterwards* is read before its instruction, as it is for records, and waits in a slot;
//! it is counted after the instruction.
//!
//! # Why it is correct
//! * An event is counted when its instruction is done: one that faults has not been counted, and the fault finds all
//!   registers as its [`Step`](crate::cache::Step) says.
//! * Parked flags are part of what a step says: whoever looks at the app's state at a boundary gets them out of `rax`.
//! * What is hashed is what the dictionary's message tells: the value is taken once, and kept until it is sent.

use trommel_queue::dict::Event;
use trommel_tuple::Kind;

use super::{Needs, Way};
use crate::base::address::AppPc;
use crate::base::decode::{Class, Insn, Load, Rm};
use crate::base::emit::{GsOffset, Reg};
use crate::channel::counters;
use crate::channel::dictionary::DictionaryFull;
use crate::slot;
use crate::translate::walk::{At, Walk};
use crate::translate::{Refusal, Site, Translator, liveness, target};

/// Place of an event's value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::translate) enum Value {
    /// In a general register.
    Register(Reg),
    /// In a slot.
    Slot(GsOffset),
}

/// An event's value, and how it may be counted.
pub(in crate::translate) struct Counted {
    pub(in crate::translate) value: Value,
    /// A register that may be used, if one is to be.
    pub(in crate::translate) scratch: Option<Scratch>,
    /// Flags are looked at afterwards, and are not parked.
    pub(in crate::translate) live: bool,
    /// `rcx` is not the app's, and needed afterwards.
    pub(in crate::translate) holds: bool,
}

/// A register that may be used.
#[derive(Clone, Copy)]
pub(in crate::translate) enum Scratch {
    /// It is free.
    Free(Reg),
    /// Any but those of a set.
    Beside(u16),
}

/// Reads values and method tables, and has them counted.
pub(in crate::translate) struct Values;

impl Values {
    /// The load of an instruction, if its value is counted.
    fn load(t: &Translator, insn: &Insn) -> Option<Load> {
        insn.load
            .filter(|_| t.wants(Kind::Value) && !t.passes_events())
    }
}

impl Way for Values {
    fn is_on(t: &Translator) -> bool {
        let kinds = t.config.kinds;
        (kinds.has(Kind::Value) || kinds.has(Kind::Type)) && t.counts_values()
    }

    fn needs(t: &Translator, needs: &mut Needs) {
        needs.operands = true;
        needs.one_round = true;
        needs.late = true;
        needs.kept |= Reg::RAX.bit();
        needs.loads |= t.config.kinds.has(Kind::Value);
    }

    fn begin(t: &mut Translator, site: &mut Site<'_>, _: AppPc) -> Result<(), Refusal> {
        t.have_counters(site)
    }

    fn list(t: &mut Translator, _: &mut Site<'_>, n: usize) -> usize {
        usize::from(t.kind_of_value(n).is_some())
    }

    fn before(t: &mut Translator, insn: &Insn, at: &mut At, _: i32) {
        if let Some(load) = Self::load(t, insn) {
            t.read_value(insn, load);
            at.probed = true;
        }
    }

    fn after(
        t: &mut Translator,
        site: &mut Site<'_>,
        walk: &Walk,
        at: &mut At,
        _: i32,
    ) -> Result<(), DictionaryFull> {
        let insn = &walk.insns[at.n];
        let Some(load) = Self::load(t, insn) else {
            return Ok(());
        };
        t.flags_after(at.effect.take());
        let rest = &walk.insns[at.n + 1..t.job.count];
        t.sample(site, (insn, load), rest, walk.end)
    }

    fn table(t: &mut Translator, site: &mut Site<'_>, insn: &Insn) -> Result<(), DictionaryFull> {
        t.count_table(site, insn)
    }
}

impl Translator {
    /// Puts aside the value of a load that no general register holds afterwards, as far as it is to be read before.
    pub(in crate::translate) fn read_value(&mut self, insn: &Insn, load: Load) {
        if !matches!(load, Load::Before(_) | Load::BeforeStack(_) | Load::Xlat) {
            return;
        }
        // Of an instruction of a trace that uses both a third is lent, and given back before the instruction.
        let found = self.scratch(insn.used);
        let (s, lent) = match found {
            Some(s) => (s, false),
            None => match crate::translate::stealable(insn.used) {
                Some(s) => (s, true),
                None => return,
            },
        };
        if lent {
            self.job.code.store_gs(slot!(held_rcx), s);
        }
        match (load, insn.rm) {
            (Load::BeforeStack(size), _) => {
                self.job.code.load(s, Reg::RSP, 0);
                if size == 2 {
                    self.zero_extend_16(s);
                }
            }
            (Load::Before(size), Rm::Memory(operand)) => self.load_operand(&operand, s, size),
            (Load::Xlat, Rm::Memory(operand)) => self.load_table_byte(&operand, s),
            _ => {}
        }
        self.job.code.store_gs(slot!(value), s);
        if lent {
            self.job.code.load_gs(s, slot!(held_rcx));
        }
    }

    /// Counts a load that has been executed; `rest` is what follows it in the fragment, as in
    /// [`Translator::all_flags_are_dead`].
    fn sample(
        &mut self,
        site: &mut Site<'_>,
        (insn, load): (&Insn, Load),
        rest: &[Insn],
        end: Option<AppPc>,
    ) -> Result<(), DictionaryFull> {
        let value = match load {
            Load::After(register) => Value::Register(register),
            Load::AfterXmm(n) => {
                self.job.code.store_xmm_low_gs(slot!(value), n);
                Value::Slot(slot!(value))
            }
            Load::AfterPartRax(size) => {
                if let Some(s) = self.scratch(Reg::RAX.bit()) {
                    self.job.code.low_of_rax(s, size);
                    self.job.code.store_gs(slot!(value), s);
                }
                Value::Slot(slot!(value))
            }
            Load::Before(_) | Load::BeforeStack(_) | Load::Xlat => Value::Slot(slot!(value)),
        };
        let dead = self.job.spilled.flags
            || self.job.flags.lost
            || self.all_flags_are_dead(site, rest, end)
            || self.lose_flags_after();
        let event = Event::Dynamic {
            kind: Kind::Value,
            pc: target(insn.pc()),
        };
        let counted = Counted {
            value,
            scratch: Some(match value {
                Value::Register(r) => Scratch::Beside(r.bit()),
                Value::Slot(_) => Scratch::Beside(0),
            }),
            live: !dead,
            holds: false,
        };
        self.ways_value(site, event, &counted)
    }

    /// Counts a call by a method table, if that is counted: its target is in `rcx`, and the app's `rcx` in its slot. So is its `rdx`
    /// then.
    fn count_table(&mut self, site: &mut Site<'_>, insn: &Insn) -> Result<(), DictionaryFull> {
        let table = insn.method_table();
        let Some(table) = table
            .filter(|_| insn.class == Class::CallIndirect && self.wants(Kind::Type))
            .filter(|_| !self.is_quiet(self.job.passed - 1))
        else {
            return Ok(());
        };
        if self.pass_in_stride() {
            return Ok(());
        }
        self.spill_rdx();
        let value = match table {
            Reg::RCX => Value::Slot(slot!(spill_rcx)),
            Reg::RDX => Value::Slot(slot!(spill_rdx)),
            table => Value::Register(table),
        };
        let event = Event::Dynamic {
            kind: Kind::Type,
            pc: target(insn.pc()),
        };
        let counted = Counted {
            value,
            scratch: Some(Scratch::Free(Reg::RDX)),
            live: !self.job.flags.lost,
            holds: true,
        };
        self.ways_value(site, event, &counted)?;
        self.unpark();
        Ok(())
    }

    /// Makes a register free that may be.
    pub(super) fn register(&mut self, scratch: Scratch) -> Option<Reg> {
        match scratch {
            Scratch::Free(register) => Some(register),
            Scratch::Beside(avoid) => self.scratch(avoid),
        }
    }

    /// True if what counts events and values may be used for a fragment. If not, nothing is counted from now on.
    pub(super) fn have_counters(&mut self, site: &Site<'_>) -> Result<(), Refusal> {
        if self.job.trace || self.job.pairs && counters::have_room(site.shared.paths()) {
            return Ok(());
        }
        self.stop_counting();
        Err(Refusal::CacheFull)
    }

    /// A register whose app value is in its slot, and not one of `avoid`.
    fn scratch(&mut self, avoid: u16) -> Option<Reg> {
        if self.job.spilled.rcx && avoid & Reg::RCX.bit() == 0 {
            return Some(Reg::RCX);
        }
        if self.job.spilled.rdx && avoid & Reg::RDX.bit() == 0 {
            return Some(Reg::RDX);
        }
        let p = self.job.stolen?;
        if avoid & p.bit() != 0 {
            // A trace uses it, too, if rarely.
            let rcx = avoid & Reg::RCX.bit() == 0;
            if rcx {
                self.spill_rcx();
            } else if avoid & Reg::RDX.bit() == 0 {
                self.spill_rdx();
            } else {
                return None;
            }
            return Some(if rcx { Reg::RCX } else { Reg::RDX });
        }
        if !self.job.spilled.stolen {
            self.job.code.store_gs(slot!(spill_stolen), p);
            self.job.spilled.stolen = true;
        }
        Some(p)
    }

    /// The flags to `rax`, and that to its slot.
    pub(in crate::translate) fn park(&mut self) {
        if !self.job.spilled.flags {
            self.job.code.store_gs(slot!(spill_flags), Reg::RAX);
            self.job.code.raw(&[0x9f, 0x0f, 0x90, 0xc0]); // lahf; seto al
            self.job.spilled.flags = true;
        }
    }

    /// Makes flags and `rax` the app's again.
    pub(in crate::translate) fn unpark(&mut self) {
        if core::mem::take(&mut self.job.spilled.flags) {
            self.job.code.raw(&[0x04, 0x7f, 0x9e]); // add al, 127; sahf
            self.job.code.load_gs(Reg::RAX, slot!(spill_flags));
        }
    }

    /// Unparks before an instruction that has to do with them.
    pub(in crate::translate) fn unpark_for(&mut self, insn: &Insn) {
        if !self.job.spilled.flags {
            return;
        }
        let passes = match insn.class {
            Class::Jmp(_) => true,
            Class::Plain => {
                insn.used & Reg::RAX.bit() == 0 && liveness::leaves_flags(self.bytes_of(insn))
            }
            _ => false,
        };
        if !passes {
            self.unpark();
        }
    }
}
