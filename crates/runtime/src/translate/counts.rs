//! Counting in generated code.
//!
//! An exit increments the counter of its path through a register: the addition is a `lea`, which
//! touches no flag. At a return, a system call and in the code of a pair a register is free; elsewhere
//! `rcx` waits in its slot.

use super::Translator;
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

    /// Counts on the way out, with all registers but `rcx` the app's.
    pub(super) fn count(&mut self, counter: GsOffset) {
        self.spill_rcx();
        self.code.count_with(Reg::RCX, counter);
    }
}

impl Code<'_> {
    /// Adds one to a counter, through a register and with no flag touched.
    pub fn count_with(&mut self, scratch: Reg, counter: GsOffset) {
        self.load_gs(scratch, counter);
        self.lea(scratch, scratch, 1);
        self.store_gs(counter, scratch);
    }
}
