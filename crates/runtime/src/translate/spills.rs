//! Registers of the app's that wait in slots.

use super::Translator;
use super::looped::give_promoted_back;
use crate::base::decode::{Class, Insn};
use crate::base::emit::Reg;
use crate::slot;

impl Translator {
    /// Loads what `insn` uses of the registers in slots.
    pub(super) fn unspill(&mut self, insn: &Insn, used: u16) {
        let (rcx, rdx) = match insn.class {
            // The call overwrites rcx, and may take an argument in rdx.
            Class::Syscall => {
                self.job.spilled.rcx = false;
                (false, true)
            }
            _ => (used & Reg::RCX.bit() != 0, used & Reg::RDX.bit() != 0),
        };
        if rcx {
            self.unspill_rcx();
        }
        if rdx {
            self.unspill_rdx();
        }
        if self.job.trace && self.job.stolen.is_some_and(|p| used & p.bit() != 0) {
            self.give_back();
        }
    }

    pub(super) fn unspill_rcx(&mut self) {
        if self.job.spilled.rcx {
            self.job.code.load_gs(Reg::RCX, slot!(spill_rcx));
            self.job.spilled.rcx = false;
        }
    }

    pub(super) fn unspill_rdx(&mut self) {
        if self.job.spilled.rdx {
            self.job.code.load_gs(Reg::RDX, slot!(spill_rdx));
            self.job.spilled.rdx = false;
        }
    }

    pub(super) fn spill_rcx(&mut self) {
        if !self.job.spilled.rcx {
            self.job.code.store_gs(slot!(spill_rcx), Reg::RCX);
            self.job.spilled.rcx = true;
        }
    }

    pub(super) fn spill_rdx(&mut self) {
        if !self.job.spilled.rdx {
            self.job.code.store_gs(slot!(spill_rdx), Reg::RDX);
            self.job.spilled.rdx = true;
        }
    }

    /// Loads the app's values of the promoted registers of a loop.
    pub(super) fn unspill_promoted(&mut self) {
        if core::mem::take(&mut self.job.spilled.promoted) {
            give_promoted_back(&mut self.job.code, self.job.looped.promoted());
        }
    }

    /// Loads the stolen register's own value.
    pub(super) fn give_back(&mut self) {
        if core::mem::take(&mut self.job.spilled.stolen)
            && let Some(p) = self.job.stolen
        {
            self.job.code.load_gs(p, slot!(spill_stolen));
        }
    }
}
