//! Acyclic paths, made of events in order.
//!
//! # Problem
//! An acyclic path ([`Kind::Path`], defined in `docs/events.md`) is a sequence of branch outcomes of one thread between two
//! places at which paths are cut. The input is records of superblocks, whose bounds are unrelated, of threads
//! that take turns, with signal handlers in between.
//!
//! # Strategy
//! Each thread is on one path at a time. Each event of a record is a [`Move`] along it, or ends it. The branch outcomes are
//! collected as bits ([`Outcomes`]), and from the start of the path they lead along it again. So the control-flow graph that
//! Ball and Larus number paths by is not needed, which a binary does not give reliably.
//!
//! A signal handler suspends the path that it interrupts. The path goes on when the handler has returned, to the
//! place where the thread was, by the frame that it was entered with. So counts do not depend on when signals come.
//!
//! Where order matters no further, records are counted together with the state they meet ([`transitions`]). Tuples that are not remembered
//! there are counted in [`Tables`], as values are. Both stay within the memory budget.
//!
//! # Invariants
//! * A path begins where control arrives after the end of another one, and so does each fragment after a transfer that
//!   ends paths: the translator ends fragments there. Only a path that is cut as it is full goes on within a fragment.
//! * Each outcome of a thread is on one path. A path that is unfinished when the thread goes no further ends as it is.
//!
//! Where the target counts paths itself, the blocks of its fragments say which path a thread is on that arrives there. So a record or
//! counter means the same whatever came before ([`Move::Resume`]). Where a path goes on in the next block, it is not finished.

mod transitions;
pub(super) mod walk;

use std::collections::BTreeMap;
use std::rc::Rc;

use rustc_hash::FxHashMap;
use trommel_profile::KindProfile;
use trommel_profile::accuracy::PerKind;
use trommel_tuple::{Kind, KindSet, Place, Tuple};

use crate::channel::memory::Budget;
use crate::fold::exact::{Tables, UNSELECTED};
use crate::fold::threads::{FIRST_THREAD, is_first};
use transitions::Transitions;
use walk::Walk;

/// Counts that are kept in no order.
pub(super) struct Counted {
    transitions: Transitions,
    pub(super) places: Places,
}

/// The table of each place that counted tuples are about.
#[derive(Default)]
pub(super) struct Places(FxHashMap<(Kind, Place), u32>);

impl Places {
    /// Adds to the count of a tuple.
    pub(super) fn add(&mut self, kind: Kind, tuple: Tuple, count: u64, tables: &mut Tables) {
        let next = self.0.len() as u32 + 1 + UNSELECTED;
        let table = *self.0.entry((kind, tuple.pc)).or_insert(next);
        tables.make(table as usize + 1);
        tables.add(table, tuple.value, count);
    }

    /// Adds what was counted to profiles. `tables` are those of [`Self::add`].
    pub(super) fn settle(self, tables: &mut Tables, folded: &mut BTreeMap<Kind, KindProfile>) {
        tables.flush();
        for ((kind, place), table) in self.0 {
            let mut values = tables.take(table);
            values.sort_unstable();
            let profile = folded.entry(kind).or_default();
            let count = values.iter().map(|(_, count)| count).sum::<u64>();
            profile.seen += count;
            profile.messages += count;
            if !values.is_empty() {
                profile.counts.insert(place, values);
            }
        }
    }
}

/// The paths of all threads of a process.
pub(super) struct Acyclic {
    /// Kinds that are wanted, of what is recorded.
    pub(super) wanted: KindSet,
    /// Counts, where paths are counted in no order.
    pub(super) exact: Option<Counted>,
    /// The thread whose records are folded, and where it is.
    thread: u32,
    pub(super) walk: Walk,
    others: BTreeMap<u32, Walk>,
    /// Events that were counted of threads but for the first, since they were asked for.
    counted: PerKind,
    /// Tuples of one record, empty in between.
    pub(super) collected: Vec<(Kind, Tuple)>,
}

impl Acyclic {
    /// Begins before any execution. Of what is recorded `wanted` is kept; with `exact`, in no order and within that.
    pub(super) fn new(wanted: KindSet, exact: Option<Rc<Budget>>) -> Self {
        Self {
            wanted,
            exact: exact.map(|budget| Counted {
                transitions: Transitions::new(budget),
                places: Places::default(),
            }),
            thread: FIRST_THREAD,
            walk: Walk::default(),
            others: BTreeMap::new(),
            counted: PerKind::default(),
            collected: Vec::new(),
        }
    }

    /// Selects the thread that the next records are of.
    pub(super) fn select(&mut self, thread: u32) {
        if thread != self.thread {
            let next = self.others.remove(&thread).unwrap_or_default();
            let before = std::mem::replace(&mut self.walk, next);
            self.others.insert(self.thread, before);
            self.thread = thread;
        }
    }

    /// Counts a record without run-time values, if what it does here is known.
    #[inline]
    pub(super) fn count(&mut self, met: usize) -> bool {
        let (Some(Counted { transitions, .. }), Some(last)) = (&mut self.exact, self.walk.last)
        else {
            return false;
        };
        let Some(number) = transitions.follow(last, met as u32) else {
            return false;
        };
        self.walk.last = Some(number);
        if !is_first(self.thread) {
            transitions.add_events(number, &mut self.counted);
        }
        true
    }

    /// The number of the state that the thread is in, where records are counted and it has one.
    pub(super) fn state(&mut self) -> Option<u32> {
        let Counted { transitions, .. } = self.exact.as_mut()?;
        let open = match self.walk.last {
            Some(last) => transitions.after(last),
            None => self.walk.open,
        };
        transitions.state(open)
    }

    /// Counts a record from a state, if what it does there is known.
    pub(super) fn take(&mut self, state: u32, met: u32) -> bool {
        let Some(Counted { transitions, .. }) = &mut self.exact else {
            return false;
        };
        let Some(number) = transitions.take(state, met) else {
            return false;
        };
        self.walk.last = Some(number);
        if !is_first(self.thread) {
            transitions.add_events(number, &mut self.counted);
        }
        true
    }

    /// Takes note of what a record, folded just now, has come to. False when it is not remembered.
    pub(super) fn learn(&mut self, transition: (u32, u32), made: &[(Kind, Tuple)]) -> bool {
        let Some(Counted { transitions, .. }) = &mut self.exact else {
            return false;
        };
        let Some(number) = transitions.learn(transition, self.walk.open, made) else {
            return false;
        };
        self.walk.last = Some(number);
        if !is_first(self.thread) {
            transitions.add_events(number, &mut self.counted);
        }
        true
    }

    /// The thread's path is what its last transition has led to.
    pub(super) fn leave_states(&mut self) {
        if let (Some(counted), Some(last)) = (&self.exact, self.walk.last.take()) {
            self.walk.open = counted.transitions.after(last);
        }
    }

    /// Events of threads but for the first that were counted since the last time.
    pub(super) fn counted(&mut self) -> PerKind {
        std::mem::take(&mut self.counted)
    }

    /// Adds what was counted in no order to profiles. `tables` are those of [`Self::keep`].
    pub(super) fn settle(self, tables: &mut Tables, folded: &mut BTreeMap<Kind, KindProfile>) {
        let Some(Counted {
            transitions,
            mut places,
        }) = self.exact
        else {
            return;
        };
        for (kind, tuple, count) in transitions.counts() {
            places.add(kind, tuple, count, tables);
        }
        drop(transitions);
        places.settle(tables, folded);
    }

    /// Counts tuples that are in no transition, if they are in no order. The caller sees to what threads have of them.
    pub(super) fn keep(&mut self, made: &[(Kind, Tuple)], tables: &mut Tables) -> bool {
        let Some(counted) = &mut self.exact else {
            return false;
        };
        for (kind, tuple) in made {
            counted.places.add(*kind, *tuple, 1, tables);
        }
        true
    }

    /// Takes note of what the thread has made, where that is not seen by others.
    pub(super) fn note(&mut self, made: &[(Kind, Tuple)]) {
        if !is_first(self.thread) {
            made.iter()
                .for_each(|(kind, _)| self.counted[*kind as usize] += 1);
        }
    }

    /// All threads, by number. None has been anywhere afterwards.
    pub(super) fn take_walks(&mut self) -> BTreeMap<u32, Walk> {
        self.leave_states();
        let mut walks = std::mem::take(&mut self.others);
        walks.insert(self.thread, std::mem::take(&mut self.walk));
        if let Some(counted) = &self.exact {
            for walk in walks.values_mut() {
                if let Some(last) = walk.last.take() {
                    walk.open = counted.transitions.after(last);
                }
            }
        }
        walks
    }
}
