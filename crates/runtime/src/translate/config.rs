//! Configuration of a translator.

use trommel_tuple::{Kind, KindSet};

/// Kinds to collect and options of translation; the same for a whole run.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Event kinds to record.
    pub kinds: KindSet,
    /// App instructions in a fragment at most (smaller under stress, and with windows).
    pub max_insns: usize,
    /// Paths without run-time values are counted, not recorded.
    pub counters: bool,
    /// Executions of instructions after calls are counted.
    pub after_calls: bool,
    /// Fragments are executed in windows.
    pub windows: bool,
    /// Instructions are in the dictionary, though their accesses may not be recorded.
    pub listed: bool,
    /// App instructions in a trace; 0: there are none.
    pub trace_insns: usize,
    /// Traces are optimised.
    pub optimise: bool,
    /// True if the code that does the app's work is marked.
    pub audit: bool,
    /// Jumps keep off the boundaries of lines of 32 bytes.
    pub whole_jumps: bool,
}

impl Config {
    /// Returns the options that shape fragments and may differ between processes with one runtime.
    pub fn shape(&self) -> u32 {
        let word = |bit: bool, at: u32| u32::from(bit) << at;
        self.max_insns as u32
            | word(self.trace_insns != 0, 8)
            | word(self.audit, 9)
            | word(self.whole_jumps, 10)
            | word(self.counters, 11)
            | word(self.after_calls, 12)
            | u32::from(self.kinds.bits()) << 16
    }

    /// Returns true if instructions are in the dictionary.
    pub(super) fn lists(&self) -> bool {
        self.listed || self.kinds.has(Kind::Address)
    }

    /// Returns true if operands are looked at, not just branches.
    pub fn wants_values(&self) -> bool {
        Kind::DATA.into_iter().any(|kind| self.kinds.has(kind))
    }
}
