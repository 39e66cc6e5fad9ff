//! Fetch: instructions in the order of the program, as far as the front end knows it.

use super::astray::Astray;
use super::stage::{FETCH, Reason};
use super::{Core, Fetched, NEVER};
use crate::instruction::Instruction;
use crate::memory::Side;
use crate::parameters::WrongPaths;
use crate::trace::Execution;

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
            let execution = match (&self.astray, self.coming) {
                (Some(astray), _) => match astray.next(&self.by_address) {
                    Some(execution) => execution,
                    None => return Reason::Control,
                },
                (None, Some(execution)) => execution,
                (None, None) => return Reason::None,
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
            let is_astray = self.astray.is_some();
            let (right, taken) = match &mut self.astray {
                Some(astray) => (true, astray.pass(instruction, &self.predictor)),
                None => (self.predict(instruction, &execution), execution.taken),
            };
            self.queue.push_back(Fetched {
                execution: Execution { taken, ..execution },
                cycle: self.now,
                rate: 0,
                mispredicted: !right,
                astray: is_astray,
                asked: false,
                selected: None,
                events: events | std::mem::take(&mut self.pending_events),
            });
            self.stages[FETCH].count();
            if !right {
                return Reason::Control;
            }
            if taken {
                return Reason::None;
            }
        }
        Reason::None
    }

    /// Goes on along the right path, by one instruction. Returns false where the front end does not, as a branch is mispredicted.
    fn predict(&mut self, instruction: &Instruction, execution: &Execution) -> bool {
        self.coming = self.replay.next();
        let to = match &self.coming {
            Some(next) => self.instruction(next).pc,
            None => 0,
        };
        let foreseen = match self.parameters.wrong_paths {
            WrongPaths::None => None,
            _ => Some(Astray::after(instruction, &self.predictor)),
        };
        let right = self.predictor.predict(instruction, execution.taken, to) || to == 0;
        if !right {
            self.counts.mispredicted += 1;
            match foreseen {
                None => self.fetches = NEVER,
                path => self.astray = path,
            }
        }
        right
    }

    /// A mispredicted branch is resolved at a time: the right way is fetched some cycles later.
    pub(super) fn resolve(&mut self, sequence: u64, at: u64) {
        match &mut self.astray {
            Some(astray) => astray.resolved(sequence, at),
            None => self.fetches = at + self.parameters.redirect,
        }
    }
}
