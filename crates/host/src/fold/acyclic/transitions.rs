//! Exact counts of paths without an event for each.
//!
//! # Problem
//! Under `exact` and without a stream the order of events is of no interest but for what paths are made of it; and making the
//! tuples of each record, to count them one by one, costs the host more than the program needs to be executed.
//!
//! # Strategy
//! What a record does depends on the path that the thread is on and on the record alone. So there is an automaton: its states
//! are paths as far as they go, and a record leads from one to another and makes tuples on the way. A transition is worked
//! out when it is met first, and then counted; what it makes is counted in the end. Behind a transition mostly the same one
//! comes again, which is looked at before the table of all.
//!
//! # Invariants
//! * Only records without run-time values are transitions, of code whose places are known: they mean the same each time.
//! * Memory is bounded: beyond [`MOST`] transitions those that are new are not remembered, and their tuples go on as they are.

use rustc_hash::FxHashMap;
use trommel_profile::accuracy::PerKind;
use trommel_tuple::{Kind, Tuple};

use super::Open;

/// Transitions that are remembered.
const MOST: usize = 1 << 22;

/// From one state to another.
struct Transition {
    next: u32,
    /// The record met behind it last, and its transition.
    then: (u32, u32),
    /// Its tuples, as a range of all.
    made: (u32, u32),
    count: u64,
}

/// The automaton of a process.
#[derive(Default)]
pub(super) struct Transitions {
    states: Vec<Option<Open>>,
    number_of: FxHashMap<Option<Open>, u32>,
    all: Vec<Transition>,
    /// By state and record.
    of: FxHashMap<(u32, u32), u32>,
    made: Vec<(Kind, Tuple)>,
}

impl Transitions {
    /// The number of a state.
    pub(super) fn state(&mut self, open: Option<Open>) -> u32 {
        let next = self.states.len() as u32;
        let number = *self.number_of.entry(open).or_insert(next);
        if number == next {
            self.states.push(open);
        }
        number
    }

    /// The state behind a transition.
    pub(super) fn behind(&self, transition: u32) -> Option<Open> {
        self.states[self.all[transition as usize].next as usize]
    }

    /// Counts the transition by record `met` behind another one, if it is known.
    #[inline]
    pub(super) fn follow(&mut self, last: u32, met: u32) -> Option<u32> {
        let before = &self.all[last as usize];
        let number = match before.then {
            (record, number) if record == met => number,
            _ => {
                let number = *self.of.get(&(before.next, met))?;
                self.all[last as usize].then = (met, number);
                number
            }
        };
        self.all[number as usize].count += 1;
        Some(number)
    }

    /// Counts the transition from a state, if it is known.
    pub(super) fn take(&mut self, state: u32, met: u32) -> Option<u32> {
        let number = *self.of.get(&(state, met))?;
        self.all[number as usize].count += 1;
        Some(number)
    }

    /// A transition that was made once, if it is to be remembered.
    pub(super) fn learn(
        &mut self,
        (state, met): (u32, u32),
        open: Option<Open>,
        made: &[(Kind, Tuple)],
    ) -> Option<u32> {
        if self.all.len() >= MOST {
            return None;
        }
        let number = self.all.len() as u32;
        let start = self.made.len() as u32;
        self.made.extend_from_slice(made);
        let next = self.state(open);
        self.all.push(Transition {
            next,
            then: (u32::MAX, 0),
            made: (start, self.made.len() as u32),
            count: 1,
        });
        self.of.insert((state, met), number);
        Some(number)
    }

    fn tuples(&self, transition: &Transition) -> &[(Kind, Tuple)] {
        let (start, end) = transition.made;
        &self.made[start as usize..end as usize]
    }

    /// Adds the events of one pass to `seen`.
    pub(super) fn add_events(&self, transition: u32, seen: &mut PerKind) {
        for (kind, _) in self.tuples(&self.all[transition as usize]) {
            seen[*kind as usize] += 1;
        }
    }

    /// How often each tuple was made, in no order.
    pub(super) fn counts(self) -> FxHashMap<(Kind, Tuple), u64> {
        let mut counts = FxHashMap::default();
        for transition in &self.all {
            for made in self.tuples(transition) {
                *counts.entry(*made).or_default() += transition.count;
            }
        }
        counts
    }
}
