//! Counting in generated code.
//!
//! An exit increments the counter of its path in memory where nobody looks at the flags from there on
//! ([`liveness`](super::liveness)), and else through a register: the addition is a `lea` then, which touches no flag. At a return,
//! a system call and in the code of a pair a register is free; elsewhere `rcx` waits in its slot.

use super::{Site, Translator};
use crate::cache::AppPc;
use crate::counters;
use crate::emit::{Code, GsOffset, Reg};

impl Translator {
    /// Whether paths are counted, or events.
    pub fn counts(&self) -> bool {
        self.config.counters || self.samples()
    }

    /// Paths are recorded from now on.
    pub fn stop_counting(&mut self) {
        self.config.counters = false;
        self.sampler = None;
    }

    /// Where executions of a path are counted, unless they are recorded.
    pub fn counter(&self, path: u32) -> Option<GsOffset> {
        counters::counter(path).filter(|_| self.config.counters)
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
