//! Records of windows: each window is one sample of the program.
//!
//! # Problem
//! Windows are drawn at moments of CPU time. A window's weight depends on how often windows were taken
//! then, and on its length. It counts only when it has ended.
//!
//! # Strategy
//! The records of a thread wait here until its window's end is there. Records before
//! the mark where the window begins are dropped. Then the window's events are counted, each with the window's
//! weight: the thread's user time since its last window, over the time of a whole window's instructions. That time
//! cannot be measured natively without hardware counters. Instrumented code takes many times as long. So the instructions are assumed to be
//! executed at one rate, one a cycle of the time stamp counter. Counts therefore compare as the *time* spent around
//! their places does. Two places that are executed together are in the right proportion. A place in slow code is
//! counted too high against one in fast code. All counts may be off by one factor. A window that a system call cuts short
//! counts as part of a whole one.
//!
//! A thread's last window is not its end, and some threads have none. So in the end all weights get one factor, and windows stand for
//! the program's user time.
//!
//! Values of loads, and method tables, go to a hotlist for each instruction, as many times as their window's weight has
//! units: a value seen while windows are rare is not worth less. Branches and calls have a
//! count for each destination, and latencies have one for each length that is distinguished. Arguments of calls are in [`arguments`]. Counting a window
//! takes memory only for new instructions. Where accesses to memory are recorded, the window's instructions go, in order, to a
//! model of conflicting accesses ([`crate::fold::conflicts`]). Values may be counted by caller, too ([`callers`]). A customisation module gets the messages of the
//! queries that are put for it. Its pairs are folded when they come ([`custom`]). Queries of the user's are in [`queried`].
//!
//! # Invariants
//! * A window is counted once, whole, or not at all.
//! * Memory for an instruction with values is of constant size.

mod accesses;
mod arguments;
mod callers;
mod custom;
mod queried;
pub(super) mod site;

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use trommel_profile::KindProfile;
use trommel_profile::memory::{Levels, rounded as kept};
use trommel_profile::rare::{self, Edge, Rare};
use trommel_profile::sampled::Sampled;
use trommel_profile::windows::Windows;
use trommel_queue::END_WORDS;
use trommel_queue::dict::{ARGUMENTS, TargetPc};
use trommel_tuple::{Kind, KindSet, Place};

use accesses::Accesses;
use arguments::Arguments;
use callers::Callers;
pub(super) use custom::Customised;
pub(super) use queried::Queried;
use site::{Destination, Draws, Seen, Site, Units, estimates, rounded};

use crate::channel::modules::Modules;
use crate::fold::dictionary::Step;
use crate::fold::levels;

/// Nanoseconds of user time that the kernel's figure is too coarse for.
const SHORT: u64 = 200_000_000;

/// The meaning of a site's event.
#[derive(Clone, Copy)]
enum Op {
    /// To a destination that is known: of the site, one of its own.
    Known(u32, u32),
    /// The record's next word is the destination.
    Destination(u32),
    /// The record's next word is the value.
    Value(u32),
    /// The record's next word is an address.
    Access(u32),
    /// The record's next word is two stamps.
    Latency(u32),
    /// An instruction.
    Instruction(u32),
    /// The record's next words are what the next call passes.
    Arguments,
    /// So many words of the record are of no interest.
    Words(u8),
}

/// Folds windows.
#[derive(Default)]
pub(super) struct Windowed {
    /// Records of the open window so far, by thread.
    pub(super) open: BTreeMap<u32, Vec<u8>>,
    /// Range of ops of each path met.
    pub(super) paths: Vec<(u32, u32)>,
    ops: Vec<Op>,
    sites: Vec<Site>,
    site_of: FxHashMap<(Kind, Place), u32>,
    units: Units,
    /// Events of all branches and calls.
    edges: Draws,
    pub(super) accesses: Accesses,
    arguments: Arguments,
    /// Callers, where values are counted by caller.
    pub(super) callers: Option<Callers>,
    /// Instructions are listed for these alone.
    pub(super) no_accesses: bool,
    /// First and last instruction of each path met, where they are listed.
    ends: Vec<Option<(u32, u32)>>,
    /// The receiver for a customisation module.
    pub(super) custom: Option<Customised>,
    /// Results of queries.
    pub(super) queried: Queried,
    /// Nanoseconds of a cycle.
    cycle: f64,
    /// Levels by which latencies are distinguished.
    levels: Option<Levels>,
    /// Cycles that looking at a load takes in the window that is counted.
    pub(super) own: u64,
    pub(super) counted: u64,
    /// Windows counted in an earlier epoch, before their signals were reported.
    early: u64,
    /// Number of epochs taken.
    epoch: u64,
    /// Nanoseconds in them.
    covered: f64,
    /// Nanoseconds that bursts stand for.
    represented: f64,
    /// Nanoseconds of user time that windows stand for.
    stand_for: f64,
    /// The relative standard error of what bursts stand for.
    pub(super) factor_error: f64,
}

impl Windowed {
    /// Begins with no windows. `cycle`: nanoseconds of a cycle. `levels`: those by which latencies are distinguished.
    pub(super) fn new(cycle: f64, levels: Option<Levels>) -> Self {
        Self {
            cycle,
            levels,
            ..Self::default()
        }
    }

    /// Counts values by caller, where these kinds are collected.
    pub(super) fn by_caller(&mut self, kinds: KindSet) {
        self.callers = Some(Callers::default());
        self.no_accesses = !kinds.has(Kind::Address);
    }

    fn site(&mut self, kind: Kind, place: Place) -> u32 {
        let next = self.sites.len() as u32;
        let site = *self.site_of.entry((kind, place)).or_insert(next);
        if site == next {
            self.sites.push(Site::new(kind, place));
        }
        site
    }

    /// Works out what a path does; `number` is the next.
    pub(super) fn learn(&mut self, steps: impl Iterator<Item = Step>) {
        let first = self.ops.len() as u32;
        let mut ends: Option<(u32, u32)> = None;
        for step in steps {
            if let Step::Instruction(number) = step {
                ends = Some((ends.map_or(number, |(first, _)| first), number));
            }
            let op = match step {
                Step::Static(kind, tuple) => {
                    let site = self.site(kind, tuple.pc);
                    let to = self.sites[site as usize].destination(tuple.value);
                    Op::Known(site, to as u32)
                }
                Step::Dynamic(kind, place) => {
                    let site = self.site(kind, place);
                    match kind {
                        _ if kind.value_is_place() => Op::Destination(site),
                        Kind::Address => Op::Access(site),
                        Kind::Latency => Op::Latency(site),
                        _ => Op::Value(site),
                    }
                }
                // Listed for the module or for callers alone.
                Step::Instruction(_) if self.custom.is_some() || self.no_accesses => continue,
                Step::Instruction(number) => Op::Instruction(number),
                Step::Arguments => Op::Arguments,
                Step::UnselectedWords(words) => Op::Words(words),
                Step::Unselected
                | Step::Unprofiled(..)
                | Step::AfterCall(_)
                | Step::Delivered(_) => continue,
            };
            self.ops.push(op);
        }
        self.paths.push((first, self.ops.len() as u32));
        self.ends.push(ends);
    }

    /// A window that executed some of the instructions that were wanted begins; its weight.
    pub(super) fn begin(&mut self, [executed, wanted, since]: [u64; END_WORDS]) -> f64 {
        self.counted += 1;
        self.covered += self.cycle * executed as f64;
        self.stand_for += since as f64;
        since as f64 / (self.cycle * wanted.max(executed).max(1) as f64)
    }

    /// A burst of this weight begins that has taken so many nanoseconds, as native time.
    pub(super) fn begin_burst(&mut self, weight: f64, covered: f64) {
        self.counted += 1;
        self.covered += covered;
        self.represented += weight * covered;
    }

    /// A path was executed so often in the burst that began last, each time of this weight.
    pub(super) fn executed(&mut self, met: usize, count: u64, weight: f64) {
        let window = self.counted;
        let (first, end) = self.paths[met];
        for op in &self.ops[first as usize..end as usize] {
            if let Op::Known(site, to) = *op {
                let site = &mut self.sites[site as usize];
                site.draws.seen_often(window, weight, count);
                site.goes(to as usize, window, weight * count as f64);
                self.edges.seen_often(window, weight, count);
            }
        }
    }

    pub(super) fn path(&mut self, met: usize, words: &[u8], weight: f64, modules: &Modules) {
        let (first, end) = self.paths[met];
        let window = self.counted;
        let mut words = words.as_chunks::<8>().0.iter();
        let mut word = || words.next().map_or(0, |w| u64::from_le_bytes(*w));
        let mut passed: Option<[u64; ARGUMENTS]> = None;
        if let (Some(callers), Some((entered, _))) = (&mut self.callers, self.ends[met]) {
            callers.enter(entered, modules);
        }
        for n in first as usize..end as usize {
            match self.ops[n] {
                Op::Known(site, to) => {
                    let site = &mut self.sites[site as usize];
                    site.draws.seen(window, weight);
                    site.goes(to as usize, window, weight);
                    self.edges.seen(window, weight);
                    if let Some(values) = passed.take()
                        && let Some(call) = site.call(to as usize)
                    {
                        self.arguments.passed(call, &values, (window, weight));
                    }
                }
                Op::Destination(site) => {
                    let site = &mut self.sites[site as usize];
                    site.draws.seen(window, weight);
                    let to = modules.place_at(TargetPc(word())).word();
                    let to = site.destination(to);
                    site.goes(to, window, weight);
                    self.edges.seen(window, weight);
                    if let Some(values) = passed.take()
                        && let Some(call) = site.call(to)
                    {
                        self.arguments.passed(call, &values, (window, weight));
                    }
                }
                Op::Value(site) => self.value(site, word(), (window, weight), modules),
                Op::Access(site) => {
                    let address = word();
                    self.value(site, address, (window, weight), modules);
                    self.accesses.address(address);
                }
                Op::Latency(site) => {
                    let cycles = kept(levels::between(word()).saturating_sub(self.own));
                    let site = &mut self.sites[site as usize];
                    site.draws.seen(window, weight);
                    let to = site.destination(cycles);
                    site.goes(to, window, weight);
                }
                Op::Instruction(number) => {
                    self.accesses.instruction(number, (window, weight));
                }
                Op::Arguments => passed = Some(std::array::from_fn(|_| word())),
                Op::Words(words) => {
                    for _ in 0..words {
                        word();
                    }
                }
            }
        }
        if let (Some(callers), Some((_, left))) = (&mut self.callers, self.ends[met]) {
            callers.leave(left);
        }
    }

    fn value(&mut self, number: u32, value: u64, window: (u64, f64), modules: &Modules) {
        let site = &mut self.sites[number as usize];
        let times = site.value(value, window, &mut self.units);
        if let Some(callers) = &mut self.callers {
            callers.value((number, site), value, window, times, modules);
        }
    }

    /// Takes the results of all windows since the last time, but for those of a customisation module. Windows that have not ended are
    /// left for the next. Returns for how many windows each stands.
    pub(super) fn take(
        &mut self,
        kinds: &mut BTreeMap<Kind, KindProfile>,
        windows: &mut Windows,
    ) -> f64 {
        // Signals came at as many periods as there were, but not all of them led to a window that counts.
        let signals = (windows.taken + windows.skipped).saturating_sub(self.early);
        let came = signals.max(self.counted);
        // Of windows that ended while this was asked the signals are told the next time.
        self.early = came - signals;
        self.epoch += 1;
        let stand_for = std::mem::take(&mut self.stand_for);
        let scale = match self.represented > 0.0 {
            // No burst stands for the time after the last one.
            true => windows.cpu as f64 / self.represented,
            false if windows.user > SHORT && stand_for > 0.0 => windows.user as f64 / stand_for,
            false => came as f64 / self.counted.max(1) as f64,
        };
        windows.counted = std::mem::take(&mut self.counted);
        windows.covered = std::mem::take(&mut self.covered) as u64;
        let mut edges = std::mem::take(&mut self.edges);
        edges.settle();
        let mut rare = Rare {
            all: Sampled {
                factor_error: self.factor_error,
                ..edges.sampled(scale)
            },
            edges: BTreeMap::new(),
        };
        for site in &mut self.sites {
            let mut draws = std::mem::take(&mut site.draws);
            draws.settle();
            let mut sampled = draws.sampled(scale);
            sampled.factor_error = self.factor_error;
            if sampled.samples == 0 {
                continue;
            }
            let executions = sampled.executions;
            let mut counts: Vec<(u64, u64)> = match &site.seen {
                Seen::Destinations(all) => {
                    let gone = all.iter().filter(|d| d.weight > 0.0);
                    if rare::EDGES.contains(&site.kind) {
                        rare.edges.extend(gone.clone().filter_map(|d| few(site, d)));
                    }
                    gone.map(|d| (d.to, rounded(d.weight * scale))).collect()
                }
                Seen::Values(list) => {
                    sampled.probability = list.chance(sampled.samples);
                    estimates(list, executions)
                }
            };
            counts.sort_unstable();
            site.forget(self.epoch);
            let profile = kinds.entry(site.kind).or_default();
            profile.messages += sampled.samples;
            profile.seen += rounded(executions);
            profile.counts.insert(site.place, counts);
            let sites = windows.sites.entry(site.kind).or_default();
            sites.insert(site.place, sampled);
        }
        windows.rare = Some(rare);
        self.accesses.take(scale, windows);
        self.arguments.take(scale, windows);
        if let Some(callers) = &mut self.callers {
            callers.take(scale, &self.sites, windows);
        }
        windows.levels.clone_from(&self.levels);
        scale
    }
}

/// An edge that few windows saw.
fn few(site: &Site, to: &Destination) -> Option<(Edge, u8)> {
    let windows = u8::try_from(to.windows).ok()?;
    let edge = Edge {
        kind: site.kind,
        from: site.place,
        to: Place::from_word(to.to),
    };
    (windows <= rare::FEW).then_some((edge, windows))
}
