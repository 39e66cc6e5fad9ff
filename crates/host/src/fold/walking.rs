//! Records followed along the acyclic paths of their threads ([`super::acyclic`]).

use trommel_queue::MAX_VALUES;
use trommel_queue::dict::{Mark, TargetPc};
use trommel_tuple::{Ended, Kind, Outcomes, Tuple};

use crate::fold::acyclic::walk::{Open, Walk, finish};
use crate::fold::dictionary::{Move, Path, Step};
use crate::fold::folder::{Folder, Mode, Sums};
use crate::fold::ordered::Ordered;
use crate::fold::threads::is_first;

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
    pub(super) fn passed(&mut self, met: usize, count: u64, events: &mut Sums) {
        let path = self.paths[met];
        let mut made = Vec::new();
        let mut walk = Walk::default();
        self.pass(&mut walk, &path, std::iter::empty(), |kind, tuple| {
            made.push((kind, tuple));
        });
        self.add_made(&made, count, events);
    }

    /// A thread does not go on with what this path leads to.
    pub(super) fn left(&mut self, met: usize, events: &mut Sums) {
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

    fn add_made(&mut self, made: &[(Kind, Tuple)], count: u64, events: &mut Sums) {
        let Mode::Ordered(ordered) = &mut self.mode else {
            return;
        };
        let Some(acyclic) = &mut ordered.acyclic else {
            return;
        };
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
        let Some(mut ordered) = self.take_ordered() else {
            return;
        };
        let Some(acyclic) = &mut ordered.acyclic else {
            self.mode = Mode::Ordered(ordered);
            return;
        };
        let mut made = Vec::new();
        for (thread, walk) in acyclic.take_walks() {
            let before = made.len();
            walk.end(|kind, tuple| made.push((kind, tuple)));
            if !is_first(thread) {
                let mut sums = Sums::default();
                sums[Kind::Path as usize] = (made.len() - before) as u64;
                self.add_to(thread, sums);
            }
        }
        if !acyclic.keep(&made, &mut self.tables) {
            ordered.tuples.extend(made.iter().map(|(_, tuple)| *tuple));
            ordered.kinds.extend(made.iter().map(|(kind, _)| *kind));
            ordered.block(&self.dictionary.modules);
        }
        self.mode = Mode::Ordered(ordered);
    }
}
