//! Exact counts of paths without an event for each.
//!
//! # Problem
//! Under `exact` and without a stream, the order of events matters only for acyclic paths. Making the
//! tuples of each record, to count them one by one, costs the host more than the program's own execution.
//!
//! # Strategy
//! The effect of a record depends on the path that the thread is on and on the record alone. So there is an automaton: its states
//! are paths as far as they go, and a record leads from one to another and makes tuples on the way. A transition is worked
//! out when it is met first, and then counted. Its tuples are counted in the end. After a transition mostly the same one
//! comes again, so that one is tried before the table of all.
//!
//! # Invariants
//! * Only records without run-time values are transitions, of code whose places are known: they mean the same each time.
//! * Memory is bounded. Beyond [`MOST`] transitions, or half of the [`Budget`], new ones are not remembered, and their tuples go
//!   on as they are.

use std::rc::Rc;

use rustc_hash::FxHashMap;
use trommel_profile::accuracy::PerKind;
use trommel_tuple::{Kind, Tuple};

use super::walk::Open;
use crate::channel::memory::Budget;

/// Transitions that are remembered.
const MOST: usize = 1 << 22;
/// Bytes of one, with its place in a table that is half full.
const TRANSITION: u64 = (size_of::<Transition>() + 2 * size_of::<((u32, u32), u32)>()) as u64;
/// Bytes of a state, in the same way, and of a tuple.
const STATE: u64 = (size_of::<Option<Open>>() + 2 * size_of::<(Option<Open>, u32)>()) as u64;
const MADE: u64 = size_of::<(Kind, Tuple)>() as u64;

/// A transition from one state to another.
struct Transition {
    next: u32,
    /// The record met after it last, and its transition.
    then: (u32, u32),
    /// Its tuples, as a range of all.
    made: (u32, u32),
    count: u64,
}

/// The automaton of a process.
pub(super) struct Transitions {
    budget: Rc<Budget>,
    /// Bytes of it in the budget.
    bytes: u64,
    states: Vec<Option<Open>>,
    number_of: FxHashMap<Option<Open>, u32>,
    all: Vec<Transition>,
    /// Transitions by state and record.
    of: FxHashMap<(u32, u32), u32>,
    made: Vec<(Kind, Tuple)>,
}

impl Drop for Transitions {
    fn drop(&mut self) {
        self.budget.change(self.bytes, 0);
    }
}

impl Transitions {
    /// None is known.
    pub(super) fn new(budget: Rc<Budget>) -> Self {
        Self {
            budget,
            bytes: 0,
            states: Vec::new(),
            number_of: FxHashMap::default(),
            all: Vec::new(),
            of: FxHashMap::default(),
            made: Vec::new(),
        }
    }

    fn take_bytes(&mut self, more: u64) {
        self.budget.change(0, more);
        self.bytes += more;
    }

    /// Returns whether nothing new is remembered.
    fn is_full(&self) -> bool {
        self.all.len() >= MOST || self.budget.is_half(self.bytes)
    }

    /// The number of a state, if it has one or gets one.
    pub(super) fn state(&mut self, open: Option<Open>) -> Option<u32> {
        if let Some(number) = self.number_of.get(&open) {
            return Some(*number);
        }
        if self.is_full() {
            return None;
        }
        let number = self.states.len() as u32;
        self.number_of.insert(open, number);
        self.states.push(open);
        self.take_bytes(STATE);
        Some(number)
    }

    /// The state after a transition.
    pub(super) fn after(&self, transition: u32) -> Option<Open> {
        self.states[self.all[transition as usize].next as usize]
    }

    /// Counts the transition by record `met` after another one, if it is known.
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
        if self.is_full() {
            return None;
        }
        let next = self.state(open)?;
        let number = self.all.len() as u32;
        let start = self.made.len() as u32;
        self.made.extend_from_slice(made);
        self.take_bytes(TRANSITION + MADE * made.len() as u64);
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

    /// Returns the count of each made tuple, a tuple several times, in no order.
    pub(super) fn counts(&self) -> impl Iterator<Item = (Kind, Tuple, u64)> {
        self.all.iter().flat_map(|transition| {
            let made = self.tuples(transition).iter();
            made.map(|(kind, tuple)| (*kind, *tuple, transition.count))
        })
    }
}

#[cfg(test)]
mod tests {
    use trommel_tuple::{ModuleId, Outcomes, Place, Vaddr};

    use super::*;
    use crate::fold::dictionary::Start;

    fn place(n: u64) -> Place {
        Place::new(ModuleId(1), Vaddr(n))
    }

    fn open(n: u64) -> Option<Open> {
        let at = place(n);
        let start = Start { at, selected: true };
        let outcomes = Outcomes::NONE;
        Some(Open { start, outcomes })
    }

    #[test]
    fn what_the_budget_has_no_room_for_is_not_remembered_and_what_is_remembered_counts_on() {
        const LIMIT: u64 = 1 << 20;
        let budget = Rc::new(Budget::new(Some(LIMIT)));
        let mut all = Transitions::new(Rc::clone(&budget));
        let made = |n: u64| [(Kind::Path, Tuple::new(place(n), 1))];
        let mut learnt = 0;
        for n in 0..100_000 {
            if let Some(state) = all.state(open(n))
                && all.learn((state, 7), open(n + 1), &made(n)).is_some()
            {
                learnt += 1;
            }
        }
        assert!(learnt > 1000 && learnt < 100_000, "{learnt}");
        assert!(budget.is_exceeded_by(LIMIT / 2 + 1) && !budget.is_exceeded_by(LIMIT / 2 - 500));
        assert!(all.state(open(99_999)).is_none());
        let first = all.state(open(0)).expect("known");
        let number = all.take(first, 7).expect("known");
        assert_eq!(
            all.follow(number, 7),
            all.state(open(1))
                .and_then(|s| all.of.get(&(s, 7)).copied())
        );
        let counts: Vec<u64> = all.counts().map(|(_, _, count)| count).collect();
        assert_eq!(counts.len(), learnt);
        assert_eq!(counts.iter().sum::<u64>(), learnt as u64 + 2);
        drop(all);
        assert!(!budget.is_exceeded_by(LIMIT));
    }
}
