//! Signals to the host while a program runs.
//!
//! A terminal sends Ctrl-C to the program and to us: the program decides, and we stay to write the
//! profile. What is sent to us alone asks us to end, and is passed on to the program.
// Signal handlers cannot be installed safely.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicI32, Ordering};

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::unistd::Pid;

static TARGET: AtomicI32 = AtomicI32::new(0);

extern "C" fn pass_on(signal: i32) {
    let pid = TARGET.load(Ordering::Relaxed);
    if pid > 0 {
        // SAFETY: async-signal-safe.
        unsafe { libc::kill(pid, signal) };
    }
}

/// The dispositions as they were, put back when dropped.
pub struct Guard(Vec<(Signal, SigAction)>);

/// From now on the program `pid` decides about interrupts.
pub fn guard(pid: Pid) -> Guard {
    TARGET.store(pid.as_raw(), Ordering::Relaxed);
    let ignore = SigAction::new(SigHandler::SigIgn, SaFlags::empty(), SigSet::empty());
    let pass = SigAction::new(
        SigHandler::Handler(pass_on),
        SaFlags::SA_RESTART,
        SigSet::empty(),
    );
    let wanted = [
        (Signal::SIGINT, ignore),
        (Signal::SIGQUIT, ignore),
        (Signal::SIGTERM, pass),
        (Signal::SIGHUP, pass),
    ];
    let set = |(signal, action): (Signal, SigAction)| {
        // SAFETY: the handler only calls `kill`.
        unsafe { sigaction(signal, &action) }
            .ok()
            .map(|old| (signal, old))
    };
    Guard(wanted.into_iter().filter_map(set).collect())
}

impl Drop for Guard {
    fn drop(&mut self) {
        TARGET.store(0, Ordering::Relaxed);
        for (signal, old) in &self.0 {
            // SAFETY: what was there before.
            let _ = unsafe { sigaction(*signal, old) };
        }
    }
}
