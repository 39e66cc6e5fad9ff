//! Strides that a sample may be in: copies of them in traces, and the ways out of fragments.

use crate::base::address::AppPc;
use crate::base::decode::Class;
use crate::base::emit::{Reg, Rel32};
use crate::base::prefix::Prefix;
use crate::cache::Spilled;
use crate::slot;
use crate::translate::flags::Flags;
use crate::translate::path::FURTHEST;
use crate::translate::walk::{At, Walk};
use crate::translate::{Refusal, Site, Translator};

/// Bytes of code that an instruction may need where events are counted one by one.
const EACH: usize = 180;
/// Bytes of a cache line.
const LINE: usize = 64;

/// A stride, and its way out where a sample is near.
#[derive(Clone, Copy)]
pub(super) struct Near {
    pub(super) from: Rel32,
    pub(super) pc: AppPc,
    /// Its instructions.
    pub(super) at: usize,
    pub(super) end: usize,
    /// Events that were passed before it.
    pub(super) passed: u16,
    pub(super) spilled: Spilled,
    pub(super) flags: Flags,
    /// Point at which the main line goes on after it.
    pub(super) joint: Option<Joint>,
    /// True if there is a copy in which events are counted one by one.
    pub(super) copied: bool,
}

/// The main line at a point.
#[derive(Clone, Copy)]
pub(super) struct Joint {
    /// Offset in the code.
    pub(super) at: usize,
    pub(super) passed: u16,
    pub(super) spilled: Spilled,
    pub(super) flags: Flags,
}

impl Translator {
    /// Comes to the way out where a sample is near.
    fn come_near(&mut self, near: &Near) {
        let here = self.job.code.here();
        self.job.code.bind(near.from, here);
        self.job.spilled = near.spilled;
        self.job.flags = near.flags;
        self.job.passed = near.at;
        if near.passed != 0 {
            self.job.code.take_from_left(near.passed);
        }
        self.job.strides.passed = 0;
    }

    /// Writes the strides of a trace once more, with events that are counted one by one. The main line leaves to a copy where a
    /// sample is near, and goes on after the stride.
    pub(super) fn write_copies(
        &mut self,
        site: &mut Site<'_>,
        walk: &Walk,
        at: &mut At,
    ) -> Result<(), Refusal> {
        if !(self.job.strides.on && self.job.trace) {
            return Ok(());
        }
        self.job.strides.on = false;
        for n in 0..self.job.strides.nears.len() {
            let near = self.job.strides.nears[n];
            let room = EACH * (near.end - near.at) + LINE;
            let leads_on = near.joint.is_some() || near.end == self.job.count;
            if !leads_on || self.job.code.here() - walk.entry + room > FURTHEST {
                continue;
            }
            self.job.strides.nears[n].copied = true;
            self.job.code.align(LINE as u64);
            self.come_near(&near);
            self.job.turned = self.job.turns.partition_point(|turn| turn.at < near.at);
            at.effect = None;
            for n in near.at..near.end {
                at.turn_to(walk, 0, n);
                self.write_insn(site, walk, at)?;
            }
            match near.joint {
                Some(joint) => {
                    self.flags_after(at.effect.take());
                    self.join(&joint);
                }
                None => self.write_end(site, walk, at)?,
            }
        }
        self.job.strides.on = true;
        Ok(())
    }

    /// Goes on in the main line, as if it had been there all along.
    fn join(&mut self, joint: &Joint) {
        let Joint {
            at,
            passed,
            spilled,
            flags,
        } = *joint;
        if self.job.flags.lost && !flags.lost {
            self.make_flags();
        }
        match (self.job.spilled.flags, spilled.flags) {
            (true, false) => self.unpark(),
            (false, true) => {
                self.make_flags();
                self.park();
            }
            _ => {}
        }
        self.spill_rcx();
        self.job.code.add_to_left_with(Reg::RCX, passed.into());
        match (self.job.spilled.rdx, spilled.rdx) {
            (true, false) => self.unspill_rdx(),
            (false, true) => self.spill_rdx(),
            _ => {}
        }
        match (self.job.stolen, self.job.spilled.stolen, spilled.stolen) {
            (_, true, false) => self.give_back(),
            (Some(p), false, true) => self.job.code.store_gs(slot!(spill_stolen), p),
            _ => {}
        }
        if !spilled.rcx {
            self.unspill_rcx();
        }
        let from = self.job.code.jmp();
        self.job.code.bind(from, at);
    }

    /// The ways out where samples are near and there is no copy.
    pub(super) fn write_nears(&mut self, site: &mut Site<'_>) {
        for n in 0..self.job.strides.nears.len() {
            let near = self.job.strides.nears[n];
            if near.copied {
                continue;
            }
            self.come_near(&near);
            self.job.here = near.pc;
            self.job.class = Class::Plain;
            self.make_flags();
            self.unpark();
            self.unspill_rdx();
            self.give_back();
            self.unspill_rcx();
            self.job.onward = Prefix::SAMPLED;
            self.job.code.patchable(1);
            let from = self.job.code.jmp();
            self.stub(site.cache, from, near.pc);
            self.job.onward = Prefix::NONE;
        }
    }
}
