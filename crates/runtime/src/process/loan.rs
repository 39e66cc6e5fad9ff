//! A thread that works for the host, which has it run a routine of the runtime's.
#![allow(unsafe_code)] // reason: a system call.

use core::sync::atomic::Ordering::SeqCst;

use linux_raw_sys::general as nr;
use trommel_queue::Control;
use trommel_queue::seccomp::Without;

use crate::base::call;
use crate::base::sys;
use crate::engine::current;

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

/// Does something in the thread that the host has borrowed, with all of the runtime's calls where the host suspends filters of that thread.
/// Others may be on their way out, under theirs: they never see the difference, as they stand still.
pub(super) fn with_filters_suspended<T>(work: impl FnOnce(&Control) -> T) -> T {
    let control = current::process().queue.control();
    let before = call::without();
    if control.attached.suspends.load(SeqCst) != 0 {
        call::do_without(Without::default());
    }
    let done = work(control);
    call::do_without(before);
    done
}
