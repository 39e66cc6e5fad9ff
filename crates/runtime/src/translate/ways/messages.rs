//! Messages of counters, written after all else of a fragment.

use trommel_queue::dict::{Event, Passed};

use super::pending::{Pending, Sends};
use crate::base::emit::GsOffset;
use crate::base::ids::{EntryId, ExitNumber};
use crate::channel::dictionary::DictionaryFull;
use crate::channel::strata::Sampler;
use crate::translate::persisted::{Field, Numbered};
use crate::translate::{Site, Translator};

impl Translator {
    /// True if events are counted one by one.
    pub fn samples(&self) -> bool {
        self.ways.sampler.is_some() || self.ways.profiler.is_some()
    }

    /// Returns the sampler that counts events, if they are counted.
    pub fn sampler(&mut self) -> Option<&mut Sampler> {
        self.ways.sampler.as_mut()
    }

    /// The counter of an event where a sampler counts, and the number of messages about it.
    pub fn message(
        &mut self,
        site: &mut Site<'_>,
        event: Event,
    ) -> Result<Option<(GsOffset, ExitNumber)>, DictionaryFull> {
        let Some(sampler) = self.ways.sampler.as_mut() else {
            return Ok(None);
        };
        let counter = sampler.counter(site.regions, &event);
        Ok(Some((counter, self.message_path(site, event)?)))
    }

    /// The path of messages about an event, where events are counted.
    pub(in crate::translate) fn message_path(
        &mut self,
        site: &mut Site<'_>,
        event: Event,
    ) -> Result<ExitNumber, DictionaryFull> {
        let block = self.block_without_events(site)?;
        let number = site.shared.message(block, event)?;
        self.note_path(Numbered {
            number,
            block,
            passed: Passed::default(),
            tail: Some(event),
            message: true,
        });
        Ok(number)
    }

    pub(in crate::translate) fn block_without_events(
        &mut self,
        site: &mut Site<'_>,
    ) -> Result<EntryId, DictionaryFull> {
        let block = match self.no_events {
            Some(block) => block,
            None => site.shared.empty_block()?,
        };
        self.no_events = Some(block);
        Ok(block)
    }

    /// Out of line, what is done when counters have come to their ends. It is beside the code that it interrupts: what lies far away
    /// has to be fetched for each message.
    pub(in crate::translate) fn write_messages(&mut self) {
        for n in 0..self.job.messages.len() {
            let Pending {
                from,
                spilled,
                of,
                back,
            } = self.job.messages[n];
            let here = self.job.code.here();
            self.job.code.bind(from, here);
            match of {
                Sends::Known(known) => self.send_message(spilled, known, back),
                Sends::Value(value) => {
                    let path = self.job.code.send_value(spilled, &value, back);
                    self.note(Field::Message, path);
                }
                Sends::ByRoutine(routine) => self.call_routine(spilled, &routine, back),
                Sends::Unshielded(of) => self.job.code.write_unshielded(spilled, &of, back),
            }
        }
    }
}
