//! Bursts of control of one process: taken note of, and asked for.

use std::rc::Rc;
use std::sync::OnceLock;
use std::time::Duration;

use nix::unistd::{SysconfVar, sysconf};

use super::Process;
use crate::kernel::clocks::cpu_of;
use crate::serve::identity::End;
use crate::serve::series::Figures;
use crate::takeover::keeper::{Inbox, Keeper, Message};
use crate::windows::Own;
use crate::windows::bursts::{Burst, Bursts};

/// The line to the keeper of a process that is controlled in bursts.
pub struct Line {
    /// The keeper.
    pub keeper: Rc<Keeper>,
    /// News of bursts are put there by somebody else, who also learns of the end of control. `None`: the process itself asks its keeper.
    pub inbox: Option<Inbox>,
}

/// The bursts of a process.
pub(super) struct InBursts {
    pub(super) account: Bursts,
    line: Line,
    /// Control has ended.
    parted: bool,
}

impl Process {
    /// It is controlled in bursts, of which the first goes on.
    pub(crate) fn in_bursts(&mut self, account: Bursts, line: Line) {
        self.bursts = Some(InBursts {
            account,
            line,
            parted: false,
        });
    }

    /// Returns true while it has a keeper that controls it in bursts.
    pub(crate) fn is_kept(&self) -> bool {
        self.bursts.as_ref().is_some_and(|bursts| !bursts.parted)
    }

    /// Time in which no burst of it can become due, while it has a keeper.
    pub(super) fn pause_of_bursts(&self) -> Option<Duration> {
        let bursts = self.bursts.as_ref().filter(|bursts| !bursts.parted)?;
        Some(bursts.account.pause(processors()))
    }

    /// News of its bursts since the last call.
    pub(crate) fn news_of_bursts(&mut self) -> Vec<Message> {
        let Some(bursts) = self.bursts.as_mut().filter(|bursts| !bursts.parted) else {
            return Vec::new();
        };
        match &bursts.line.inbox {
            Some(inbox) => inbox.take(),
            None => {
                let mut news = Vec::new();
                while !bursts.parted
                    && let Some(message) = bursts.line.keeper.news(Duration::ZERO)
                {
                    bursts.parted = matches!(message, Message::Parted(_));
                    news.push(message);
                }
                news
            }
        }
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
        let Some(InBursts { account, .. }) = bursts else {
            return;
        };
        let figures = Figures::read(shared.control());
        let work = figures.nanos(account.cycle()).iter().sum();
        let sample = account.over(burst, work);
        let done = folder.burst(shared, sample.weight, sample.covered);
        served.report(done, folder);
    }

    /// A burst was refused.
    pub(crate) fn no_burst(&mut self, why: String) {
        if let Some(bursts) = &mut self.bursts {
            bursts.account.refuse(why);
        }
    }

    /// Asks for the next burst if it is due. `own`: our own CPU time so far.
    pub(crate) fn ask_for_burst(&mut self, own: impl FnOnce() -> Own) {
        if let Some(bursts) = self.bursts.as_mut().filter(|bursts| !bursts.parted)
            && self.end == End::No
            && let Some(cpu) = cpu_of(self.identity.pid)
            && bursts.account.is_due(cpu, charged(own()))
        {
            bursts.line.keeper.burst();
        }
    }
}

/// Processors that may execute a process.
fn processors() -> u32 {
    static PROCESSORS: OnceLock<u32> = OnceLock::new();
    *PROCESSORS.get_or_init(|| {
        let online = sysconf(SysconfVar::_NPROCESSORS_ONLN);
        online.ok().flatten().map_or(1, |n| n as u32)
    })
}

/// Returns what a process is charged of our time.
fn charged(own: Own) -> Duration {
    own.cpu.mul_f64(own.part)
}
