//! Values and types recorded one by one.
//!
//! A value that a register holds after its load is stored to the record then. Any other is read by a load of its own before the
//! instruction. A method table is stored before its call. Where the same events are counted in generated code
//! ([`super::values`]), nothing is recorded.

use trommel_queue::dict::Event;
use trommel_tuple::Kind;

use super::Way;
use crate::base::decode::{Class, Insn};
use crate::channel::dictionary::DictionaryFull;
use crate::translate::walk::{At, Walk};
use crate::translate::{Needs, Site, Translator, target};

/// Records values and types.
pub(in crate::translate) struct Records;

impl Way for Records {
    fn is_on(t: &Translator) -> bool {
        let kinds = t.config.kinds;
        (kinds.has(Kind::Value) || kinds.has(Kind::Type)) && !t.counts_values()
    }

    fn needs(t: &Translator, needs: &mut Needs) {
        needs.operands = true;
        needs.one_round = true;
        needs.loads |= t.config.kinds.has(Kind::Value);
    }

    fn list(t: &mut Translator, site: &mut Site<'_>, n: usize) -> usize {
        let kind = t.kind_of_value(n);
        if let Some(kind) = kind {
            let pc = target(t.job.insns[n].pc());
            site.shared.event(Event::Dynamic { kind, pc });
        }
        usize::from(kind.is_some())
    }

    const HAS_WORDS: bool = true;

    fn words(t: &Translator, insn: &Insn, _: usize) -> usize {
        let value = insn.load.is_some() && t.wants(Kind::Value) && t.job.stolen.is_some();
        usize::from(value)
    }

    fn before(t: &mut Translator, insn: &Insn, _: &mut At, slot: i32) {
        if let (Some(load), Some(p)) = (insn.load, t.job.stolen) {
            t.probe_before(insn, load, p, slot);
        }
    }

    fn after(
        t: &mut Translator,
        _: &mut Site<'_>,
        walk: &Walk,
        at: &mut At,
        slot: i32,
    ) -> Result<(), DictionaryFull> {
        let insn = &walk.insns[at.n];
        if let (Some(load), Some(p)) = (insn.load, t.job.stolen) {
            t.probe_after(load, p, slot);
        }
        Ok(())
    }

    fn before_transfer(t: &mut Translator, _: &mut Site<'_>, insn: &Insn, at: &mut At) {
        if insn.class == Class::CallIndirect
            && t.wants(Kind::Type)
            && !t.is_quiet(at.n)
            && let (Some(table), Some(p)) = (insn.method_table(), t.job.stolen)
        {
            t.job.code.store(p, 4 + 8 * at.values as i32, table);
            at.events += 1;
            at.values += 1;
        }
    }

    fn is_kept(_: &Translator) -> bool {
        false
    }
}

impl Translator {
    /// The kind of the event with a value that instruction `n` of the first pass is, if it is one.
    pub(in crate::translate) fn kind_of_value(&self, n: usize) -> Option<Kind> {
        let insn = &self.job.insns[n];
        match insn.class {
            Class::Plain => (insn.load.is_some() && self.wants(Kind::Value)).then_some(Kind::Value),
            Class::CallIndirect => {
                (self.wants(Kind::Type) && insn.method_table().is_some() && !self.is_quiet(n))
                    .then_some(Kind::Type)
            }
            _ => None,
        }
    }
}
