//! Counting in generated code.
//!
//! An exit increments the counter of its path in memory where nobody looks at the flags from there on
//! ([`liveness`](super::liveness)), and else through a register: the addition is a `lea` then, which touches no flag. At a return,
//! a system call and in the code of a pair a register is free; elsewhere `rcx` waits in its slot.

use super::tallies::Tallying;
use super::{Site, Translator};
use crate::cache::AppPc;
use crate::counters;
use crate::emit::{Code, GsOffset, Reg};

impl Translator {
    /// Whether paths are counted, or events, or may be from some time on.
    pub fn counts(&self) -> bool {
        self.config.counters || self.samples()
    }

    /// Whether paths are counted now.
    fn counts_paths(&self) -> bool {
        self.config.counters && (self.tallying.is_on() || !self.config.wants_values())
    }

    /// Whether paths or events are counted now.
    pub(super) fn counts_now(&self) -> bool {
        self.counts_paths() || self.samples()
    }

    /// Whether events with values are counted where they happen.
    pub(super) fn counts_values(&self) -> bool {
        self.samples() || self.counts_paths() && self.config.wants_values()
    }

    /// A thread took `nanos` to fill a chunk, and tallies of `evicted` events became records in it. Whether values are to be counted
    /// in another way from now on: then what was translated is to be dropped.
    pub fn chunk_filled(&mut self, evicted: u64, nanos: u64) -> bool {
        let counted = self.config.counters && self.config.wants_values();
        counted && self.tallying.chunk_filled(evicted, nanos)
    }

    /// Values are tallied from now on, always.
    pub fn always_tally(&mut self) {
        self.tallying = Tallying::always();
    }

    /// Paths are recorded from now on.
    pub fn stop_counting(&mut self) {
        self.config.counters = false;
        self.sampler = None;
    }

    /// Where executions of a path are counted, unless they are recorded.
    pub fn counter(&self, path: u32) -> Option<GsOffset> {
        counters::counter(path).filter(|_| self.counts_paths())
    }

    /// Counts on the way out to `to`, with all registers but `rcx` the app's.
    pub(super) fn count(&mut self, site: &mut Site<'_>, counter: GsOffset, to: AppPc) {
        if self.flags_are_dead(site, to) {
            self.code.increment_gs64(counter);
        } else {
            self.spill_rcx();
            self.code.count_with(Reg::RCX, counter);
        }
    }
}

impl Code<'_> {
    /// `inc qword gs:[counter]`, which changes all status flags but the carry.
    fn increment_gs64(&mut self, counter: GsOffset) {
        self.raw(&[0x65, 0x48, 0xff, 0x04, 0x25]);
        self.raw(&counter.0.to_le_bytes());
    }

    /// Adds one to a counter, through a register and with no flag touched.
    pub fn count_with(&mut self, scratch: Reg, counter: GsOffset) {
        self.load_gs(scratch, counter);
        self.lea(scratch, scratch, 1);
        self.store_gs(counter, scratch);
    }
}
