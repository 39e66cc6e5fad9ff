//! Code that is not selected: it has no events.

use super::Way;
use crate::translate::{Site, Translator};

/// Keeps instructions outside of the selected code from being observed.
pub(in crate::translate) struct Selection;

impl Way for Selection {
    fn is_on(t: &Translator) -> bool {
        t.ways.selected.is_some()
    }

    fn decoded(t: &mut Translator, site: &mut Site<'_>, n: usize) {
        let Some(selected) = &mut t.ways.selected else {
            return;
        };
        let job = &mut t.job;
        let insn = &mut job.insns[n];
        job.skips = !selected.selects(site.shared.mapped(), insn.pc());
        let bit = 1 << (n % 64);
        job.unselected[n / 64] &= !bit;
        if job.skips {
            insn.load = None;
            job.unselected[n / 64] |= bit;
        }
    }

    fn turn_to(t: &mut Translator, n: usize) {
        t.job.skips = t.job.unselected[n / 64] >> (n % 64) & 1 != 0;
    }
}
