//! Queries in windows: what each window counted, and the messages that it sent.
//!
//! # Problem
//! A query counts and sends what windows see. A report says how many executions that stands for, and how far off it may be. One
//! window may see an instruction a hundred times, which says little more than one time does.
//!
//! # Strategy
//! The target records what a window has counted before the mark of its end, and messages as they are sent. They count when the window has
//! ended, with its weight, as branches and values do ([`Draws`]). Each query, each instruction that counts and each kind of message has
//! draws of its own. Of `every N` one record has N times the weight.
//!
//! # Why it is correct
//! * A record of `every N` is made with probability 1/N, whatever window it is in. So N times the sum of weights estimates all executions
//!   without bias.
//! * Programs come and go. The target uses a place again when no window is left that the last program was put to. All records up to then are
//!   folded first. So what a window says of a place is of the program that the place has here.
//! * Both steps are in the variance: a window's whole contribution is squared. Records that one countdown leads to are farther apart than
//!   independent ones would be, so the variance is rather too large.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use trommel_profile::queries::{Acted, Count, Queries, Seen, Sent, Windowed};
use trommel_profile::sampled::Sampled;
use trommel_query::quick::Quick;
use trommel_query::{Program, Rate};
use trommel_queue::dict::TargetPc;
use trommel_queue::queries::{Counted, ENTRIES, Header, LOADS, MESSAGE_WORDS, WindowCount};

use super::site::{Draws, rounded};
use crate::ask::service::Tabulate;
use crate::channel::modules::Modules;

type Words = [u64; MESSAGE_WORDS];

/// A kind of message, with run-time addresses.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    at: u8,
    queue: u8,
    len: u8,
    words: Words,
}

/// Facts about the instruction of a query.
#[derive(Clone, Copy, Default)]
struct Instruction {
    /// Executions that a record stands for.
    rate: f64,
    /// Words of its messages that are addresses of code, by bit.
    places: u8,
}

/// Results of all programs. See the module.
#[derive(Default)]
pub(in crate::fold) struct Queried {
    /// By place: the number of the load, and its results.
    in_force: [Option<(u32, OfLoad)>; LOADS],
    /// Those that went since results were taken last.
    ended: Vec<(u32, OfLoad)>,
}

/// Results of one program.
struct OfLoad {
    instructions: Vec<Instruction>,
    /// By table entry: number of its query.
    query_of: [usize; ENTRIES],
    /// By query: its first instruction.
    first: Vec<u8>,
    quick: Quick,
    seen: [Seen; ENTRIES],
    done: Vec<Acted>,
    /// Counts that were taken already.
    taken: ([Seen; ENTRIES], Vec<Acted>),
    /// By query.
    executed: Vec<Draws>,
    /// By instruction.
    counted: Vec<Draws>,
    sent: FxHashMap<Key, Draws>,
    /// Sums of messages with places instead of addresses.
    settled: BTreeMap<Sent, Draws>,
    untabulated: u64,
}

impl Queried {
    /// Takes note of the load at a place, and of its program.
    pub(in crate::fold) fn meet(&mut self, place: usize, load: Option<(u32, &Program)>) {
        let Some(own) = self.in_force.get_mut(place) else {
            return;
        };
        if own.as_ref().map(|(id, _)| *id) == load.map(|(id, _)| id) {
            return;
        }
        let new = load.map(|(id, program)| (id, OfLoad::new(program)));
        self.ended.extend(std::mem::replace(own, new));
    }

    fn of(&mut self, place: u8) -> Option<&mut OfLoad> {
        let (_, of) = self.in_force.get_mut(usize::from(place))?.as_mut()?;
        Some(of)
    }

    /// A window of a number and weight has counted this. What no program counts is left out: the target is not trusted.
    pub(in crate::fold) fn count(&mut self, of: WindowCount, window: (u64, f64)) {
        if let Some(load) = self.of(of.load) {
            load.count(of, window);
        }
    }

    /// A window of a number and weight has sent a message.
    pub(in crate::fold) fn message(&mut self, header: Header, words: &[u64], window: (u64, f64)) {
        if let Some(load) = self.of(header.load) {
            load.message(header, words, window);
        }
    }

    /// Gives what names addresses its places.
    pub(in crate::fold) fn settle(&mut self, modules: &Modules) {
        let ended = self.ended.iter_mut();
        for (_, load) in self.in_force.iter_mut().flatten().chain(ended) {
            load.settle(modules);
        }
    }

    /// Adds what was counted since the start to the sums of loads.
    pub(in crate::fold) fn so_far(&self, all: &mut [Queries]) {
        for (id, load) in self.in_force.iter().flatten().chain(&self.ended) {
            if let Some(queries) = all.iter_mut().find(|queries| queries.load == *id) {
                load.so_far(queries);
            }
        }
    }

    /// Adds the results since the last time to those of the programs, each sample standing for `scale`.
    pub(in crate::fold) fn take(&mut self, scale: f64, modules: &Modules, all: &mut [Queries]) {
        let ended = std::mem::take(&mut self.ended);
        let mut add = |id: u32, load: &mut OfLoad| {
            if let Some(queries) = all.iter_mut().find(|queries| queries.load == id) {
                load.take(scale, modules, queries);
            }
        };
        for (id, load) in self.in_force.iter_mut().flatten() {
            add(*id, load);
        }
        for (id, mut load) in ended {
            add(id, &mut load);
        }
    }
}

impl OfLoad {
    fn new(program: &Program) -> Self {
        let queries = program.queries();
        let mut instructions = vec![Instruction::default(); program.code().len()];
        let mut query_of = [0; ENTRIES];
        for (number, query) in queries.iter().enumerate() {
            let rate = query.sampling.rate().unwrap_or(Rate::ALWAYS).one_in();
            instructions[query.code.clone()].fill(Instruction {
                rate: rate.into(),
                places: query.code_words(),
            });
            for entry in query.entries.iter() {
                query_of[entry.number()] = number;
            }
        }
        let draws = |count: usize| (0..count).map(|_| Draws::default()).collect();
        Self {
            executed: draws(queries.len()),
            counted: draws(instructions.len()),
            done: vec![Acted::default(); instructions.len()],
            taken: (
                [Seen::default(); ENTRIES],
                vec![Acted::default(); instructions.len()],
            ),
            first: queries.iter().map(|q| q.code.start as u8).collect(),
            instructions,
            query_of,
            quick: Quick::of(program),
            seen: [Seen::default(); ENTRIES],
            sent: FxHashMap::default(),
            settled: BTreeMap::new(),
            untabulated: 0,
        }
    }

    fn count(&mut self, of: WindowCount, window: (u64, f64)) {
        let (number, count) = (usize::from(of.number), u64::from(of.count));
        match of.what {
            Counted::Way => self.way(number, count, window),
            Counted::Executed | Counted::Profiled | Counted::Acted => {
                let Some(seen) = self.seen.get_mut(number) else {
                    return;
                };
                let (to, is_all) = match of.what {
                    Counted::Executed => (&mut seen.executed, true),
                    Counted::Profiled => (&mut seen.profiled, false),
                    _ => (&mut seen.acted, false),
                };
                *to = to.saturating_add(count);
                if is_all {
                    self.executed(number, count, window);
                }
            }
            Counted::Sent | Counted::Dropped => {
                let Some(done) = self.done.get_mut(number) else {
                    return;
                };
                let to = match of.what {
                    Counted::Sent => &mut done.sent,
                    _ => &mut done.dropped,
                };
                *to = to.saturating_add(count);
            }
            Counted::Counted => self.counted(number, count, window),
        }
    }

    fn executed(&mut self, entry: usize, count: u64, (window, weight): (u64, f64)) {
        let query = self.query_of.get(entry).copied().unwrap_or(0);
        if let Some(draws) = self.executed.get_mut(query) {
            draws.seen_often(window, weight, count);
        }
    }

    fn counted(&mut self, at: usize, count: u64, (window, weight): (u64, f64)) {
        let Some(instruction) = self.instructions.get(at) else {
            return;
        };
        self.done[at].counted = self.done[at].counted.saturating_add(count);
        self.counted[at].seen_often(window, weight * instruction.rate, count);
    }

    /// Executions went a way of a tree.
    fn way(&mut self, number: usize, count: u64, window: (u64, f64)) {
        let Some(way) = self.quick.ways().get(number).cloned() else {
            return;
        };
        let entry = way.entry.number();
        let seen = &mut self.seen[entry];
        seen.executed = seen.executed.saturating_add(count);
        seen.profiled = seen.profiled.saturating_add(count);
        if !way.counted.is_empty() {
            seen.acted = seen.acted.saturating_add(count);
        }
        self.executed(entry, count, window);
        for at in &way.counted {
            self.counted(at.number(), count, window);
        }
    }

    fn message(&mut self, header: Header, words: &[u64], (window, weight): (u64, f64)) {
        let Some(instruction) = self.instructions.get(usize::from(header.at)) else {
            return;
        };
        let mut key = Key {
            at: header.at,
            queue: header.queue,
            len: words.len() as u8,
            words: Words::default(),
        };
        for (to, from) in key.words.iter_mut().zip(words) {
            *to = *from;
        }
        let weight = weight * instruction.rate;
        let room = self.sent.len() + self.settled.len() < Tabulate::MOST;
        match self.sent.get_mut(&key) {
            Some(draws) => draws.seen(window, weight),
            None if room => {
                let mut draws = Draws::default();
                draws.seen(window, weight);
                self.sent.insert(key, draws);
            }
            None => self.untabulated += 1,
        }
    }

    fn settle(&mut self, modules: &Modules) {
        for (key, mut draws) in self.sent.drain() {
            let places = (self.instructions.get(usize::from(key.at))).map_or(0, |i| i.places);
            let mut words = key.words[..usize::from(key.len)].to_vec();
            for (n, word) in words.iter_mut().enumerate() {
                if places >> n & 1 != 0 {
                    *word = modules.place_at(TargetPc(*word)).word();
                }
            }
            let sent = Sent {
                at: key.at,
                queue: key.queue,
                words,
            };
            draws.settle();
            self.settled.entry(sent).or_default().join(draws);
        }
    }

    /// Adds the counts of all windows so far.
    fn so_far(&self, queries: &mut Queries) {
        for (number, seen) in &mut queries.seen {
            let entry = usize::from(*number) % ENTRIES;
            seen.add(self.taken.0[entry]);
            seen.add(self.seen[entry]);
        }
        let counts = self.taken.1.iter().zip(&self.done);
        for (sum, (taken, done)) in queries.done.iter_mut().zip(counts) {
            sum.add(*taken);
            sum.add(*done);
        }
    }

    fn take(&mut self, scale: f64, modules: &Modules, queries: &mut Queries) {
        self.settle(modules);
        let sampled = |draws: &mut Draws| {
            let mut draws = std::mem::take(draws);
            draws.settle();
            draws.sampled(scale)
        };
        let mut windowed = Windowed::default();
        for (code, draws) in self.first.iter().zip(&mut self.executed) {
            windowed.executed.insert(*code, sampled(draws));
        }
        for ((at, draws), done) in (0..).zip(&mut self.counted).zip(&mut self.done) {
            let estimate: Sampled = sampled(draws);
            done.counted_for = rounded(estimate.executions);
            if estimate.samples != 0 {
                windowed.counted.insert(at, estimate);
            }
        }
        for (sent, mut draws) in std::mem::take(&mut self.settled) {
            let estimate = sampled(&mut draws);
            let count = Count {
                messages: estimate.samples,
                executions: rounded(estimate.executions),
            };
            queries.messages.insert(sent.clone(), count);
            windowed.sent.insert(sent, estimate);
        }
        for (number, seen) in &mut queries.seen {
            let own = &mut self.seen[usize::from(*number) % ENTRIES];
            *seen = std::mem::take(own);
            self.taken.0[usize::from(*number) % ENTRIES].add(*seen);
        }
        for (taken, done) in self.taken.1.iter_mut().zip(&self.done) {
            taken.add(*done);
        }
        let none = vec![Acted::default(); self.done.len()];
        queries.done = std::mem::replace(&mut self.done, none);
        queries.untabulated = std::mem::take(&mut self.untabulated);
        queries.windowed = Some(windowed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::modules::Images;
    use trommel_query::assemble;
    use trommel_queue::queries::Sort;

    /// A place, and the number of a load.
    const PLACE: u8 = 3;
    const LOAD: u32 = 9;
    const PROGRAM: &str = "for opLOAD * every 4 collect op1; count; send 1 stop; \
        for opALU 0 opALU 1 always collect op1; count stop;";

    fn count(what: Counted, number: usize, count: u32) -> WindowCount {
        WindowCount {
            load: PLACE,
            what,
            number: number as u8,
            count,
        }
    }

    #[test]
    fn windows_are_draws_and_have_weights() {
        let program = assemble(PROGRAM).expect(PROGRAM).program;
        let queries = program.queries();
        let sampled = queries
            .iter()
            .find(|q| q.pair.is_none() && q.sampling.rate() != Some(Rate::ALWAYS));
        let sampled = sampled.expect("one is sampled");
        let load = sampled.entries.iter().next().expect("an entry").number();
        let at = sampled.code.start;
        let mut queried = Queried::default();
        queried.meet(PLACE.into(), Some((LOAD, &program)));
        let header = Header {
            at: at as u8 + 1,
            queue: 1,
            words: 1,
            load: PLACE,
            rank: 0,
            sort: Sort::Message,
        };
        for (window, weight) in [(1, 10.0), (2, 30.0)] {
            queried.count(count(Counted::Executed, load, 8), (window, weight));
            queried.count(count(Counted::Profiled, load, 2), (window, weight));
            queried.count(count(Counted::Counted, at, 2), (window, weight));
            queried.count(count(Counted::Sent, at + 1, 2), (window, weight));
            for _ in 0..2 {
                queried.message(header, &[5], (window, weight));
            }
            // Two entries of one query are one draw of a window.
            for way in 0..2 {
                queried.count(count(Counted::Way, way, 3), (window, weight));
            }
        }
        // What no program has is left out.
        queried.count(count(Counted::Way, 99, 1), (3, 1.0));
        queried.count(count(Counted::Sent, 127, 1), (3, 1.0));
        // Nor is what a place without a program counts.
        queried.count(
            WindowCount {
                load: 0,
                ..count(Counted::Executed, load, 1)
            },
            (3, 1.0),
        );
        let mut found = Queries {
            load: LOAD,
            seen: [(load as u8, Seen::default())].into(),
            ..Queries::default()
        };
        let modules = Modules::new(Images::default());
        let again = found.clone();
        queried.take(2.0, &modules, std::slice::from_mut(&mut found));
        let windowed = found.windowed.expect("estimates");
        let is = |sampled: Sampled, samples, each: [f64; 2]| {
            let squares = each.iter().map(|n| n * n).sum::<f64>();
            assert_eq!(sampled.samples, samples);
            assert!((sampled.executions - each.iter().sum::<f64>()).abs() < 1e-6);
            assert!((sampled.variance - squares).abs() < 1e-6);
        };
        is(windowed.executed[&(at as u8)], 16, [160.0, 480.0]);
        is(windowed.counted[&(at as u8)], 4, [160.0, 480.0]);
        let (sent, estimate) = windowed.sent.first_key_value().expect("a message");
        assert_eq!(
            (sent.at, sent.queue, &sent.words[..]),
            (at as u8 + 1, 1, &[5][..])
        );
        is(*estimate, 4, [160.0, 480.0]);
        let other = queries
            .iter()
            .find(|q| q.code != sampled.code)
            .expect("another");
        is(
            windowed.executed[&(other.code.start as u8)],
            12,
            [120.0, 360.0],
        );
        is(
            windowed.counted[&(other.code.start as u8)],
            12,
            [120.0, 360.0],
        );
        assert_eq!(found.done[at].counted_for, 640);
        assert_eq!(found.done[at + 1].sent, 4);
        assert_eq!(found.seen[&(load as u8)].profiled, 4);
        // Nothing is taken twice, and all of it is known still.
        let mut next = again.clone();
        queried.take(2.0, &modules, std::slice::from_mut(&mut next));
        assert_eq!(
            (next.seen[&(load as u8)].profiled, next.messages.len()),
            (0, 0)
        );
        queried.count(count(Counted::Profiled, load, 1), (4, 1.0));
        let mut so_far = Queries {
            done: vec![Acted::default(); found.done.len()],
            ..again.clone()
        };
        queried.so_far(std::slice::from_mut(&mut so_far));
        assert_eq!(so_far.seen[&(load as u8)].profiled, 5);
        assert_eq!(so_far.done[at + 1].sent, 4);
        // What went is taken once more, and then another has its place.
        queried.meet(PLACE.into(), Some((LOAD + 1, &program)));
        queried.count(count(Counted::Profiled, load, 8), (5, 1.0));
        let other = Queries {
            load: LOAD + 1,
            ..again.clone()
        };
        let mut both = [again, other];
        queried.take(2.0, &modules, &mut both);
        let [old, new] = both.map(|queries| queries.seen[&(load as u8)].profiled);
        assert_eq!([old, new], [1, 8]);
    }
}
