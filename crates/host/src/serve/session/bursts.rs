//! Bursts of control: asked of the keeper of each process when its budget allows, and folded when they are over.

use super::Session;
use super::cost::{host_cpu, part};
use crate::serve::news::News;
use crate::serve::process::bursts::Line;
use crate::takeover::keeper::{Message, Parting};
use crate::windows::Own;
use crate::windows::bursts::{Bursts, Terms};

impl Session<'_> {
    /// The process that has begun last is controlled in bursts, of which the first goes on. `from_start`: it was started by us.
    pub fn in_bursts(&mut self, line: Line, from_start: bool) {
        let Some(sampling) = self.options.sampling else {
            return;
        };
        let Some((_, process)) = self.processes.last_mut() else {
            return;
        };
        let terms = Terms {
            budget: sampling.budget,
            from_start,
            first: !from_start || self.first.pid == Some(process.identity.pid),
            hasty: self.options.stress.bursts != 0,
        };
        process.in_bursts(Bursts::begin(terms), line);
    }

    /// Takes note of bursts that have ended, and asks for the next ones when they are due.
    pub(super) fn bursts(&mut self) {
        if !self.options.bursts {
            return;
        }
        let before = self.account.host_before;
        let all = self.used();
        let goes_on = self.first.ended.is_none();
        for (_, process) in &mut self.processes {
            for message in process.news_of_bursts() {
                match message {
                    Message::Burst(burst) => process.burst(&burst),
                    Message::NoBurst(why) => process.no_burst(why),
                    Message::Parted(parting) => {
                        if let Parting::Failed(why) = parting {
                            (self.notice)(News::NotDetached(why));
                        }
                        // It may have become another program.
                        self.execed.look_now();
                    }
                }
            }
            if goes_on {
                let part = part(process.used(), all);
                process.ask_for_burst(|| Own {
                    cpu: host_cpu().saturating_sub(before),
                    part,
                });
            }
        }
    }
}
