//! Places whose values are not profiled for a while, as they are known ([`crate::observe::converge`]).

use trommel_queue::dict::Event;
use trommel_tuple::Kind;

use super::Way;
use crate::base::decode::{Class, Insn};
use crate::translate::walk::{At, Walk};
use crate::translate::{Site, Translator};

/// Keeps the values of such places from being observed, and says so in the dictionary.
pub(in crate::translate) struct Quiet;

impl Way for Quiet {
    fn is_on(t: &Translator) -> bool {
        t.ways.converge.is_some()
    }

    fn decoded(t: &mut Translator, _: &mut Site<'_>, n: usize) {
        let Some(converge) = &t.ways.converge else {
            return;
        };
        let insn = &mut t.job.insns[n];
        let table = insn.class == Class::CallIndirect
            && t.config.kinds.has(Kind::Type)
            && insn.method_table().is_some();
        let load = insn.class == Class::Plain && insn.load.is_some();
        if (load || table) && !t.job.skips && converge.is_quiet(insn.pc()) {
            insn.load = None;
            t.job.quiet[n / 64] |= 1 << (n % 64);
        }
    }

    fn list(t: &mut Translator, site: &mut Site<'_>, n: usize) -> usize {
        if let Some(event) = t.unprofiled(n, &t.job.insns[n]) {
            site.shared.event(event);
        }
        0
    }

    fn after(
        t: &mut Translator,
        _: &mut Site<'_>,
        walk: &Walk,
        at: &mut At,
        _: i32,
    ) -> Result<(), crate::channel::dictionary::DictionaryFull> {
        at.events += usize::from(t.unprofiled(at.n, &walk.insns[at.n]).is_some());
        Ok(())
    }

    fn before_transfer(t: &mut Translator, _: &mut Site<'_>, insn: &Insn, at: &mut At) {
        at.events += usize::from(t.unprofiled(at.n, insn).is_some());
    }
}

impl Translator {
    /// Returns the dictionary's event of an instruction that is not profiled.
    pub(in crate::translate) fn unprofiled(&self, n: usize, insn: &Insn) -> Option<Event> {
        let converge = self.ways.converge.as_ref().filter(|_| self.is_quiet(n))?;
        converge.unprofiled(insn, self.wants(Kind::Edge))
    }

    /// True if an instruction is not profiled.
    pub(in crate::translate) fn is_quiet(&self, n: usize) -> bool {
        self.job.quiet[n / 64] >> (n % 64) & 1 != 0
    }
}
