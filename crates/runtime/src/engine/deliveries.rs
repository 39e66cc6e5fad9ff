//! Counts of signals by the code that they lead to, see `translate::deliveries`.

use crate::base::address::AppPc;
use crate::engine::state::{Runtime, Thread};

impl Runtime {
    /// Takes note that the kernel has led the thread to `pc`. It is counted when the thread enters its next fragment: what is there is
    /// known then.
    pub fn delivered(&self, thread: &mut Thread, pc: AppPc) {
        if self.translator.counts_deliveries() {
            thread.signals.delivered.push(pc);
        }
    }

    /// Counts the deliveries since the thread entered a fragment last. What is no code has not been executed.
    pub fn count_deliveries(&mut self, thread: &mut Thread) {
        while let Some(pc) = thread.signals.delivered.pop() {
            let (translator, mut site) = self.site();
            if let Ok(path) = translator.delivery(&mut site, pc) {
                thread.count_or_record(path, 0);
            }
        }
    }
}
