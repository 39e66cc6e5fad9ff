//! The prefetch service: it finds a program's loads and stores that miss again and again by a regular
//! distance, and how far ahead of each a prefetch pays.
//!
//! # Problem
//! The application of *Relational Profiling* that needs more than counts (Heil and Smith, MICRO 2000, section 3.1).
//! It needs what a single instruction accesses, one execution after the other, and must act on
//! that while the program runs.
//!
//! # Strategy
//! Two queries ([`QUERIES`]) ask for the address of every load and store. The target answers in rounds of
//! bursts (`trommel_runtime::observe::prefetch`). Each access goes through a simulated second-level cache of its thread
//! ([`cache`]), and into the history of its instruction ([`stride`]). When a round is over, each instruction gets a
//! [`PrefetchDecision`]. Those that get [`PrefetchDecision::Placed`] are reported to the target.
//!
//! *Distance ahead.* A prefetch has to be [`LATENCY`] cycles early. The cycles of a round of the loop
//! without misses are not known. One cycle for each access is assumed. So the wanted number of
//! executions ahead is `LATENCY` over the accesses from one execution to the next. The best prefetch
//! covers the largest part of it, times the share of executions at which the distance is right.
//!
//! # Limits
//! Lines that the program touches between bursts are not in the simulated cache, so a simulated miss may be a hit:
//! at the beginning of the first burst all accesses miss. A prefetch for such an access is of no use, and costs one
//! instruction. It is placed only where all bursts together say that a good part of the accesses misses.
//!
//! Invariant: nothing here trusts the target. Addresses are numbers to compute with, and memory for them is
//! bounded ([`MOST`], [`THREADS`]).

pub mod cache;
pub mod stride;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use nix::unistd::Pid;
use rustc_hash::FxHashMap;
use trommel_queue::dict::TargetPc;
use trommel_queue::prefetch::{MAX_PLACES, Prefetch as Told};
use trommel_tuple::Place;

use crate::channel::modules::Modules;
use crate::channel::question::Question;
use crate::kernel::clocks::stamp;
use crate::kernel::knock::Knocks;

use cache::{Cache, Geometry};
use stride::Strides;

/// Queries of the service: loads go to queue 0, stores to queue 1.
pub const QUERIES: &str = "\
for opLOAD 0 every 131072 collect pc res2;
    send 0 stop;
for opSTORE 0 every 131072 collect pc res2;
    send 1 stop;
";

/// The queue of stores; their messages have two words, as those of loads.
pub const STORES: u8 = 1;
/// Cycles that an access takes which misses.
const LATENCY: f64 = 400.0;
/// Instructions of which histories are kept, with those of different threads counted apart.
const MOST: usize = 1 << 14;
/// Threads that have caches of their own.
const THREADS: usize = 16;
/// Executions of an instruction below which nothing is said about it.
const ENOUGH: u64 = 64;
/// One access in so many that misses there, of all that were seen, makes an instruction worth it.
const WORTH: u64 = 1024;
/// One execution in so many has to miss.
const OFTEN: u64 = 4;
/// Distances up to this are left to the processor, which sees them while they repeat within a page.
const NEAR: u64 = 512;
/// The share of executions at which the distance has to be right.
const REGULAR: f64 = 0.5;
/// Prefetches reach so far at most, as displacements do.
const FAR: i64 = 1 << 30;

/// Returns the question of the service.
///
/// # Panics
/// Never: a test assembles [`QUERIES`].
pub fn question() -> Question {
    const SEED: u64 = 1;
    let assembly = trommel_query::assemble(QUERIES);
    let program = assembly.map_or_else(|_| unreachable!("checked by a test"), |a| a.program);
    Question::new(program, SEED, false)
}

/// The decision about an instruction.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum PrefetchDecision {
    /// It has a prefetch of what it accesses so many executions later.
    Placed {
        /// Number of executions ahead.
        ahead: u32,
        /// Difference of addresses then.
        by: i64,
    },
    /// Its addresses follow no distance, or none long enough.
    Irregular,
    /// Its addresses follow a distance that the processor sees by itself.
    Near,
    /// More prefetches than there may be are worth more.
    Overflowing,
}

/// An instruction that misses often.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Missing {
    /// Its place.
    pub place: Place,
    /// True if it is a store.
    pub store: bool,
    /// Executions that were seen, in the last round that saw enough of them.
    pub executions: u64,
    /// Executions of them that missed.
    pub misses: u64,
    /// The most frequent difference between one address and the next, and its share.
    pub stride: Option<(i64, f64)>,
    /// The decision about it.
    pub verdict: PrefetchDecision,
}

/// Results of the service in a process.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// The cache that was simulated.
    pub geometry: Geometry,
    /// Rounds that were answered.
    pub rounds: u32,
    /// Accesses seen.
    pub accesses: u64,
    /// Accesses of them that missed.
    pub misses: u64,
    /// Prefetches put into code: one for each fragment and trace that an instruction is in.
    pub put: u64,
    /// Times that code with probes was dropped.
    pub dropped: u64,
    /// Instructions that miss often, most misses first.
    pub found: Vec<Missing>,
}

/// Facts of one instruction in one round.
#[derive(Clone, Debug, Default)]
struct History {
    store: bool,
    executions: u64,
    misses: u64,
    strides: Strides,
}

/// The service of one process.
pub struct Prefetch {
    knocks: Option<Knocks>,
    geometry: Geometry,
    caches: FxHashMap<u32, Cache>,
    /// Histories of the current round, by thread and instruction.
    histories: FxHashMap<(u32, u64), History>,
    /// Accesses of each thread so far.
    clocks: FxHashMap<u32, u64>,
    round: Sum,
    all: Sum,
    rounds: u32,
    /// Results by address, of the last round that saw enough of it.
    known: BTreeMap<u64, Missing>,
}

#[derive(Clone, Copy, Default)]
struct Sum {
    accesses: u64,
    misses: u64,
}

impl Prefetch {
    /// Begins with nothing seen, with a cache like that.
    pub fn new(geometry: Geometry) -> Self {
        Self {
            knocks: None,
            geometry,
            caches: FxHashMap::default(),
            histories: FxHashMap::default(),
            clocks: FxHashMap::default(),
            round: Sum::default(),
            all: Sum::default(),
            rounds: 0,
            known: BTreeMap::new(),
        }
    }

    /// Calls the process back when it is to be asked again.
    pub fn calling(mut self, pid: Pid) -> Self {
        self.knocks = Some(Knocks::of(pid));
        self
    }

    /// An access of a thread.
    pub fn access(&mut self, thread: u32, pc: u64, address: u64, store: bool) {
        if !self.caches.contains_key(&thread) && self.caches.len() >= THREADS {
            return;
        }
        let geometry = self.geometry;
        let cache = self.caches.entry(thread);
        let hit = cache
            .or_insert_with(|| Cache::new(geometry))
            .access(address);
        let clock = self.clocks.entry(thread).or_default();
        *clock += 1;
        let missed = u64::from(!hit);
        self.round.accesses += 1;
        self.round.misses += missed;
        if self.histories.len() >= MOST && !self.histories.contains_key(&(thread, pc)) {
            return;
        }
        let history = self.histories.entry((thread, pc)).or_default();
        history.store = store;
        history.executions += 1;
        history.misses += missed;
        history.strides.add(address, *clock);
    }

    /// Calls the target, if that was prepared and it `takes` it.
    pub fn ring(&mut self, takes: bool) {
        if let Some(knocks) = &mut self.knocks {
            knocks.ring(takes);
        }
    }

    /// The target is not called any more.
    pub fn hush(&mut self) {
        self.knocks = None;
    }

    /// Answers the target, if it has sent `round` and that is not done, and sees to it that it begins the next.
    pub fn answer(&mut self, told: &Told, round: u32, modules: &Modules) {
        if let Some(knocks) = &mut self.knocks {
            let due = told.due.load(Acquire);
            let asks = told.begun.load(Relaxed) != told.answered.load(Relaxed);
            knocks.look(!asks && due != 0 && stamp() >= due);
        }
        if told.answered.load(Relaxed) == round {
            return;
        }
        self.conclude(|pc| modules.place_at(TargetPc(pc)));
        let placed = self.known.iter().filter_map(|(pc, found)| {
            let PrefetchDecision::Placed { by, .. } = found.verdict else {
                return None;
            };
            Some((*pc, by, found.store))
        });
        let mut places = 0;
        for ((pc, by, store), place) in placed.zip(&told.place) {
            place.pc.store(pc, Relaxed);
            place.by.store(by, Relaxed);
            place.written.store(store.into(), Relaxed);
            places += 1;
        }
        told.places.store(places, Relaxed);
        told.answered.store(round, Release);
    }

    /// The round is over. What it says of an instruction replaces what an earlier one did.
    fn conclude(&mut self, place: impl Fn(u64) -> Place) {
        let mut whole: FxHashMap<u64, History> = FxHashMap::default();
        for ((_, pc), history) in self.histories.drain() {
            match whole.entry(pc) {
                std::collections::hash_map::Entry::Vacant(entry) => {
                    entry.insert(history);
                }
                std::collections::hash_map::Entry::Occupied(mut entry) => {
                    let known = entry.get_mut();
                    // Of the thread that executes it most.
                    if history.executions > known.executions {
                        known.strides = history.strides;
                    }
                    known.executions += history.executions;
                    known.misses += history.misses;
                }
            }
        }
        for (pc, history) in whole {
            if history.executions < ENOUGH {
                continue;
            }
            self.known.remove(&pc);
            let often = history.misses * OFTEN >= history.executions;
            if often && history.misses * WORTH >= self.round.accesses {
                let stride = history.strides.most(1);
                let found = Missing {
                    place: place(pc),
                    store: history.store,
                    executions: history.executions,
                    misses: history.misses,
                    stride,
                    verdict: verdict(&history.strides, stride),
                };
                self.known.insert(pc, found);
            }
        }
        self.limit();
        self.all.accesses += self.round.accesses;
        self.all.misses += self.round.misses;
        self.round = Sum::default();
        self.rounds += 1;
        // A gap between rounds is no distance.
        self.clocks.clear();
    }

    /// Prefetches that there is room for: those of most misses.
    fn limit(&mut self) {
        let is_placed =
            |found: &&mut Missing| matches!(found.verdict, PrefetchDecision::Placed { .. });
        let mut placed: Vec<_> = self.known.values_mut().filter(is_placed).collect();
        placed.sort_by_key(|found| std::cmp::Reverse(found.misses));
        for found in placed.into_iter().skip(MAX_PLACES) {
            found.verdict = PrefetchDecision::Overflowing;
        }
    }

    /// Returns the results of the service.
    pub fn report(&self, told: &Told) -> Report {
        let mut found: Vec<Missing> = self.known.values().copied().collect();
        found.sort_by_key(|found| (std::cmp::Reverse(found.misses), found.place));
        Report {
            geometry: self.geometry,
            rounds: self.rounds,
            accesses: self.all.accesses,
            misses: self.all.misses,
            put: told.put.load(Relaxed),
            dropped: told.dropped.load(Relaxed),
            found,
        }
    }
}

/// Decides about an instruction that misses often.
fn verdict(strides: &Strides, stride: Option<(i64, f64)>) -> PrefetchDecision {
    let Some((stride, _)) = stride.filter(|(_, share)| *share >= REGULAR) else {
        return PrefetchDecision::Irregular;
    };
    if stride.unsigned_abs() <= NEAR {
        return PrefetchDecision::Near;
    }
    let Some(apart) = strides.accesses_apart() else {
        return PrefetchDecision::Irregular;
    };
    let worth = |ahead: u32, share: f64| share * (f64::from(ahead) * apart / LATENCY).min(1.0);
    let choices = stride::AHEAD.into_iter().filter_map(|ahead| {
        let (by, share) = strides.most(ahead)?;
        let possible = by.abs() <= FAR && by.unsigned_abs() > NEAR;
        possible.then(|| (worth(ahead, share), ahead, by))
    });
    // Of equal ones the nearest.
    let best = choices.reduce(|best, next| if next.0 > best.0 { next } else { best });
    match best {
        Some((_, ahead, by)) => PrefetchDecision::Placed { ahead, by },
        None => PrefetchDecision::Irregular,
    }
}

#[cfg(test)]
mod tests;
