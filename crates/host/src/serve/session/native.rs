//! Account of the native processes of a session: those with nothing of ours in them ([`super::takes`]).

use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use crate::kernel::births::Seen;
use crate::serve::progress::{self, Steps};
use crate::takeover::keeper::Keeper;

/// Exec'ed processes that were met.
#[derive(Default)]
pub(super) struct Execed {
    pub(super) looked: Option<Instant>,
    /// From then to the next look.
    pub(super) next: Duration,
    pub(super) births: Seen,
    /// There were some at the last look.
    pub(super) waiting: bool,
    /// Windows and signals of processes when they were looked at last, by number: one that has had more since is there still.
    pub(super) signs: HashMap<usize, u64>,
    pub(super) held: Vec<(Pid, Rc<Keeper>)>,
    /// Steps of the processes that are to be optimised.
    pub(super) steps: HashMap<Pid, Steps>,
    /// Processes that cannot be attached, and are there still.
    pub(super) refused: Vec<Pid>,
}

impl Execed {
    /// None before programs have run natively for `after`.
    pub(super) fn expected(after: Duration) -> Self {
        Self {
            looked: Some(Instant::now()),
            next: after.min(progress::FIRST),
            ..Self::default()
        }
    }

    /// The next look is now.
    pub(super) fn look_now(&mut self) {
        self.looked = None;
        self.waiting = true;
    }

    /// The time to the next look.
    pub(super) fn pause(&self) -> Duration {
        let since = self.looked.map_or(Duration::MAX, |at| at.elapsed());
        self.next.saturating_sub(since)
    }

    /// Lets all go that are there still.
    pub(super) fn release(&mut self) {
        self.held.clear();
    }

    /// Lets one go, and waits until nothing of ours is in it, or it cannot be helped.
    pub(super) fn part(&mut self, pid: Pid) {
        let of = |(held, _): &mut (Pid, Rc<Keeper>)| *held == pid;
        for (_, keeper) in self.held.extract_if(.., of) {
            keeper.detach();
        }
    }

    /// Takes note of how one gets on that has used so much CPU time. The time to the next look.
    pub(super) fn step(&mut self, pid: Pid, cpu: Duration) -> Duration {
        if cpu < progress::FIRST {
            return progress::FIRST - cpu;
        }
        self.steps.entry(pid).or_default().look(pid, cpu);
        progress::PACE
    }

    /// One stays native from here on.
    pub(super) fn never(&mut self, pid: Pid) {
        self.refused.push(pid);
    }
}
