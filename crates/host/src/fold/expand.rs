//! Records one by one: messages, and events that must stay in order.
//!
//! Messages about one value each are collected, so that their tuples get their numbers together.

use trommel_queue::MAX_PATHS;
use trommel_queue::dict::TargetPc;
use trommel_tuple::{Kind, Tuple};

use super::acyclic::Acyclic;
use super::messages::Messages;
use super::ordered::{BLOCK, Ordered};
use super::{Folder, damaged, is_first};
use crate::dictionary::Step;
use crate::shared::{Damaged, Shared};

impl Folder {
    /// The way for everything else.
    pub(super) fn expand(
        &mut self,
        shared: &Shared,
        thread: u32,
        bytes: &[u8],
        last: bool,
    ) -> Result<(), Damaged> {
        // Taken out while the paths are worked on, and back whatever happens.
        let Some(mut ordered) = self.ordered.take() else {
            return Ok(());
        };
        let before = ordered.seen;
        let done = self.expand_into(&mut ordered, shared, thread, bytes, last);
        if !is_first(thread) {
            let counted = ordered.acyclic.as_mut().map(Acyclic::counted);
            let counted = counted.unwrap_or_default();
            let added = |k: usize| ordered.seen[k] - before[k] + counted[k];
            self.add_to(thread, std::array::from_fn(added));
        }
        self.ordered = Some(ordered);
        done
    }

    /// What a record tells that is a message about one value, which stands for `rate` of them; and the records behind it, if that is `whole`
    /// with these.
    fn message_of<'b>(
        &mut self,
        met: usize,
        bytes: &'b [u8],
        rate: u64,
        whole: impl Fn(&[u8]) -> bool,
    ) -> Option<((Kind, Tuple), &'b [u8])> {
        let path = &self.paths[met];
        if !path.message || path.values != 1 {
            return None;
        }
        let mut steps = self.dictionary.steps(path).iter().chain(&path.tail);
        let (Some(&Step::Dynamic(kind, place)), None) = (steps.next(), steps.next()) else {
            return None;
        };
        let (word, after) = bytes.split_first_chunk::<8>()?;
        if !whole(after) {
            return None;
        }
        let word = u64::from_le_bytes(*word);
        let value = match kind.value_is_place() {
            true => self.dictionary.modules.place_at(TargetPc(word)).word(),
            false => word,
        };
        if self.converge.is_some() {
            self.watch(met, word, rate);
        }
        Some(((kind, Tuple::new(place, value)), after))
    }

    fn expand_into(
        &mut self,
        ordered: &mut Ordered,
        shared: &Shared,
        thread: u32,
        bytes: &[u8],
        last: bool,
    ) -> Result<(), Damaged> {
        let mut joined = ordered.rest.remove(&thread).unwrap_or_default();
        joined.extend_from_slice(bytes);
        let mut rest = &joined[..];
        let sender = ordered.messages.as_mut().map_or(0, |m| m.thread(thread));
        if let Some(acyclic) = &mut ordered.acyclic {
            acyclic.select(thread);
        }
        let rate = ordered.messages.as_ref().map_or(1, Messages::rate);
        let mut messages = std::mem::take(&mut self.messages);
        while let Some((number, after)) = rest.split_first_chunk::<4>() {
            let number = u32::from_le_bytes(*number);
            if number >= MAX_PATHS as u32 {
                rest = self.message(thread, number, after)?;
                continue;
            }
            let met = self.path(shared, number)?;
            let whole = |after: &[u8]| last || !after.is_empty();
            if let Some((message, after)) = self.message_of(met, after, rate, whole) {
                messages.push(message);
                rest = after;
                if messages.len() >= BLOCK {
                    ordered.message_all(sender, &mut messages);
                }
                continue;
            }
            if !messages.is_empty() {
                // In the order in which they came.
                if let Some(&Some((_, about))) = self.told.get(met) {
                    messages.push(ordered.tuple(about));
                    rest = after;
                    continue;
                }
                ordered.message_all(sender, &mut messages);
            }
            if let Some(acyclic) = &mut ordered.acyclic
                && (last || !after.is_empty())
                && acyclic.count(met)
            {
                rest = after;
                continue;
            }
            if let Some(&Some((kind, about))) = self.told.get(met) {
                ordered.message(sender, kind, about);
                rest = after;
                continue;
            }
            let path = self.paths[met];
            let (words, after) = after
                .split_at_checked(8 * usize::from(path.values))
                .ok_or_else(|| damaged(number))?;
            if after.is_empty() && !last {
                break;
            }
            let mut words = words
                .as_chunks::<8>()
                .0
                .iter()
                .map(|w| u64::from_le_bytes(*w));
            rest = after;
            if ordered.acyclic.is_some() {
                self.follow(ordered, met, words);
                if ordered.tuples.len() >= BLOCK {
                    ordered.block(&self.dictionary.modules);
                }
                continue;
            }
            for step in self.dictionary.steps(&path).iter().chain(&path.tail) {
                let (kind, tuple) = match *step {
                    Step::Static(kind, tuple) => (kind, tuple),
                    Step::Dynamic(kind, place) => {
                        let word = words.next().unwrap_or_default();
                        let value = if kind.value_is_place() {
                            self.dictionary.modules.place_at(TargetPc(word)).word()
                        } else {
                            word
                        };
                        (kind, Tuple::new(place, value))
                    }
                    _ => {
                        for _ in 0..step.words() {
                            words.next();
                        }
                        continue;
                    }
                };
                if path.message {
                    let about = ordered.number(kind, tuple);
                    ordered.message(sender, kind, about);
                    if path.values == 0 {
                        self.told.resize(self.paths.len(), None);
                        self.told[met] = Some((kind, about));
                    }
                } else {
                    ordered.tuples.push(tuple);
                    ordered.kinds.push(kind);
                }
            }
            if ordered.tuples.len() >= BLOCK {
                ordered.block(&self.dictionary.modules);
            }
        }
        ordered.message_all(sender, &mut messages);
        self.messages = messages;
        if !rest.is_empty() {
            ordered.rest.insert(thread, rest.to_vec());
        }
        ordered.block(&self.dictionary.modules);
        Ok(())
    }
}
