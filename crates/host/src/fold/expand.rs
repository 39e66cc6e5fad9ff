//! Records one by one: messages, and events that must stay in order.

use trommel_queue::dict::TargetPc;
use trommel_queue::{INTERVAL_MARK, MAX_PATHS};
use trommel_tuple::{Kind, Tuple};

use super::acyclic::Acyclic;
use super::folder::{Folder, Mode};
use super::message_of::MessageOf;
use super::messages::Messages;
use super::ordered::{BLOCK, Ordered};
use super::threads::is_first;
use crate::channel::shared::{Damaged, Shared};
use crate::fold::dictionary::{Move, Step};
use crate::kernel::large;

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
        let Some(mut ordered) = self.take_ordered() else {
            return Ok(());
        };
        let before = ordered.seen;
        let sender = ordered.messages.as_mut().map_or(0, |m| m.thread(thread));
        let done = self.expand_into(&mut ordered, shared, (thread, sender), bytes, last);
        if let Some(messages) = &mut ordered.messages {
            messages.add(sender, &mut ordered.seen);
        }
        if !is_first(thread) {
            let counted = ordered.acyclic.as_mut().map(Acyclic::counted);
            let simulated = ordered.simulator.as_mut().map(|s| s.counted());
            let counted = counted.or(simulated).unwrap_or_default();
            let added = |k: usize| ordered.seen[k] - before[k] + counted[k];
            self.add_to(thread, std::array::from_fn(added));
        }
        self.mode = Mode::Ordered(ordered);
        done
    }

    /// Returns the records of a path as messages to `messages`.
    #[inline]
    fn told(&mut self, messages: Option<&mut Messages>, met: usize) -> MessageOf {
        match self.told.get(met) {
            Some(told) => *told,
            None => self.tell(messages, met),
        }
    }

    /// Prefetches the facts of paths of later records, for which the host would wait otherwise. It guesses that all of them are messages with
    /// a value.
    #[inline]
    fn expect(&self, rest: &[u8]) {
        const RECORD: usize = 12;
        /// Records to one whose path is looked at, and from that to one whose number is looked up.
        const AHEAD: usize = 8;
        let number = |records: usize| {
            let at = rest.get(RECORD * records..)?.first_chunk::<4>()?;
            self.met.get(u32::from_le_bytes(*at) as usize)
        };
        if let Some(met) = number(2 * AHEAD) {
            large::prefetch(met);
        }
        if let Some(told) = number(AHEAD).and_then(|&met| self.told.get(met as usize)) {
            large::prefetch(told);
        }
    }

    #[cold]
    fn tell(&mut self, messages: Option<&mut Messages>, met: usize) -> MessageOf {
        let Some(messages) = messages else {
            return MessageOf::No;
        };
        for path in &self.paths[self.told.len()..] {
            let mut steps = self.dictionary.steps(path).iter().chain(&path.tail);
            self.told
                .push(match (path.message, steps.next(), steps.next()) {
                    (false, ..) => MessageOf::No,
                    (true, Some(&Step::Static(kind, tuple)), None) => {
                        MessageOf::About(messages.subject(kind, tuple.pc), tuple.value)
                    }
                    (true, Some(&Step::Dynamic(kind, place)), None) => {
                        let subject = messages.subject(kind, place);
                        match kind.value_is_place() {
                            true => MessageOf::Place(subject),
                            false => MessageOf::Value(subject),
                        }
                    }
                    // Not selected.
                    _ => MessageOf::Nothing,
                });
        }
        self.told[met]
    }

    /// A candidate of an interval, and what follows it.
    fn candidate<'b>(
        &self,
        ordered: &mut Ordered,
        (thread, met): (u32, usize),
        number: u32,
        after: &'b [u8],
    ) -> Result<&'b [u8], Damaged> {
        let words = 8 * usize::from(self.counters[met].values);
        let whole = after
            .split_at_checked(words)
            .and_then(|(words, rest)| Some((words, rest.split_first_chunk::<4>()?)));
        let (words, (count, rest)) = whole.ok_or_else(|| Damaged::path(number))?;
        let word = words.first_chunk::<8>().map(|w| u64::from_le_bytes(*w));
        let path = &self.paths[met];
        let mut steps = self.dictionary.steps(path).iter().chain(&path.tail);
        let (kind, tuple) = match (steps.next(), word) {
            (Some(&Step::Static(kind, tuple)), None) => (kind, tuple),
            (Some(&Step::Dynamic(kind, place)), Some(word)) => (kind, Tuple::new(place, word)),
            // Not selected.
            _ => return Ok(rest),
        };
        let count = u32::from_le_bytes(*count).into();
        ordered.candidate(thread, kind, tuple, count);
        Ok(rest)
    }

    fn expand_into(
        &mut self,
        ordered: &mut Ordered,
        shared: &Shared,
        (thread, sender): (u32, usize),
        bytes: &[u8],
        last: bool,
    ) -> Result<(), Damaged> {
        let kept = ordered.rest.remove(&thread);
        let joined = kept.map(|mut kept| {
            kept.extend_from_slice(bytes);
            kept
        });
        let mut rest = joined.as_deref().unwrap_or(bytes);
        if let Some(acyclic) = &mut ordered.acyclic {
            acyclic.select(thread);
        }
        if let Some(simulator) = &mut ordered.simulator {
            simulator.select(thread);
        }
        let rate = ordered.messages.as_ref().map_or(1, Messages::rate);
        while let Some((number, after)) = rest.split_first_chunk::<4>() {
            let number = u32::from_le_bytes(*number);
            if ordered.messages.is_some() {
                self.expect(rest);
            }
            if number == INTERVAL_MARK && ordered.intervals {
                rest = interval_end(ordered, thread, after)?;
                continue;
            }
            if number >= MAX_PATHS as u32 {
                rest = self.message(thread, number, after)?;
                continue;
            }
            let met = self.path(shared, number)?;
            if ordered.intervals && self.paths[met].message {
                rest = self.candidate(ordered, (thread, met), number, after)?;
                continue;
            }
            match self.told(ordered.messages.as_mut(), met) {
                MessageOf::No => {}
                told => {
                    let words = match told {
                        MessageOf::About(..) => 0,
                        MessageOf::Value(_) | MessageOf::Place(_) => 8,
                        MessageOf::No | MessageOf::Nothing => {
                            8 * usize::from(self.counters[met].values)
                        }
                    };
                    let (words, after) =
                        (after.split_at_checked(words)).ok_or_else(|| Damaged::path(number))?;
                    if after.is_empty() && !last {
                        break;
                    }
                    rest = after;
                    let word = words.first_chunk::<8>().map(|w| u64::from_le_bytes(*w));
                    let word = word.unwrap_or_default();
                    let about = match told {
                        MessageOf::About(subject, value) => (subject, value),
                        MessageOf::Value(subject) => (subject, word),
                        MessageOf::Place(subject) => {
                            let place = self.dictionary.modules.place_at(TargetPc(word));
                            (subject, place.word())
                        }
                        MessageOf::No | MessageOf::Nothing => continue,
                    };
                    if self.converge.is_some() && !words.is_empty() {
                        self.watch(met, word, rate);
                    }
                    if let Some(messages) = &mut ordered.messages {
                        messages.message(sender, about, &mut ordered.seen);
                    }
                    continue;
                }
            }
            if let Some(acyclic) = &mut ordered.acyclic
                && (last || !after.is_empty())
                && acyclic.count(met)
            {
                rest = after;
                continue;
            }
            let path = self.paths[met];
            let (words, after) = after
                .split_at_checked(8 * usize::from(path.values))
                .ok_or_else(|| Damaged::path(number))?;
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
            if ordered.simulator.is_some() {
                self.simulate(ordered, met, words);
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
                ordered.tuples.push(tuple);
                ordered.kinds.push(kind);
            }
            if ordered.tuples.len() >= BLOCK {
                ordered.block(&self.dictionary.modules);
            }
        }
        if !rest.is_empty() {
            ordered.rest.insert(thread, rest.to_vec());
        }
        ordered.block(&self.dictionary.modules);
        Ok(())
    }

    /// Simulates one record of a thread, `words` being its values: what of that is wanted goes to `ordered`, or is counted.
    fn simulate(
        &mut self,
        ordered: &mut Ordered,
        met: usize,
        mut words: impl Iterator<Item = u64>,
    ) {
        let Ordered {
            simulator,
            tuples,
            kinds,
            made,
            ..
        } = ordered;
        let Some(simulator) = simulator else { return };
        let path = self.paths[met];
        let steps = self.dictionary.steps(&path).iter().chain(&path.tail);
        let moves = self.dictionary.moves(&path).iter().chain([&path.leaves]);
        let mut moves = moves.copied();
        for step in steps {
            let movement = moves.next().unwrap_or(Move::Stay);
            let (kind, tuple) = match *step {
                Step::Instruction(number) => {
                    simulator.instruction(number, &self.dictionary.instructions);
                    continue;
                }
                Step::Dynamic(Kind::Address, at) => {
                    simulator.word(at, words.next().unwrap_or_default(), made);
                    continue;
                }
                Step::Static(kind, tuple) => (kind, tuple),
                Step::Dynamic(kind, at) => {
                    let word = words.next().unwrap_or_default();
                    let value = match kind.value_is_place() {
                        true => self.dictionary.modules.place_at(TargetPc(word)).word(),
                        false => word,
                    };
                    (kind, Tuple::new(at, value))
                }
                _ => {
                    for _ in 0..step.words() {
                        words.next();
                    }
                    continue;
                }
            };
            made.push((kind, tuple));
            match (kind, step) {
                (Kind::Edge, _) => simulator.branch(tuple, movement, made),
                (Kind::Call, Step::Dynamic(..)) => simulator.call(tuple, made),
                _ => {}
            }
        }
        made.retain(|(kind, _)| simulator.wants(*kind));
        if !simulator.keep(made, &mut self.tables) {
            tuples.extend(made.iter().map(|(_, tuple)| *tuple));
            kinds.extend(made.iter().map(|(kind, _)| *kind));
        }
        made.clear();
    }
}

/// A mark at an interval's end, and what follows it.
fn interval_end<'b>(
    ordered: &mut Ordered,
    thread: u32,
    after: &'b [u8],
) -> Result<&'b [u8], Damaged> {
    let events = after.split_first_chunk::<4>();
    let events = events.map(|(events, rest)| (u32::from_le_bytes(*events), rest));
    match events.filter(|(events, _)| *events > 0) {
        Some((events, rest)) => {
            ordered.interval_end(thread, events.into());
            Ok(rest)
        }
        None => Err(Damaged::path(INTERVAL_MARK)),
    }
}
