//! A signal with which the host calls a program back that does not reach itself: it has an answer, or a question.
//!
//! The kernel sends it in the name of a clock (`trommel_host::kernel::knock`), so only while the thread executes in user mode. It leads
//! to the dispatcher's work without a word of the app's state changed: the thread goes on in its fragment, whose exits
//! lead nowhere then.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use crate::base::signals::Info;

/// The host may call.
static AWAITED: AtomicBool = AtomicBool::new(false);

/// From now on such signals are the host's.
pub fn await_knocks() {
    AWAITED.store(true, Relaxed);
}

/// Returns whether a signal says that the host waits.
pub fn is_knock(info: &Info) -> bool {
    info.is_trap_of_descriptor() && AWAITED.load(Relaxed)
}
