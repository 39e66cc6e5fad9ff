//! When a process came under control and why, and when it was detached.

use std::time::{Duration, Instant};

use nix::unistd::Pid;

use crate::kernel::clocks::cpu_of;

/// Why a process is under control.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// It was started so.
    Start,
    /// Its parent was, which forked it.
    Fork,
    /// It was, and has executed another program; or its parent was.
    Exec,
    /// It has used the CPU time that programs run natively at first.
    Late,
    /// It had been detached, and spends so many percent of its time in other code.
    Back(u32),
    /// It had been detached, and got on faster under control, by so many percent.
    Faster(u32),
}

/// A moment of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moment {
    /// Since the run began.
    pub wall: Duration,
    /// CPU time of the process; none when it is not there any more.
    pub cpu: Option<Duration>,
}

impl Moment {
    pub(super) fn now(run: Instant, pid: Pid) -> Self {
        Self {
            wall: run.elapsed(),
            cpu: cpu_of(pid),
        }
    }
}

/// When control began and ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Turns {
    /// Why and when it began.
    pub taken: Option<(Taken, Moment)>,
    /// When the process was detached, as far as we saw.
    pub detach: Option<Moment>,
}
