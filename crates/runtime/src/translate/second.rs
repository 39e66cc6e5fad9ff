//! The second pass: app instructions into code of the cache.
#![allow(unsafe_code)] // reason: reads the app's code.

use alloc::vec::Vec;
use core::ops::Range;

use trommel_queue::dict::Event;
use trommel_tuple::Kind;

use super::path::FURTHEST;
use super::persisted::Field;
use super::{Config, Refusal, Site, Tail, Translator, target};
use crate::base::address::AppPc;
use crate::base::area::{SYSCALL_TABLE, WRITE_POINTER};
use crate::base::decode::{Class, Effect, Insn};
use crate::base::emit::{Reg, Rel32};
use crate::base::prefix::Prefix;
use crate::cache::entry::tag_check;
use crate::cache::{Cache, Exit, Fragment, Head, Spilled, Step, UNLINKED, Way};
use crate::channel::deliver::{DictionaryFull, Shared};
use crate::slot;

impl Config {
    /// Whether an instruction is a jump backward at which an acyclic path ends that is wanted.
    pub(super) fn cuts_at(&self, insn: &Insn) -> bool {
        let back = matches!(insn.class, Class::Jmp(to) if to <= insn.pc());
        back && self.kinds.has(Kind::Path)
    }

    /// Appends the events of an instruction of the main line to the block that is open, in the order
    /// in which [`Translator::emit`] passes them. With `pairs`, indirect branches are counted and are
    /// none of them.
    #[inline]
    pub(super) fn list_events(&self, insn: &Insn, pairs: bool, values: bool, to: &mut Shared) {
        let pc = target(insn.pc());
        let kinds = self.kinds;
        let dynamic = |kind| Event::Dynamic { kind, pc };
        match insn.class {
            Class::Plain if values && insn.load.is_some() && kinds.has(Kind::Value) => {
                to.event(dynamic(Kind::Value));
            }
            Class::Jcc(_, taken_to) | Class::ShortBranch(taken_to) if kinds.has(Kind::Edge) => {
                to.event(Event::Branch {
                    pc,
                    len: insn.size() as u8,
                    target: target(taken_to),
                    taken: false,
                });
            }
            Class::JmpIndirect if kinds.has(Kind::Edge) && !pairs => to.event(dynamic(Kind::Edge)),
            Class::Jmp(back) if self.cuts_at(insn) => {
                let target = target(back);
                to.event(Event::Jump { pc, target });
            }
            Class::Ret(_) if kinds.has(Kind::Path) => to.event(Event::Return { pc }),
            Class::Call(callee) if kinds.has(Kind::Call) => {
                to.event(Event::Call {
                    pc,
                    target: target(callee),
                });
            }
            Class::CallIndirect => {
                if values && kinds.has(Kind::Type) && insn.method_table().is_some() {
                    to.event(dynamic(Kind::Type));
                }
                if kinds.has(Kind::Call) && !pairs {
                    to.event(dynamic(Kind::Call));
                }
            }
            _ => {}
        }
    }
}

/// One walk over the instructions of a fragment.
pub(super) struct Walk {
    pub(super) insns: Vec<Insn>,
    /// Whether it is a second round, and which of the instructions are in it.
    rounds: Vec<(bool, Range<usize>)>,
    app: AppPc,
    /// Where the main line goes on, if it does not end in a transfer.
    pub(super) end: Option<AppPc>,
    /// Where direct links enter, by offset.
    pub(super) entry: usize,
    block: Option<u32>,
    first_step: usize,
    /// Events of the block, and values, that were passed.
    events: usize,
    values: usize,
    /// What the last instruction does to flags, before that is taken note of.
    pub(super) effect: Option<Effect>,
    left_out: bool,
}

impl Translator {
    /// Second pass.
    pub(super) fn emit(
        &mut self,
        site: &mut Site<'_>,
        app: AppPc,
        end: Option<AppPc>,
        checked: bool,
    ) -> Result<Fragment, Refusal> {
        self.job.spilled = Spilled::NONE;
        let mut checked_entry = None;
        let mut entry = 0;
        if checked && self.job.trace {
            // Before the entry, so that a loop back to that does not reach here.
            checked_entry = Some(self.job.code.at(self.job.code.here()));
            tag_check(&mut self.job.code, app);
            self.job.code.load_gs(Reg::RDX, slot!(spill_rdx));
            self.job.code.load_gs(Reg::RCX, slot!(spill_rcx));
            self.job.code.align(32);
            entry = self.job.code.here();
        } else if checked {
            self.job.code.store_gs(slot!(spill_rcx), Reg::RCX);
            self.job.code.store_gs(slot!(spill_rdx), Reg::RDX);
            let over = self.job.code.jmp_short();
            self.job.code.align8();
            checked_entry = Some(self.job.code.at(self.job.code.here()));
            self.note(Field::Negative, self.job.code.here() + 2);
            tag_check(&mut self.job.code, app);
            self.job.code.bind8_here(over);
            self.job.spilled = Spilled::BOTH;
        }
        if self.job.from.guarded {
            self.guard(site.cache, app);
        }
        let first_step = site.cache.steps.len();
        let block = site.shared.close_block();
        self.know_events(site, block);
        self.plan_strides(site, end)?;
        if let (Some(p), false) = (self.job.stolen, self.counts_values()) {
            self.job.code.store_gs(slot!(spill_stolen), p);
            self.job.code.load_gs(p, WRITE_POINTER);
            self.job.spilled.stolen = true;
        }
        // That control arrives here is the block's first event where acyclic paths are wanted.
        let events = usize::from(self.wants(Kind::Path));
        // Instructions are taken out while they are walked over, and put back for their memory.
        let mut walk = Walk {
            insns: core::mem::take(&mut self.job.insns),
            rounds: self.rounds(),
            app,
            end,
            entry,
            block,
            first_step,
            events,
            values: 0,
            effect: None,
            left_out: false,
        };
        let done = self.write_main(site, &mut walk);
        let done = done.and_then(|()| self.write_copies(site, &mut walk));
        self.job.insns = walk.insns;
        done?;
        let strides = self.job.strides.on;
        for n in 0..self.job.tails.len() {
            let Tail {
                from,
                target,
                pc,
                first,
                events,
                values,
                event,
                spilled,
                passed,
                strides,
            } = self.job.tails[n];
            self.job.strides.go_on(strides);
            self.job.spilled = spilled;
            self.job.passed = passed;
            self.job.first = first;
            self.job.here = pc;
            self.job.class = Class::Plain;
            let here = self.job.code.here();
            self.job.code.bind(from, here);
            if let Some(event) = event.filter(|_| self.samples()) {
                self.leave_counted(site, event, target)?;
                continue;
            }
            let block = match block {
                None if event.is_some() => Some(site.shared.empty_block()?),
                other => other,
            };
            self.leave(site, target, block, events, values, event)?;
        }
        self.job.strides.on = strides;
        self.write_nears(site);
        self.write_loop_tails(site, app)?;
        self.write_misses(site, block)?;
        self.write_messages();
        for n in 0..self.job.constants.len() {
            let (from, value) = self.job.constants[n];
            let here = self.job.code.here();
            self.job.code.bind(from, here);
            self.note(Field::Absolute, here);
            self.job.code.u64(value);
        }
        Ok(Fragment {
            app,
            prefix: self.job.prefix,
            entry: self.job.code.at(entry),
            checked: checked_entry,
            end: self.job.code.at(self.job.code.here()),
            stolen: self.job.stolen.map(|r| r.0),
            homes: self.job.looped.homes(),
            first_step: first_step as u32,
            steps: (site.cache.steps.len() - first_step) as u16,
            insns: self.job.count as u16,
            block,
            span: self.job.span,
            source: None,
            guarded: self.job.from.guarded,
            strides: self.job.strides.on,
            state: self.job.from.state(),
            head: match self.job.trace {
                true => Head::Trace,
                false => Head::Unknown,
            },
            first_link: UNLINKED,
            older: UNLINKED,
        })
    }

    /// The main line, in all its rounds, and its end.
    fn write_main(&mut self, site: &mut Site<'_>, walk: &mut Walk) -> Result<(), Refusal> {
        for k in 0..walk.rounds.len() {
            for n in walk.rounds[k].1.clone() {
                self.write_insn(site, walk, (k, n))?;
            }
        }
        self.write_end(site, walk)
    }

    /// What the main line does after its last instruction.
    pub(super) fn write_end(
        &mut self,
        site: &mut Site<'_>,
        walk: &mut Walk,
    ) -> Result<(), Refusal> {
        let Walk {
            app, end, block, ..
        } = *walk;
        self.job.passed = self.job.count;
        self.flags_behind(walk.effect.take());
        let mut events = walk.events;
        if let Some(&listed) = self.job.listed.last().filter(|_| !self.is_looped()) {
            events = usize::from(listed);
        }
        if self.is_looped() {
            self.end_way(site, app, block)?;
        } else if let Some(to) = end {
            self.make_flags();
            self.unpark();
            self.leave(site, to, block, events, walk.values, None)?;
        }
        Ok(())
    }

    /// Instruction `n`, in round `k`.
    pub(super) fn write_insn(
        &mut self,
        site: &mut Site<'_>,
        walk: &mut Walk,
        (k, n): (usize, usize),
    ) -> Result<(), Refusal> {
        let Walk {
            ref insns,
            ref rounds,
            app,
            end,
            entry,
            block,
            first_step,
            mut events,
            mut values,
            mut effect,
            mut left_out,
        } = *walk;
        let second = rounds[k].0;
        'insn: {
            let insn = &insns[n];
            let last = n + 1 == rounds[k].1.end;
            if last && !second {
                self.limit_loop(entry);
            }
            let closes = last && self.job.looped.is_planned();
            if second && n == rounds[k].1.start {
                self.flags_behind(effect.take());
                left_out = !self.start_round(site, app, (k, entry), block)?;
            }
            if left_out {
                break 'insn;
            }
            if let Some(&listed) = self.job.listed.get(n) {
                events = usize::from(listed);
            }
            if self.job.trace && self.job.code.here() - entry > FURTHEST {
                return Err(Refusal::Native);
            }
            self.job.passed = n + 1;
            self.job.here = insn.pc();
            self.turn_to(n);
            self.job.class = insn.class;
            self.flags_behind(effect.take());
            self.stride(site, insns, n, end);
            let leaves = insn.class.is_transfer() && !self.turns_at(n);
            effect = self.flags_before(insn, leaves);
            if closes && second {
                self.unspill_rcx();
                self.unspill_rdx();
            }
            let mut overwritten = None;
            if self.job.spilled != Spilled::NONE {
                self.unpark_for(insn);
                if insn.class == Class::Plain {
                    overwritten = insn.overwrites;
                }
                let used = insn.used | self.arguments_in_slots(insn);
                self.unspill(insn, used & !overwritten.map_or(0, Reg::bit));
            }
            let from_here = self.job.code.here();
            let step = Step {
                cache: (from_here - entry) as u16,
                copied: 0,
                events: match self.job.strides.on {
                    true => self.job.strides.passed,
                    false => events as u16,
                },
                values: values as u8,
                way: self.job.looped.way(),
                app: insn.pc(),
                spilled: self.job.spilled,
                at_fault: self.job.spilled,
                far: None,
                recipe: site.cache.new_recipe(self.job.flags.needed()),
            };
            events += usize::from(self.config.lists());
            let unprofiled = self.unprofiled(n, insn).is_some();
            if second && insn.class == Class::Plain && self.is_rewritten(n) {
                self.rewritten(site, n, insn, step);
                self.is_work(from_here);
                if overwritten.is_some() {
                    self.job.spilled.rcx &= overwritten != Some(Reg::RCX);
                    self.job.spilled.rdx &= overwritten != Some(Reg::RDX);
                }
                break 'insn;
            }
            let about = self.query_about(site, insn);
            if let Some(about) = about
                && insn.class == Class::Plain
            {
                let far = self.copy_queried(site, insn, about);
                site.cache.steps.push(Step { far, ..step });
                break 'insn;
            }
            if insn.class == Class::Plain {
                let addresses = self.record_addresses(n, insn, 4 + 8 * values as i32);
                let timed = self.is_timed(insn);
                let time_slot = 4 + 8 * (values + addresses) as i32;
                let more = addresses + usize::from(timed);
                events += more;
                values += more;
                let slot = 4 + 8 * values as i32;
                let load = insn.load.filter(|_| self.wants(Kind::Value));
                let strides = load.is_some() && self.job.strides.on;
                let sampled = load.filter(|_| self.counts_values() && !strides);
                let probe = load.zip(self.job.stolen);
                let probe = probe.filter(|_| sampled.is_none() && !strides);
                if let Some((load, p)) = probe {
                    self.probe_before(insn, load, p, slot);
                }
                if let Some(load) = sampled {
                    self.read_value(insn, load);
                }
                let at_fault = self.job.spilled;
                let next = (!last).then(|| &insns[n + 1]);
                let probed = probe.is_some() || sampled.is_some() || more != 0;
                self.prefetch(insn);
                if timed {
                    self.time_begins(insn.size(), time_slot);
                }
                if !probed {
                    self.room_for_pair(insn, next);
                }
                // A gap is in the step of what follows it: after what is before, that is at a boundary.
                let gap = self.job.code.here() != from_here;
                let from_here = self.job.code.here();
                let far = self.copy(insn);
                self.is_work(from_here);
                if timed {
                    self.time_ends(time_slot);
                }
                let len = insn.size() as u16;
                let strode = self.job.strides.on;
                match site.cache.steps[first_step..].last_mut() {
                    Some(before)
                        if !gap
                            && !probed
                            && far.is_none()
                            && before.goes_on(&step)
                            && !(strode && before.events != step.events) =>
                    {
                        before.copied += len;
                    }
                    _ => {
                        let copied = if !gap && !probed && far.is_none() {
                            len
                        } else {
                            0
                        };
                        site.cache.steps.push(Step {
                            copied,
                            far,
                            at_fault,
                            ..step
                        });
                    }
                }
                if overwritten.is_some() {
                    self.job.spilled.rcx &= overwritten != Some(Reg::RCX);
                    self.job.spilled.rdx &= overwritten != Some(Reg::RDX);
                    self.job.spilled.stolen &= overwritten != self.job.stolen;
                }
                if !second {
                    self.put_by(n);
                }
                if let Some((load, p)) = probe {
                    self.probe_after(load, p, slot);
                    events += 1;
                    values += 1;
                }
                if strides {
                    self.pass_in_stride();
                }
                if let Some(load) = sampled {
                    self.flags_behind(effect.take());
                    let rest = &insns[n + 1..self.job.count];
                    self.sample(site, insn, load, rest, end)?;
                }
                events += usize::from(unprofiled);
                break 'insn;
            }
            site.cache.steps.push(step);
            let next = match last {
                false => Some(insns[n + 1].pc()),
                true => self.job.looped.end_of(k, end),
            };
            let (main, other) = self.sides(insn, self.next_turn(n), next, closes.then_some(app));
            self.query_before(site, insn, about);
            let passed = self.record_arguments(insn, values);
            events += usize::from(passed != 0) + usize::from(unprofiled);
            values += passed;
            match insn.class {
                Class::Jmp(_) => events += usize::from(self.config.cuts_at(insn)),
                Class::Jcc(condition, to) if closes && to == app => {
                    self.close_with(site, insn, (condition, second), (events, main, other))?;
                    self.is_work(from_here);
                }
                Class::Jcc(condition, to) if second && self.forks_at(n) => {
                    self.fork(n, condition, to, (events, other));
                    self.is_work(from_here);
                    self.probe_passed(site, main)?;
                }
                Class::Jcc(condition, to)
                    if to <= insn.pc()
                        && self.samples()
                        && self.wants(Kind::Edge)
                        && !self.job.trace
                        && !self.job.strides.on =>
                {
                    self.branch_back(site, (main, other), condition, to)?;
                }
                Class::Jcc(condition, to) => {
                    self.room_for_jump(6);
                    if self.leaves_directly(events) {
                        self.job.code.patchable(2);
                    }
                    let from = self.job.code.jcc(condition);
                    self.is_work(from_here);
                    events += self.branch(site, other, from, to, events, values);
                    self.probe_passed(site, main)?;
                }
                Class::ShortBranch(to) => {
                    let len = insn.size();
                    if self.leaves_directly(events) {
                        self.job.code.patchable(len - 1 + 3 + 1);
                    }
                    // The branch itself, over a short jump, to a long one.
                    // SAFETY: the instruction was decoded from these bytes.
                    let bytes =
                        unsafe { core::slice::from_raw_parts(self.job.from.at(insn.pc()), len) };
                    self.job.code.slice(&bytes[..len - 1]);
                    self.job.code.raw(&[2, 0xeb, 5]);
                    let from = self.job.code.jmp();
                    self.is_work(from_here);
                    events += self.branch(site, other, from, to, events, values);
                    self.probe_passed(site, main)?;
                }
                Class::Call(to) => {
                    self.push_return(insn.next());
                    self.is_work(from_here);
                    if self.turn_of(n).is_some() {
                        self.probe_passed(site, main)?;
                        break 'insn;
                    }
                    if self.wants(Kind::Call) {
                        events += 1;
                    }
                    match self.counted_call(insn, to) {
                        Some(event) => self.leave_counted(site, event, to)?,
                        None => self.leave(site, to, block, events, values, None)?,
                    }
                }
                Class::JmpIndirect | Class::CallIndirect | Class::Ret(_) => {
                    let at_fault = match self.turn_of(n) {
                        Some(to) => {
                            let at_fault = self.predicted(site, insn, to, (block, events))?;
                            self.probe_passed(site, main)?;
                            at_fault
                        }
                        None => self.indirect(site, insn, block, events, values)?,
                    };
                    if let Some(step) = site.cache.steps.last_mut() {
                        step.at_fault = at_fault;
                    }
                }
                Class::Syscall => self.syscall(site, insn.next(), block, events, values)?,
                Class::Popf => {
                    self.pop_flags(site, insn, events, values);
                    self.is_work(from_here);
                    self.query_after(site, insn, about);
                }
                Class::Plain | Class::Unknown | Class::Unsupported | Class::Gs | Class::Request => {
                }
            }
        }
        walk.events = events;
        walk.values = values;
        walk.effect = effect;
        walk.left_out = left_out;
        Ok(())
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
            self.job.tails.push(Tail {
                from,
                target: insn.pc(),
                pc: insn.pc(),
                first: self.job.first,
                events,
                values,
                event: None,
                spilled: self.job.spilled,
                passed: self.job.passed - 1,
                strides: self.job.strides.passed(),
            });
        }
        // SAFETY: the instruction was decoded from these bytes.
        let bytes =
            unsafe { core::slice::from_raw_parts(self.job.from.at(insn.pc()), insn.size()) };
        self.job.code.slice(bytes);
    }

    /// Whether a taken branch has nothing to do on its way out.
    fn leaves_directly(&self, events: usize) -> bool {
        let nothing = !self.wants(Kind::Edge) && events == self.job.first;
        let all_is_done = self.job.spilled == Spilled::NONE && self.job.strides.passed == 0;
        nothing && !self.config.windows && all_is_done
    }

    /// A conditional branch that leaves the main line from `from`, by which it is the event `other`. Returns how many events the main
    /// line has passed by going on.
    #[allow(
        clippy::too_many_arguments,
        reason = "the state of one walk over a fragment"
    )]
    pub(super) fn branch(
        &mut self,
        site: &mut Site<'_>,
        other: Option<Event>,
        from: Rel32,
        to: AppPc,
        events: usize,
        values: usize,
    ) -> usize {
        let event = other.filter(|_| self.wants(Kind::Edge));
        if self.leaves_directly(events) {
            self.stub(site.cache, from, to);
            return 0;
        }
        self.job.tails.push(Tail {
            from,
            target: to,
            pc: self.job.here,
            first: self.job.first,
            events,
            values,
            event,
            spilled: self.job.spilled,
            passed: self.job.passed,
            strides: self.job.strides.passed(),
        });
        usize::from(event.is_some())
    }

    /// Leads `from` to what is written beside the exit stubs next.
    pub(super) fn lead_to_stub(&mut self, from: Rel32) {
        let stub = self.job.stubs.at(self.job.stubs.here());
        let rel = stub.0 as i64 - self.job.code.at(from.0).0 as i64 - 4;
        self.job.code.put_u32(from.0, rel as i32 as u32);
    }

    /// Leads `from` to a new exit stub for `to`.
    pub(super) fn stub(&mut self, cache: &mut Cache, from: Rel32, to: AppPc) {
        let stub = self.job.stubs.at(self.job.stubs.here());
        let rel = (stub.0 as i64 - self.job.code.at(from.0).0 as i64 - 4) as i32;
        let number = cache.new_exit(Exit {
            patch: self.job.code.at(from.0),
            target: to,
            prefix: self.job.onward,
            next_link: self.next_link(),
            stub: if self.job.from.is_usual() { rel } else { 0 },
            insns: self.job.passed as u16,
            way: match self.job.class {
                Class::Call(_) => Way::Call,
                Class::Syscall => Way::Syscall,
                _ if to <= self.job.here => Way::Backward,
                _ => Way::Forward,
            },
            counts: self.job.onward != Prefix::SAMPLED && (self.job.trace || self.may_start(to)),
            to: UNLINKED,
        });
        self.job.code.put_u32(from.0, rel as u32);
        self.job.stubs.store_gs_imm32(slot!(exit), number);
        self.job.stubs.jmp_gs(slot!(entry.exit));
    }

    /// What stands in an exit that is not linked.
    fn next_link(&self) -> u32 {
        match self.job.onward {
            Prefix::UNKNOWN => self.job.onward_path,
            _ => UNLINKED,
        }
    }

    /// Numbers the exit of a recorded fragment by which it goes to an address known when it runs, behind `path`. Its
    /// target is the branch itself.
    pub(super) fn recorded_exit(&self, cache: &mut Cache, path: Option<u32>) -> u32 {
        cache.new_exit(Exit {
            next_link: path.unwrap_or(UNLINKED),
            insns: self.job.passed as u16,
            way: match self.job.class {
                Class::CallIndirect => Way::Call,
                Class::Ret(_) => Way::Return,
                _ => Way::Indirect,
            },
            ..Exit::fixed(self.job.here)
        })
    }

    /// Whether a trace may start where the instruction leads to: backward, and if it is a call, not far,
    /// as recursion is.
    fn may_start(&self, to: AppPc) -> bool {
        const NEAR: u64 = 4096;
        let call = matches!(self.job.class, Class::Call(_));
        to <= self.job.here && (!call || self.job.here.0 - to.0 < NEAR)
    }

    /// A system call: in place, unless the runtime must see it.
    pub(super) fn syscall(
        &mut self,
        site: &mut Site<'_>,
        next: AppPc,
        block: Option<u32>,
        events: usize,
        values: usize,
    ) -> Result<(), DictionaryFull> {
        let passed = self.passed_up_to(events);
        let counted = self.goes_onward(site, events, None, next);
        let full = match block.filter(|_| !passed.is_empty()) {
            Some(block) => {
                let path = self.path_of(site, block, passed, None)?;
                self.job.onward_path = path;
                self.tell_path(path);
                match self.counter(path) {
                    _ if !counted => {
                        self.give_back();
                        None
                    }
                    // The call overwrites it.
                    Some(counter) => {
                        self.give_back();
                        self.count_with(Reg::RCX, counter);
                        None
                    }
                    None => Some(self.record(path, values, None)),
                }
            }
            None => {
                self.give_back();
                None
            }
        };
        // The call overwrites it.
        self.take_passed_with(Reg::RCX);
        self.job.code.low16_of_rax_to_rcx();
        self.job.code.load_byte_gs_rcx(SYSCALL_TABLE);
        let in_place = self.job.code.jrcxz();
        // Where the app goes on, whether the runtime makes the call or it is made in place.
        let exit = site.cache.new_exit(Exit {
            prefix: self.job.onward,
            next_link: self.next_link(),
            ..Exit::fixed(next)
        });
        self.job.code.store_gs_imm32(slot!(exit), exit);
        self.note(Field::Exit, self.job.code.here() - 4);
        self.job.code.jmp_gs(slot!(entry.syscall));
        if let Some(full) = full {
            self.full(full);
        }
        self.job.code.bind8_here(in_place);
        site.cache
            .call_is_at(exit, self.job.code.at(self.job.code.here()));
        self.job.code.raw(&[0x0f, 0x05]);
        // A sample that the kernel has put off for the time of the call is taken here.
        let behind = self.job.code.here();
        self.untell_path();
        self.job.code.mov_imm(Reg::RCX, next.0);
        self.is_work(behind);
        self.note_immediate(next);
        self.job.code.patchable(1);
        let from = self.job.code.jmp();
        self.stub(site.cache, from, next);
        Ok(())
    }
}
