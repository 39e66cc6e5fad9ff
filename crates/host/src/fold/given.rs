//! Intervals given to services.
//!
//! They are given when what was read of the queue has been folded: services may ask for the modules of their places then.

use nix::unistd::Pid;

use super::folder::{Folder, Mode};
use super::listeners::Listeners;
use super::ordered::Ordered;
use crate::ask::service::Instance;

impl Folder {
    /// Adds services without a queue, of the process `pid`.
    pub fn of_services(mut self, services: Vec<Instance>, pid: Pid) -> Self {
        if services.is_empty() {
            return self;
        }
        let takes = services.iter().any(Instance::takes_intervals);
        let pid = pid.as_raw() as u32;
        self.listeners = Some(Listeners::new(services, pid));
        self.serve_intervals(takes);
        self
    }

    /// Keeps intervals for services, if some `takes` them.
    pub(super) fn serve_intervals(&mut self, takes: bool) {
        if let (Mode::Ordered(ordered), true) = (&mut self.mode, takes) {
            ordered.serve_intervals();
        }
    }

    /// Returns true if services are given intervals.
    pub fn serves_intervals(&self) -> bool {
        self.ordered().is_some_and(Ordered::serves_intervals)
    }

    /// Gives services the intervals that have ended.
    pub(super) fn give_intervals(&mut self) {
        let ended = self.ordered_mut().map(Ordered::take_ended);
        let modules = &self.dictionary.modules;
        for ended in ended.into_iter().flatten() {
            if let Some(answers) = &mut self.answers {
                answers.interval(ended.thread, &ended.interval, modules);
            }
            if let Some(listeners) = &mut self.listeners {
                listeners.interval(&ended, modules);
            }
        }
    }

    /// Gives services the last intervals: no more events will come.
    pub(super) fn last_intervals(&mut self) {
        if !self.serves_intervals() {
            return;
        }
        if let Mode::Ordered(ordered) = &mut self.mode {
            ordered.block(&self.dictionary.modules);
        }
        self.give_intervals();
    }
}
