//! Windows of one process: their begin, their budget, and their end.
pub mod bursts;
pub mod pacer;
pub mod sampling;
pub mod toll;

use std::io;
use std::sync::atomic::Ordering::Acquire;
use std::time::Duration;

use nix::unistd::Pid;
use trommel_profile::windows;

use crate::channel::shared::Shared;
use crate::kernel::births::Births;
use crate::windows::pacer::Pacer;
use crate::windows::sampling::{Controller, Sampling};
use crate::windows::toll::Toll;

/// Our own CPU time.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    /// Time so far.
    pub cpu: Duration,
    /// Part of it that a process is charged: that of its CPU time in the CPU time of all processes of the run.
    pub part: f64,
}

/// See the module.
pub struct Windows {
    /// None once windows are to end.
    pacer: Option<Pacer>,
    /// None where a test sets the pace.
    controller: Option<Controller>,
    /// Account at the time when it was taken last.
    taken: windows::Windows,
}

impl Windows {
    /// In a process that is about to start, as often as a test says.
    pub fn at_pace(pid: Pid, period: Option<Duration>) -> Self {
        Self {
            pacer: Some(Pacer::new(pid, period)),
            controller: None,
            taken: windows::Windows::default(),
        }
    }

    /// Starts windows as often as the budget allows.
    pub fn within(wanted: Sampling, toll: Toll, pid: Pid) -> Self {
        let controller = Controller::new(wanted, toll, pid);
        let mut pacer = Pacer::new(pid, None);
        pacer.set_rates(controller.rates());
        Self {
            pacer: Some(pacer.at_random(controller.often())),
            controller: Some(controller),
            taken: windows::Windows::default(),
        }
    }

    /// Adapts the pace and finds new threads, when it is time. `own`: our own CPU time so far; `births`: whether there may be any.
    ///
    /// # Errors
    /// The kernel refuses; reported once.
    pub fn look(
        &mut self,
        shared: &Shared,
        own: impl FnOnce() -> Own,
        births: &mut Births,
    ) -> io::Result<()> {
        let Some(pacer) = &mut self.pacer else {
            return Ok(());
        };
        let control = shared.control();
        if control.process.windows_ready.load(Acquire) == 0 {
            return Ok(());
        }
        if let Some(controller) = &mut self.controller
            && controller.is_time()
        {
            controller.look(control, own());
            pacer.set_rates(controller.rates());
            pacer.set_often(controller.often());
        }
        if pacer.is_time() {
            pacer.look(shared.pages().family(), Some(control), births.generation())?;
        }
        Ok(())
    }

    /// The mean time between two of them, where they are paid for.
    pub fn period(&self) -> Option<Duration> {
        self.controller.as_ref().map(Controller::period)
    }

    /// CPU time that the process has used when it was looked at last, without what windows have cost.
    pub fn used(&self) -> Duration {
        self.controller
            .as_ref()
            .map_or(Duration::ZERO, Controller::used)
    }

    /// From one look to the next, where they are paid for.
    pub fn often(&self) -> Option<Duration> {
        self.controller.as_ref().map(Controller::often)
    }

    /// Returns true if there were none lately, and there is nothing to be paid for.
    pub fn are_idle(&self) -> bool {
        self.controller.as_ref().is_some_and(Controller::is_idle)
    }

    /// No window begins any more: all events are gone when this returns, and no timer is armed again.
    pub fn stop(&mut self, shared: &Shared) {
        if let Some(mut pacer) = self.pacer.take() {
            pacer.end(Some(shared.control()));
        }
    }

    /// Returns the account since the last time, if that is known.
    pub fn take(&mut self, shared: &Shared, host: Duration) -> Option<windows::Windows> {
        let so_far = self.controller.as_mut()?.so_far(shared.control(), host);
        let mut new = so_far.clone();
        new.since(&std::mem::replace(&mut self.taken, so_far));
        Some(new)
    }
}
