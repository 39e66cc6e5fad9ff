//! One app instruction in the second pass, in stages.
//!
//! ```text
//!   come_to         the point is this instruction's; ways write what comes at its boundary
//!   free_registers  what it uses is the app's again
//!   plain           what ways write before it, its copy, its step, what ways write after it
//!   transfer        its step, what ways write before it, and what its class asks for
//! ```

use trommel_queue::dict::Event;

use super::path::FURTHEST;
use super::walk::{At, Walk};
use super::{Refusal, Site, Tail, Translator};
use crate::base::address::AppPc;
use crate::base::decode::{Class, Insn};
use crate::base::emit::Reg;
use crate::cache::{Spilled, Step};
use crate::channel::dictionary::DictionaryFull;
use crate::slot;

/// The two sides of a transfer as events: that of the main line, and the other.
type Sides = (Option<Event>, Option<Event>);

impl Translator {
    /// The instruction that the walk is at.
    pub(super) fn write_insn(
        &mut self,
        site: &mut Site<'_>,
        walk: &Walk,
        at: &mut At,
    ) -> Result<(), Refusal> {
        let insn = &walk.insns[at.n];
        if at.last && !at.second {
            self.limit_loop(walk.entry);
        }
        at.closes = at.last && self.job.looped.is_planned();
        if at.second && at.n == walk.rounds[at.round].1.start {
            self.flags_after(at.effect.take());
            let round = (at.round, walk.entry);
            at.left_out = !self.start_round(site, walk.app, round, walk.block)?;
        }
        if at.left_out {
            return Ok(());
        }
        self.come_to(site, walk, at)?;
        let overwritten = self.free_registers(insn);
        at.from = self.job.code.here();
        let step = self.step(site, walk, at);
        at.events += self.ways_heads(at.n);
        if insn.class == Class::Plain {
            self.plain(site, walk, at, (step, overwritten))?;
        } else {
            site.cache.steps.push(step);
            self.transfer(site, walk, at)?;
        }
        Ok(())
    }

    /// Comes to an instruction, whose boundary ways may write at.
    fn come_to(&mut self, site: &mut Site<'_>, walk: &Walk, at: &mut At) -> Result<(), Refusal> {
        let insn = &walk.insns[at.n];
        if let Some(&listed) = self.job.listed.get(at.n) {
            at.events = usize::from(listed);
        }
        if self.job.trace && self.job.code.here() - walk.entry > FURTHEST {
            return Err(Refusal::Native);
        }
        self.job.passed = at.n + 1;
        self.job.here = insn.pc();
        self.ways_turn_to(at.n);
        self.job.class = insn.class;
        self.job.stores_x87 = insn.stores_x87;
        self.flags_after(at.effect.take());
        self.ways_reach(site, walk, at);
        let leaves = insn.class.is_transfer() && !self.turns_at(at.n);
        at.effect = self.flags_before(insn, leaves);
        if at.closes && at.second {
            self.unspill_rcx();
            self.unspill_rdx();
        }
        Ok(())
    }

    /// Makes the registers that an instruction uses the app's again, but for the one that it overwrites, which is returned.
    fn free_registers(&mut self, insn: &Insn) -> Option<Reg> {
        if self.job.spilled == Spilled::NONE {
            return None;
        }
        self.unpark_for(insn);
        let overwritten = insn.overwrites.filter(|_| insn.class == Class::Plain);
        let used = insn.used | self.ways_registers(insn);
        self.unspill(insn, used & !overwritten.map_or(0, Reg::bit));
        overwritten
    }

    /// The step that begins here.
    fn step(&mut self, site: &mut Site<'_>, walk: &Walk, at: &At) -> Step {
        Step {
            cache: (self.job.code.here() - walk.entry) as u16,
            copied: 0,
            events: self.step_events(at.events),
            values: at.values as u8,
            way: self.job.looped.way(),
            app: self.job.here,
            spilled: self.job.spilled,
            at_fault: self.job.spilled,
            far: None,
            recipe: site.cache.new_recipe(self.job.flags.needed()),
        }
    }

    /// An instruction that is copied.
    fn plain(
        &mut self,
        site: &mut Site<'_>,
        walk: &Walk,
        at: &mut At,
        (step, overwritten): (Step, Option<Reg>),
    ) -> Result<(), Refusal> {
        let insn = &walk.insns[at.n];
        let from_here = at.from;
        if at.second && self.is_rewritten(at.n) {
            self.rewritten(site, at.n, insn, step);
            self.is_work(from_here);
            self.overwrites(overwritten);
            return Ok(());
        }
        if let Some(far) = self.ways_replace(site, insn) {
            site.cache.steps.push(Step { far, ..step });
            return Ok(());
        }
        at.probed = false;
        self.ways_before(insn, at);
        let at_fault = self.job.spilled;
        self.ways_right_before(insn, at);
        if !at.probed {
            let next = (!at.last).then(|| &walk.insns[at.n + 1]);
            self.room_for_pair(insn, next);
        }
        if insn.short_x87 {
            self.job.code.keep_x87(slot!(x87));
        }
        // A gap is in the step of what follows it: after what is before, that is at a boundary.
        let gap = self.job.code.here() != from_here;
        let from_here = self.job.code.here();
        let far = self.copy(insn);
        self.is_work(from_here);
        let step = Step {
            copied: match gap || at.probed || far.is_some() || insn.stores_x87 {
                true => 0,
                false => insn.size() as u16,
            },
            far,
            at_fault,
            ..step
        };
        self.add_step(site, walk, step);
        self.overwrites(overwritten);
        if !at.second {
            self.put_by(at.n);
        }
        self.ways_after(site, walk, at)?;
        Ok(())
    }

    /// Adds the step of a plain instruction, to the one before it if it goes on with that.
    fn add_step(&mut self, site: &mut Site<'_>, walk: &Walk, step: Step) {
        match site.cache.steps[walk.first_step..].last_mut() {
            Some(before)
                if step.copied != 0 && before.goes_on(&step) && self.is_one_step(before, &step) =>
            {
                before.copied += step.copied;
            }
            _ => site.cache.steps.push(step),
        }
    }

    /// An instruction has given a register a new value: what is in its slot is of no use.
    fn overwrites(&mut self, overwritten: Option<Reg>) {
        if overwritten.is_some() {
            let spilled = &mut self.job.spilled;
            spilled.rcx &= overwritten != Some(Reg::RCX);
            spilled.rdx &= overwritten != Some(Reg::RDX);
            spilled.stolen &= overwritten != self.job.stolen;
        }
    }

    /// An instruction that goes elsewhere, or may.
    fn transfer(&mut self, site: &mut Site<'_>, walk: &Walk, at: &mut At) -> Result<(), Refusal> {
        let insn = &walk.insns[at.n];
        let next = match at.last {
            false => Some(walk.insns[at.n + 1].pc()),
            true => self.job.looped.end_of(at.round, walk.end),
        };
        let closes = at.closes.then_some(walk.app);
        let sides = self.sides(insn, self.next_turn(at.n), next, closes);
        let from_here = at.from;
        self.ways_before_transfer(site, insn, at);
        match insn.class {
            Class::Jcc(condition, to) => {
                self.conditional(site, walk, at, (condition, to, sides))?
            }
            Class::ShortBranch(to) => self.short_branch(site, insn, at, (to, sides))?,
            Class::Call(to) => {
                self.push_return(insn.next());
                self.is_work(from_here);
                if self.turn_of(at.n).is_some() {
                    self.ways_event(site, sides.0)?;
                } else {
                    self.leave_by_call(site, walk, at, (to, sides.0))?;
                }
            }
            Class::JmpIndirect | Class::CallIndirect | Class::Ret(_) => {
                let at_fault = match self.turn_of(at.n) {
                    Some(to) => {
                        let at_fault = self.predicted(site, insn, to, (walk.block, at.events))?;
                        self.ways_event(site, sides.0)?;
                        at_fault
                    }
                    None => self.indirect(site, insn, walk.block, at.events, at.values)?,
                };
                if let Some(step) = site.cache.steps.last_mut() {
                    step.at_fault = at_fault;
                }
            }
            Class::Syscall => {
                self.syscall(site, insn.next(), walk.block, at.events, at.values)?;
            }
            Class::Popf => {
                self.pop_flags(site, insn, at.events, at.values);
                self.is_work(from_here);
                self.ways_after_other(site, insn);
            }
            Class::Jmp(_)
            | Class::Plain
            | Class::Unknown
            | Class::Unsupported
            | Class::Gs
            | Class::Request => {}
        }
        Ok(())
    }

    /// A call that leaves, after its return address was pushed.
    fn leave_by_call(
        &mut self,
        site: &mut Site<'_>,
        walk: &Walk,
        at: &mut At,
        (to, event): (AppPc, Option<Event>),
    ) -> Result<(), DictionaryFull> {
        at.events += usize::from(event.is_some());
        match event.filter(|_| self.needs.each_event) {
            Some(event) => self.ways_event_out(site, event, to),
            None => self.leave(site, to, walk.block, at.events, at.values, None),
        }
    }

    /// A jump on a condition.
    fn conditional(
        &mut self,
        site: &mut Site<'_>,
        walk: &Walk,
        at: &mut At,
        (condition, to, sides): (u8, AppPc, Sides),
    ) -> Result<(), DictionaryFull> {
        let insn = &walk.insns[at.n];
        let from_here = at.from;
        let (main, other) = sides;
        if at.closes && to == walk.app {
            self.close_with(site, insn, (condition, at.second), (at.events, main, other))?;
            self.is_work(from_here);
            return Ok(());
        }
        if at.second && self.forks_at(at.n) {
            self.fork(at.n, condition, to, (at.events, other));
            self.is_work(from_here);
            return self.ways_event(site, main);
        }
        if to <= insn.pc() && other.is_some() && self.taken_side_is_first() {
            return self.branch_back(site, sides, condition, to);
        }
        self.room_for_jump(6);
        if self.leaves_directly(at.events) {
            self.job.code.patchable(2);
        }
        let from = self.job.code.jcc(condition);
        self.is_work(from_here);
        at.events += self.branch(site, other, from, to, at.events, at.values);
        self.ways_event(site, main)
    }

    /// A branch that leads backward, and so is mostly taken: its taken side comes first.
    fn branch_back(
        &mut self,
        site: &mut Site<'_>,
        (main, other): Sides,
        condition: u8,
        to: AppPc,
    ) -> Result<(), DictionaryFull> {
        let over = self.job.code.jcc(condition ^ 1);
        let spilled = self.job.spilled;
        if let Some(event) = other {
            self.ways_event_out(site, event, to)?;
        }
        self.job.spilled = spilled;
        let here = self.job.code.here();
        self.job.code.bind(over, here);
        self.ways_event(site, main)
    }

    /// A branch with a displacement of eight bits alone: itself, over a short jump, to a long one.
    fn short_branch(
        &mut self,
        site: &mut Site<'_>,
        insn: &Insn,
        at: &mut At,
        (to, (main, other)): (AppPc, Sides),
    ) -> Result<(), DictionaryFull> {
        let from_here = at.from;
        let len = insn.size();
        if self.leaves_directly(at.events) {
            self.job.code.patchable(len - 1 + 3 + 1);
        }
        let bytes = self.bytes_of(insn);
        self.job.code.slice(&bytes[..len - 1]);
        self.job.code.raw(&[2, 0xeb, 5]);
        let from = self.job.code.jmp();
        self.is_work(from_here);
        at.events += self.branch(site, other, from, to, at.events, at.values);
        self.ways_event(site, main)
    }

    /// `popf`, unless it would set the trap flag: that is left to a step of its own. The flags that
    /// the test changes are about to be replaced.
    fn pop_flags(&mut self, site: &mut Site<'_>, insn: &Insn, events: usize, values: usize) {
        const NOT_ZERO: u8 = 5;
        self.job.code.raw(&[0xf6, 0x44, 0x24, 0x01, 0x01]); // test byte [rsp + 1], 1
        if self.leaves_directly(events) {
            self.job.code.patchable(2);
        }
        let from = self.job.code.jcc(NOT_ZERO);
        if self.leaves_directly(events) {
            self.stub(site.cache, from, insn.pc());
        } else {
            let tail = self.tail(from, insn.pc(), (events, values), None);
            self.job.tails.push(Tail {
                pc: insn.pc(),
                passed: tail.passed - 1,
                ..tail
            });
        }
        let bytes = self.bytes_of(insn);
        self.job.code.slice(bytes);
    }
}
