//! Results of relational queries.

use std::collections::BTreeMap;

use crate::intervals::{Intervals, Row};
use crate::sampled::Sampled;

/// Results of queries, of one process or several.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Queries {
    /// The program, as assembled (`docs/query.md`).
    pub program: Vec<u8>,
    /// By instruction: which words of its messages are those of places, by bit.
    pub places: Vec<u8>,
    /// By number, the rules for tags of which no code was met.
    pub unmet: Vec<u16>,
    /// By the number of a table entry: executions of its instructions.
    pub seen: BTreeMap<u8, Seen>,
    /// By instruction: what it did.
    pub done: Vec<Acted>,
    /// Number of messages of each kind.
    pub messages: BTreeMap<Sent, Count>,
    /// Messages beyond those that memory was kept for: they were not told apart.
    pub untabulated: u64,
    /// Results of services in libraries.
    pub services: Vec<Served>,
    /// Name under which the program was loaded.
    pub name: String,
    /// Number of the load in its run, from 1. A program may be loaded several times.
    pub load: u32,
    /// Times at which its queries were active.
    pub active: Vec<Active>,
    /// By the first instruction of a query with `every auto`: time that it took.
    pub paid: BTreeMap<u8, Paid>,
    /// Estimates of what happened in the run, where its counts are those of windows.
    pub windowed: Option<Windowed>,
}

/// Estimates of executions from windows. Each rests on the windows that saw it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Windowed {
    /// By the first instruction of a query: executions that it selects.
    pub executed: BTreeMap<u8, Sampled>,
    /// By instruction: executions that its counts stand for.
    pub counted: BTreeMap<u8, Sampled>,
    /// Executions that equal messages stand for.
    pub sent: BTreeMap<Sent, Sampled>,
}

impl Windowed {
    /// Adds those of another process. `place` gives a message its meaning here.
    fn add(&mut self, other: Self, place: impl Fn(Sent) -> Sent) {
        for (sums, more) in [
            (&mut self.executed, other.executed),
            (&mut self.counted, other.counted),
        ] {
            for (number, sampled) in more {
                sums.entry(number).or_default().add(&sampled);
            }
        }
        for (sent, sampled) in other.sent {
            self.sent.entry(place(sent)).or_default().add(&sampled);
        }
    }
}

/// Time that a query took, in ticks of the processor's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Paid {
    /// Ticks that its records took, and executions that were counted down.
    pub ticks: u64,
    /// Ticks of the threads in which they did.
    pub of: u64,
}

impl Paid {
    /// Adds that of another process.
    const fn add(&mut self, other: Self) {
        self.ticks = self.ticks.saturating_add(other.ticks);
        self.of = self.of.saturating_add(other.of);
    }

    /// Returns its part of the time of threads, in percent; nothing where none is known.
    pub fn percent(self) -> Option<f64> {
        (self.of != 0).then(|| 100.0 * self.ticks as f64 / self.of as f64)
    }
}

/// Time at which a query was active.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Active {
    /// The first instruction of the query.
    pub code: u8,
    /// Nanoseconds from the start of the run.
    pub from: u64,
    /// Nanoseconds from the start of the run; `None`: it was active to the end.
    pub until: Option<u64>,
}

impl Active {
    /// Covers the time of another process, too.
    fn cover(&mut self, other: &Self) {
        self.from = self.from.min(other.from);
        self.until = match (self.until, other.until) {
            (Some(own), Some(other)) => Some(own.max(other)),
            _ => None,
        };
    }
}

/// Results of a service in a library: a table whose rows have counts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Served {
    /// Name of the service, as given to the command.
    pub name: String,
    /// Messages that it was given.
    pub messages: u64,
    /// Titles of the words of its rows.
    pub columns: Vec<String>,
    /// Columns that are places, by bit.
    pub places: u8,
    /// Counts of its rows.
    pub rows: BTreeMap<Vec<u64>, u64>,
    /// Counts of rows that were not kept.
    pub lost: u64,
    /// Failures: when, and why.
    pub failures: Vec<String>,
    /// Intervals of messages, of a compressor that has any.
    pub intervals: Option<Intervals<Row>>,
}

/// Executions of the instructions that a table entry is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Seen {
    /// All, up to the last in each thread of which a record was made.
    pub executed: u64,
    /// Executions of which a record was made.
    pub profiled: u64,
    /// Records that some action was done for; the others were filtered out.
    pub acted: u64,
}

impl Seen {
    /// Adds others.
    pub const fn add(&mut self, other: Self) {
        self.executed = self.executed.saturating_add(other.executed);
        self.profiled = self.profiled.saturating_add(other.profiled);
        self.acted = self.acted.saturating_add(other.acted);
    }
}

/// Actions of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Acted {
    /// Messages sent.
    pub sent: u64,
    /// Messages to queues that the program served itself.
    pub served: u64,
    /// Messages dropped, their queue being full.
    pub dropped: u64,
    /// Records counted.
    pub counted: u64,
    /// Executions that those stand for.
    pub counted_for: u64,
    /// Interrupts.
    pub interrupted: u64,
}

impl Acted {
    /// Adds others.
    pub const fn add(&mut self, other: Self) {
        self.sent = self.sent.saturating_add(other.sent);
        self.served = self.served.saturating_add(other.served);
        self.dropped = self.dropped.saturating_add(other.dropped);
        self.counted = self.counted.saturating_add(other.counted);
        self.counted_for = self.counted_for.saturating_add(other.counted_for);
        self.interrupted = self.interrupted.saturating_add(other.interrupted);
    }
}

/// Counts of equal messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count {
    /// The messages.
    pub messages: u64,
    /// Executions that their records stand for: an estimate, where not all were profiled.
    pub executions: u64,
}

impl Count {
    /// Adds others.
    pub const fn add(&mut self, other: Self) {
        self.messages = self.messages.saturating_add(other.messages);
        self.executions = self.executions.saturating_add(other.executions);
    }
}

/// Equal messages.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Sent {
    /// The instruction that sent them.
    pub at: u8,
    /// The queue.
    pub queue: u8,
    /// Their words; an address of code is the word of its place.
    pub words: Vec<u64>,
}

impl Queries {
    /// Returns true if another process was asked the same by the same load.
    pub fn is_same_load(&self, other: &Self) -> bool {
        // Numbers are those of a session. Without times it is not of one.
        let untimed = self.active.is_empty() && other.active.is_empty() && self.name == other.name;
        // Counts of windows and of all executions do not add up.
        self.windowed.is_some() == other.windowed.is_some()
            && (self.load.max(1) == other.load.max(1) || untimed)
            && self.program == other.program
    }

    /// Returns the time at which a query was active, by its first instruction, unless that is the whole run.
    pub fn active(&self, code: usize) -> Option<Active> {
        let of = |active: &&Active| usize::from(active.code) == code;
        let found = self.active.iter().find(of).copied();
        found.filter(|active| active.from != 0 || active.until.is_some())
    }

    /// Adds what the same queries came to in another process. `place` gives words of places their meaning
    /// here.
    pub fn add(&mut self, other: Self, place: impl Fn(u64) -> u64) {
        self.unmet.retain(|n| other.unmet.contains(n));
        for active in &other.active {
            let own = self.active.iter_mut().find(|own| own.code == active.code);
            match own {
                Some(own) => own.cover(active),
                None => self.active.push(*active),
            }
        }
        for (code, paid) in other.paid {
            self.paid.entry(code).or_default().add(paid);
        }
        for (entry, seen) in other.seen {
            self.seen.entry(entry).or_default().add(seen);
        }
        let more = other.done.len().max(self.done.len());
        self.done.resize(more, Acted::default());
        for (sum, done) in self.done.iter_mut().zip(other.done) {
            sum.add(done);
        }
        let places = &self.places;
        let placed = |mut told: Sent| {
            let bits = places.get(usize::from(told.at)).copied().unwrap_or(0);
            for (n, word) in told.words.iter_mut().enumerate() {
                if bits >> n & 1 != 0 {
                    *word = place(*word);
                }
            }
            told
        };
        for (told, count) in other.messages {
            self.messages.entry(placed(told)).or_default().add(count);
        }
        if let Some(windowed) = other.windowed {
            let sums = self.windowed.get_or_insert_default();
            sums.add(windowed, placed);
        }
        self.untabulated = self.untabulated.saturating_add(other.untabulated);
        for served in other.services {
            self.serve(served, &place);
        }
    }

    /// Adds a table to that of the same service, if it has the same columns.
    fn serve(&mut self, mut served: Served, place: impl Fn(u64) -> u64) {
        let rows = std::mem::take(&mut served.rows);
        let intervals = served.intervals.take();
        let same = |s: &Served| {
            // Of an instance that could not be created there are none.
            let none = s.columns.is_empty() || served.columns.is_empty();
            s.name == served.name
                && (none || (&s.columns, s.places) == (&served.columns, served.places))
        };
        let sum = match self.services.iter().position(same) {
            Some(n) => {
                let sum = &mut self.services[n];
                if sum.columns.is_empty() {
                    (sum.columns, sum.places) = (served.columns, served.places);
                }
                sum.messages = sum.messages.saturating_add(served.messages);
                sum.lost = sum.lost.saturating_add(served.lost);
                sum.failures.append(&mut served.failures);
                sum
            }
            None => {
                self.services.push(served);
                let last = self.services.len() - 1;
                &mut self.services[last]
            }
        };
        let places = sum.places;
        let placed = |n: usize, word: u64| match places >> n & 1 {
            0 => word,
            _ => place(word),
        };
        if let Some(intervals) = intervals {
            let sums = sum.intervals.get_or_insert_default();
            sums.add(intervals, placed);
        }
        for (mut row, count) in rows {
            for (n, word) in row.iter_mut().enumerate() {
                *word = placed(n, *word);
            }
            let all = sum.rows.entry(row).or_default();
            *all = all.saturating_add(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intervals::{Interval, Sequence};

    fn table(process: u32, place: u64) -> Queries {
        let row = Row {
            words: vec![place, 5],
            count: 9,
        };
        let interval = Interval {
            number: 1,
            start: 0,
            events: 10,
            candidates: vec![row.clone()],
        };
        let sequence = Sequence {
            process,
            thread: 0,
            ended: 1,
            events: 10,
            each: vec![interval],
        };
        let served = Served {
            name: "M of queue 1".to_owned(),
            messages: 12,
            columns: ["pc", "misc"].map(str::to_owned).to_vec(),
            places: 1,
            rows: [(row.words, row.count)].into(),
            intervals: Some(Intervals {
                halvings: 0,
                sequences: vec![sequence],
            }),
            ..Served::default()
        };
        Queries {
            services: vec![served],
            ..Queries::default()
        }
    }

    #[test]
    fn intervals_of_processes_are_kept_apart_and_their_places_are_renumbered() {
        let mut sum = table(7, 100);
        // The second column is no place: 5 stays.
        sum.add(table(8, 300), |word| word - 200);
        let served = &sum.services[0];
        assert_eq!(served.rows, [(vec![100, 5], 18)].into());
        let intervals = served.intervals.as_ref().expect("there");
        let found: Vec<_> = (intervals.each())
            .map(|(sequence, interval)| (sequence.process, interval.candidates[0].words.clone()))
            .collect();
        assert_eq!(found, [(7, vec![100, 5]), (8, vec![100, 5])]);
    }
}
