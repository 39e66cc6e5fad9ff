//! Caches and branch predictors simulated, and lines that threads share, of events in order.
//!
//! # Problem
//! A program's misses and mispredictions cannot be seen without hardware counters, and virtual machines have none. A simulation needs
//! all accesses and branches of a thread in their order, which the target can send, and is too slow to be made in its code.
//!
//! # Strategy
//! The target records addresses, branches and calls, and lists its instructions. Each record is expanded at once. An access goes
//! through the first-level cache of its thread, and if it misses through the last-level cache of the process. Both replace the
//! line of a set that was used least recently. An access that crosses lines misses if one of them does. That is what cachegrind
//! does, so that both can be compared. A branch goes through the predictor of its thread ([`predictor`]). Misses and mispredictions
//! are events of the profile like others. [`sharing`] looks at the same accesses.
//!
//! # Invariants
//! * An access has the words that [`access::all`] says. Words of a record that is cut off by a fault belong to the accesses before it.
//! * Each thread has caches and a predictor of its own ([`cores`]), so the order in which chunks of several threads come changes only what the
//!   shared last-level cache holds.

mod cores;
mod earlier;
mod predictor;
mod sharing;

use std::collections::BTreeMap;

use iced_x86::{Decoder, DecoderOptions, InstructionInfoFactory};
use rustc_hash::FxHashMap;
use trommel_profile::KindProfile;
use trommel_profile::accuracy::PerKind;
use trommel_profile::simulated::{Caches, Geometry, Predicted, Simulated};
use trommel_query::access::{self, Access, Accesses, MOST};
use trommel_tuple::{Kind, KindSet, Place, Tuple};

use crate::ask::prefetch::cache::{self, Cache};
use crate::channel::modules::Modules;
use crate::fold::acyclic::Places;
use crate::fold::dictionary::{Instruction, Move};
use crate::fold::exact::Tables;
use crate::fold::threads::{FIRST_THREAD, is_first};
use crate::kernel::bases;
use cores::Cores;
use predictor::Predictor;
use sharing::Lines;

/// Things to simulate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Simulate {
    /// The caches.
    pub caches: Caches,
    /// Lines that threads share are looked for.
    pub sharing: bool,
}

/// Simulated parts that a thread has for itself.
struct Core {
    first: Cache,
    predictor: Predictor,
}

/// An instruction whose words are coming.
#[derive(Default)]
struct Pending {
    accesses: Accesses,
    at: Place,
    words: [u64; MOST + 1],
    got: usize,
}

/// The simulation of a process.
pub(super) struct Simulator {
    wanted: KindSet,
    /// The thread whose records are folded, and what it has.
    thread: u32,
    core: Core,
    others: Cores,
    last: Cache,
    lines: Option<Lines>,
    info: InstructionInfoFactory,
    /// Accesses of instructions, by their number.
    known: Vec<Accesses>,
    pending: Pending,
    figures: Simulated,
    /// Accesses and branches of each instruction.
    accesses: FxHashMap<Place, u64>,
    branches: FxHashMap<Place, u64>,
    /// Counts, where events are counted in no order.
    places: Option<Places>,
    /// Events that were counted of threads but for the first, since they were asked for.
    counted: PerKind,
}

/// Counts a branch, with an event if it was mispredicted.
fn count(of: &mut Predicted, wrong: bool, tuple: Tuple, made: &mut Vec<(Kind, Tuple)>) {
    of.branches += 1;
    of.wrong += u64::from(wrong);
    if wrong {
        made.push((Kind::Mispredict, tuple));
    }
}

fn cache(of: Geometry, line: u32) -> Cache {
    Cache::new(cache::Geometry {
        sets: of.sets(line) as u32,
        ways: of.ways,
        line,
        known: true,
    })
}

impl Simulator {
    /// Begins with empty caches. Events of the kinds `wanted` are made; `exact`: they are counted in no order.
    pub(super) fn new(simulate: Simulate, wanted: KindSet, exact: bool) -> Self {
        let caches = simulate.caches;
        let others = Cores::new(caches);
        Self {
            wanted,
            thread: FIRST_THREAD,
            core: others.fresh(),
            others,
            last: cache(caches.last, caches.line),
            lines: simulate.sharing.then(|| Lines::new(caches.line)),
            info: InstructionInfoFactory::new(),
            known: Vec::new(),
            pending: Pending::default(),
            figures: Simulated {
                caches,
                ..Simulated::default()
            },
            accesses: FxHashMap::default(),
            branches: FxHashMap::default(),
            places: exact.then(Places::default),
            counted: PerKind::default(),
        }
    }

    /// Selects the thread that the next records are of.
    pub(super) fn select(&mut self, thread: u32) {
        if thread != self.thread {
            let next = self.others.take(thread);
            let before = std::mem::replace(&mut self.core, next);
            self.others.keep(self.thread, before);
            self.thread = thread;
        }
    }

    /// Comes to an instruction.
    pub(super) fn instruction(&mut self, number: u32, all: &[Instruction]) {
        for instruction in &all[self.known.len()..] {
            let (bytes, pc) = (instruction.bytes(), instruction.pc());
            let decoded = Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE).decode();
            let through_fs = bases::has_instructions();
            let found = access::all(&mut self.info, &decoded, through_fs);
            self.known.push(found);
        }
        let accesses = self.known.get(number as usize).copied();
        self.pending.accesses = accesses.unwrap_or_default();
        self.pending.got = 0;
    }

    /// Takes the next word of the instruction at `at`.
    pub(super) fn word(&mut self, at: Place, word: u64, made: &mut Vec<(Kind, Tuple)>) {
        let pending = &mut self.pending;
        if pending.got >= pending.accesses.words() {
            return;
        }
        pending.words[pending.got] = word;
        pending.got += 1;
        pending.at = at;
        if pending.got < pending.accesses.words() {
            return;
        }
        let (accesses, words) = (pending.accesses, pending.words);
        match accesses.is_repeated() {
            false => {
                // Cachegrind and processors read before they write.
                for reads in [true, false] {
                    for (access, address) in accesses.iter().zip(words) {
                        if access.reads == reads {
                            self.access(at, access, address, made);
                        }
                    }
                }
            }
            true => self.row(at, &accesses, words, made),
        }
    }

    /// The accesses of a repeated instruction, element by element.
    fn row(
        &mut self,
        at: Place,
        accesses: &Accesses,
        words: [u64; MOST + 1],
        made: &mut Vec<(Kind, Tuple)>,
    ) {
        let count = words[accesses.count().min(MOST)];
        let short = accesses.iter().any(|access| access.short);
        let count = if short { count & 0xffff_ffff } else { count };
        // No process has more memory than this.
        let count = count.min(1 << 40);
        if let Some(lines) = &mut self.lines {
            for (access, address) in accesses.iter().zip(words) {
                let bytes = count.saturating_mul(access.size.into());
                lines.access((self.thread, at), address, bytes, access);
            }
        }
        for n in 0..count {
            for reads in [true, false] {
                for (access, address) in accesses.iter().zip(words) {
                    if access.reads == reads {
                        let address = address.wrapping_add(n * u64::from(access.size));
                        self.look(at, access, address, made);
                    }
                }
            }
        }
    }

    fn access(&mut self, at: Place, access: &Access, address: u64, made: &mut Vec<(Kind, Tuple)>) {
        if let Some(lines) = &mut self.lines {
            lines.access((self.thread, at), address, access.size.into(), access);
        }
        self.look(at, access, address, made);
    }

    /// Looks for the bytes of an access in the caches.
    fn look(&mut self, at: Place, access: &Access, address: u64, made: &mut Vec<(Kind, Tuple)>) {
        let line = u64::from(self.figures.caches.line);
        let end = address.wrapping_add(u64::from(access.size).max(1) - 1);
        let of = match access.reads {
            true => &mut self.figures.loads,
            false => &mut self.figures.stores,
        };
        of.accesses += 1;
        if self.wanted.has(Kind::Miss) || self.wanted.has(Kind::LastMiss) {
            *self.accesses.entry(at).or_default() += 1;
        }
        if self.core.first.hits(address, end) {
            return;
        }
        let tuple = Tuple::new(at, address & !(line - 1));
        made.push((Kind::Miss, tuple));
        of.first += 1;
        if !self.last.hits(address, end) {
            made.push((Kind::LastMiss, tuple));
            of.last += 1;
        }
    }

    /// A branch has gone to a place; `movement` is what it means.
    pub(super) fn branch(&mut self, tuple: Tuple, movement: Move, made: &mut Vec<(Kind, Tuple)>) {
        let Move::Branch { taken, .. } = movement else {
            return self.call(tuple, made);
        };
        self.executed(tuple.pc);
        let wrong = self.core.predictor.branch(tuple.pc, taken);
        count(&mut self.figures.conditional, wrong, tuple, made);
    }

    /// An indirect jump or call has gone to a place.
    pub(super) fn call(&mut self, tuple: Tuple, made: &mut Vec<(Kind, Tuple)>) {
        self.executed(tuple.pc);
        let wrong = self.core.predictor.indirect(tuple.pc, tuple.value);
        count(&mut self.figures.indirect, wrong, tuple, made);
    }

    /// Counts an execution of a branch.
    fn executed(&mut self, at: Place) {
        if self.wanted.has(Kind::Mispredict) {
            *self.branches.entry(at).or_default() += 1;
        }
    }

    /// Returns true if events of a kind are wanted.
    pub(super) const fn wants(&self, kind: Kind) -> bool {
        self.wanted.has(kind)
    }

    /// Counts events, if they are in no order.
    pub(super) fn keep(&mut self, made: &[(Kind, Tuple)], tables: &mut Tables) -> bool {
        let Some(places) = &mut self.places else {
            return false;
        };
        for (kind, tuple) in made {
            places.add(*kind, *tuple, 1, tables);
            if !is_first(self.thread) {
                self.counted[*kind as usize] += 1;
            }
        }
        true
    }

    /// Events of threads but for the first that were counted since the last time.
    pub(super) fn counted(&mut self) -> PerKind {
        std::mem::take(&mut self.counted)
    }

    /// Returns the results, and adds counts to profiles.
    pub(super) fn finish(
        mut self,
        modules: &Modules,
        tables: &mut Tables,
        folded: &mut BTreeMap<Kind, KindProfile>,
    ) -> Simulated {
        if let Some(places) = self.places {
            places.settle(tables, folded);
        }
        self.figures.accesses = self.accesses.into_iter().collect();
        self.figures.branches = self.branches.into_iter().collect();
        self.figures.sharing = self.lines.map(|lines| lines.finish(modules));
        self.figures
    }
}

#[cfg(test)]
mod tests;
