//! Loads of other queries while the program runs: SET_PCR (section 3.4).
//!
//! # Decisions
//! * Software writes the registers of the control table that change and the instructions of the queries, one in each cycle.
//! * It does so when all before has retired and its queries have ended, and nothing is dispatched meanwhile. So each record has the
//!   queries that its instruction met, and loads cost what is to be written, and a drained pipeline.
//! * Countdowns begin anew. Queues, and what is in them, stay.

use super::{Core, concerned};
use trommel_query::Program;

impl Core<'_, '_> {
    /// Returns true if the instruction that comes to dispatch waits for a load. The load happens as soon as it can.
    pub(super) fn loads_first(&mut self) -> bool {
        // Instructions are numbered from 0 as they are dispatched; those of wrong paths do not come here.
        let Some(load) = self.loads.front().filter(|load| load.after <= self.tail) else {
            return self.now < self.loaded;
        };
        let queries = load.queries;
        let is_drained = self.head == self.tail && self.unit.is_idle();
        if self.now >= self.loaded && is_drained {
            self.loads.pop_front();
            self.loaded = self.now + written(self.unit.program(), queries);
            self.answers.push(self.unit.load(queries, self.now));
            self.concerned = concerned(self.code, &self.unit);
        }
        true
    }
}

/// Words that have to be written.
fn written(before: &Program, after: &Program) -> u64 {
    let registers = before.table().registers();
    let changed = (registers.iter().zip(after.table().registers())).filter(|(b, a)| *b != a);
    (changed.count() + after.code().len()) as u64
}
