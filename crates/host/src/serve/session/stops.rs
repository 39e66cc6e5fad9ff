//! Stops of the first program (SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU), with which we stop.
//!
//! A shell waits for us, and takes its terminal back when we stop. A program that stops with its whole process group
//! stops us, too. One that stops itself alone does not.
//!
//! While we are stopped nobody serves processes. So we wait until all of the session are stopped, or have ended.

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::Session;
use crate::kernel::running::{is_stopped, tracer_of};
use crate::kernel::sentinel;
use crate::serve::identity::End;

/// Stops of the first program.
#[derive(Default)]
pub(super) struct Stops {
    /// A child has changed since this was last asked for.
    changed: bool,
    /// The signal that has stopped the program, until we stop with it.
    signal: Option<Signal>,
}

impl Session<'_> {
    /// Stops with the first program. `changed`: a child has changed.
    pub(super) fn stop_with_program(&mut self, changed: bool) {
        self.stops.changed |= changed;
        let Some(main) = self.first.pid.filter(|_| self.first.ended.is_none()) else {
            return;
        };
        // Who traces it waits for stops of other kinds.
        if self.stops.changed && tracer_of(main).is_none() {
            self.stops.changed = false;
            self.stops.signal = sentinel::take_stop(main).or(self.stops.signal);
        }
        let Some(signal) = self.stops.signal else {
            return;
        };
        if !is_stopped(main) {
            self.stops.signal = None;
        } else if self.serves_nobody_but(main) {
            self.stops.signal = None;
            sentinel::stop_with(main, signal);
            self.stops.changed = true;
        }
    }

    /// Returns whether no other process could wait for us.
    fn serves_nobody_but(&self, main: Pid) -> bool {
        let mut others = self.processes.iter().map(|(_, process)| process);
        let goes_on = |pid: Pid| pid != main && !is_stopped(pid);
        self.traced.is_empty()
            && self.arrivals.is_empty()
            && !others.any(|process| process.end == End::No && goes_on(process.identity.pid))
    }
}
