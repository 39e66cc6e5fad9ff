//! The folder of one target: what its parts share, and the way for exact counts.

use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use trommel_compress::{Level, Spec};
use trommel_profile::accuracy::PerKind;
use trommel_profile::memory::Levels;
use trommel_profile::queries::Queries;
use trommel_queue::dict::TargetPc;
use trommel_queue::queries::{EVERYTHING, Header, MESSAGE_WORDS};
use trommel_queue::{ValueCounter, counts_after_calls};
use trommel_tuple::{Kind, KindSet, Place};

use super::acyclic::Acyclic;
use super::listeners::Listeners;
use super::message_of::MessageOf;
use super::messages::Messages;
use super::ordered::Ordered;
use super::settled::Settled;
use super::simulated::{Simulate, Simulator};
use super::windowed::{Customised, Windowed};
use crate::ask::converge::Converge;
use crate::ask::custom;
use crate::ask::prefetch::{self, Prefetch};
use crate::ask::queries::{Answers, Changes};
use crate::channel::memory::Budget;
use crate::channel::modules::Images;
use crate::channel::shared::{Damaged, Filled, Shared};
use crate::channel::stream::{StreamError, StreamFile};
use crate::channel::terms::TargetCounts;
use crate::fold::burst::Bursts;
use crate::fold::contexts::Contexts;
use crate::fold::dictionary::{Dictionary, Path, Step};
use crate::fold::exact::{Lost, Tables};
use crate::fold::only::Selection;
use crate::fold::threads::{FIRST_THREAD, is_first};

/// State of the counting loop for a path that was met.
#[derive(Clone, Copy)]
pub(super) struct Counter {
    /// Executions since the last settling, when counting exactly.
    pub(super) count: u64,
    /// Start of its tables in the dictionary's.
    pub(super) tables: u32,
    /// 64-bit words in its records.
    pub(super) values: u16,
    /// True if its records are value counters: a value, and how often.
    pub(super) value_counters: bool,
}

/// A number in `met` of a path that was not met.
pub(super) const NEVER: u32 = u32::MAX;

/// Events per kind of one record.
pub(super) type Sizes = [u32; Kind::ALL.len()];
/// Sums of sizes, of a thread.
pub(super) type Sums = PerKind;

/// Returns whether a spec counts everything, so that the order of events does not matter.
pub fn is_exact(spec: &Spec) -> bool {
    let whole = spec.filter.is_none() && spec.thinning.is_none();
    spec.level == Level::Exact && spec.tables.is_empty() && whole
}

/// Three exclusive ways to fold records.
#[derive(Default)]
pub(super) enum Mode {
    /// Order does not matter: paths are counted, and expanded at the end ([`super::counting`]).
    #[default]
    Counted,
    /// Events stay in order, for a compressor or a stream file ([`super::expand`]).
    Ordered(Box<Ordered>),
    /// Each window is one sample ([`super::windows`]).
    Windowed(Box<Windowed>),
}

/// Folds the records of one target.
pub struct Folder {
    pub(super) dictionary: Dictionary,
    /// Index among the paths met, by exit number.
    pub(super) met: Vec<u32>,
    /// Counters parallel to `paths`.
    pub(super) counters: Vec<Counter>,
    pub(super) paths: Vec<Path>,
    pub(super) tables: Tables,
    /// Meaning of each path's records as messages, parallel to `paths` as far as needed.
    pub(super) told: Vec<MessageOf>,
    /// Events in a record per kind, parallel to `paths` as far as needed.
    pub(super) sizes: Vec<Sizes>,
    /// Ids and events per kind of the threads but for the first, by number.
    pub(super) threads: BTreeMap<u32, (u32, PerKind)>,
    /// The value counters that are the last records of threads.
    pub(super) last_value_counters: BTreeMap<u32, ValueCounter>,
    /// The first thread's id.
    pub(super) first_tid: u32,
    pub(super) regions: usize,
    /// Settled counts.
    pub(super) settled: Settled,
    pub(super) mode: Mode,
    pub(super) is_customised: bool,
    pub(super) answers: Option<Answers>,
    /// Services without a queue.
    pub(super) listeners: Option<Listeners>,
    /// Counts of bursts, where the target is controlled in bursts.
    pub(super) bursts: Option<Box<Bursts>>,
    /// Calling contexts, if they are counted.
    pub(super) contexts: Option<Contexts>,
    /// The receiver of messages about prefetches.
    pub(super) prefetch: Option<Prefetch>,
    /// The convergent profiler, if known values are not profiled on.
    pub(super) converge: Option<Box<Converge>>,
    /// Number of the place that messages are about, parallel to `paths` as far as needed.
    pub(super) watched: Vec<u32>,
    /// Executions of places that were not profiled then, as far as paths show.
    pub(super) unprofiled: BTreeMap<Place, u64>,
    /// Executions of instructions after calls.
    pub(super) after_calls: BTreeMap<Place, u64>,
    /// Times that the kernel led to instructions, for signals.
    pub(super) deliveries: BTreeMap<Place, u64>,
    /// True if paths tell all of these.
    pub(super) counts_after_calls: bool,
    /// Time at which it was made.
    pub(super) since: Instant,
    /// CPU time that was spent on the process so far, if convergent profiling is enabled.
    pub(super) worked: Duration,
    /// There were more ranges with tags than fit, and that was not reported yet.
    pub(super) overflowing: bool,
    /// Code that is not selected has no events.
    pub(super) selects: bool,
    /// Some that is selected has none either, for want of room, and that was not said yet.
    pub(super) unobserved: bool,
}

impl Folder {
    /// Returns a folder for `spec` and the events `kinds`, of which the target counts what `counts` says. With `stream`, all events are written
    /// there too, up to its limit.
    pub fn new(
        spec: &Spec,
        (kinds, counts): (KindSet, TargetCounts),
        stream: Option<(io::Result<StreamFile>, Option<u64>)>,
        selection: Selection,
        images: Images,
        budget: Rc<Budget>,
        simulate: Option<Simulate>,
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
        let simulator = simulate.map(|simulate| Box::new(Simulator::new(simulate, kinds, exact)));
        let exact = exact && !makes_paths && simulator.is_none();
        let moves = makes_paths || kinds.has(Kind::Mispredict);
        let messages = match counts {
            TargetCounts::Strata(strata) => Some(Messages::new(strata, spec.tables.plain())),
            TargetCounts::Nothing | TargetCounts::Paths | TargetCounts::Intervals(_) => None,
        };
        let mut ordered =
            (!exact).then(|| Ordered::new(spec, messages, stream, stream_error, limit));
        if let Some(ordered) = &mut ordered {
            ordered.acyclic = acyclic;
            ordered.simulator = simulator;
            ordered.intervals = matches!(counts, TargetCounts::Intervals(_));
            ordered.counted = counts == TargetCounts::Paths;
        }
        Self {
            dictionary: Dictionary::new(selection, images, moves),
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
            mode: ordered.map_or(Mode::Counted, |ordered| Mode::Ordered(Box::new(ordered))),
            is_customised: false,
            answers: None,
            listeners: None,
            bursts: None,
            contexts: None,
            prefetch: None,
            converge: None,
            watched: Vec::new(),
            unprofiled: BTreeMap::new(),
            after_calls: BTreeMap::new(),
            deliveries: BTreeMap::new(),
            counts_after_calls: counts == TargetCounts::Paths && counts_after_calls(kinds),
            since: Instant::now(),
            worked: Duration::ZERO,
            overflowing: false,
            selects: false,
            unobserved: false,
        }
    }

    /// Keeps the latest interval of each thread.
    pub fn of_latest(mut self) -> Self {
        if let Mode::Ordered(ordered) = &mut self.mode {
            ordered.keep_latest();
        }
        self
    }

    /// Returns true if the latest interval of each thread is kept.
    pub fn keeps_latest(&self) -> bool {
        self.ordered().is_some_and(Ordered::keeps_latest)
    }

    /// Adds up calling contexts.
    pub fn of_contexts(mut self) -> Self {
        self.contexts = Some(Contexts::default());
        self
    }

    /// Folds windows with marks; `cycle`: nanoseconds of a cycle. `levels`: those by which latencies are distinguished.
    pub fn of_windows(mut self, cycle: f64, levels: Option<Levels>) -> Self {
        self.mode = Mode::Windowed(Box::new(Windowed::new(cycle, levels)));
        self
    }

    /// Counts values in windows by the caller of their function.
    pub fn by_caller(mut self, kinds: KindSet) -> Self {
        if let Mode::Windowed(windowed) = &mut self.mode {
            windowed.by_caller(kinds);
        }
        self
    }

    /// Gives windows to an instance of a customisation module, of the process `pid`.
    pub fn of_custom(mut self, instance: custom::Instance, pid: u32) -> Self {
        self.is_customised = true;
        if let Mode::Windowed(windowed) = &mut self.mode {
            windowed.custom = Some(Customised::new(instance, pid));
        }
        self
    }

    /// Adds up what queries count in windows.
    pub fn of_windowed_queries(mut self) -> Self {
        self.meet_queries();
        self
    }

    /// Takes note of the queries that are put to windows.
    fn meet_queries(&mut self) {
        if let (Mode::Windowed(windowed), Some(answers)) = (&mut self.mode, &self.answers) {
            for (place, load) in answers.in_force().enumerate() {
                windowed.queried.meet(place, load);
            }
        }
    }

    /// Returns whether there are messages among the records, for a customisation module or of the user's queries.
    pub(super) const fn has_queries(&self) -> bool {
        self.is_customised || self.answers.is_some()
    }

    /// Returns the failure of the customisation module, once.
    pub fn news_of_custom(&mut self) -> Option<String> {
        self.windowed_mut()?.custom.as_mut()?.news()
    }

    /// Adds the receiver of messages of queries.
    pub fn of_queries(mut self, answers: Answers) -> Self {
        self.serve_intervals(answers.takes_intervals());
        self.answers = Some(answers);
        self
    }

    /// Adds the receiver of messages about prefetches.
    pub fn of_prefetches(mut self, prefetch: Prefetch) -> Self {
        self.prefetch = Some(prefetch);
        self
    }

    /// Tells the target what to prefetch, if it waits for that: of `round` all messages are folded.
    pub fn answer(&mut self, shared: &Shared, round: u32) {
        if let Some(prefetch) = &mut self.prefetch {
            prefetch.answer(shared.prefetch(), round, &self.dictionary.modules);
            prefetch.ring(shared.takes_knocks());
        }
    }

    /// Notes that the target waits for the selection.
    pub fn of_selected(mut self) -> Self {
        self.selects = true;
        self
    }

    /// Returns whether code that is selected has no events for want of room to say so, once.
    pub fn is_unobserved(&mut self) -> bool {
        std::mem::take(&mut self.unobserved)
    }

    /// Returns whether code lacks tags for want of room, once.
    pub fn is_overflowing(&mut self) -> bool {
        std::mem::take(&mut self.overflowing)
    }

    /// The message that a record is, and what follows it.
    #[cold]
    pub(super) fn message<'b>(
        &mut self,
        thread: u32,
        number: u32,
        rest: &'b [u8],
    ) -> Result<&'b [u8], Damaged> {
        let Some(header) = Header::decode(number) else {
            return Err(Damaged::path(number));
        };
        let (words, after) = (rest.split_at_checked(8 * usize::from(header.words)))
            .ok_or_else(|| Damaged::path(number))?;
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
            _ => return Err(Damaged::path(number)),
        }
        Ok(after)
    }

    /// Returns the counts that were dropped to save memory.
    pub fn lost(&self) -> Lost {
        self.tables.lost()
    }

    /// Returns whether the stream has reached its limit: later events are not looked at.
    pub fn is_full(&self) -> bool {
        self.ordered().is_some_and(|o| o.wanted == 0)
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
        match &self.mode {
            Mode::Windowed(_) if self.bursts.is_some() => self.recorded_in_burst(shared, bytes),
            Mode::Windowed(_) => self.windows(shared, from.thread, bytes),
            Mode::Ordered(_) => {
                let done = self.expand(shared, from.thread, bytes, false);
                self.give_intervals();
                done
            }
            Mode::Counted if other => {
                let mut sums = Sums::default();
                let done = self.count::<true>(shared, from.thread, bytes, &mut sums);
                self.add_to(from.thread, sums);
                done
            }
            Mode::Counted => self.count::<false>(shared, from.thread, bytes, &mut Sums::default()),
        }
    }

    pub(super) fn add_to(&mut self, thread: u32, events: Sums) {
        let (_, sums) = self.threads.entry(thread).or_default();
        for (sum, n) in sums.iter_mut().zip(events) {
            *sum = sum.saturating_add(n);
        }
    }

    /// Resolves all that was recorded so far, as the target is to change what it names.
    pub fn asked(&mut self, shared: &Shared) -> Result<(), Damaged> {
        self.learn(shared);
        if matches!(self.mode, Mode::Counted) {
            self.settle();
        }
        if let Some(answers) = &mut self.answers {
            answers.settle(&self.dictionary.modules);
        }
        if let Mode::Windowed(windowed) = &mut self.mode {
            windowed.queried.settle(&self.dictionary.modules);
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

    pub(super) fn kept_back(&mut self, shared: &Shared) -> Result<(), Damaged> {
        let rest = self.ordered().map(|o| o.rest.keys().copied());
        let mut threads: Vec<u32> = rest.into_iter().flatten().collect();
        threads.sort_unstable();
        threads
            .into_iter()
            .try_for_each(|thread| self.expand(shared, thread, &[], true))
    }

    /// Returns why no more is written to the stream file, once.
    pub fn stream_error(&mut self) -> Option<StreamError> {
        self.ordered_mut()?.stream_error.take()
    }

    /// Returns whether the target sends messages.
    pub(super) fn has_messages(&self) -> bool {
        let ordered = self.ordered();
        ordered.is_some_and(|ordered| ordered.messages.is_some())
    }

    /// Returns whether the target counts events one by one, by what we call their places.
    pub(super) fn hashes_places(&self) -> bool {
        let ordered = self.ordered();
        ordered.is_some_and(|ordered| ordered.messages.is_some() || ordered.intervals)
    }

    /// Returns whether the target counts acyclic paths, whose jumps are inside by what we call places.
    pub(super) fn counts_acyclic(&self) -> bool {
        self.ordered().is_some_and(|o| o.counted)
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
                if let Some(contexts) = &mut self.contexts {
                    contexts.meet(shared, &self.dictionary.modules);
                }
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
                self.overflowing |= !answers.tell(shared, &region.range, modules);
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

    /// Returns the places of query programs, by bit, whose last messages are to be folded.
    pub fn left_queries(&self, shared: &Shared) -> u8 {
        let answers = self.answers.as_ref();
        answers.map_or(0, |answers| answers.left(shared))
    }

    /// Asks the target for the queries that are wanted now. Nothing is left to fold of the programs of `left`.
    pub fn change_queries(&mut self, shared: &Shared, left: u8) {
        let Some(answers) = &mut self.answers else {
            return;
        };
        let regions = (0..self.regions).map(|n| shared.region(n).range);
        let regions: Vec<_> = regions.collect();
        self.overflowing |= !answers.change(shared, left, &regions, &self.dictionary.modules);
        self.meet_queries();
    }

    /// Returns how far the target has come with the queries that are wanted, if there are any.
    pub fn query_changes(&self, shared: &Shared) -> Option<Changes> {
        Some(self.answers.as_ref()?.changes(shared))
    }

    /// Returns true if other queries are wanted than those that the target was asked.
    pub fn queries_differ(&self) -> bool {
        self.answers.as_ref().is_some_and(Answers::differ)
    }

    /// Replies to the program's request about queries.
    pub fn reply(&self, shared: &Shared) {
        if let Some(answers) = &self.answers {
            answers.reply(shared.posted());
        }
    }

    /// Returns the results of queries so far, without messages.
    pub fn queries_so_far(&self, shared: &Shared) -> Vec<Queries> {
        let answers = self.answers.as_ref();
        let mut all = answers.map_or_else(Vec::new, |answers| answers.so_far(shared));
        if let Mode::Windowed(windowed) = &self.mode {
            windowed.queried.so_far(&mut all);
        }
        all
    }

    /// Returns the index of `number` among the paths met. Its expansion is worked out when it is met for the first
    /// time: most are never taken.
    #[inline]
    pub(super) fn path(&mut self, shared: &Shared, number: u32) -> Result<usize, Damaged> {
        match self.met.get(number as usize) {
            Some(&NEVER) => self.meet(shared, number),
            Some(&met) => Ok(met as usize),
            None => Err(Damaged::path(number)),
        }
    }

    #[cold]
    pub(super) fn meet(&mut self, shared: &Shared, number: u32) -> Result<usize, Damaged> {
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
    pub(super) fn measure(&mut self) {
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

    pub(super) fn ordered(&self) -> Option<&Ordered> {
        match &self.mode {
            Mode::Ordered(ordered) => Some(ordered),
            Mode::Counted | Mode::Windowed(_) => None,
        }
    }

    pub(super) fn ordered_mut(&mut self) -> Option<&mut Ordered> {
        match &mut self.mode {
            Mode::Ordered(ordered) => Some(ordered),
            Mode::Counted | Mode::Windowed(_) => None,
        }
    }

    pub(super) fn windowed_mut(&mut self) -> Option<&mut Windowed> {
        match &mut self.mode {
            Mode::Windowed(windowed) => Some(windowed),
            Mode::Counted | Mode::Ordered(_) => None,
        }
    }

    /// Takes out what keeps events in order, while paths are worked on. The caller puts it back.
    pub(super) fn take_ordered(&mut self) -> Option<Box<Ordered>> {
        match std::mem::take(&mut self.mode) {
            Mode::Ordered(ordered) => Some(ordered),
            other => {
                self.mode = other;
                None
            }
        }
    }

    /// Takes out what folds windows, while paths are worked on. The caller puts it back.
    pub(super) fn take_windowed(&mut self) -> Option<Box<Windowed>> {
        match std::mem::take(&mut self.mode) {
            Mode::Windowed(windowed) => Some(windowed),
            other => {
                self.mode = other;
                None
            }
        }
    }
}
