//! A thread that works for the host, which has it run a routine of the runtime's.
#![allow(unsafe_code)] // reason: a system call.

use linux_raw_sys::general as nr;

use crate::base::sys;

/// Stops under the host's ptrace, by a signal that it does not let through. The host sets the
/// registers anew.
pub(super) fn stop_for_host() -> ! {
    const SIGTRAP: u64 = 5;
    loop {
        let (pid, tid) = (sys::getpid() as u64, sys::gettid() as u64);
        // SAFETY: no memory is involved.
        let _ = unsafe { sys::call(nr::__NR_tgkill, [pid, tid, SIGTRAP, 0, 0, 0]) };
    }
}
