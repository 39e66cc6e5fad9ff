//! The second round of a trace that comes to its own start ([`crate::optimise`]): its crossing, its
//! instructions, its way back and its ways out.
//!
//! ```text
//!   entry       the first round, as in any trace; its last branch leaves or falls through
//!   crossing    the frame pointer compared, the app's registers put away, homes loaded
//!   loop        the second round, which branches back here
//!   tails       homes are the app's again
//! ```
//!
//! # Why it is correct
//! * The way back is an exit, linked to its own fragment: when that is retired it leads to a tail, which gives homes back and
//!   leaves as any other. It is never linked to anything else, as homes are not the app's there.
//! * At the start of the loop flags, `rcx` and `rdx` are the app's, on both ways to it.
#![allow(unsafe_code)] // reason: reads the app's code.

use alloc::vec::Vec;

use iced_x86::{Decoder, DecoderOptions, Instruction};

use super::{Site, Translator, flags};
use crate::cache::{AppPc, Exit, Spilled, Step, UNLINKED, Way};
use crate::decode::{Class, Insn};
use crate::deliver::DictionaryFull;
use crate::emit::{Code, Mem, Reg, Rel32};
use crate::optimise::{self, Action, Loop, Renewal};
use crate::slot;

/// App instructions in a loop with two rounds, and what their stubs may need.
const MOST: usize = 640;
const MOST_STUBS: usize = 30 << 10;
/// Bytes of the first round: the second may need 25 more for each instruction, and steps are within 64 KiB.
const MOST_CODE: usize = 20 << 10;

/// What is being made of a loop.
#[derive(Default)]
pub(super) struct Looped {
    plan: Option<Loop>,
    /// Where the loop starts.
    top: usize,
    /// The branches back.
    back: Option<Rel32>,
    /// Renewals: the jump to each, which home and its load, and where it comes back to.
    renewals: Vec<(Rel32, optimise::Span, usize)>,
    /// The exit that is the way back.
    pub(super) exit: Option<u32>,
}

impl Looped {
    pub(super) fn clear(&mut self) {
        self.plan = None;
        self.back = None;
        self.exit = None;
        self.renewals.clear();
    }

    /// The registers that are homes.
    pub(super) fn homes(&self) -> u16 {
        self.plan.as_ref().map_or(0, Loop::registers)
    }

    pub(super) fn is_planned(&self) -> bool {
        self.plan.is_some()
    }

    fn action(&self, n: usize) -> Action {
        let action = self.plan.as_ref().and_then(|plan| plan.actions.get(n));
        action.copied().unwrap_or_default()
    }
}

/// `mov register, gs:[its slot]` for each home.
pub(super) fn give_homes_back(code: &mut Code<'_>, homes: u16) {
    for n in (0..16_u8).filter(|n| homes >> n & 1 != 0) {
        code.load_gs(Reg(n), home_slot(n));
    }
}

fn home_slot(n: u8) -> crate::emit::GsOffset {
    crate::emit::GsOffset(slot!(spill_homes).0 + 8 * u32::from(n))
}

impl Translator {
    /// Plans a second round for a trace that goes on at `app` behind its last instruction, which may be a
    /// branch back. `frame`: by how much `rbp` was above `rsp` there.
    pub(super) fn plan_loop(&mut self, app: AppPc, end: Option<AppPc>, frame: i64) {
        let count = self.count;
        let Some(last) = self.insns[..count].last() else {
            return;
        };
        let closes = match (last.class, end) {
            (Class::Jcc(_, to), Some(_)) if to == app => true,
            (_, Some(end)) => end == app,
            (_, None) => false,
        };
        let stubs = self.turns.len() * 140 + count * 20;
        let odd = |insn: &Insn| matches!(insn.class, Class::Popf | Class::Syscall);
        let fits = count <= MOST && stubs <= MOST_STUBS;
        if !closes || !fits || self.insns[..count].iter().any(odd) {
            return;
        }
        let decoded: Vec<Instruction> = (self.insns[..count].iter())
            .map(|insn| {
                // SAFETY: the instruction was decoded from these bytes.
                let bytes =
                    unsafe { core::slice::from_raw_parts(self.from.at(insn.pc()), insn.size()) };
                Decoder::with_ip(64, bytes, insn.pc().0, DecoderOptions::NONE).decode()
            })
            .collect();
        self.looped.plan = optimise::plan(&decoded, frame, 0);
    }

    /// There is no second round if the first has come out long.
    pub(super) fn limit_loop(&mut self, entry: usize) {
        if self.code.here() - entry >= MOST_CODE {
            self.looped.clear();
        }
    }

    /// From the first round to the second.
    pub(super) fn cross(&mut self, site: &mut Site<'_>, app: AppPc) {
        self.make_flags();
        self.flags = flags::Flags::default();
        self.unspill_rcx();
        self.unspill_rdx();
        self.turned = 0;
        let Some(plan) = self.looped.plan.take() else {
            return;
        };
        if let Some(frame) = plan.frame {
            let c = &mut self.code;
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
            self.code.bind8_here(right);
            self.code.load_gs(Reg::RCX, slot!(spill_rcx));
        }
        for home in &plan.homes {
            let (r, c) = (home.register, &mut self.code);
            c.store_gs(home_slot(r.0), r);
            let mem = Mem {
                base: Some(Reg::RSP),
                index: None,
                disp: home.offset,
                fs: false,
                short: false,
            };
            c.load_mem(r, home.size, &mem);
        }
        self.spilled.homes = true;
        self.looped.plan = Some(plan);
        self.code.align(16);
        self.looped.top = self.code.here();
    }

    /// The branch back that ends a round: out of the first one if it goes elsewhere, to the top of the
    /// loop in the second.
    pub(super) fn close_with(
        &mut self,
        site: &mut Site<'_>,
        insn: &Insn,
        condition: u8,
        second: bool,
    ) {
        self.code.patchable(2);
        if second {
            let from = self.code.jcc(condition);
            self.close(from);
        } else {
            let from = self.code.jcc(condition ^ 1);
            self.branch(site, insn, from, insn.next(), 0, 0);
        }
    }

    /// The way back: the displacement of a jump to the top of the loop.
    fn close(&mut self, from: Rel32) {
        self.code.bind(from, self.looped.top);
        self.looped.back = Some(from);
    }

    /// Behind the last instruction, where the trace goes on at its start or not: whether the second round
    /// goes on at the top of the loop.
    pub(super) fn loops_to(&mut self, start: bool) -> bool {
        let open = self.looped.is_planned() && self.looped.back.is_none();
        if open && start {
            self.make_flags();
            self.unspill_rcx();
            self.unspill_rdx();
            self.code.patchable(1);
            let from = self.code.jmp();
            self.close(from);
        }
        open && start
    }

    /// What the second round does in front of its instruction `n`, where a step starts if `step` is given.
    pub(super) fn renew(&mut self, n: usize) {
        let Some(renewal) = self.looped.action(n).renewal else {
            return;
        };
        let Some(plan) = self.looped.plan.take() else {
            return;
        };
        match renewal {
            Renewal::Load(load) => self.code.slice(plan.bytes(load)),
            Renewal::Compare(compare, load) => {
                const NOT_EQUAL: u8 = 5;
                self.code.slice(plan.bytes(compare));
                let from = self.code.jcc(NOT_EQUAL);
                self.looped.renewals.push((from, load, self.code.here()));
            }
        }
        self.looped.plan = Some(plan);
    }

    /// Whether a signal may be delivered in front of instruction `n` of the second round.
    pub(super) fn is_joined(&self, n: usize) -> bool {
        self.looped.action(n).joined
    }

    /// Whether instruction `n` of the second round is not executed itself.
    pub(super) fn is_replaced(&self, n: usize) -> bool {
        self.looped.action(n).replaced
    }

    /// Whether something is executed in front of it, behind it or in its place.
    pub(super) fn is_rewritten(&self, n: usize) -> bool {
        self.looped.action(n) != Action::default()
    }

    /// What comes in the place of instruction `n` of the second round, or behind it.
    pub(super) fn follow_up(&mut self, n: usize) {
        let action = self.looped.action(n);
        if let Some(plan) = &self.looped.plan {
            self.code.slice(plan.bytes(action.code));
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
        let Some(plan) = self.looped.plan.take() else {
            return Ok(());
        };
        for n in 0..self.looped.renewals.len() {
            let (from, load, back) = self.looped.renewals[n];
            let here = self.code.here();
            self.code.bind(from, here);
            self.code.slice(plan.bytes(load));
            let jump = self.code.jmp();
            self.code.bind(jump, back);
        }
        self.looped.plan = Some(plan);
        let Some(from) = self.looped.back else {
            return Ok(());
        };
        let here = self.code.here();
        self.spilled = Spilled {
            homes: true,
            ..Spilled::NONE
        };
        let exit = site.cache.new_exit(Exit {
            patch: self.code.at(from.0),
            target: app,
            stub: (here as i64 - from.0 as i64 - 4) as i32,
            insns: self.passed as u16,
            way: Way::Loop,
            counts: false,
            to: UNLINKED,
            next_link: UNLINKED,
        });
        self.looped.exit = Some(exit);
        self.leave(site, app, None, 0, 0, None)
    }
}
