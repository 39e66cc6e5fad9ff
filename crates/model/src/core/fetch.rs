//! Fetch: instructions in the order of the program, as far as the front end knows it.

use super::stage::{FETCH, Reason};
use super::{Core, Fetched, NEVER};
use crate::memory::Side;

impl Core<'_, '_> {
    pub(super) fn fetch(&mut self) {
        let before = self.queue.len();
        let reason = self.fetch_some();
        let stage = &mut self.stages[FETCH];
        for (n, fetched) in self.queue.range_mut(before..).enumerate() {
            fetched.rate = stage.rate(n == 0);
        }
        stage.end(reason);
    }

    /// Returns why there were no more.
    fn fetch_some(&mut self) -> Reason {
        if self.fetches == NEVER || self.now < self.held {
            return Reason::Control;
        }
        if self.now < self.fetches {
            return Reason::Supply;
        }
        let width = self.parameters.width;
        // What is on its way through the front end, and what may wait before dispatch.
        let room = width * (self.parameters.front_end as usize + 2);
        for _ in 0..width {
            if self.queue.len() >= room {
                return Reason::Room;
            }
            let Some(execution) = self.coming else {
                return Reason::None;
            };
            let instruction = self.instruction(&execution);
            let mut events = 0;
            for byte in [instruction.pc, instruction.end() - 1] {
                let line = self.memory.line(Side::Code, byte);
                if line == self.line {
                    continue;
                }
                let found = self.memory.access(Side::Code, byte, self.now);
                events |= found.events;
                if found.wait > 0 {
                    // It is looked for again when it has come, and then it is there.
                    self.fetches = self.now + u64::from(found.wait);
                    self.line = NEVER;
                    self.pending_events |= events;
                    return Reason::Supply;
                }
                self.line = line;
            }
            self.coming = self.replay.next();
            let to = match &self.coming {
                Some(next) => self.instruction(next).pc,
                None => 0,
            };
            let right = self.predictor.predict(instruction, execution.taken, to) || to == 0;
            self.queue.push_back(Fetched {
                execution,
                cycle: self.now,
                rate: 0,
                mispredicted: !right,
                asked: false,
                selected: None,
                events: events | std::mem::take(&mut self.pending_events),
            });
            self.stages[FETCH].count();
            if !right {
                self.fetches = NEVER;
                self.counts.mispredicted += 1;
                return Reason::Control;
            }
            if execution.taken {
                return Reason::None;
            }
        }
        Reason::None
    }

    /// A mispredicted branch was resolved: the right way is fetched from `at` on.
    pub(super) fn redirect(&mut self, at: u64) {
        self.fetches = at;
    }
}
