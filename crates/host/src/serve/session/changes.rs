//! Changes of the children of a session: their ends, and the programs that they become.

use std::time::Instant;

use trommel_queue::Request;

use super::Session;
use super::arrivals::Arrival;
use crate::ptrace::follow::{self, Change};
use crate::ptrace::tracee::reaped;
use crate::serve::identity::End;

impl Session<'_> {
    /// Handles changes of our children's states.
    pub(super) fn changes(&mut self) {
        // Ended while it was attached.
        while let Some((pid, ended)) = reaped() {
            self.changed(Change::Ended(pid, ended));
        }
        loop {
            let arrivals = &self.arrivals;
            let is_marked = |pid, signal| {
                let on_it = |a: &&Arrival| a.landing.pid() == pid;
                arrivals
                    .iter()
                    .find(on_it)
                    .is_some_and(|a| a.landing.is_at_mark(signal))
            };
            let Some(change) = follow::change(is_marked) else {
                return self.late();
            };
            self.changed(change);
        }
    }

    fn changed(&mut self, change: Change) {
        match change {
            Change::Ended(pid, ended) => {
                if let Some(custom) = &self.receivers.custom {
                    custom.child_ended(pid, ended.status);
                }
                self.arrivals.retain(|arrival| arrival.landing.pid() != pid);
                if Some(pid) == self.first.pid {
                    self.first.ended = Some((ended, Instant::now()));
                }
                if let Some(at) = self.traced.iter().position(|t| t.tid == pid) {
                    // Killed in the middle: whoever waits for its request may go on.
                    let traced = self.traced.swap_remove(at);
                    if let Some((_, process)) = self.process(traced.number) {
                        process.shared.answer(Request::IDLE);
                    }
                }
                for (_, process) in &mut self.processes {
                    if process.identity.pid == pid && process.end == End::No {
                        process.end = End::Ended(ended.status);
                    }
                }
            }
            Change::Exec(pid) => self.exec(pid),
            Change::Marked(pid) => self.arrived(pid),
        }
    }
}
