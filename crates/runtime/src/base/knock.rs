//! A signal with which the host calls a program back that does not reach itself: it has an answer, or a question.
//!
//! The kernel sends it in the name of a clock (`trommel_host::kernel::knock`), so only while the thread executes in user mode. It leads
//! to the dispatcher's work without a word of the app's state changed: the thread goes on in its fragment, whose exits
//! lead nowhere then.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use crate::engine::dispatch::Runtime;
use crate::process::signal::Info;

/// The host may call.
static AWAITED: AtomicBool = AtomicBool::new(false);

/// From now on such signals are the host's.
pub fn await_knocks() {
    AWAITED.store(true, Relaxed);
}

/// Whether a signal says that the host waits.
pub fn is_knock(info: &Info) -> bool {
    info.is_trap_of_descriptor() && AWAITED.load(Relaxed)
}

impl Runtime {
    /// A thread in the cache was called.
    pub fn knocked(&mut self, now: u64) {
        self.ask_at_once(now);
        self.go_by_table();
    }
}
