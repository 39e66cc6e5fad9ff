//! Records into a profile.
//!
//! # Problem
//! A busy program makes hundreds of millions of events a second, and one host thread keeps up with
//! them, or the program waits. The events must come out exactly as they happened, in order, through
//! any compressor.
//!
//! # Strategy
//! Two ways, chosen by the spec. Under `exact` with no stream to write, order does not matter:
//! paths are counted, as [`crate::fold::exact`] says, and expanded once at the end. Otherwise each record
//! is expanded at once into tuples, in order, which go in blocks through the compressor and to the
//! stream file. What a path expands to is worked out when its number is first seen. A third way is that of
//! messages which the target sends by itself ([`messages`]), beside the second, for what it records nevertheless. Acyclic paths
//! are made of the events of each thread in order ([`acyclic`]), so they go the second way also under `exact`, but for those that the target counts.
//!
//! # Invariants
//! * Both ways give the same profile under `exact`.
//! * A record's values belong to the path's dynamic events in order; a record cut off by the end of
//!   a chunk is damage, and said.
//! * Places are resolved while the code they name is mapped: before it changes that, the target asks
//!   for all counts that hold run-time addresses to be settled ([`Folder::asked`]). So what has not been when a region
//!   takes the place of another is of the new one: a transfer is recorded before the runtime looks at where it leads,
//!   and may be folded before that is told.

mod acyclic;
pub mod conflicts;
mod convergent;
mod counter_arrays;
pub mod dictionary;
pub mod exact;
mod expand;
pub mod levels;
mod messages;
pub mod only;
mod ordered;
mod settled;
mod windowed;

use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use trommel_compress::{Level, Spec};
use trommel_profile::accuracy::PerKind;
use trommel_profile::filter::Filter;
use trommel_profile::memory::Levels;
use trommel_profile::queries::Queries;
use trommel_profile::windows::Windows;
use trommel_profile::{KindProfile, Module, Site, Thread};
use trommel_queue::dict::TargetPc;
use trommel_queue::queries::{EVERYTHING, Header, MESSAGE_WORDS};
use trommel_queue::{MAX_PATHS, SPAWNED, ValueCounter};
use trommel_tuple::{Kind, KindSet, Place};

use self::acyclic::Acyclic;
use self::expand::Told;
use self::messages::Messages;
use self::ordered::Ordered;
use self::settled::Settled;
use self::windowed::{Customised, Windowed};
use crate::ask::converge::Converge;
use crate::ask::custom;
use crate::ask::prefetch::{self, Prefetch};
use crate::ask::queries::Answers;
use crate::channel::memory::Budget;
use crate::channel::modules::{Images, Modules};
use crate::channel::shared::{Damaged, Filled, Shared};
use crate::channel::stream::StreamFile;
use crate::channel::terms::TargetCounts;
use crate::fold::dictionary::{Dictionary, Path, Step};
use crate::fold::exact::{Lost, Tables, UNSELECTED};
use crate::fold::only::Selection;

/// The stream file could not be written; the profile does not need it.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the event stream: {0}")]
pub struct StreamError(io::Error);

/// What the counting loop needs of a path that was met.
#[derive(Clone, Copy)]
struct Counter {
    /// Executions since the last settling, when counting exactly.
    count: u64,
    /// Where its tables start in the dictionary's.
    tables: u32,
    /// 64-bit words in its records.
    values: u16,
    /// Its records are value counters: a value, and how often.
    value_counters: bool,
}

/// In `met`: not met.
const NEVER: u32 = u32::MAX;

/// Events per kind of one record.
type Sizes = [u32; 8];
/// Of those of a thread.
type Sums = [u64; 8];

/// Number of the thread that a program starts with. What it did is the rest of what all did.
const FIRST_THREAD: u32 = 1;

/// Whether what a thread did counts as the first one's: its own, and what processes did that ran in
/// this one's memory.
const fn is_first(thread: u32) -> bool {
    thread == FIRST_THREAD || thread & SPAWNED != 0
}

/// Whether a spec counts everything, so that the order of events does not matter.
pub fn is_exact(spec: &Spec) -> bool {
    spec.level == Level::Exact && spec.table.is_none() && spec.thinning.is_none()
}

/// Folds the records of one target.
pub struct Folder {
    dictionary: Dictionary,
    /// By path number: which of the paths met it is.
    met: Vec<u32>,
    /// By path met, as `paths`.
    counters: Vec<Counter>,
    paths: Vec<Path>,
    tables: Tables,
    /// As `paths`, as far as needed: what their records are as messages.
    told: Vec<Told>,
    /// As `paths`, as far as needed: events in a record, per kind.
    sizes: Vec<Sizes>,
    /// By number, the threads but for the first: their ids and events, per kind.
    threads: BTreeMap<u32, (u32, PerKind)>,
    /// The value counters that are the last records of threads.
    last_value_counters: BTreeMap<u32, ValueCounter>,
    /// The first thread's id.
    first_tid: u32,
    regions: usize,
    /// Settled counts.
    settled: Settled,
    ordered: Option<Ordered>,
    windowed: Option<Windowed>,
    is_customised: bool,
    answers: Option<Answers>,
    /// What messages go to where they are about prefetches.
    prefetch: Option<Prefetch>,
    /// What watches values, if they are not profiled once they are known.
    converge: Option<Box<Converge>>,
    /// As `paths`, as far as needed: the number there of the place that messages are about.
    watched: Vec<u32>,
    /// Executions of places that were not profiled then, as far as paths tell.
    unprofiled: BTreeMap<Place, u64>,
    /// When it was made.
    since: Instant,
    /// There were more ranges with tags than can be told, and that was not said yet.
    overflowing: bool,
    /// Code that is not selected has no events.
    selects: bool,
    /// Some that is selected has none either, for want of room, and that was not said yet.
    unobserved: bool,
}

impl Folder {
    /// A folder for `spec` and the events `kinds`, of which the target counts what `counts` says; with `stream`, all events are written
    /// there too, up to its limit.
    pub fn new(
        spec: &Spec,
        (kinds, counts): (KindSet, TargetCounts),
        stream: Option<(io::Result<StreamFile>, Option<u64>)>,
        selection: Selection,
        images: Images,
        budget: Rc<Budget>,
    ) -> Self {
        let (stream, limit) = stream.map_or((None, None), |(file, limit)| (Some(file), limit));
        let (stream, stream_error) = match stream.transpose() {
            Ok(stream) => (stream, None),
            Err(error) => (None, Some(StreamError(error))),
        };
        let exact = is_exact(spec) && stream.is_none() && stream_error.is_none();
        let acyclic =
            (kinds.has(Kind::Path)).then(|| Acyclic::new(kinds, exact.then(|| Rc::clone(&budget))));
        let makes_paths = acyclic.is_some();
        let exact = exact && !makes_paths;
        let messages = match counts {
            TargetCounts::Strata(strata) => Some(Messages::new(strata, spec.table)),
            TargetCounts::Nothing | TargetCounts::Paths | TargetCounts::Intervals(_) => None,
        };
        let mut ordered =
            (!exact).then(|| Ordered::new(spec, messages, stream, stream_error, limit));
        if let Some(ordered) = &mut ordered {
            ordered.acyclic = acyclic;
            ordered.intervals = matches!(counts, TargetCounts::Intervals(_));
            ordered.counted = counts == TargetCounts::Paths;
        }
        Self {
            dictionary: Dictionary::new(selection, images, makes_paths),
            met: Vec::new(),
            counters: Vec::new(),
            paths: Vec::new(),
            tables: Tables::new(budget),
            told: Vec::new(),
            sizes: Vec::new(),
            threads: BTreeMap::new(),
            last_value_counters: BTreeMap::new(),
            first_tid: 0,
            regions: 0,
            settled: Settled::default(),
            ordered,
            windowed: None,
            is_customised: false,
            answers: None,
            prefetch: None,
            converge: None,
            watched: Vec::new(),
            unprofiled: BTreeMap::new(),
            since: Instant::now(),
            overflowing: false,
            selects: false,
            unobserved: false,
        }
    }

    /// All records are of windows with marks; `cycle`: nanoseconds of one. `levels`: by what latencies are told apart.
    pub fn of_windows(mut self, cycle: f64, levels: Option<Levels>) -> Self {
        self.windowed = Some(Windowed::new(cycle, levels));
        self
    }

    /// Values in windows are told apart by who called the function that they are seen in.
    pub fn by_caller(mut self, kinds: KindSet) -> Self {
        if let Some(windowed) = &mut self.windowed {
            windowed.by_caller(kinds);
        }
        self
    }

    /// Windows are given to an instance of a customisation module, of the process `pid`.
    pub fn of_custom(mut self, instance: custom::Instance, pid: u32) -> Self {
        self.is_customised = true;
        if let Some(windowed) = &mut self.windowed {
            windowed.custom = Some(Customised::new(instance, pid));
        }
        self
    }

    /// Whether there are messages for a customisation module among the records.
    const fn is_customised(&self) -> bool {
        self.is_customised
    }

    /// That the customisation module has failed, and why; told once.
    pub fn news_of_custom(&mut self) -> Option<String> {
        self.windowed.as_mut()?.custom.as_mut()?.news()
    }

    /// There are messages of queries among the records.
    pub fn of_queries(mut self, answers: Answers) -> Self {
        self.answers = Some(answers);
        self
    }

    /// There are messages about prefetches among the records.
    pub fn of_prefetches(mut self, prefetch: Prefetch) -> Self {
        self.prefetch = Some(prefetch);
        self
    }

    /// Tells the target what to prefetch, if it waits for that: of `round` all messages are folded.
    pub fn answer(&mut self, shared: &Shared, round: u32) {
        if let Some(prefetch) = &mut self.prefetch {
            prefetch.answer(shared.prefetch(), round, &self.dictionary.modules);
        }
    }

    /// The target waits to be told what is selected.
    pub fn of_selected(mut self) -> Self {
        self.selects = true;
        self
    }

    /// Whether code that is selected has no events for want of room to say so; told once.
    pub fn is_unobserved(&mut self) -> bool {
        std::mem::take(&mut self.unobserved)
    }

    /// Whether code lacks tags for want of room; told once.
    pub fn is_overflowing(&mut self) -> bool {
        std::mem::take(&mut self.overflowing)
    }

    /// The message that a record is, and what follows it.
    #[cold]
    fn message<'b>(
        &mut self,
        thread: u32,
        number: u32,
        rest: &'b [u8],
    ) -> Result<&'b [u8], Damaged> {
        let Some(header) = Header::decode(number) else {
            return Err(damaged(number));
        };
        let (words, after) = (rest.split_at_checked(8 * usize::from(header.words)))
            .ok_or_else(|| damaged(number))?;
        let mut all = [0; MESSAGE_WORDS];
        for (to, from) in all.iter_mut().zip(words.as_chunks::<8>().0) {
            *to = u64::from_le_bytes(*from);
        }
        let words = &all[..usize::from(header.words)];
        let modules = &self.dictionary.modules;
        match (&mut self.answers, &mut self.prefetch) {
            (_, Some(prefetch)) if header.words == 2 => {
                let store = header.queue == prefetch::STORES;
                prefetch.access(thread, words[0], words[1], store);
            }
            (Some(answers), None) => answers.message(thread, header, words, modules),
            _ => return Err(damaged(number)),
        }
        Ok(after)
    }

    /// What was dropped to save memory.
    pub fn lost(&self) -> Lost {
        self.tables.lost()
    }

    /// Whether the stream has reached its limit: later events are not looked at.
    pub fn is_full(&self) -> bool {
        self.ordered.as_ref().is_some_and(|o| o.wanted == 0)
    }

    /// Folds the next records of one thread.
    pub fn chunk(&mut self, shared: &Shared, from: &Filled, bytes: &[u8]) -> Result<(), Damaged> {
        self.learn(shared);
        let other = !is_first(from.thread);
        if other {
            self.threads.entry(from.thread).or_default().0 = from.tid;
        } else if from.thread == FIRST_THREAD {
            self.first_tid = from.tid;
        }
        if self.windowed.is_some() {
            self.windows(shared, from.thread, bytes)
        } else if self.ordered.is_some() {
            self.expand(shared, from.thread, bytes, false)
        } else if other {
            let mut sums = Sums::default();
            let done = self.count::<true>(shared, from.thread, bytes, &mut sums);
            self.add_to(from.thread, sums);
            done
        } else {
            self.count::<false>(shared, from.thread, bytes, &mut Sums::default())
        }
    }

    fn add_to(&mut self, thread: u32, events: [u64; 8]) {
        let (_, sums) = self.threads.entry(thread).or_default();
        for (sum, n) in sums.iter_mut().zip(events) {
            *sum = sum.saturating_add(n);
        }
    }

    /// Resolves all that was recorded so far, as the target is to change what it names.
    pub fn asked(&mut self, shared: &Shared) -> Result<(), Damaged> {
        self.learn(shared);
        if self.ordered.is_none() && self.windowed.is_none() {
            self.settle();
        }
        if let Some(answers) = &mut self.answers {
            answers.settle(&self.dictionary.modules);
        }
        self.counter_arrays(shared, false)?;
        self.kept_back(shared)
    }

    /// Folds what was kept back, and what was counted: no more will come.
    pub fn end(&mut self, shared: &Shared) -> Result<(), Damaged> {
        self.learn(shared);
        self.counter_arrays(shared, true)?;
        self.kept_back(shared)?;
        self.end_walks();
        Ok(())
    }

    fn kept_back(&mut self, shared: &Shared) -> Result<(), Damaged> {
        let rest = self.ordered.as_ref().map(|o| o.rest.keys().copied());
        let mut threads: Vec<u32> = rest.into_iter().flatten().collect();
        threads.sort_unstable();
        threads
            .into_iter()
            .try_for_each(|thread| self.expand(shared, thread, &[], true))
    }

    /// Why no more is written to the stream file; told once.
    pub fn stream_error(&mut self) -> Option<StreamError> {
        self.ordered.as_mut()?.stream_error.take()
    }

    /// Whether the target sends messages.
    fn has_messages(&self) -> bool {
        let ordered = self.ordered.as_ref();
        ordered.is_some_and(|ordered| ordered.messages.is_some())
    }

    /// Whether the target counts events one by one, by what we call their places.
    fn hashes_places(&self) -> bool {
        let ordered = self.ordered.as_ref();
        ordered.is_some_and(|ordered| ordered.messages.is_some() || ordered.intervals)
    }

    /// Whether the target counts acyclic paths, whose jumps are inside by what we call places.
    fn counts_acyclic(&self) -> bool {
        self.ordered.as_ref().is_some_and(|o| o.counted)
    }

    /// Reads what the dictionary says beyond what is known.
    pub fn learn(&mut self, shared: &Shared) {
        let regions = shared.regions();
        while self.regions < regions {
            let region = shared.region(self.regions);
            if self.dictionary.modules.replaces(&region)
                && shared.has_counter_arrays()
                && !self.has_messages()
            {
                self.meet_all(shared, region.paths);
            }
            if let Some(converge) = &mut self.converge
                && self.dictionary.modules.replaces(&region)
            {
                converge.replaced(&region.range);
            }
            self.dictionary.modules.add(&region);
            let tagged = self.answers.as_mut().filter(|answers| answers.is_tagged());
            let waits = tagged.is_some() || self.selects;
            if let Some(answers) = tagged {
                let modules = &self.dictionary.modules;
                let range = region.range.clone();
                self.overflowing |= !answers.tell(shared.queries(), range, modules);
            }
            if self.selects
                && !self
                    .dictionary
                    .tell_selected(shared.queries(), region.range.clone())
            {
                // What is counted one by one is not asked about once more.
                match self.hashes_places() {
                    true => self.unobserved = true,
                    false => shared.queries().tagged.store(EVERYTHING, Relaxed),
                }
            }
            if waits || self.hashes_places() || self.counts_acyclic() {
                let start = region.range.start;
                let place = self.dictionary.modules.place_at(TargetPc(start)).word();
                shared.set_bias(self.regions, place.wrapping_sub(start));
            }
            self.regions += 1;
        }
        self.met.resize(shared.paths(), NEVER);
    }

    /// Which path met `number` is. What it expands to is worked out when it is met for the first
    /// time: most are never taken.
    #[inline]
    fn path(&mut self, shared: &Shared, number: u32) -> Result<usize, Damaged> {
        match self.met.get(number as usize) {
            Some(&NEVER) => self.meet(shared, number),
            Some(&met) => Ok(met as usize),
            None => Err(damaged(number)),
        }
    }

    #[cold]
    fn meet(&mut self, shared: &Shared, number: u32) -> Result<usize, Damaged> {
        let path = self.dictionary.meet(shared, number)?;
        self.tables.make(self.dictionary.table_count());
        let met = self.paths.len();
        self.counters.push(Counter {
            count: 0,
            tables: path.tables,
            values: path.values,
            value_counters: path.message,
        });
        self.paths.push(path);
        self.met[number as usize] = met as u32;
        Ok(met)
    }

    /// Works out the sizes of all paths met. Programs with one thread do without.
    #[cold]
    fn measure(&mut self) {
        for path in &self.paths[self.sizes.len()..] {
            let mut sizes = Sizes::default();
            for step in self.dictionary.steps(path).iter().chain(&path.tail) {
                if let Step::Static(kind, _) | Step::Dynamic(kind, _) = step {
                    sizes[*kind as usize] += 1;
                }
            }
            self.sizes.push(sizes);
        }
    }

    /// The way for exact counts. `SPLIT`: adds the events, per kind, to `events`.
    fn count<const SPLIT: bool>(
        &mut self,
        shared: &Shared,
        thread: u32,
        bytes: &[u8],
        events: &mut Sums,
    ) -> Result<(), Damaged> {
        let mut rest = bytes;
        let mut last = None;
        while let Some((number, after)) = rest.split_first_chunk::<4>() {
            let number = u32::from_le_bytes(*number);
            if number >= MAX_PATHS as u32 {
                rest = self.message(thread, number, after)?;
                continue;
            }
            let met = self.path(shared, number)?;
            last = None;
            if SPLIT && !self.counters[met].value_counters {
                if self.sizes.len() <= met {
                    self.measure();
                }
                for (sum, n) in events.iter_mut().zip(self.sizes[met]) {
                    *sum += u64::from(n);
                }
            }
            let counter = &mut self.counters[met];
            if counter.value_counters {
                let (Some(value), Some(count)) = (
                    after.first_chunk::<8>(),
                    after.get(8..12).and_then(|c| c.first_chunk::<4>()),
                ) else {
                    return Err(damaged(number));
                };
                let value_counter = ValueCounter {
                    value: u64::from_le_bytes(*value),
                    path: number,
                    count: u32::from_le_bytes(*count),
                };
                let count = u64::from(value_counter.count);
                self.tables.add(counter.tables, value_counter.value, count);
                if self.converge.is_some() {
                    self.watch(met, value_counter.value, count);
                }
                if SPLIT {
                    self.add_to_kind(met, count, events);
                }
                last = Some(value_counter);
                rest = &after[12..];
                continue;
            }
            counter.count += 1;
            rest = after;
            if counter.values != 0 {
                let Some((words, after)) = rest.split_at_checked(8 * usize::from(counter.values))
                else {
                    return Err(damaged(number));
                };
                let tables = &self.dictionary.tables[counter.tables as usize..];
                for (&table, word) in tables.iter().zip(words.as_chunks::<8>().0) {
                    self.tables.add(table, u64::from_le_bytes(*word), 1);
                }
                rest = after;
            }
        }
        if let Some(last) = last {
            self.last_value_counters.insert(thread, last);
        } else if !bytes.is_empty() {
            self.last_value_counters.remove(&thread);
        }
        Ok(())
    }

    /// A message's event was seen so often with a value. Adds that, by kind, to `events`.
    fn counted_values(
        &mut self,
        met: usize,
        value_counter: &ValueCounter,
        events: Option<&mut Sums>,
    ) {
        let (counter, count) = (&self.counters[met], u64::from(value_counter.count));
        self.tables.add(counter.tables, value_counter.value, count);
        if let Some(events) = events {
            self.add_to_kind(met, count, events);
        }
    }

    /// Adds to the events of the kind that a message is about.
    fn add_to_kind(&self, met: usize, count: u64, events: &mut Sums) {
        if let Some(Step::Dynamic(kind, _)) = self.paths[met].tail {
            events[kind as usize] += count;
        }
    }

    /// Moves counts that name run-time addresses to places.
    fn settle(&mut self) {
        let taken = self
            .paths
            .iter()
            .zip(&mut self.counters)
            .filter_map(|(p, c)| {
                let count = std::mem::take(&mut c.count);
                (count != 0).then_some((p, count))
            });
        let settled = &mut self.settled;
        let unprofiled = &mut self.unprofiled;
        self.dictionary.counts(
            taken,
            |kind, tuple, count| settled.tuple(kind, tuple, count),
            |place, count| *unprofiled.entry(place).or_default() += count,
        );
        self.tables.flush();
        for (n, &(kind, place)) in self.dictionary.dynamic.iter().enumerate() {
            let mut values = self.tables.take(n as u32 + 1 + UNSELECTED);
            if kind.value_is_place() {
                for (value, _) in &mut values {
                    *value = self.dictionary.modules.place_at(TargetPc(*value)).word();
                }
            }
            if !values.is_empty() {
                settled.values(kind, place, values);
            }
        }
    }

    /// How the branches and calls transfer control that were executed.
    fn reached(&self, kinds: &BTreeMap<Kind, KindProfile>) -> BTreeMap<Place, Site> {
        // Nothing else is a branch or a call.
        let transfers = kinds.iter().filter(|(kind, _)| kind.value_is_place());
        let places = transfers.flat_map(|(_, k)| k.counts.keys());
        let site = |place: &Place| Some((*place, *self.dictionary.sites.get(place)?));
        places.filter_map(site).collect()
    }

    /// What the windows since the last time come to, where there are windows. `windows`: what they cost.
    pub fn take(&mut self, kinds: KindSet, mut windows: Windows) -> Option<Taken> {
        let mut folded: BTreeMap<Kind, KindProfile> =
            kinds.iter().map(|k| (k, KindProfile::default())).collect();
        self.windowed.as_mut()?.take(&mut folded, &mut windows);
        Some(Taken {
            sites: self.reached(&folded),
            kinds: folded,
            modules: self.dictionary.modules.list.clone(),
            windows,
        })
    }

    /// The profile of everything folded, and the stream file finished. `windows`: what they cost, where
    /// there were any.
    pub fn finish(mut self, shared: &Shared, kinds: KindSet, windows: Option<Windows>) -> Folded {
        let queries = self.answers.take();
        let modules = &self.dictionary.modules;
        let queries = queries.map(|answers| answers.finish(shared.queries(), modules));
        let prefetch = self.prefetch.take().map(|p| p.report(shared.prefetch()));
        let mut stream_error = None;
        let mut converge = self.converge.take();
        let mut folded: BTreeMap<Kind, KindProfile> =
            kinds.iter().map(|k| (k, KindProfile::default())).collect();
        let mut windows = windows;
        match (self.windowed.take(), self.ordered.take()) {
            (Some(mut windowed), _) => {
                let windows = windows.get_or_insert_default();
                let each = windowed.take(&mut folded, windows);
                let all = &self.dictionary;
                let custom = windowed.custom.take();
                windows.custom = custom.map(|c| c.finish(each, &all.instructions, &all.modules));
                // Nothing tells them apart.
                self.threads.clear();
            }
            (None, Some(ordered)) => {
                let modules = &self.dictionary.modules;
                stream_error = ordered.finish(modules, &mut self.tables, &mut folded);
            }
            (None, None) => {
                self.settle();
                for (kind, counts) in std::mem::take(&mut self.settled).by_kind() {
                    let profile = folded.entry(kind).or_default();
                    let all = counts.iter().flat_map(|(_, values)| values);
                    profile.seen = all.map(|(_, count)| count).sum();
                    profile.messages = profile.seen;
                    profile.counts = counts.into_iter().collect();
                }
            }
        }
        let filter = converge.as_mut().map(|converge| {
            converge.finish(self.moment(shared));
            self.filter(converge, shared, &mut folded)
        });
        let threads = match self.threads.is_empty() {
            true => Vec::new(),
            false => threads(&folded, self.first_tid, &self.threads),
        };
        Folded {
            sites: self.reached(&folded),
            kinds: folded,
            threads,
            modules: self.dictionary.modules,
            windows,
            queries,
            prefetch,
            filter,
            stream_error,
            lost: self.tables.lost(),
        }
    }
}

fn damaged(number: u32) -> Damaged {
    Damaged {
        what: "a path number",
        number: number.into(),
    }
}

/// Each thread's share of what was seen: the first one has what the others have not.
fn threads(
    folded: &BTreeMap<Kind, KindProfile>,
    first_tid: u32,
    others: &BTreeMap<u32, (u32, PerKind)>,
) -> Vec<Thread> {
    let thread = |number, tid, seen: &dyn Fn(Kind) -> u64| Thread {
        number,
        tid,
        seen: folded.keys().map(|&kind| (kind, seen(kind))).collect(),
    };
    let rest = |kind: Kind| {
        let of_others = others.values().map(|(_, seen)| seen[kind as usize]);
        folded[&kind].seen.saturating_sub(of_others.sum())
    };
    let others = others
        .iter()
        .map(|(&number, (tid, seen))| thread(number, *tid, &|kind| seen[kind as usize]));
    std::iter::once(thread(FIRST_THREAD, first_tid, &rest))
        .chain(others)
        .collect()
}

/// What the windows of a while came to.
pub struct Taken {
    /// Per kind.
    pub kinds: BTreeMap<Kind, KindProfile>,
    /// Of the branches and calls that were executed.
    pub sites: BTreeMap<Place, Site>,
    /// The modules.
    pub modules: Vec<Module>,
    /// The windows.
    pub windows: Windows,
}

/// What a run came to.
pub struct Folded {
    /// Per kind.
    pub kinds: BTreeMap<Kind, KindProfile>,
    /// Of the branches and calls that were executed.
    pub sites: BTreeMap<Place, Site>,
    /// What each thread did, when there was more than one.
    pub threads: Vec<Thread>,
    /// The modules.
    pub modules: Modules,
    /// The windows, where it was made of those.
    pub windows: Option<Windows>,
    /// What queries came to, if any were put.
    pub queries: Option<Queries>,
    /// What was found to prefetch, if that was wanted.
    pub prefetch: Option<prefetch::Report>,
    /// What was not profiled as it was known, if that was wanted.
    pub filter: Option<Filter>,
    /// Why the stream file lacks its end, unless that was told before.
    pub stream_error: Option<StreamError>,
    /// What was dropped to save memory.
    pub lost: Lost,
}
