//! Intervals of an interval profiler, each with its candidates.
//!
//! # Problem
//! The sum over a run hides when a program does what. An interval profiler reports that: its candidates at the end of each
//! interval. A long run has millions of intervals, and memory is bounded.
//!
//! # Strategy
//! All intervals are kept while there are at most [`MOST`], with at most [`CANDIDATES`] candidates. Whenever there are more,
//! half of them are dropped, and later ones are kept at the same rate. Which ones is random, by their number: those left are spread
//! evenly over the run, and periods of the program do not alias with them. Those that ended are counted, so a report can say how
//! many are left.
//!
//! # Invariants
//! * At most [`MOST`] intervals and [`CANDIDATES`] candidates are kept of a process, whatever the program does.
//! * The thread, the number and the rate alone decide if an interval is kept. Equal runs keep equal intervals.
//! * Candidates are in the order of [`sort`], and intervals of a sequence in the order of their numbers.

use std::cmp::{Ordering, Reverse};

use trommel_compress::random::SplitMix64;
use trommel_tuple::{Message, Place};

/// Intervals of a process that are kept at most.
pub const MOST: usize = 1 << 14;
/// Their candidates at most. A single interval with more is not kept.
pub const CANDIDATES: usize = 1 << 18;

/// A candidate of an interval.
pub trait Candidate {
    /// Order by frequency, then by what it is, so that equal intervals are equal.
    fn order(&self, other: &Self) -> Ordering;
}

impl Candidate for Message {
    fn order(&self, other: &Self) -> Ordering {
        let key = |m: &Self| (Reverse(m.count), m.kind, m.tuple);
        key(self).cmp(&key(other))
    }
}

/// A candidate that is a message of a relational query.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Row {
    /// Words of the tuple; none where they are not known any more.
    pub words: Vec<u64>,
    /// Messages, as the profiler counted them.
    pub count: u64,
}

impl Candidate for Row {
    fn order(&self, other: &Self) -> Ordering {
        let key = |row: &Self| Reverse(row.count);
        (key(self).cmp(&key(other))).then_with(|| self.words.cmp(&other.words))
    }
}

/// Intervals that have ended, of one process or of several.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Intervals<C = Message> {
    /// Halvings: of 2 to this power intervals, one is kept.
    pub halvings: u32,
    /// Sequences, those of one process in the order of their threads.
    pub sequences: Vec<Sequence<C>>,
}

impl<C> Default for Intervals<C> {
    fn default() -> Self {
        Self {
            halvings: 0,
            sequences: Vec::new(),
        }
    }
}

/// Intervals of a thread, or of all threads of a process that share a profiler. They follow each other without a gap.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sequence<C = Message> {
    /// Number of the process.
    pub process: u32,
    /// Number of the thread, from 1; 0: a profiler of all threads.
    pub thread: u32,
    /// Intervals that have ended.
    pub ended: u64,
    /// Their events.
    pub events: u64,
    /// Intervals that are kept.
    pub each: Vec<Interval<C>>,
}

/// One interval.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interval<C = Message> {
    /// Number in its sequence, from 1.
    pub number: u64,
    /// Events of the sequence before it.
    pub start: u64,
    /// Events of the interval, at least one.
    pub events: u64,
    /// Candidates, the most frequent first.
    pub candidates: Vec<C>,
}

impl<C> Intervals<C> {
    /// Intervals that have ended.
    pub fn ended(&self) -> u64 {
        let ended = self.sequences.iter().map(|s| s.ended);
        ended.fold(0, u64::saturating_add)
    }

    /// Events of all intervals that have ended.
    pub fn events(&self) -> u64 {
        let events = self.sequences.iter().map(|s| s.events);
        events.fold(0, u64::saturating_add)
    }

    /// Intervals that are kept, with their sequences.
    pub fn each(&self) -> impl Iterator<Item = (&Sequence<C>, &Interval<C>)> {
        let sequences = self.sequences.iter();
        sequences.flat_map(|s| s.each.iter().map(move |interval| (s, interval)))
    }

    /// Gives all sequences the number of their process.
    #[must_use]
    pub fn of_process(mut self, process: u32) -> Self {
        (self.sequences.iter_mut()).for_each(|sequence| sequence.process = process);
        self
    }

    /// Adds those of another process of the same run, as they are.
    fn append(&mut self, mut other: Self) {
        self.halvings = self.halvings.max(other.halvings);
        self.sequences.append(&mut other.sequences);
    }
}

impl Intervals {
    /// Leaves candidates that are wanted.
    pub fn retain(&mut self, wanted: impl Fn(&Message) -> bool) {
        let each = self.sequences.iter_mut().flat_map(|s| &mut s.each);
        each.for_each(|interval| interval.candidates.retain(&wanted));
    }

    /// Adds those of another process of the same run. `place` renumbers the modules of its places.
    pub fn add(&mut self, mut other: Self, place: impl Fn(Place) -> Place) {
        let each = other.sequences.iter_mut().flat_map(|s| &mut s.each);
        for message in each.flat_map(|interval| &mut interval.candidates) {
            message.tuple.pc = place(message.tuple.pc);
            if message.kind.value_is_place() {
                message.tuple.value = place(Place::from_word(message.tuple.value)).word();
            }
        }
        self.append(other);
    }
}

impl Intervals<Row> {
    /// Adds those of another process of the same run. `word` gives the word of a column its meaning here.
    pub fn add(&mut self, mut other: Self, word: impl Fn(usize, u64) -> u64) {
        let each = other.sequences.iter_mut().flat_map(|s| &mut s.each);
        for row in each.flat_map(|interval| &mut interval.candidates) {
            for (n, own) in row.words.iter_mut().enumerate() {
                *own = word(n, *own);
            }
        }
        self.append(other);
    }
}

/// Puts candidates in their [order](Candidate::order).
pub fn sort<C: Candidate>(candidates: &mut [C]) {
    candidates.sort_unstable_by(C::order);
}

/// Keeps the intervals of a process as they end.
#[derive(Debug)]
pub struct Keeper<C = Message> {
    intervals: Intervals<C>,
    kept: usize,
    candidates: usize,
}

impl<C> Default for Keeper<C> {
    fn default() -> Self {
        Self {
            intervals: Intervals::default(),
            kept: 0,
            candidates: 0,
        }
    }
}

impl<C: Candidate> Keeper<C> {
    /// An interval of a thread has ended. `candidates`: those of its tuples, in any order. Returns its number, and the events of its
    /// sequence before it.
    pub fn add(&mut self, thread: u32, events: u64, mut candidates: Vec<C>) -> (u64, u64) {
        let sequences = &mut self.intervals.sequences;
        let at = sequences.binary_search_by_key(&thread, |s| s.thread);
        let at = at.unwrap_or_else(|at| {
            let new = Sequence {
                process: 0,
                thread,
                ended: 0,
                events: 0,
                each: Vec::new(),
            };
            sequences.insert(at, new);
            at
        });
        let sequence = &mut sequences[at];
        let start = sequence.events;
        sequence.ended += 1;
        sequence.events = start.saturating_add(events);
        let number = sequence.ended;
        if candidates.len() > CANDIDATES || halvings(thread, number) < self.intervals.halvings {
            return (number, start);
        }
        sort(&mut candidates);
        candidates.shrink_to_fit();
        self.kept += 1;
        self.candidates += candidates.len();
        sequence.each.push(Interval {
            number,
            start,
            events,
            candidates,
        });
        while self.kept > MOST || self.candidates > CANDIDATES {
            self.halve();
        }
        (number, start)
    }

    /// Returns the number of intervals that have ended.
    pub fn ended(&self) -> u64 {
        self.intervals.ended()
    }

    /// Drops every second interval, at random.
    fn halve(&mut self) {
        self.intervals.halvings += 1;
        let rate = self.intervals.halvings;
        (self.kept, self.candidates) = (0, 0);
        for sequence in &mut self.intervals.sequences {
            let thread = sequence.thread;
            (sequence.each).retain(|interval| halvings(thread, interval.number) >= rate);
            self.kept += sequence.each.len();
            self.candidates += (sequence.each.iter())
                .map(|interval| interval.candidates.len())
                .sum::<usize>();
        }
    }

    /// All that are kept.
    pub fn finish(self) -> Intervals<C> {
        self.intervals
    }
}

/// Halvings that an interval outlasts: each with probability one half.
fn halvings(thread: u32, number: u64) -> u32 {
    let mut random = SplitMix64::new(u64::from(thread) << 40 ^ number);
    random.draw().trailing_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;
    use trommel_tuple::{Kind, ModuleId, Tuple, Vaddr};

    fn message(vaddr: u64, count: u64) -> Message {
        Message {
            kind: Kind::Edge,
            tuple: Tuple::new(Place::new(ModuleId(1), Vaddr(vaddr)), 1),
            count,
            samples: 1,
        }
    }

    #[test]
    fn all_are_kept_while_they_fit_and_candidates_are_in_order() {
        let mut keeper = Keeper::default();
        for (thread, at) in [(2, (1, 0)), (1, (1, 0)), (2, (2, 100))] {
            let candidates = vec![message(1, 20), message(3, 50), message(2, 50)];
            assert_eq!(keeper.add(thread, 100, candidates), at);
        }
        let intervals = keeper.finish();
        let found: Vec<_> = (intervals.each())
            .map(|(s, i)| (s.thread, i.number, i.start, i.candidates.clone()))
            .collect();
        let candidates = vec![message(2, 50), message(3, 50), message(1, 20)];
        let expected = [(1, 1, 0), (2, 1, 0), (2, 2, 100)];
        let expected = expected.map(|(t, n, start)| (t, n, start, candidates.clone()));
        assert_eq!(found, expected);
        assert_eq!((intervals.ended(), intervals.events()), (3, 300));
    }

    /// However many there are, and of whatever size, memory is bounded. Those left are spread over the run, and none is lost uncounted.
    #[test]
    fn memory_is_bounded_and_what_is_left_is_spread_evenly() {
        for (all, each) in [(10 * MOST as u64, 1), (2_000, 1_000)] {
            let mut keeper = Keeper::default();
            for n in 0..all {
                let candidates = (0..each).map(|i| message(i, n + 1)).collect();
                keeper.add((n % 3) as u32, 7, candidates);
                assert!(keeper.kept <= MOST && keeper.candidates <= CANDIDATES);
            }
            let intervals = keeper.finish();
            assert_eq!((intervals.ended(), intervals.events()), (all, 7 * all));
            let kept = intervals.each().count() as f64;
            let rate = 0.5_f64.powi(intervals.halvings as i32);
            let expected = all as f64 * rate;
            let off = 5.0 * (expected * (1.0 - rate)).sqrt();
            assert!((kept - expected).abs() < off, "{kept} of {expected}");
            // Of numbers that are odd there are as many as of others: nothing aliases.
            let odd = intervals.each().filter(|(_, i)| i.number % 2 == 1).count() as f64;
            assert!(
                (odd - kept / 2.0).abs() < 5.0 * (kept / 4.0).sqrt(),
                "{odd}"
            );
            for (_, interval) in intervals.each() {
                assert_eq!(interval.start, 7 * (interval.number - 1));
            }
        }
    }

    #[test]
    fn one_that_is_too_large_is_counted_and_drops_no_others() {
        let mut keeper = Keeper::default();
        keeper.add(0, 9, vec![message(1, 9)]);
        keeper.add(0, 1 << 20, vec![message(1, 9); CANDIDATES + 1]);
        keeper.add(0, 9, Vec::new());
        let intervals = keeper.finish();
        let numbers: Vec<u64> = intervals.each().map(|(_, i)| i.number).collect();
        assert_eq!(
            (numbers, intervals.ended(), intervals.halvings),
            (vec![1, 3], 3, 0)
        );
    }
}
