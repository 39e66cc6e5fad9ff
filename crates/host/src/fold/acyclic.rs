//! Events in order into acyclic paths.
//!
//! # Problem
//! An acyclic path ([`Kind::Path`], defined in `docs/events.md`) is a sequence of branch outcomes of one thread between two
//! places at which paths are cut. What arrives are records of superblocks, whose bounds have nothing to do with that, of threads
//! that take turns, with handlers of signals in between.
//!
//! # Strategy
//! Each thread is on one path at a time, and each event of a record is a [`Move`] along it, or ends it. Which way it goes is
//! collected as outcome bits ([`Outcomes`]); from where it begins they lead along it again, so that the control-flow graph that
//! Ball and Larus number paths by is not needed, which a binary does not give reliably.
//!
//! A handler of a signal suspends the path that it interrupts, and the path goes on when the handler has returned, to the
//! place where the thread was, by the frame that it was entered with. So what is counted does not depend on when signals come.
//!
//! Where order is of no further interest, records are counted together with what they find ([`transitions`]), and what is not remembered
//! there in [`Tables`], as values are: both within the budget of memory.
//!
//! # Invariants
//! * A path begins where control arrives after the end of another one, and so does each fragment after a transfer that
//!   ends paths: the translator ends fragments there. Only a path that is cut as it is full goes on within a fragment.
//! * Each outcome of a thread is on one path. What is not finished when the thread goes no further ends as it is.
//!
//! Where the target counts paths itself, the blocks of its fragments say which path a thread is on that arrives there, so a record or
//! counter means the same whatever came before ([`Move::Resume`]), and where a path goes on in the next block it is not finished.

mod transitions;

use std::collections::BTreeMap;
use std::rc::Rc;

use rustc_hash::FxHashMap;
use trommel_profile::KindProfile;
use trommel_profile::accuracy::PerKind;
use trommel_queue::dict::{Mark, TargetPc};
use trommel_queue::{MAX_VALUES, MOST_INTERRUPTED};
use trommel_tuple::{Ended, Kind, KindSet, Outcomes, Place, Tuple};

use super::ordered::Ordered;
use super::{FIRST_THREAD, Folder, is_first};
use crate::channel::memory::Budget;
use crate::channel::modules::Modules;
use crate::fold::dictionary::{Move, Path, Start, Step};
use crate::fold::exact::{Tables, UNSELECTED};
use transitions::Transitions;

/// A path that a thread is on.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Open {
    start: Start,
    outcomes: Outcomes,
}

/// One that a handler of a signal has interrupted.
struct Interrupted {
    /// Where, as a run-time address.
    pc: u64,
    /// The handler's frame.
    frame: u64,
    open: Option<Open>,
}

/// One thread.
#[derive(Default)]
struct Walk {
    /// Without `last`.
    open: Option<Open>,
    /// The transition that it has made last, whose end says what is open.
    last: Option<u32>,
    interrupted: Vec<Interrupted>,
}

/// What is counted in no order.
struct Counted {
    transitions: Transitions,
    places: Places,
}

/// The table of each place that counted tuples are about.
#[derive(Default)]
struct Places(FxHashMap<(Kind, Place), u32>);

impl Places {
    /// Adds to the count of a tuple.
    fn add(&mut self, kind: Kind, tuple: Tuple, count: u64, tables: &mut Tables) {
        let next = self.0.len() as u32 + 1 + UNSELECTED;
        let table = *self.0.entry((kind, tuple.pc)).or_insert(next);
        tables.make(table as usize + 1);
        tables.add(table, tuple.value, count);
    }
}

/// The paths of all threads of a process.
pub(super) struct Acyclic {
    /// Kinds that are wanted, of what is recorded.
    wanted: KindSet,
    /// Where it is in no order.
    exact: Option<Counted>,
    /// The thread whose records are folded, and where it is.
    thread: u32,
    walk: Walk,
    others: BTreeMap<u32, Walk>,
    /// Events that were counted of threads but for the first, since they were asked for.
    counted: PerKind,
    /// Of one record, empty in between.
    collected: Vec<(Kind, Tuple)>,
}

impl Acyclic {
    /// Nothing has been executed. Of what is recorded `wanted` is kept; with `exact`, in no order and within that.
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

    /// What follows is of this thread.
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
    fn state(&mut self) -> Option<u32> {
        let Counted { transitions, .. } = self.exact.as_mut()?;
        let open = match self.walk.last {
            Some(last) => transitions.behind(last),
            None => self.walk.open,
        };
        transitions.state(open)
    }

    /// Counts a record from a state, if what it does there is known.
    fn take(&mut self, state: u32, met: u32) -> bool {
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
    fn learn(&mut self, transition: (u32, u32), made: &[(Kind, Tuple)]) -> bool {
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
    fn leave_states(&mut self) {
        if let (Some(counted), Some(last)) = (&self.exact, self.walk.last.take()) {
            self.walk.open = counted.transitions.behind(last);
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
        tables.flush();
        for ((kind, place), table) in places.0 {
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

    /// Counts tuples that are in no transition, if they are in no order. The caller sees to what threads have of them.
    fn keep(&mut self, made: &[(Kind, Tuple)], tables: &mut Tables) -> bool {
        let Some(counted) = &mut self.exact else {
            return false;
        };
        for (kind, tuple) in made {
            counted.places.add(*kind, *tuple, 1, tables);
        }
        true
    }

    /// Takes note of what the thread has made, where that is not seen by others.
    fn note(&mut self, made: &[(Kind, Tuple)]) {
        if !is_first(self.thread) {
            made.iter()
                .for_each(|(kind, _)| self.counted[*kind as usize] += 1);
        }
    }

    /// All threads, by number. None has been anywhere afterwards.
    fn take_walks(&mut self) -> BTreeMap<u32, Walk> {
        self.leave_states();
        let mut walks = std::mem::take(&mut self.others);
        walks.insert(self.thread, std::mem::take(&mut self.walk));
        if let Some(counted) = &self.exact {
            for walk in walks.values_mut() {
                if let Some(last) = walk.last.take() {
                    walk.open = counted.transitions.behind(last);
                }
            }
        }
        walks
    }
}

/// A path that is over, if there is one.
fn finish(open: Option<Open>, end: Ended, mut made: impl FnMut(Kind, Tuple)) {
    if let Some(Open { start, outcomes }) = open
        && start.selected
    {
        made(Kind::Path, Tuple::new(start.at, outcomes.word(end)));
    }
}

impl Walk {
    /// Follows the thread; paths that end are `made`.
    fn go(
        &mut self,
        step: Move,
        word: Option<u64>,
        modules: &Modules,
        made: impl FnMut(Kind, Tuple),
    ) {
        match step {
            Move::Arrive(start) => self.arrive(start),
            Move::Resume(start, outcomes) => self.open = Some(Open { start, outcomes }),
            Move::Branch { taken, back, next } => self.branch((taken, back), next, made),
            Move::End => finish(self.open.take(), Ended::Whole, made),
            Move::Jump(from) => {
                let to = modules.place_at(TargetPc(word.unwrap_or_default()));
                self.jump(from, to, made);
            }
            Move::JumpTo(from, to) => self.jump(from, to, made),
            Move::Amid => self.open = None,
            Move::Stay | Move::Marked(_) => {}
        }
    }

    fn arrive(&mut self, start: Start) {
        self.open.get_or_insert(Open {
            start,
            outcomes: Outcomes::NONE,
        });
    }

    fn branch(&mut self, (taken, back): (bool, bool), next: Start, made: impl FnMut(Kind, Tuple)) {
        let Some(open) = &mut self.open else { return };
        let Some(end) = open.outcomes.branch(taken, back) else {
            return;
        };
        finish(self.open.take(), end, made);
        if end == Ended::Cut {
            self.arrive(next);
        }
    }

    fn jump(&mut self, from: Place, to: Place, made: impl FnMut(Kind, Tuple)) {
        let Some(open) = &mut self.open else { return };
        if let Some(end) = open.outcomes.indirect_jump(from.ahead(to)) {
            finish(self.open.take(), end, made);
        }
    }

    /// A handler is entered.
    fn interrupt(&mut self, [pc, frame]: [u64; 2], mut made: impl FnMut(Kind, Tuple)) {
        if self.interrupted.len() == MOST_INTERRUPTED {
            finish(self.interrupted.remove(0).open, Ended::Left, &mut made);
        }
        let open = self.open.take();
        self.interrupted.push(Interrupted { pc, frame, open });
    }

    /// A handler is returned from. Those that it has interrupted and that it was not returned to are given up.
    fn back(&mut self, [pc, frame]: [u64; 2], mut made: impl FnMut(Kind, Tuple)) {
        finish(self.open.take(), Ended::Left, &mut made);
        let entered = |before: &Interrupted| before.frame == frame;
        let Some(n) = self.interrupted.iter().rposition(entered) else {
            return;
        };
        for given_up in self.interrupted.drain(n + 1..) {
            finish(given_up.open, Ended::Left, &mut made);
        }
        if let Some(before) = self.interrupted.pop() {
            match before.pc == pc {
                true => self.open = before.open,
                false => finish(before.open, Ended::Left, &mut made),
            }
        }
    }

    /// The thread goes no further.
    fn end(self, mut made: impl FnMut(Kind, Tuple)) {
        for before in self.interrupted {
            finish(before.open, Ended::Left, &mut made);
        }
        finish(self.open, Ended::Left, made);
    }
}

impl Folder {
    /// Follows a thread along one record of it, `words` being its values: what of that is wanted goes to `ordered`, or is counted.
    pub(super) fn follow(
        &mut self,
        ordered: &mut Ordered,
        met: usize,
        words: impl Iterator<Item = u64>,
    ) {
        let path = self.paths[met];
        let Ordered {
            acyclic,
            tuples,
            kinds,
            ..
        } = ordered;
        let Some(acyclic) = acyclic else { return };
        let learnt = match path.values {
            0 => acyclic.state(),
            _ => None,
        };
        if let Some(state) = learnt
            && acyclic.take(state, met as u32)
        {
            return;
        }
        acyclic.leave_states();
        let wanted = acyclic.wanted;
        let walk = &mut acyclic.walk;
        let mut collected = std::mem::take(&mut acyclic.collected);
        let made = |kind, tuple| {
            if wanted.has(kind) {
                collected.push((kind, tuple));
            }
        };
        self.pass(walk, &path, words, made);
        let remembered = learnt.is_some_and(|state| {
            let transition = (state, met as u32);
            acyclic.learn(transition, &collected)
        });
        if !remembered {
            if acyclic.keep(&collected, &mut self.tables) {
                acyclic.note(&collected);
            } else {
                tuples.extend(collected.iter().map(|(_, tuple)| *tuple));
                kinds.extend(collected.iter().map(|(kind, _)| *kind));
            }
        }
        collected.clear();
        acyclic.collected = collected;
    }

    /// Follows a thread along one record of it: what the events are is `made`.
    fn pass(
        &mut self,
        walk: &mut Walk,
        path: &Path,
        words: impl Iterator<Item = u64>,
        mut made: impl FnMut(Kind, Tuple),
    ) {
        let mut all = [0; MAX_VALUES];
        let mut count = 0;
        for (to, word) in all.iter_mut().zip(words) {
            *to = word;
            count += 1;
        }
        let mut words = &all[..count];
        // Marks are in blocks of their own.
        if let [Move::Marked(mark)] = *self.dictionary.moves(path) {
            let word = |n: usize| words.get(n).copied().unwrap_or_default();
            let both = [word(0), word(1)];
            match mark {
                Mark::Arrived | Mark::Called => {
                    walk.arrive(self.dictionary.start(TargetPc(both[0])));
                    if mark == Mark::Called {
                        finish(walk.open.take(), Ended::Whole, made);
                    }
                }
                Mark::Signal => walk.interrupt(both, made),
                Mark::Back => walk.back(both, made),
                Mark::Resumed => {
                    let start = self.dictionary.start(TargetPc(both[0]));
                    let known = Outcomes::from_word(both[1]);
                    walk.open = known.map(|(outcomes, _)| Open { start, outcomes });
                }
                Mark::Over => {
                    let start = self.dictionary.start(TargetPc(both[0]));
                    if start.selected && Outcomes::from_word(both[1]).is_some() {
                        made(Kind::Path, Tuple::new(start.at, both[1]));
                    }
                }
            }
            return;
        }
        let modules = &self.dictionary.modules;
        let (steps, moves) = (self.dictionary.steps(path), self.dictionary.moves(path));
        let passed = steps.iter().zip(moves);
        for (step, movement) in passed.chain(path.tail.iter().zip([&path.leaves])) {
            let (own, rest) = words.split_at(step.words().min(words.len()));
            words = rest;
            let word = own.first().copied();
            match *step {
                Step::Static(kind, tuple) => made(kind, tuple),
                Step::Dynamic(kind, place) => {
                    let value = word.unwrap_or_default();
                    let value = match kind.value_is_place() {
                        true => modules.place_at(TargetPc(value)).word(),
                        false => value,
                    };
                    made(kind, Tuple::new(place, value));
                }
                _ => {}
            }
            walk.go(*movement, word, modules, &mut made);
        }
        if self.dictionary.is_whole(path) {
            walk.open = None;
        }
    }

    /// A thread has executed a path so often that means the same whatever came before. Adds the events, per kind, to `events`.
    pub(super) fn passed(&mut self, met: usize, count: u64, events: &mut [u64; 8]) {
        let path = self.paths[met];
        let mut made = Vec::new();
        let mut walk = Walk::default();
        self.pass(&mut walk, &path, std::iter::empty(), |kind, tuple| {
            made.push((kind, tuple));
        });
        self.add_made(&made, count, events);
    }

    /// A thread does not go on with what this path leads to.
    pub(super) fn left(&mut self, met: usize, events: &mut [u64; 8]) {
        let path = self.paths[met];
        let mut walk = Walk::default();
        let modules = &self.dictionary.modules;
        for movement in self.dictionary.moves(&path) {
            walk.go(*movement, None, modules, |_, _| {});
        }
        let mut made = Vec::new();
        finish(walk.open, Ended::Left, |kind, tuple| {
            made.push((kind, tuple));
        });
        self.add_made(&made, 1, events);
    }

    fn add_made(&mut self, made: &[(Kind, Tuple)], count: u64, events: &mut [u64; 8]) {
        let acyclic = self.ordered.as_mut().and_then(|o| o.acyclic.as_mut());
        let Some(acyclic) = acyclic else { return };
        let wanted = acyclic.wanted;
        let Some(counted) = &mut acyclic.exact else {
            return;
        };
        for &(kind, tuple) in made.iter().filter(|(kind, _)| wanted.has(*kind)) {
            counted.places.add(kind, tuple, count, &mut self.tables);
            events[kind as usize] = events[kind as usize].saturating_add(count);
        }
    }

    /// No thread goes any further.
    pub(super) fn end_walks(&mut self) {
        let Some(mut ordered) = self.ordered.take() else {
            return;
        };
        let Some(acyclic) = &mut ordered.acyclic else {
            self.ordered = Some(ordered);
            return;
        };
        let mut made = Vec::new();
        for (thread, walk) in acyclic.take_walks() {
            let before = made.len();
            walk.end(|kind, tuple| made.push((kind, tuple)));
            if !is_first(thread) {
                let mut sums = [0; 8];
                sums[Kind::Path as usize] = (made.len() - before) as u64;
                self.add_to(thread, sums);
            }
        }
        if !acyclic.keep(&made, &mut self.tables) {
            ordered.tuples.extend(made.iter().map(|(_, tuple)| *tuple));
            ordered.kinds.extend(made.iter().map(|(kind, _)| *kind));
            ordered.block(&self.dictionary.modules);
        }
        self.ordered = Some(ordered);
    }
}
