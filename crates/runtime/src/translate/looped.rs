//! The second round of a trace that comes to its own start ([`crate::translate::optimise`]): its crossing, its
//! instructions, its way back and its ways out.
//!
//! ```text
//!   entry       the first round, as in any trace; its last branch leaves or falls through
//!   crossing    the frame pointer compared, the app's registers put away, promoted registers loaded
//!   loop        the second round, which branches back here
//!   ways        other ways through it, entered by branches of earlier ones, which branch back as well
//!   tails       promoted registers are the app's again
//! ```
//!
//! # Why it is correct
//! * The way back is an exit, linked to its own fragment. When that is retired, the exit leads to a tail, which restores the
//!   app's registers and leaves as any other. It is never linked to anything else, as promoted registers are not the app's there.
//! * At the start of the loop flags, `rcx` and `rdx` are the app's, on both ways to it.
#![allow(unsafe_code)] // reason: reads the app's code.

mod plan;

use alloc::vec::Vec;
use core::ops::Range;

use trommel_queue::dict::Event;

use super::path::FURTHEST;
use super::ways::{Kept, Leaving};
use super::{Site, Translator, flags};
use crate::base::address::AppPc;
use crate::base::decode::Insn;
use crate::base::emit::{Code, Mem, Reg, Rel32};
use crate::base::ids::{EntryId, ExitId, FragmentId};
use crate::cache::{self, Exit, Spilled, Step, UNLINKED};
use crate::channel::dictionary::DictionaryFull;
use crate::slot;
use crate::translate::optimise::{self, Action, Loop, Renewal, Way};

/// Bytes of the first round: the second may need 25 more for each instruction, and steps are within 64 KiB.
const MOST_CODE: usize = 20 << 10;

/// Bytes of code that an instruction of a way may need.
const EACH: usize = 180;
/// A branch of the second round that leads to another way.
struct Fork {
    at: usize,
    from: Rel32,
    pc: AppPc,
    to: AppPc,
    passed: usize,
    /// The first event of the way that it leads out of, and the one after those before it.
    first: usize,
    events: usize,
    /// The branch as an event, if that kind is enabled.
    event: Option<Event>,
    spilled: Spilled,
    flags: flags::Flags,
}

/// State of the loop being made.
#[derive(Default)]
pub(super) struct Looped {
    plan: Option<Loop>,
    /// The ways through it, by the instructions of the translator, and where each goes on after them.
    ways: Vec<(Way, Option<AppPc>)>,
    forks: Vec<Fork>,
    /// Start of the loop in the code.
    top: usize,
    /// The branches back.
    backs: Vec<Rel32>,
    /// The way being written, whether it has branched back, and whether it does after its last branch.
    open: Option<usize>,
    closed: bool,
    closing: bool,
    /// Renewals: the jump to each, its promoted register and the load, and where it comes back to.
    renewals: Vec<(Rel32, optimise::Span, usize)>,
    /// The exits that are branches back.
    pub(super) exits: Vec<ExitId>,
}

impl Looped {
    pub(super) fn clear(&mut self) {
        self.plan = None;
        self.ways.clear();
        self.forks.clear();
        self.top = 0;
        self.backs.clear();
        self.open = None;
        self.exits.clear();
        self.renewals.clear();
    }

    /// The promoted registers.
    pub(super) fn promoted(&self) -> u16 {
        self.plan.as_ref().map_or(0, Loop::registers)
    }

    pub(super) fn is_planned(&self) -> bool {
        self.plan.is_some()
    }

    /// Returns the number of ways.
    pub(super) fn ways(&self) -> usize {
        self.ways.len()
    }

    /// The instructions of way `n`.
    pub(super) fn range_of(&self, n: usize) -> Option<Range<usize>> {
        self.ways.get(n).map(|way| way.0.range.clone())
    }

    /// Returns the address at which round `k` of [`Translator::rounds`] goes on after its last instruction; `end`: that of the first.
    pub(super) fn end_of(&self, k: usize, end: Option<AppPc>) -> Option<AppPc> {
        let way = k.checked_sub(1).and_then(|way| self.ways.get(way));
        way.map_or(end, |way| way.1)
    }

    /// The way that is being written.
    pub(super) fn way(&self) -> u8 {
        self.open.unwrap_or(0) as u8
    }

    fn action(&self, n: usize) -> Action {
        let action = self.plan.as_ref().and_then(|plan| plan.actions.get(n));
        action.copied().unwrap_or_default()
    }
}

/// `mov register, gs:[its slot]` for each promoted register.
pub(super) fn give_promoted_back(code: &mut Code<'_>, promoted: u16) {
    for n in (0..16_u8).filter(|n| promoted >> n & 1 != 0) {
        code.load_gs(Reg(n), promoted_slot(n));
    }
}

fn kept_slot(n: u8) -> crate::base::emit::GsOffset {
    crate::base::emit::GsOffset(slot!(kept).0 + 8 * u32::from(n))
}

fn promoted_slot(n: u8) -> crate::base::emit::GsOffset {
    crate::base::emit::GsOffset(slot!(spill_promoted).0 + 8 * u32::from(n))
}

impl Translator {
    /// Gives up the second round if the first has come out long.
    pub(super) fn limit_loop(&mut self, entry: usize) {
        if self.job.code.here() - entry >= MOST_CODE {
            self.job.looped.clear();
        }
    }

    /// Saves, after instruction `n` of the first round, the values of it that the second one keeps.
    pub(super) fn put_by(&mut self, n: usize) {
        let kept = self.job.looped.plan.as_ref().map(|plan| &plan.kept[..]);
        for k in kept.unwrap_or_default().iter().filter(|k| k.at == n) {
            self.job.code.store_gs(kept_slot(k.register.0), k.result);
        }
    }

    /// Crosses from the first round to the second.
    pub(super) fn cross(&mut self, site: &mut Site<'_>, app: AppPc) {
        self.make_flags();
        self.job.flags = flags::Flags::default();
        self.unspill_rcx();
        self.unspill_rdx();
        self.job.turned = 0;
        let Some(plan) = self.job.looped.plan.take() else {
            return;
        };
        if let Some(frame) = plan.frame {
            let c = &mut self.job.code;
            c.store_gs(slot!(spill_rcx), Reg::RCX);
            c.mov(Reg::RCX, Reg::RSP);
            c.raw(&[0x48, 0xf7, 0xd1]); // not rcx
            // lea rcx, [rcx + rbp + 1 - frame]
            c.raw(&[0x48, 0x8d, 0x8c, 0x29]);
            c.raw(&(1 - frame).to_le_bytes());
            let right = c.jrcxz();
            c.load_gs(Reg::RCX, slot!(spill_rcx));
            c.patchable(1);
            let from = c.jmp();
            self.stub(site.cache, from, app);
            self.job.code.bind8_here(right);
            self.job.code.load_gs(Reg::RCX, slot!(spill_rcx));
        }
        for promoted in &plan.promoted {
            let (r, c) = (promoted.register, &mut self.job.code);
            c.store_gs(promoted_slot(r.0), r);
            let mem = Mem {
                base: Some(Reg::RSP),
                index: None,
                disp: promoted.offset,
                fs: false,
                short: false,
            };
            c.load_mem(r, promoted.size, &mem);
        }
        for kept in &plan.kept {
            let (r, c) = (kept.register, &mut self.job.code);
            c.store_gs(promoted_slot(r.0), r);
            c.load_gs(r, kept_slot(r.0));
        }
        self.job.spilled.promoted = true;
        self.job.looped.plan = Some(plan);
        self.job.code.align(16);
        self.job.looped.top = self.job.code.here();
    }

    /// Returns the rounds or ways that the second pass walks over: for each, true if it is of the second round, and its
    /// instructions.
    pub(super) fn rounds(&self) -> Vec<(bool, Range<usize>)> {
        let mut rounds = Vec::new();
        match self
            .job
            .looped
            .ways
            .first()
            .filter(|_| self.job.looped.is_planned())
        {
            None => rounds.push((false, 0..self.job.count)),
            Some((main, _)) => {
                rounds.push((false, main.range.clone()));
                rounds.extend(
                    self.job
                        .looped
                        .ways
                        .iter()
                        .map(|way| (true, way.0.range.clone())),
                );
            }
        }
        rounds
    }

    /// Starts what is round `k` of [`Self::rounds`], where it is not the first. False if it is left out.
    pub(super) fn start_round(
        &mut self,
        site: &mut Site<'_>,
        app: AppPc,
        (k, entry): (usize, usize),
        block: Option<EntryId>,
    ) -> Result<bool, DictionaryFull> {
        if !self.job.looped.is_planned() {
            return Ok(false);
        }
        let start = self.job.looped.ways[k - 1].0.range.start;
        if k == 1 {
            let events = self.listed_up_to(self.job.looped.ways[0].0.range.end);
            self.count_round(site, block, (events, None), app)?;
            self.cross(site, app);
            self.job.looped.open = Some(0);
            self.job.looped.closed = false;
            self.job.looped.closing = false;
            return Ok(true);
        }
        self.end_way(site, app, block)?;
        let way = self.job.looped.ways[k - 1].0.clone();
        let Some(n) = self
            .job
            .looped
            .forks
            .iter()
            .position(|f| Some(f.at) == way.from)
        else {
            return Ok(false);
        };
        let fork = self.job.looped.forks.swap_remove(n);
        if self.job.code.here() - entry + way.range.len() * EACH > FURTHEST {
            self.job.tails.push(super::Tail {
                from: fork.from,
                target: fork.to,
                pc: fork.pc,
                first: fork.first,
                events: fork.events,
                values: 0,
                event: fork.event,
                spilled: fork.spilled,
                passed: fork.passed,
                kept: Kept::default(),
            });
            return Ok(false);
        }
        self.job.turned = self
            .job
            .turns
            .iter()
            .take_while(|turn| turn.at < way.range.start)
            .count();
        let here = self.job.code.here();
        self.job.code.bind(fork.from, here);
        self.job.spilled = fork.spilled;
        self.job.flags = fork.flags;
        self.job.first = fork.first;
        self.count_round(site, block, (fork.events, fork.event), fork.to)?;
        self.ways_event(site, fork.event)?;
        self.job.first = self.listed_up_to(start);
        self.job.looped.open = Some(k - 1);
        self.job.looped.closed = false;
        self.job.looped.closing = false;
        Ok(true)
    }

    /// Counts what the main line has done, up to `events` of its way and with `tail`; it goes on at `to`.
    fn count_round(
        &mut self,
        site: &mut Site<'_>,
        block: Option<EntryId>,
        (events, tail): (usize, Option<Event>),
        to: AppPc,
    ) -> Result<(), DictionaryFull> {
        let exit = Leaving {
            tail,
            ..Leaving::new(to, block, self.passed_up_to(events))
        };
        self.ways_round(site, &exit)
    }

    /// Events in the block before instruction `n`.
    fn listed_up_to(&self, n: usize) -> usize {
        self.job.listed.get(n).copied().unwrap_or(0).into()
    }

    /// Ends a way of the second round after its last instruction.
    pub(super) fn end_way(
        &mut self,
        site: &mut Site<'_>,
        app: AppPc,
        block: Option<EntryId>,
    ) -> Result<(), DictionaryFull> {
        let Some(open) = self.job.looped.open.take() else {
            return Ok(());
        };
        let (way, to) = &self.job.looped.ways[open];
        let (end, Some(to)) = (way.range.end, *to) else {
            return Ok(());
        };
        let events = self.listed_up_to(end);
        if self.job.looped.closed || to != app && !self.job.looped.closing {
            self.make_flags();
            return self.leave(site, to, block, events, 0, None);
        }
        self.count_round(site, block, (events, None), app)?;
        self.make_flags();
        self.unspill_rcx();
        self.unspill_rdx();
        self.room_for_jump(5);
        self.job.code.patchable(1);
        let from = self.job.code.jmp();
        self.close(from);
        Ok(())
    }

    /// The branch back that ends a round: out of the first one if it goes elsewhere, to the top of the
    /// loop in the second. Its event, and the event at the loop's end, come after `events`.
    pub(super) fn close_with(
        &mut self,
        site: &mut Site<'_>,
        insn: &Insn,
        (condition, second): (u8, bool),
        (events, main, other): (usize, Option<Event>, Option<Event>),
    ) -> Result<(), DictionaryFull> {
        self.room_for_jump(6);
        self.job.code.patchable(2);
        // With something to count on the way back, that does not lead there by itself.
        if second && !self.job.pairs {
            let from = self.job.code.jcc(condition);
            self.close(from);
            return Ok(());
        }
        self.job.looped.closing = second;
        let from = self.job.code.jcc(condition ^ 1);
        self.branch(site, other, from, insn.next(), events, 0);
        self.ways_event(site, main)
    }

    /// The way back: the displacement of a jump to the top of the loop.
    fn close(&mut self, from: Rel32) {
        self.job.code.bind(from, self.job.looped.top);
        self.job.looped.backs.push(from);
        self.job.looped.closed = true;
    }

    /// Returns true if the second round has been written, or a part of it.
    pub(super) fn is_looped(&self) -> bool {
        self.job.looped.top != 0 && self.job.looped.is_planned()
    }

    /// Returns true if the branch at `n` leads to another way.
    pub(super) fn forks_at(&self, n: usize) -> bool {
        self.job.looped.ways.iter().any(|way| way.0.from == Some(n))
    }

    /// The branch of the second round that leads to another way, which is written later.
    pub(super) fn fork(
        &mut self,
        at: usize,
        condition: u8,
        to: AppPc,
        (events, event): (usize, Option<Event>),
    ) {
        self.room_for_jump(6);
        let from = self.job.code.jcc(condition);
        self.job.looped.forks.push(Fork {
            at,
            from,
            pc: self.job.here,
            to,
            passed: self.job.passed,
            first: self.job.first,
            events,
            event,
            spilled: self.job.spilled,
            flags: self.job.flags,
        });
    }

    /// Writes the renewal before instruction `n` of the second round.
    pub(super) fn renew(&mut self, n: usize) {
        let Some(renewal) = self.job.looped.action(n).renewal else {
            return;
        };
        let Some(plan) = self.job.looped.plan.take() else {
            return;
        };
        match renewal {
            Renewal::Load(load) => self.job.code.slice(plan.bytes(load)),
            Renewal::Compare(compare, load) => {
                const NOT_EQUAL: u8 = 5;
                self.job.code.slice(plan.bytes(compare));
                let from = self.job.code.jcc(NOT_EQUAL);
                self.job
                    .looped
                    .renewals
                    .push((from, load, self.job.code.here()));
            }
        }
        self.job.looped.plan = Some(plan);
    }

    /// Returns true if instruction `n` of the second round is joined to the one before: no signal is delivered between.
    pub(super) fn is_joined(&self, n: usize) -> bool {
        self.job.looped.action(n).joined
    }

    /// Returns true if instruction `n` of the second round is not executed itself.
    pub(super) fn is_replaced(&self, n: usize) -> bool {
        self.job.looped.action(n).replaced
    }

    /// Returns true if something is executed before it, after it or in its place.
    pub(super) fn is_rewritten(&self, n: usize) -> bool {
        self.job.looped.action(n) != Action::default()
    }

    /// Writes the code in the place of instruction `n` of the second round, or after it.
    pub(super) fn follow_up(&mut self, n: usize) {
        let action = self.job.looped.action(n);
        if let Some(plan) = &self.job.looped.plan {
            self.job.code.slice(plan.bytes(action.code));
        }
    }

    /// A step that is executed otherwise than as it lies in the app's code.
    pub(super) fn rewritten(&mut self, site: &mut Site<'_>, n: usize, insn: &Insn, step: Step) {
        if !self.is_joined(n) {
            site.cache.steps.push(step);
        }
        self.renew(n);
        if !self.is_replaced(n) {
            let far = self.copy(insn);
            if let Some(step) = site.cache.steps.last_mut() {
                step.far = step.far.or(far);
            }
        }
        self.follow_up(n);
    }

    /// Out of line: renewals, and the way back when the trace is retired.
    pub(super) fn write_loop_tails(
        &mut self,
        site: &mut Site<'_>,
        app: AppPc,
    ) -> Result<(), DictionaryFull> {
        let Some(plan) = self.job.looped.plan.take() else {
            return Ok(());
        };
        for n in 0..self.job.looped.renewals.len() {
            let (from, load, back) = self.job.looped.renewals[n];
            let here = self.job.code.here();
            self.job.code.bind(from, here);
            self.job.code.slice(plan.bytes(load));
            let jump = self.job.code.jmp();
            self.job.code.bind(jump, back);
        }
        self.job.looped.plan = Some(plan);
        let here = self.job.code.here();
        for n in 0..self.job.looped.backs.len() {
            let from = self.job.looped.backs[n];
            let exit = site.cache.new_exit(Exit {
                patch: self.job.code.at(from.0),
                target: app,
                prefix: self.job.prefix,
                stub: (here as i64 - from.0 as i64 - 4) as i32,
                insns: self.job.passed as u16,
                way: cache::Way::Loop,
                counts: false,
                to: FragmentId::NONE,
                next_link: UNLINKED,
            });
            self.job.looped.exits.push(exit);
        }
        self.job.spilled = Spilled {
            promoted: true,
            ..Spilled::NONE
        };
        self.leave(site, app, None, 0, 0, None)
    }
}
