//! Probes of relational queries ([`crate::observe::query`]).
//!
//! ```text
//!   always       jmp over
//!   every N      dec [left]; jz over          if flags are dead
//!                rcx ← [left] − 1 → [left]; jrcxz over
//!   second       rcx ← [begun]; jrcxz after; jmp over
//!   over:        (beside the exit stubs) rcx → what is known of the site; jmp [entry.query]
//! ```
//! The way back leads after the probe, with all registers the app's. Queries that only compare and count are in [`super::quick`].
#![allow(unsafe_code)] // reason: reads the app's code.

use trommel_query::observe::When;

use super::Way;
use crate::base::address::AppPc;
use crate::base::decode::{Class, Insn};
use crate::base::emit::{Code, GsOffset, Reg, Rel32};
use crate::observe::prefetch::Prefetch;
use crate::observe::query::{About, Asked, Crossing, Probe};
use crate::slot;
use crate::translate::walk::At;
use crate::translate::{Site, Translator};

const ZERO: u8 = 4;

/// Writes probes of queries.
pub(in crate::translate) struct Probes;

impl Way for Probes {
    fn is_on(t: &Translator) -> bool {
        t.ways.asked.is_some()
    }

    fn replace(t: &mut Translator, site: &mut Site<'_>, insn: &Insn) -> Option<Option<Reg>> {
        let about = t.query_about(site, insn);
        let any = about.iter().any(Option::is_some);
        any.then(|| t.copy_queried(site, insn, &about))
    }

    fn before_transfer(t: &mut Translator, site: &mut Site<'_>, insn: &Insn, _: &mut At) {
        t.job.about = t.query_about(site, insn);
        let about = t.job.about;
        t.query_before(site, insn, &about);
    }

    fn after_other(t: &mut Translator, site: &mut Site<'_>, insn: &Insn) {
        let about = t.job.about;
        t.query_after(site, insn, &about);
    }
}

impl Translator {
    /// Returns the queries of the process, if there are any.
    pub fn asked(&mut self) -> Option<&mut Asked> {
        self.ways.asked.as_mut()
    }

    /// Returns true if an instruction may have many probes.
    pub(in crate::translate) fn has_many_probes(&self) -> bool {
        self.ways.asked.as_ref().is_some_and(Asked::are_many)
    }

    /// Returns the query sites of an instruction.
    fn query_about(&mut self, site: &Site<'_>, insn: &Insn) -> About {
        let hides = |prefetch: &Prefetch| prefetch.hides_probes();
        if self.ways.prefetch.as_ref().is_some_and(hides) {
            return About::default();
        }
        let Some(asked) = self.ways.asked.as_mut() else {
            return About::default();
        };
        // SAFETY: the instruction was decoded from these bytes.
        let bytes =
            unsafe { core::slice::from_raw_parts(self.job.from.at(insn.pc()), insn.size()) };
        let found = asked.sites(site.shared.mapped(), insn.pc(), insn.class, bytes);
        let Some((about, operation)) = found else {
            return About::default();
        };
        self.job.operations |= operation;
        for probe in about.iter().flatten() {
            self.job.probes |= 1 << probe.place;
        }
        about
    }

    /// The probes before an instruction, if it has any there.
    fn query_before(&mut self, site: &mut Site<'_>, insn: &Insn, about: &About) {
        for probe in about.iter().flatten() {
            match probe.site.when() {
                When::Before => self.query(site, *probe, 0, insn.pc()),
                When::Both => self.query(site, *probe, Crossing::FIRST, insn.pc()),
                When::After => {}
            }
        }
    }

    /// The probes after an instruction, if it has any there.
    fn query_after(&mut self, site: &mut Site<'_>, insn: &Insn, about: &About) {
        for probe in about.iter().flatten() {
            match probe.site.when() {
                When::After => self.query(site, *probe, 0, insn.next()),
                When::Both => self.query(site, *probe, Crossing::SECOND, insn.next()),
                When::Before => {}
            }
        }
    }

    /// A probe; the app goes on at `next`.
    fn query(&mut self, site: &mut Site<'_>, about: Probe, flags: u32, next: AppPc) {
        if let Some((tree, first)) = about.quick {
            // Of an instruction that is looked at twice nothing is compared.
            if flags & Crossing::FIRST == 0 {
                self.quick(site, about, (tree, first), next);
            }
            return;
        }
        let spilled = self.job.spilled.rcx;
        let second = flags & Crossing::SECOND != 0;
        let from = match about.countdown().filter(|_| !second) {
            _ if second => {
                self.spill_rcx();
                self.job.code.load_gs(Reg::RCX, about.begun());
                let after = self.job.code.jrcxz();
                let from = self.job.code.jmp();
                self.job.code.bind8_here(after);
                from
            }
            None => self.job.code.jmp(),
            Some(left) if self.flags_are_dead(site, next) => {
                self.job.code.decrement_gs32(left);
                self.job.code.jcc(ZERO)
            }
            Some(left) => {
                self.spill_rcx();
                self.job.code.count_down_32(left)
            }
        };
        self.ask_engine(about, from, flags);
        if !spilled {
            self.unspill_rcx();
        }
    }

    /// A crossing for which `from` jumps; the code goes on here.
    pub(super) fn ask_engine(&mut self, about: Probe, from: Rel32, flags: u32) {
        let back = self.job.code.at(self.job.code.here());
        self.lead_to_stub(from);
        if !self.job.spilled.rcx {
            self.job.stubs.store_gs(slot!(spill_rcx), Reg::RCX);
        }
        let rel = self.job.stubs.lea_rcx_rip();
        self.job.stubs.jmp_gs(slot!(entry.query));
        let here = self.job.stubs.here();
        self.job.stubs.bind(rel, here);
        let after = back.0.wrapping_sub(self.job.stubs.at(here).0) as u32;
        let in_slot = match self.job.spilled.rdx {
            true => Crossing::RDX_IN_SLOT,
            false => 0,
        };
        self.job.stubs.u64(&raw const *about.site as u64);
        self.job.stubs.raw(&after.to_le_bytes());
        let place = u32::from(about.place) << Crossing::PLACE;
        self.job.stubs.raw(&(flags | in_slot | place).to_le_bytes());
    }

    /// Copies an instruction with its probes.
    fn copy_queried(&mut self, site: &mut Site<'_>, insn: &Insn, about: &About) -> Option<Reg> {
        self.query_before(site, insn, about);
        let far = self.copy(insn);
        if insn.class == Class::Plain
            && let Some(overwritten) = insn.overwrites
        {
            self.job.spilled.rcx &= overwritten != Reg::RCX;
            self.job.spilled.rdx &= overwritten != Reg::RDX;
        }
        self.query_after(site, insn, about);
        far
    }
}

impl Code<'_> {
    /// `dec dword gs:[slot]`, which changes all status flags but the carry.
    pub(in crate::translate) fn decrement_gs32(&mut self, slot: GsOffset) {
        self.raw(&[0x65, 0xff, 0x0c, 0x25]);
        self.raw(&slot.0.to_le_bytes());
    }

    /// Takes one from a counter of 32 bits through `rcx`, with no flag touched. Returns a jump that is
    /// executed when nothing is left.
    pub(in crate::translate) fn count_down_32(&mut self, counter: GsOffset) -> Rel32 {
        // mov ecx, gs:[counter]
        self.raw(&[0x65, 0x8b, 0x0c, 0x25]);
        self.raw(&counter.0.to_le_bytes());
        // lea ecx, [rcx - 1]
        self.raw(&[0x8d, 0x49, 0xff]);
        // mov gs:[counter], ecx
        self.raw(&[0x65, 0x89, 0x0c, 0x25]);
        self.raw(&counter.0.to_le_bytes());
        let end = self.jrcxz();
        let over = self.jmp_short();
        self.bind8_here(end);
        let from = self.jmp();
        self.bind8_here(over);
        from
    }
}
