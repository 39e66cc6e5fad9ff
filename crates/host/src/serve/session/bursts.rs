//! Bursts of control of the first program: asked of its keeper when the budget allows, and folded when they are over.

use std::rc::Rc;

use super::Session;
use super::cost::host_cpu;
use crate::takeover::keeper::{Inbox, Keeper, Message};

/// The line to the keeper of a program that is controlled in bursts.
pub struct Line {
    /// The keeper.
    pub keeper: Rc<Keeper>,
    /// News of bursts that were not taken note of yet.
    pub inbox: Inbox,
}

impl Session<'_> {
    /// The first program is controlled in bursts.
    pub fn in_bursts(&mut self, line: Line) {
        self.bursts = Some(line);
    }

    /// Takes note of bursts that have ended, and asks for the next one when it is due.
    pub(super) fn bursts(&mut self) {
        let Some(line) = self.bursts.take() else {
            return;
        };
        let news = line.inbox.take();
        let before = self.host_before;
        let goes_on = self.ended.is_none();
        if let Some((_, process)) = self.process(0) {
            for message in news {
                match message {
                    Message::Burst(burst) => process.burst(&burst),
                    Message::NoBurst(why) => process.no_burst(why),
                    Message::Parted(_) => {}
                }
            }
            if goes_on && process.is_burst_due(|| host_cpu().saturating_sub(before)) {
                line.keeper.burst();
            }
        }
        self.bursts = Some(line);
    }
}
