//! Signals to the host while a program runs.
//!
//! A terminal sends Ctrl-C to the program and to us: the program decides, and we stay to write the
//! profile. What is sent to us alone asks us to end, and is passed on to the program. Both hold
//! from before the program is started until its profile is written.
// Signal handlers cannot be installed safely.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicI32, Ordering};

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::unistd::Pid;

static TARGET: AtomicI32 = AtomicI32::new(0);
/// The last signal that asked us to end while there was no program to pass it on to.
static WAITING: AtomicI32 = AtomicI32::new(0);

extern "C" fn pass_on(signal: i32) {
    let pid = TARGET.load(Ordering::SeqCst);
    if pid > 0 {
        // SAFETY: async-signal-safe.
        unsafe { libc::kill(pid, signal) };
    } else {
        WAITING.store(signal, Ordering::SeqCst);
    }
}

/// The dispositions as they were, put back when dropped. Hold it until everything is written that
/// an interrupt must not lose.
pub struct Guard(Vec<(Signal, SigAction)>);

fn ignore() -> SigAction {
    SigAction::new(SigHandler::SigIgn, SaFlags::empty(), SigSet::empty())
}

/// From now on no interrupt ends this process; see [`Guard::program`].
pub fn guard() -> Guard {
    let pass = SigAction::new(
        SigHandler::Handler(pass_on),
        SaFlags::SA_RESTART,
        SigSet::empty(),
    );
    let wanted = [
        (Signal::SIGINT, pass),
        (Signal::SIGQUIT, pass),
        (Signal::SIGTERM, pass),
        (Signal::SIGHUP, pass),
        // A write beyond the limit for file sizes shall fail and be told, not kill us.
        (Signal::SIGXFSZ, ignore()),
    ];
    let set = |(signal, action): (Signal, SigAction)| {
        // SAFETY: the handler only calls `kill` and stores to atomics.
        unsafe { sigaction(signal, &action) }
            .ok()
            .map(|old| (signal, old))
    };
    Guard(wanted.into_iter().filter_map(set).collect())
}

impl Guard {
    /// The program that decides about interrupts from now on; it also gets what came before.
    pub fn program(&self, pid: Pid) {
        TARGET.store(pid.as_raw(), Ordering::SeqCst);
        for terminal in [Signal::SIGINT, Signal::SIGQUIT] {
            // SAFETY: no handler is installed.
            let _ = unsafe { sigaction(terminal, &ignore()) };
        }
        let waiting = WAITING.swap(0, Ordering::SeqCst);
        if waiting != 0 {
            pass_on(waiting);
        }
    }

    /// Returns whether an interrupt came that no program got.
    pub fn asked(&self) -> bool {
        WAITING.load(Ordering::SeqCst) != 0
    }

    /// The program has ended.
    pub fn ended(&self) {
        TARGET.store(0, Ordering::SeqCst);
    }

    /// The dispositions as they were.
    pub fn before(&self) -> Vec<(Signal, SigAction)> {
        self.0.clone()
    }

    /// Puts the dispositions back. Async-signal-safe: a forked child does this before it execs.
    pub fn restore(&self) {
        for (signal, old) in &self.0 {
            // SAFETY: what was there before.
            let _ = unsafe { sigaction(*signal, old) };
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.ended();
        self.restore();
    }
}
