//! A signal with which the host calls back a program that does not enter the runtime by itself: the host has an answer, or a question.
//!
//! The kernel sends it in the name of a clock (`trommel_host::kernel::knock`), so only while the thread executes in user mode. It leads
//! to the dispatcher's work and changes no word of the app's state. The thread goes on in its fragment, whose exits then
//! lead to the dispatcher.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use crate::base::signals::Info;

/// The host may call.
static AWAITED: AtomicBool = AtomicBool::new(false);

/// Reserves such signals for the host from now on.
pub fn await_knocks() {
    AWAITED.store(true, Relaxed);
}

/// Returns whether a signal says that the host waits.
pub fn is_knock(info: &Info) -> bool {
    info.is_trap_of_descriptor() && AWAITED.load(Relaxed)
}
