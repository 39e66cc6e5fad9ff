//! Events counted by strides, where a sampler takes every so many of all events.
//!
//! # Problem
//! Such a sampler has one counter: the events to come before the next sample. To take one from it at each event costs two
//! instructions a load, and each of them waits for the one before, as they change the same word.
//!
//! # Strategy
//! How many events a fragment or trace has up to each of its exits is known when it is made. So they are taken from the counter at the exit, all at once. Before
//! them it is made sure that more are left than the next ones, a *stride*: if not, one of them may be the sample. Then they are counted one by one: in a trace
//! in a *copy* of the stride after its main line, which *joins* that again where the stride ends; else in another fragment of the same address
//! ([`Prefix::SAMPLED`]), which is made when it is first needed and leads back to those that stride. Traces are long, and have no way in but their start: what leaves
//! one comes back to it a round later.
//!
//! ```text
//!   cmp  word gs:[left], passed + stride
//!   jbe  near                       out of line: takes what was passed, and goes on with the copy, or the other fragment
//!   …                               the events of the stride
//!   cmp, jbe                        once more, before another stride
//!   …
//!   sub  word gs:[left], passed     at each exit
//! ```
//!
//! A stride begins where nobody looks at the flags, as far as there is such a place before its first event; else flags are parked. Strides are
//! short against the distance to the next sample, as those that it is in are not executed.
//!
//! Source: Arnold, Ryder, *A framework for reducing the cost of instrumented code*, PLDI 2001: a counter chooses between two copies of the code. There it counts the
//! checks, at entries of functions and at branches backward; here it counts events, so that what is sampled is what it would be were each event counted.
//!
//! # Why it is correct
//! * Out of fragments that stride the counter is what it were had each event taken one. In the midst it is more by what was *passed*, which each
//!   [`Step`](crate::cache::Step) says, so that a thread that comes out there takes it.
//! * A stride is begun only if more events are left than have passed and it has, so none of its events is the sample, and something is left at each exit.
//! * A copy takes what was passed before it, and gives back at its joint what the main line is to have passed there; registers and flags are put where the main line
//!   has them at that point.
//! * What counts events by itself (pairs, the dispatcher, the other fragments) does so out of fragments that stride.
//! * A thread that is killed in the midst has not counted what it had passed in its last fragment, as where paths are counted.
#![allow(unsafe_code)] // reason: a thread's counter.

use alloc::vec::Vec;

use trommel_queue::dict::Event;
use trommel_tuple::{Kind, KindSet};

use super::copies::{Joint, Near};
use super::{Leaving, Needs, Way};
use crate::base::address::AppPc;
use crate::base::area::COUNTERS_OFFSET;
use crate::base::decode::{Class, Insn};
use crate::base::emit::{Code, GsOffset, Reg};
use crate::base::ids::EntryId;
use crate::base::prefix::Prefix;
use crate::cache::Step;
use crate::channel::dictionary::DictionaryFull;
use crate::channel::strata::Sampler;
use crate::translate::flags::Flags;
use crate::translate::persisted::parts::STRIDES;
use crate::translate::walk::{At, Walk};
use crate::translate::{Refusal, Site, Translator, target};

/// Events in a stride.
const MOST: u32 = 64;
/// Strides in the distance from a sample to the next.
const IN_DISTANCE: u32 = 16;
/// Samples that are closer are counted to one by one.
const CLOSE: u32 = 32;
/// Largest distance between samples with strides: the passed events are added to what is left, in 16 bits.
const FAR: u32 = 60_000;

/// The events to come before the next sample.
const LEFT: GsOffset = GsOffset(COUNTERS_OFFSET as u32);

const BELOW_OR_EQUAL: u8 = 6;

/// State of the strides of the fragment being made.
#[derive(Default)]
pub(in crate::translate) struct Strides {
    /// True if it has some.
    pub(in crate::translate) on: bool,
    /// Events of each instruction.
    events: Vec<u8>,
    /// Instruction at which the next one begins, if that has been found out.
    next: Option<usize>,
    /// Events that were passed and not taken from the counter.
    pub(in crate::translate) passed: u16,
    /// Events that may have been passed before something must be made sure of again.
    sure: u16,
    pub(super) nears: Vec<Near>,
    /// The kinds of the fragment's events, and those that the dictionary has messages about.
    pub(in crate::translate) kinds: KindSet,
    told: KindSet,
}

impl Strides {
    /// None are planned.
    pub(in crate::translate) fn clear(&mut self) {
        self.on = false;
        self.events.clear();
        self.next = None;
        self.passed = 0;
        self.sure = 0;
        self.nears.clear();
        self.kinds = KindSet::NONE;
    }
}

/// State that ways keep at a point of the main line: the events that were passed there, with strides.
#[derive(Clone, Copy, Default)]
pub(in crate::translate) struct Kept(Option<u16>);

impl Kept {
    /// The events that were passed.
    pub(super) fn passed(self) -> u16 {
        self.0.unwrap_or(0)
    }
}

/// Counts events by strides.
pub(in crate::translate) struct Striding;

impl Way for Striding {
    fn is_on(t: &Translator) -> bool {
        t.strides()
    }

    fn needs(_: &Translator, needs: &mut Needs) {
        needs.one_round = true;
        needs.room = true;
    }

    fn enter(
        t: &mut Translator,
        site: &mut Site<'_>,
        _: Option<EntryId>,
        end: Option<AppPc>,
    ) -> Result<(), DictionaryFull> {
        t.plan_strides(site, end)
    }

    fn reach(t: &mut Translator, site: &mut Site<'_>, walk: &Walk, at: &At) {
        t.stride(site, &walk.insns, at.n, walk.end);
    }

    fn after(
        t: &mut Translator,
        _: &mut Site<'_>,
        walk: &Walk,
        at: &mut At,
        _: i32,
    ) -> Result<(), DictionaryFull> {
        if walk.insns[at.n].load.is_some() && t.wants(Kind::Value) {
            t.pass_in_stride();
        }
        Ok(())
    }

    fn event(t: &mut Translator, _: &mut Site<'_>, _: Event) -> Result<bool, DictionaryFull> {
        Ok(t.pass_in_stride())
    }

    fn event_out(
        t: &mut Translator,
        site: &mut Site<'_>,
        _: Event,
        to: AppPc,
    ) -> Result<bool, DictionaryFull> {
        t.job.flags = Flags::default();
        let passed = t.pass_in_stride();
        if passed {
            t.leave(site, to, None, 0, 0, None)?;
        }
        Ok(passed)
    }

    fn walked(
        t: &mut Translator,
        site: &mut Site<'_>,
        walk: &Walk,
        at: &mut At,
    ) -> Result<(), Refusal> {
        t.write_copies(site, walk, at)
    }

    fn finish(t: &mut Translator, site: &mut Site<'_>) {
        t.write_nears(site);
    }

    /// The kinds of its events, of which the dictionary is to have messages.
    fn word(t: &Translator) -> u16 {
        match t.job.strides.on {
            true => t.job.strides.kinds.bits() | STRIDES,
            false => 0,
        }
    }

    fn bring(
        t: &mut Translator,
        site: &mut Site<'_>,
        app: AppPc,
        word: u16,
    ) -> Result<(), DictionaryFull> {
        t.tell_kinds(site, app, KindSet::from_bits(word & !STRIDES))
    }

    fn leave(
        t: &mut Translator,
        site: &mut Site<'_>,
        exit: &mut Leaving,
    ) -> Result<(), DictionaryFull> {
        t.take_passed(site, exit.to, exit.scratch);
        Ok(())
    }
}

impl Translator {
    /// Returns the state that ways keep here.
    pub(in crate::translate) fn kept(&self) -> Kept {
        let strides = &self.job.strides;
        Kept(strides.on.then_some(strides.passed))
    }

    /// Goes on where so much was kept.
    pub(in crate::translate) fn go_on(&mut self, kept: Kept) {
        self.job.strides.on = kept.0.is_some();
        self.job.strides.passed = kept.passed();
    }

    /// True if events were passed here that are to be counted.
    pub(in crate::translate) fn keeps_events(&self) -> bool {
        self.job.strides.passed != 0
    }

    /// True if the fragment being made passes events by.
    pub(in crate::translate) fn passes_events(&self) -> bool {
        self.job.strides.on
    }

    /// The events of a step: of the block, or those that were passed.
    pub(in crate::translate) fn step_events(&self, events: usize) -> u16 {
        match self.job.strides.on {
            true => self.job.strides.passed,
            false => events as u16,
        }
    }

    /// True if a step may go on with the one before it, as far as events are concerned.
    pub(in crate::translate) fn is_one_step(&self, before: &Step, step: &Step) -> bool {
        // Where instructions are counted, each has a step.
        !self.counts_contexts() && (!self.job.strides.on || before.events == step.events)
    }

    /// True if the taken side of a branch backward comes first.
    pub(in crate::translate) fn taken_side_is_first(&self) -> bool {
        self.needs.each_event && !self.job.trace && !self.job.strides.on
    }
}

impl Sampler {
    /// Events in a stride at most, where there are any.
    fn stride(&self) -> Option<u32> {
        let rate = self.rate();
        (!self.hashes_values() && (CLOSE..=FAR).contains(&rate))
            .then(|| (rate / IN_DISTANCE).min(MOST))
    }
}

impl Translator {
    /// True if fragments stride, as far as they may.
    pub fn strides(&self) -> bool {
        let sampler = self.ways.sampler.as_ref();
        let plain = self.ways.asked.is_none() && !self.config.lists();
        plain && sampler.is_some_and(|s| s.stride().is_some())
    }

    /// Finds out which events the fragment being made has, which goes on at `end`.
    fn plan_strides(
        &mut self,
        site: &mut Site<'_>,
        end: Option<AppPc>,
    ) -> Result<(), DictionaryFull> {
        let sampled = self.job.prefix == Prefix::SAMPLED;
        let on = self.strides() && self.job.from.is_usual() && !sampled;
        self.job.strides.on = on;
        if sampled {
            // It is not found by its address alone.
            self.is_unfit();
        }
        if !on {
            return Ok(());
        }
        let mut turned = 0;
        for n in 0..self.job.count {
            let insn = self.job.insns[n];
            let turn = self.job.turns.get(turned).filter(|turn| turn.at == n);
            let turn = turn.map(|turn| turn.to);
            turned += usize::from(turn.is_some());
            let next = match n + 1 < self.job.count {
                true => Some(self.job.insns[n + 1].pc()),
                false => end,
            };
            self.ways_turn_to(n);
            let load = insn.load.is_some() && self.wants(Kind::Value);
            let table = insn.class == Class::CallIndirect
                && insn.method_table().is_some()
                && self.wants(Kind::Type)
                && !self.is_quiet(n);
            let (main, _) = self.sides(&insn, turn, next, None);
            let main = main.map(|event| match event {
                Event::Call { .. } | Event::Indirect { call: true, .. } => Kind::Call,
                _ => Kind::Edge,
            });
            let all = [
                load.then_some(Kind::Value),
                table.then_some(Kind::Type),
                main,
            ];
            let kinds = all.into_iter().flatten();
            self.job.strides.events.push(kinds.clone().count() as u8);
            self.job.strides.kinds = kinds.fold(self.job.strides.kinds, KindSet::with);
        }
        let app = self.job.insns[..self.job.count].first().map(Insn::pc);
        app.map_or(Ok(()), |app| {
            self.tell_kinds(site, app, self.job.strides.kinds)
        })
    }

    /// Sees to it that the dictionary has a message about each kind that is counted, if only of some place: so the host knows of which kinds events are that
    /// were counted and not sent.
    pub(in crate::translate) fn tell_kinds(
        &mut self,
        site: &mut Site<'_>,
        at: AppPc,
        kinds: KindSet,
    ) -> Result<(), DictionaryFull> {
        for kind in kinds.iter() {
            if !self.job.strides.told.has(kind) {
                self.job.strides.told = self.job.strides.told.with(kind);
                let block = self.block_without_events(site)?;
                let pc = target(at);
                site.shared.message(block, Event::Dynamic { kind, pc })?;
            }
        }
        Ok(())
    }

    /// Begins a stride before instruction `n`, if that is the place for it.
    fn stride(&mut self, site: &mut Site<'_>, insns: &[Insn], n: usize, end: Option<AppPc>) {
        if !self.job.strides.on {
            return;
        }
        let joint = Joint {
            at: self.job.code.here(),
            passed: self.job.strides.passed,
            spilled: self.job.spilled,
            flags: self.job.flags,
        };
        if let Some(near) = self.job.strides.nears.last_mut()
            && near.end == n
        {
            near.joint = Some(joint);
        }
        if self.job.strides.passed < self.job.strides.sure {
            return;
        }
        let place = match self.job.strides.next.filter(|&place| place >= n) {
            Some(place) => place,
            None => match self.place_of_stride(site, insns, n, end) {
                Some(place) => *self.job.strides.next.insert(place),
                None => return,
            },
        };
        if place != n {
            return;
        }
        let rest = &insns[n..self.job.count];
        let free = self.job.spilled.flags
            || self.job.flags.lost
            || self.all_flags_are_dead(site, rest, end)
            || self.lose_flags_after();
        if !free {
            self.park();
        }
        let most = self.ways.sampler.as_ref().and_then(Sampler::stride);
        let most = most.unwrap_or(1);
        let (mut events, mut after) = (0, n);
        for (at, &more) in (n..).zip(&self.job.strides.events[n..]) {
            // The first may have more than one.
            if events != 0 && u32::from(events + more) > most {
                break;
            }
            events += more;
            if more != 0 {
                after = at + 1;
            }
        }
        self.job.strides.next = None;
        self.job.strides.sure = self.job.strides.passed + u16::from(events);
        self.job.code.compare_left(self.job.strides.sure);
        let from = self.job.code.jcc(BELOW_OR_EQUAL);
        self.job.strides.nears.push(Near {
            from,
            pc: insns[n].pc(),
            at: n,
            end: after,
            passed: self.job.strides.passed,
            spilled: self.job.spilled,
            flags: self.job.flags,
            joint: None,
            copied: false,
        });
    }

    /// Returns the place of the next stride: the next instruction with an event, or the last before it where flags are dead.
    fn place_of_stride(
        &mut self,
        site: &mut Site<'_>,
        insns: &[Insn],
        n: usize,
        end: Option<AppPc>,
    ) -> Option<usize> {
        let event = n + self.job.strides.events[n..].iter().position(|&e| e != 0)?;
        let dead = (n..=event)
            .rev()
            .find(|&at| self.all_flags_are_dead(site, &insns[at..self.job.count], end));
        Some(dead.unwrap_or(event))
    }

    /// An event of a stride is passed. False where there are none.
    pub(in crate::translate) fn pass_in_stride(&mut self) -> bool {
        self.job.strides.passed += u16::from(self.job.strides.on);
        debug_assert!(self.job.strides.passed <= self.job.strides.sure || !self.job.strides.on);
        self.job.strides.on
    }

    /// Subtracts the passed events from the counter on the way out to `to`. All registers but `rcx` are the app's, or one
    /// register is free.
    fn take_passed(&mut self, site: &mut Site<'_>, to: AppPc, scratch: Option<Reg>) {
        let passed = core::mem::take(&mut self.job.strides.passed);
        if passed == 0 {
            return;
        }
        if let Some(scratch) = scratch {
            self.job.code.take_from_left_with(scratch, passed);
        } else if self.all_flags_are_dead(site, &[], Some(to)) {
            self.job.code.take_from_left(passed);
        } else {
            self.spill_rcx();
            self.job.code.take_from_left_with(Reg::RCX, passed);
        }
    }
}

impl Code<'_> {
    /// `cmp word gs:[left], events`
    fn compare_left(&mut self, events: u16) {
        self.with_left(7, events);
    }

    /// `sub word gs:[left], events`
    pub(super) fn take_from_left(&mut self, events: u16) {
        self.with_left(5, events);
    }

    /// An operation of the opcode 0x81 on what is left.
    fn with_left(&mut self, operation: u8, events: u16) {
        const SHORT: u16 = 0x80;
        let opcode = if events < SHORT { 0x83 } else { 0x81 };
        self.raw(&[0x66, 0x65, opcode, operation << 3 | 4, 0x25]);
        self.raw(&LEFT.0.to_le_bytes());
        let bytes = events.to_le_bytes();
        self.slice(&bytes[..if events < SHORT { 1 } else { 2 }]);
    }

    /// Does the same as [`Self::take_from_left`], through a register and with no flag touched.
    pub(in crate::translate) fn take_from_left_with(&mut self, scratch: Reg, events: u16) {
        self.add_to_left_with(scratch, -i32::from(events));
    }

    pub(super) fn add_to_left_with(&mut self, scratch: Reg, events: i32) {
        let field = (scratch.0 & 7) << 3;
        let rex = 0x40 | scratch.0 >> 3 << 2;
        // movzx scratch, word gs:[left]
        self.raw(&[0x65, rex, 0x0f, 0xb7, 4 | field, 0x25]);
        self.raw(&LEFT.0.to_le_bytes());
        self.lea(scratch, scratch, events);
        // mov gs:[left], scratch
        self.raw(&[0x66, 0x65, rex, 0x89, 4 | field, 0x25]);
        self.raw(&LEFT.0.to_le_bytes());
    }
}
