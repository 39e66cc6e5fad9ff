//! Budget of a window: each exit subtracts the executed instructions from it.

use super::{Leaving, Way};
use crate::base::emit::Reg;
use crate::channel::dictionary::DictionaryFull;
use crate::slot;
use crate::translate::{Needs, Site, Translator};

/// Ends windows.
pub(in crate::translate) struct Budget;

impl Way for Budget {
    fn is_on(t: &Translator) -> bool {
        t.config.windows
    }

    fn needs(_: &Translator, needs: &mut Needs) {
        needs.each_exit = true;
    }

    fn plan(
        _: &mut Translator,
        _: &mut Site<'_>,
        exit: &mut Leaving,
    ) -> Result<(), DictionaryFull> {
        exit.needs_rcx = true;
        Ok(())
    }

    /// Subtracts the executed instructions, with `rcx` as scratch. The jump is taken when little is left.
    fn leave(
        t: &mut Translator,
        _: &mut Site<'_>,
        exit: &mut Leaving,
    ) -> Result<(), DictionaryFull> {
        t.spill_rcx();
        let passed = t.job.passed as i32;
        let c = &mut t.job.code;
        c.load_gs(Reg::RCX, slot!(budget));
        c.lea(Reg::RCX, Reg::RCX, -passed);
        c.store_gs(slot!(budget), Reg::RCX);
        c.second_byte_of_rcx();
        exit.spent = Some(c.jrcxz());
        Ok(())
    }
}
