//! Intervals one by one, for `compress --per-interval` and `report --per-interval`: as text, CSV and JSON.
//!
//! All three are of the same [`Entry`]s, in their order. What a place is called is known to the command alone ([`Names`]): a stream has
//! modules, a profile functions, too.

pub(crate) mod csv;
pub(crate) mod json;
mod picture;
pub(crate) mod text;

use std::rc::Rc;

use trommel_symbol::Location;
use trommel_tuple::{Message, Place};

/// An interval with its candidates.
#[derive(Clone, Copy)]
pub(crate) struct Entry<'a> {
    /// The thread's, where the intervals are of a profile.
    pub(crate) of: Option<Thread>,
    /// Number in its sequence, from 1.
    pub(crate) number: u64,
    /// Events of the sequence before it.
    pub(crate) start: u64,
    /// Its events.
    pub(crate) events: u64,
    /// Its phase, from 1.
    pub(crate) phase: usize,
    /// Its error in percent, where all its events are known.
    pub(crate) error: Option<f64>,
    /// Candidates, the most frequent first.
    pub(crate) candidates: &'a [Message],
}

/// A thread, or all threads of a process.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Thread {
    /// Number of the process.
    pub(crate) process: u32,
    /// Number of the thread; 0: all of them.
    pub(crate) thread: u32,
}

/// Names of places and values.
pub(crate) trait Names {
    /// Functions may be known.
    const FUNCTIONS: bool;

    /// The place in words.
    fn place(&mut self, place: Place) -> String;

    /// A value that was loaded at the place, in words.
    fn value(&mut self, at: Place, value: u64) -> String;

    /// A candidate in words, without its count.
    fn candidate(&mut self, m: &Message) -> String {
        let at = self.place(m.tuple.pc);
        let value = match m.kind.value_is_place() {
            true => self.place(Place::from_word(m.tuple.value)),
            false => self.value(m.tuple.pc, m.tuple.value),
        };
        format!("{} {at} {value}", m.kind)
    }

    /// A candidate as JSON.
    fn json(&mut self, m: &Message) -> serde_json::Value
    where
        Self: Sized,
    {
        json::candidate(m, self)
    }

    /// The function and line of a place, where [`FUNCTIONS`](Self::FUNCTIONS) may be known.
    fn location(&mut self, place: Place) -> Option<Rc<Location>>;
}

/// A phase: intervals that are alike.
#[derive(Clone, Copy, Default)]
pub(crate) struct Phase {
    /// Its intervals.
    pub(crate) intervals: u64,
    /// Their events.
    pub(crate) events: u64,
}

/// Phases in the order of their numbers.
pub(crate) fn phases(entries: &[Entry<'_>]) -> Vec<Phase> {
    let all = entries.iter().map(|e| e.phase).max().unwrap_or(0);
    let mut phases = vec![Phase::default(); all];
    for entry in entries {
        let phase = &mut phases[entry.phase - 1];
        phase.intervals += 1;
        phase.events += entry.events;
    }
    phases
}
