//! Records of windows: each window is one sample of the program.
//!
//! # Problem
//! Windows are drawn at moments of CPU time. What a window counts for depends on how often windows were taken
//! when it was, and on how long it is; and it counts only when it has ended.
//!
//! # Strategy
//! What a thread has recorded waits here until its window's end is there. What it recorded before
//! of the mark where the window begins is dropped. Then the window's events are counted, each with the window's
//! weight: the CPU time from one window to the next, as often as they were begun then, over the time of a whole window's instructions. How long these take
//! natively nobody can tell without hardware counters, and under control they take many times as long; so they are taken to be
//! executed at one rate, one a cycle of the time stamp counter. Counts therefore compare as the *time* spent around
//! their places does: of two places that are executed together they are in the right proportion, a place in slow code is
//! counted too high against one in fast code, and all of them may be off by one factor. A window that a system call cuts short
//! counts as part of a whole one.
//!
//! Values of loads, and method tables, go to a hotlist for each instruction, as many times as their window's weight has
//! units: a value that is there while windows are rare is not worth less; branches and calls have a
//! count for each destination, and so have latencies for each length that is told apart. What calls pass is in [`arguments`]. Counting a window takes no memory
//! but for instructions that are new. Where accesses to memory are recorded the window's instructions go, in order, to a
//! model that finds those in each other's way ([`crate::fold::conflicts`]). Values may be told apart by callers, too ([`callers`]). Where there is a customisation module it gets the messages of the
//! queries that are put for it, and what it makes of them is folded when it is there ([`custom`]).
//!
//! # Invariants
//! * A window is counted once, whole, or not at all.
//! * What is kept of an instruction with values is of constant size.

mod arguments;
mod callers;
mod custom;
mod records;

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use trommel_compress::hotlist::Hotlist;
use trommel_compress::random::SplitMix64;
use trommel_profile::KindProfile;
use trommel_profile::memory::{Levels, Pair, rounded as kept};
use trommel_profile::sampled::Sampled;
use trommel_profile::windows::Windows;
use trommel_queue::dict::{ARGUMENTS, TargetPc};
use trommel_queue::{END_MARK, END_WORDS};
use trommel_tuple::{Kind, KindSet, Place};

use arguments::Arguments;
use callers::Callers;
pub(super) use custom::Customised;
use records::{Record, Records};

use super::{Folder, damaged};
use crate::channel::modules::Modules;
use crate::channel::shared::{Damaged, Shared};
use crate::fold::conflicts::{Known, Run};
use crate::fold::dictionary::{Instruction, Step};
use crate::fold::levels;

/// What happens to a site's event.
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

/// How often something was seen, window by window.
#[derive(Default)]
struct Draws {
    /// The window that it was seen in last, and how often.
    window: u64,
    in_window: u64,
    weight: f64,
    samples: u64,
    executions: f64,
    variance: f64,
}

impl Draws {
    /// Seen in a window of this number and weight.
    #[inline]
    fn seen(&mut self, window: u64, weight: f64) {
        if self.window != window {
            self.settle();
            self.window = window;
            self.weight = weight;
        }
        self.in_window += 1;
    }

    /// Adds the window that it was seen in last.
    fn settle(&mut self) {
        let n = std::mem::take(&mut self.in_window);
        self.samples += n;
        let weight = n as f64 * self.weight;
        self.executions += weight;
        self.variance += weight * weight;
    }

    /// What is known by all, each of which stands for `scale`.
    fn sampled(&self, scale: f64) -> Sampled {
        Sampled {
            samples: self.samples,
            executions: self.executions * scale,
            variance: self.variance * scale * scale,
            probability: 1.0,
        }
    }
}

/// What is known of an instruction.
struct Site {
    kind: Kind,
    place: Place,
    draws: Draws,
    seen: Seen,
}

enum Seen {
    /// Where it goes, or how long it takes, with weights.
    Destinations(Vec<(u64, f64)>),
    /// Values.
    Values(Box<Hotlist>),
}

impl Site {
    fn new(kind: Kind, place: Place) -> Self {
        let seen = match kind.value_is_place() || kind == Kind::Latency {
            true => Seen::Destinations(Vec::new()),
            false => Seen::Values(Box::new(Hotlist::new(place.word() ^ kind as u64))),
        };
        Self {
            kind,
            place,
            draws: Draws::default(),
            seen,
        }
    }

    /// Begins anew, where numbers of destinations stay what they are and coins fall otherwise.
    fn forget(&mut self, epoch: u64) {
        match &mut self.seen {
            Seen::Destinations(all) => all.iter_mut().for_each(|(_, weight)| *weight = 0.0),
            Seen::Values(list) => {
                let seed =
                    SplitMix64::new(self.place.word() ^ self.kind as u64 ^ epoch << 32).draw();
                **list = Hotlist::new(seed);
            }
        }
    }

    fn destination(&mut self, word: u64) -> usize {
        let Seen::Destinations(all) = &mut self.seen else {
            return 0;
        };
        if let Some(n) = all.iter().position(|(to, _)| *to == word) {
            return n;
        }
        all.push((word, 0.0));
        all.len() - 1
    }

    /// The call, and the word of one of its destinations.
    fn call(&self, to: usize) -> Option<(Place, u64)> {
        let Seen::Destinations(all) = &self.seen else {
            return None;
        };
        let target = all.get(to).filter(|_| self.kind == Kind::Call)?.0;
        Some((self.place, target))
    }

    /// How many units the value stands for.
    fn value(&mut self, value: u64, (window, weight): (u64, f64), all: &mut Units) -> u64 {
        self.draws.seen(window, weight);
        let Seen::Values(list) = &mut self.seen else {
            return 0;
        };
        let times = all.draw(weight);
        list.add_times(value, times);
        times
    }

    fn goes(&mut self, to: usize, weight: f64) {
        if let Seen::Destinations(all) = &mut self.seen
            && let Some((_, sum)) = all.get_mut(to)
        {
            *sum += weight;
        }
    }
}

/// Whole units of weight, for what counts in instances: as many as a weight has, the rest by chance.
struct Units {
    one: f64,
    random: SplitMix64,
}

impl Default for Units {
    fn default() -> Self {
        Self {
            one: 0.0,
            random: SplitMix64::new(1),
        }
    }
}

impl Units {
    fn draw(&mut self, weight: f64) -> u64 {
        /// In the first weight. Few, and the rest that is left to chance is much.
        const FIRST: f64 = 4.0;
        const UNIT: f64 = 1.0 / (1_u64 << 53) as f64;
        if self.one <= 0.0 {
            self.one = weight / FIRST;
        }
        let chance = (self.random.draw() >> 11) as f64 * UNIT;
        (weight / self.one + chance) as u64
    }
}

/// Folds windows.
#[derive(Default)]
pub(super) struct Windowed {
    /// By thread, what its window has recorded so far.
    open: BTreeMap<u32, Vec<u8>>,
    /// By path met: where its ops are.
    paths: Vec<(u32, u32)>,
    ops: Vec<Op>,
    sites: Vec<Site>,
    site_of: FxHashMap<(Kind, Place), u32>,
    units: Units,
    accesses: Accesses,
    arguments: Arguments,
    /// Where values are told apart by callers.
    callers: Option<Callers>,
    /// Instructions are listed for these alone.
    no_accesses: bool,
    /// By path met: its first and its last instruction, where they are listed.
    ends: Vec<Option<(u32, u32)>>,
    /// What goes to a customisation module.
    pub(super) custom: Option<Customised>,
    /// Nanoseconds of a cycle.
    cycle: f64,
    /// By what latencies are told apart.
    levels: Option<Levels>,
    /// Cycles that looking at a load takes in the window that is counted.
    own: u64,
    counted: u64,
    /// Of those that were counted in an earlier epoch, the ones whose signals were not told then.
    early: u64,
    /// How often all was taken.
    epoch: u64,
    /// Nanoseconds in them.
    covered: f64,
}

impl Windowed {
    /// `cycle`: nanoseconds of one. `levels`: by what latencies are told apart.
    pub(super) fn new(cycle: f64, levels: Option<Levels>) -> Self {
        Self {
            cycle,
            levels,
            ..Self::default()
        }
    }

    /// Values are told apart by callers, where these kinds are collected.
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
    fn learn(&mut self, steps: impl Iterator<Item = Step>) {
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
                Step::Unselected | Step::Unprofiled(..) => continue,
            };
            self.ops.push(op);
        }
        self.paths.push((first, self.ops.len() as u32));
        self.ends.push(ends);
    }

    /// A window that executed some of the instructions that were wanted begins; its weight.
    fn begin(&mut self, [executed, wanted, period]: [u64; END_WORDS]) -> f64 {
        self.counted += 1;
        self.covered += self.cycle * executed as f64;
        period as f64 / (self.cycle * wanted.max(executed).max(1) as f64)
    }

    fn path(&mut self, met: usize, words: &[u8], weight: f64, modules: &Modules) {
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
                    site.goes(to as usize, weight);
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
                    site.goes(to, weight);
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
                    site.goes(to, weight);
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

    /// What all windows since the last time come to, but for what a customisation module has of them; those that have not ended are
    /// left for the next. For how many each stands.
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
        let scale = came as f64 / self.counted.max(1) as f64;
        windows.counted = std::mem::take(&mut self.counted);
        windows.covered = std::mem::take(&mut self.covered) as u64;
        for site in &mut self.sites {
            let mut draws = std::mem::take(&mut site.draws);
            draws.settle();
            let mut sampled = draws.sampled(scale);
            if sampled.samples == 0 {
                continue;
            }
            let executions = sampled.executions;
            let mut counts: Vec<(u64, u64)> = match &site.seen {
                Seen::Destinations(all) => {
                    let gone = all.iter().filter(|(_, weight)| *weight > 0.0);
                    gone.map(|&(to, weight)| (to, rounded(weight * scale)))
                        .collect()
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
        self.accesses.take(scale, windows);
        self.arguments.take(scale, windows);
        if let Some(callers) = &mut self.callers {
            callers.take(scale, &self.sites, windows);
        }
        windows.levels.clone_from(&self.levels);
        scale
    }
}

/// What accesses have to do with each other.
#[derive(Default)]
struct Accesses {
    /// By number, what was met.
    known: Vec<(Place, Known)>,
    run: Run,
    /// The instruction that is executed, its window, and the addresses that are told of it so far.
    at: Option<(u32, (u64, f64))>,
    addresses: Vec<u64>,
    pairs: FxHashMap<Pair, Draws>,
}

impl Accesses {
    fn learn(&mut self, all: &[Instruction]) {
        for new in &all[self.known.len()..] {
            let known = Known::of(new.bytes(), new.pc());
            self.known.push((new.place, known));
        }
    }

    /// A window begins.
    fn begin(&mut self) {
        self.at = None;
        self.addresses.clear();
        self.run.clear();
    }

    /// The next instruction.
    fn instruction(&mut self, number: u32, window: (u64, f64)) {
        self.end();
        self.at = Some((number, window));
    }

    /// An address of the one that was next.
    fn address(&mut self, address: u64) {
        self.addresses.push(address);
    }

    /// All is told of the one that was next.
    fn end(&mut self) {
        if let Some((number, (window, weight))) = self.at.take()
            && let Some(&(load, ref known)) = self.known.get(number as usize)
            && known.accesses() == self.addresses.len()
        {
            let (all, pairs) = (&self.known, &mut self.pairs);
            let found = |conflict, whose: u32| {
                let pair = Pair {
                    conflict,
                    store: all[whose as usize].0,
                    load,
                };
                pairs.entry(pair).or_default().seen(window, weight);
            };
            self.run.execute(number, known, &self.addresses, found);
        }
        self.addresses.clear();
    }

    fn take(&mut self, scale: f64, windows: &mut Windows) {
        for (pair, mut draws) in self.pairs.drain() {
            draws.settle();
            windows.pairs.insert(pair, draws.sampled(scale));
        }
    }
}

/// What the values of a list are estimated to have been, of so many executions; sorted.
fn estimates(list: &Hotlist, executions: f64) -> Vec<(u64, u64)> {
    let estimate = |(value, share)| (value, rounded(executions * share));
    let mut all: Vec<(u64, u64)> = list.shares().map(estimate).collect();
    all.sort_unstable();
    all
}

/// A count that is estimated of something that was seen.
fn rounded(count: f64) -> u64 {
    (count.round() as u64).max(1)
}

/// A window that waits for its end, in bytes. Longer ones are damage.
const MOST: usize = 16 << 20;

impl Folder {
    /// The way of windows.
    pub(super) fn windows(
        &mut self,
        shared: &Shared,
        thread: u32,
        bytes: &[u8],
    ) -> Result<(), Damaged> {
        // Taken out while the paths are worked on, and back whatever happens.
        let Some(mut windowed) = self.windowed.take() else {
            return Ok(());
        };
        let mut open = windowed.open.remove(&thread).unwrap_or_default();
        open.extend_from_slice(bytes);
        let done = self.whole_windows(&mut windowed, shared, thread, &open);
        if let Ok(used) = done {
            open.drain(..used);
            windowed.open.insert(thread, open);
        }
        self.windowed = Some(windowed);
        done.map(drop)
    }

    /// Counts the windows that have ended; how many bytes they take.
    fn whole_windows(
        &mut self,
        windowed: &mut Windowed,
        shared: &Shared,
        thread: u32,
        bytes: &[u8],
    ) -> Result<usize, Damaged> {
        let mut used = 0;
        let mut begins = None;
        let mut records = Records(bytes);
        loop {
            match records.next(self, shared)? {
                Record::Part if bytes.len() - used > MOST => return Err(damaged(END_MARK)),
                Record::Part => return Ok(used),
                Record::Path(..) | Record::Message(..) | Record::Stack(_) => {}
                Record::Capture([own]) => begins = Some((records.0, own)),
                Record::End(words) => {
                    if let Some((from, own)) = begins.take().filter(|_| words[0] != 0) {
                        windowed.own = own;
                        let weight = windowed.begin(words);
                        self.count_window(windowed, shared, (thread, Records(from)), weight)?;
                    }
                    used = bytes.len() - records.0.len();
                }
            }
        }
    }

    fn count_window(
        &mut self,
        windowed: &mut Windowed,
        shared: &Shared,
        (thread, mut records): (u32, Records<'_>),
        weight: f64,
    ) -> Result<(), Damaged> {
        windowed.accesses.begin();
        if let Some(callers) = &mut windowed.callers {
            callers.begin();
        }
        // Of what has not been left yet when a message comes nothing is known.
        let mut messages = Vec::new();
        loop {
            let (met, words) = match records.next(self, shared)? {
                Record::Path(met, words) => (met, words),
                Record::Message(header, words) => {
                    messages.push((header, words));
                    continue;
                }
                Record::Stack(words) => {
                    let words = words.as_chunks::<8>().0.iter();
                    let mut words = words.map(|word| u64::from_le_bytes(*word));
                    let count = usize::try_from(words.next().unwrap_or(0));
                    if let (Some(callers), Ok(count)) = (&mut windowed.callers, count) {
                        callers.stack(words.take(count));
                    }
                    continue;
                }
                _ => break,
            };
            while windowed.paths.len() <= met {
                let path = &self.paths[windowed.paths.len()];
                let steps = self.dictionary.steps(path).iter().chain(&path.tail);
                windowed.learn(steps.copied());
            }
            if let Some(callers) = &mut windowed.callers {
                callers.learn(&self.dictionary.instructions);
            }
            if windowed.custom.is_none() && !windowed.no_accesses {
                windowed.accesses.learn(&self.dictionary.instructions);
            }
            windowed.path(met, words, weight, &self.dictionary.modules);
        }
        if let Some(custom) = &mut windowed.custom {
            let all = &self.dictionary.instructions;
            custom.learn(all);
            for (header, words) in messages {
                custom.captured(header, words, all);
            }
            custom.window(thread, (windowed.counted, weight));
            custom.look(all, &self.dictionary.modules);
        }
        windowed.accesses.end();
        Ok(())
    }
}
