//! Prefetches before loads ([`crate::observe::prefetch`]).

use core::sync::atomic::Ordering::Relaxed;

use super::Way;
use crate::base::decode::Insn;
use crate::observe::prefetch::MOST;
use crate::translate::walk::At;
use crate::translate::{Site, Translator};

/// Writes a prefetch before instructions that the host has named.
pub(in crate::translate) struct Prefetches;

impl Way for Prefetches {
    fn is_on(t: &Translator) -> bool {
        t.ways.prefetch.is_some()
    }

    /// The registers are the app's.
    fn before(t: &mut Translator, insn: &Insn, _: &mut At, _: i32) {
        let Some(prefetch) = t.ways.prefetch.as_ref().filter(|p| !p.is_empty()) else {
            return;
        };
        if t.job.prefetches < MOST
            && let Some(ahead) = prefetch.ahead(insn.pc())
            && let Some(mem) = ahead.of(t.bytes_of(insn), insn.pc())
        {
            t.job.code.prefetch(ahead.written, &mem);
            t.job.prefetches += 1;
        }
    }

    fn placed(t: &mut Translator, site: &mut Site<'_>) {
        let asked = site.shared.mapped().prefetch();
        asked.put.fetch_add(t.job.prefetches as u64, Relaxed);
    }
}
