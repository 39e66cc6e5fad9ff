//! Retire: in order, what is done.

use super::stage::{RETIRE, Reason};
use super::{Core, NEVER};
use crate::profile::facts_of;
use trommel_query::{Event, Field};

impl Core<'_, '_> {
    pub(super) fn retire(&mut self) {
        let mut profiled = Vec::new();
        let mut reason = Reason::Supply;
        for _ in 0..self.parameters.width {
            if self.head == self.tail {
                break;
            }
            if self.unit.holds_retirement() {
                reason = Reason::Profile;
                break;
            }
            let place = self.place(self.head);
            let entry = &mut self.window[place];
            if entry.done > self.now {
                reason = match entry.done {
                    NEVER => Reason::Operands,
                    _ => Reason::Execution,
                };
                break;
            }
            debug_assert_eq!(entry.sequence, self.head);
            let instruction = &self.code[entry.execution.code as usize];
            self.counts.classes[instruction.operation as usize] += 1;
            self.counts.instructions += 1;
            self.head += 1;
            let first = self.stages[RETIRE].count();
            if let Some(mut at) = entry.profiled.take() {
                at.facts = (at.facts)
                    .with(Field::WindowLatency, entry.issued - entry.dispatched)
                    .with(Field::ExecutionLatency, entry.done - entry.issued)
                    .with(Field::RetireTime, self.now);
                let ends = self.unit.is_synchronous(&at.selected);
                profiled.push((at, first));
                if ends {
                    // What follows it waits.
                    break;
                }
            }
            if entry.events != 0 {
                let facts = facts_of(instruction, &entry.execution, entry.mispredicted)
                    .with(Field::RetireTime, self.now);
                for event in Event::ALL {
                    if entry.events >> event as u8 & 1 != 0 {
                        self.unit.event(event, &facts);
                    }
                }
            }
        }
        let stage = &mut self.stages[RETIRE];
        for (at, first) in profiled {
            let facts = at.facts.with(Field::RetireRate, stage.rate(first));
            self.unit.retire(&at.selected, &facts);
        }
        stage.end(reason);
    }
}
