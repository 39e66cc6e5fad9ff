//! Marks: records of the runtime's actions on a thread that acyclic paths depend on.
//!
//! Fragments record where control arrives, and how it leaves. Between them the runtime executes instructions in place,
//! enters the handlers of signals and returns from them. There it appends a record of its own, in order with those of
//! the fragments. A mark's path is numbered when it is needed first. A child of `fork` keeps the number with the rest
//! of the dictionary.
#![allow(unsafe_code)] // reason: writes records.

use trommel_queue::dict::{Event, Mark, Passed};

use super::Translator;
use crate::base::ids::ExitNumber;
use crate::channel::dictionary::{DictionaryFull, Shared};

impl Translator {
    /// The path of a mark.
    pub(crate) fn mark(
        &mut self,
        shared: &mut Shared,
        mark: Mark,
    ) -> Result<ExitNumber, DictionaryFull> {
        if let Some(path) = self.marks[mark as usize] {
            return Ok(path);
        }
        shared.open_block()?;
        shared.event(Event::Marked(mark));
        let block = shared.close_block().ok_or(DictionaryFull)?;
        let path = shared.path(block, Passed::first(1), None)?;
        self.marks[mark as usize] = Some(path);
        Ok(path)
    }
}
