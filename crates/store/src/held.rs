//! Signals that end a process, held back while a file has a name that is not its own.
//!
//! Whoever is ended then leaves that name there. So the thread blocks the signals. A long write asks now and then whether
//! one has come, gives up, and removes the file. The signal ends the process when it is no longer held back.

use std::fs;

use nix::sys::signal::{SigSet, SigmaskHow, Signal};

/// Signals that users and the system send to end a process.
const ENDING: [Signal; 5] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGXCPU,
];

/// Signals of this thread are held back until this is dropped.
pub(crate) struct Held {
    before: SigSet,
}

impl Held {
    pub(crate) fn new() -> Self {
        let ending = SigSet::from_iter(ENDING);
        // Where it fails, nothing is held back: as without it.
        let before = ending.thread_swap_mask(SigmaskHow::SIG_BLOCK);
        Self {
            before: before.unwrap_or_else(|_| SigSet::empty()),
        }
    }

    /// Returns true if a signal waits that will end the process.
    pub(crate) fn will_end(&self) -> bool {
        let Ok(status) = fs::read_to_string("/proc/thread-self/status") else {
            return false;
        };
        let set = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|text| u64::from_str_radix(text.trim(), 16).ok())
                .unwrap_or(0)
        };
        let waits = set("SigPnd:") | set("ShdPnd:");
        let ends = waits & !set("SigIgn:") & !set("SigCgt:");
        let is_of_ours = |signal: Signal| !self.before.contains(signal);
        let mut ours = ENDING.into_iter().filter(|signal| is_of_ours(*signal));
        ours.any(|signal| ends >> (signal as u32 - 1) & 1 == 1)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.before.thread_set_mask();
    }
}
