//! Times of control: when and why a process was attached, and when it was detached.

use std::time::{Duration, Instant};

use nix::unistd::Pid;

use crate::kernel::clocks::cpu_of;

/// Reasons why a process is under control.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WhyAttached {
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
    /// Time since the run began.
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

/// Begin and end of control.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Turns {
    /// Reason and moment of the attachment.
    pub taken: Option<(WhyAttached, Moment)>,
    /// Moment of the detachment, as far as we saw it.
    pub detach: Option<Moment>,
}
