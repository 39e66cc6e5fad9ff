//! Bursts of control of one process: taken note of, and asked for.

use std::time::Duration;

use super::Process;
use crate::kernel::clocks::cpu_of;
use crate::serve::identity::End;
use crate::serve::series::Figures;
use crate::windows::bursts::{Burst, Bursts};

impl Process {
    /// It is controlled in bursts, of which the first goes on.
    pub(crate) fn in_bursts(&mut self, bursts: Bursts) {
        self.bursts = Some(bursts);
    }

    /// A burst has ended: folds what it has counted.
    pub(crate) fn burst(&mut self, burst: &Burst) {
        // What it has not counted in code is in its records.
        self.hurried = true;
        self.fold();
        self.hurried = false;
        let Self {
            bursts,
            folder,
            shared,
            served,
            ..
        } = self;
        let Some(bursts) = bursts else {
            return;
        };
        let figures = Figures::read(shared.control());
        let work = figures.nanos(bursts.cycle()).iter().sum();
        let sample = bursts.over(burst, work);
        let done = folder.burst(shared, sample.weight, sample.covered);
        served.report(done, folder);
    }

    /// A burst was refused.
    pub(crate) fn no_burst(&mut self, why: String) {
        if let Some(bursts) = &mut self.bursts {
            bursts.refuse(why);
        }
    }

    /// Returns whether the next burst is to begin. `host`: our own CPU time so far.
    pub(crate) fn is_burst_due(&mut self, host: impl FnOnce() -> Duration) -> bool {
        let Some(bursts) = self.bursts.as_mut().filter(|_| self.end == End::No) else {
            return false;
        };
        cpu_of(self.identity.pid).is_some_and(|cpu| bursts.is_due(cpu, host()))
    }
}
