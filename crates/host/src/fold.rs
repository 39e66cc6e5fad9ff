//! Records into a profile.
//!
//! # Problem
//! A busy program makes hundreds of millions of events a second, and one host thread keeps up with
//! them, or the program waits. The events must come out exactly as they happened, in order, through
//! any compressor.
//!
//! # Strategy
//! Two ways, chosen by the spec. Under `exact` with no stream to write, order does not matter:
//! paths are counted, as [`crate::exact`] says, and expanded once at the end. Otherwise each record
//! is expanded at once into tuples, in order, which go in blocks through the compressor and to the
//! stream file. What a path expands to is worked out when its number is first seen.
//!
//! # Invariants
//! * Both ways give the same profile under `exact`.
//! * A record's values belong to the path's dynamic events in order; a record cut off by the end of
//!   a chunk is damage, and said.
//! * Places are resolved while the code they name is mapped: before a region is replaced, all
//!   counts that hold run-time addresses are settled ([`Folder::settle`]).

use std::collections::{BTreeMap, HashMap};
use std::io;

use trommel_compress::{Compressor, Level, Seeds, Sink, Spec};
use trommel_profile::accuracy::{Estimator, Tuples};
use trommel_profile::{KindProfile, Site};
use trommel_queue::dict::{Event, TargetPc};
use trommel_tuple::{Events, Kind, KindSet, Message, Place, Tuple};

use crate::exact::{Tables, UNSELECTED};
use crate::modules::Modules;
use crate::only::Selection;
use crate::shared::{Damaged, SharedFile};
use crate::stream::StreamFile;

/// One event of a path, resolved.
#[derive(Clone, Copy)]
enum Step {
    /// Known at translation.
    Static(Kind, Tuple),
    /// The value is the record's next word.
    Dynamic(Kind, Place),
    /// The same, but not selected: the word is skipped.
    Skipped,
}

#[derive(Default)]
struct Path {
    /// Worked out; nothing else is meant otherwise.
    met: bool,
    /// Executions, when counting exactly.
    count: u64,
    /// 64-bit words in its records.
    values: u32,
    /// The table in `Folder::tables` of each word, when counting exactly.
    tables: Box<[u32]>,
    steps: Box<[Step]>,
}

/// Why folding stopped early.
#[derive(Debug, thiserror::Error)]
pub enum FoldError {
    /// The target damaged the shared memory.
    #[error(transparent)]
    Damaged(#[from] Damaged),
    /// The stream file could not be written.
    #[error("cannot write the event stream: {0}")]
    Stream(io::Error),
}

/// Folds the records of one target.
pub struct Folder {
    /// The modules met so far.
    pub modules: Modules,
    selection: Selection,
    /// How branches and calls transfer control.
    pub sites: HashMap<Place, Site>,
    paths: Vec<Path>,
    /// One for each place that has run-time values; the first for what is not selected.
    tables: Tables,
    table_of: HashMap<(Kind, Place), u32>,
    regions: usize,
    /// Settled counts; a tuple may occur more than once.
    counts: Vec<((Kind, Tuple), u64)>,
    ordered: Option<Ordered>,
}

/// Everything that needs events in order.
struct Ordered {
    compressor: Compressor,
    estimate: Estimate,
    stream: Option<StreamFile>,
    streamed_modules: usize,
    seen: [u64; Kind::ALL.len()],
    tuples: Vec<Tuple>,
    kinds: Vec<Kind>,
    /// Bytes of the last record of a chunk: its code's region may come with the next.
    rest: Vec<u8>,
    /// Events still wanted.
    wanted: u64,
}

/// What software keeps of the messages.
struct Estimate {
    tuples: Tuples,
    estimator: Estimator,
    messages: [u64; Kind::ALL.len()],
}

impl Sink for Estimate {
    fn message(&mut self, message: Message) {
        let number = self.tuples.number(message.kind, message.tuple);
        self.messages[message.kind as usize] += 1;
        self.estimator.message(&message, number);
    }
}

const BLOCK: usize = 4096;

impl Folder {
    /// A folder for `spec`; with `stream`, all events are written there too, up to its limit.
    pub fn new(
        spec: &Spec,
        stream: Option<(StreamFile, Option<u64>)>,
        selection: Selection,
    ) -> Self {
        let (stream, limit) = stream.map_or((None, None), |(file, limit)| (Some(file), limit));
        let exact = (spec.level == Level::Exact && spec.table.is_none()) && stream.is_none();
        let ordered = (!exact).then(|| Ordered {
            compressor: spec.build(Seeds::default()),
            estimate: Estimate {
                tuples: Tuples::default(),
                estimator: Estimator::new(spec, Seeds::default()),
                messages: [0; Kind::ALL.len()],
            },
            stream,
            streamed_modules: 0,
            seen: [0; Kind::ALL.len()],
            tuples: Vec::with_capacity(2 * BLOCK),
            kinds: Vec::with_capacity(2 * BLOCK),
            rest: Vec::new(),
            wanted: limit.unwrap_or(u64::MAX),
        });
        Self {
            modules: Modules::new(),
            selection,
            sites: HashMap::new(),
            paths: Vec::new(),
            tables: Tables::new(),
            table_of: HashMap::new(),
            regions: 0,
            counts: Vec::new(),
            ordered,
        }
    }

    /// Whether the stream has reached its limit: later events are not looked at.
    pub fn is_full(&self) -> bool {
        self.ordered.as_ref().is_some_and(|o| o.wanted == 0)
    }

    /// Folds the records of one chunk; `last` says that no more will come.
    pub fn chunk(
        &mut self,
        shared: &SharedFile,
        bytes: &[u8],
        last: bool,
    ) -> Result<(), FoldError> {
        self.learn(shared)?;
        if self.ordered.is_some() {
            self.expand(shared, bytes, last)
        } else {
            self.count(shared, bytes).map_err(FoldError::Damaged)
        }
    }

    /// Reads what the dictionary says beyond what is known.
    fn learn(&mut self, shared: &SharedFile) -> Result<(), FoldError> {
        let regions = shared.regions();
        while self.regions < regions {
            let region = shared.region(self.regions);
            if self.modules.replaces(&region) {
                self.settle();
            }
            self.modules.add(&region);
            self.regions += 1;
        }
        self.paths.resize_with(shared.paths(), Path::default);
        Ok(())
    }

    /// Works out what a path expands to, when it is met for the first time: most are never taken.
    #[cold]
    fn meet(&mut self, shared: &SharedFile, number: u32) -> Result<(), Damaged> {
        let events = shared.path(number as usize)?;
        self.paths[number as usize] = self.resolve(&events);
        Ok(())
    }

    fn resolve(&mut self, events: &[Event]) -> Path {
        let mut values = 0;
        let mut tables = Vec::new();
        let mut steps = Vec::with_capacity(events.len());
        for event in events {
            if event.is_dynamic() {
                values += 1;
            }
            let pc = match *event {
                Event::Branch { pc, .. } | Event::Call { pc, .. } | Event::Dynamic { pc, .. } => pc,
            };
            let place = self.modules.place(pc);
            if !self.selection.has(place, &self.modules.list) {
                if event.is_dynamic() {
                    steps.push(Step::Skipped);
                    tables.push(UNSELECTED);
                }
                continue;
            }
            steps.push(match *event {
                Event::Branch {
                    len, target, taken, ..
                } => {
                    let taken_to = self.modules.place(target);
                    let fallthrough = self.modules.place(TargetPc(pc.0 + u64::from(len)));
                    self.sites.insert(
                        place,
                        Site::Conditional {
                            taken: taken_to,
                            fallthrough,
                        },
                    );
                    let to = if taken { taken_to } else { fallthrough };
                    Step::Static(Kind::Edge, Tuple::new(place, to.word()))
                }
                Event::Call { target, .. } => {
                    self.sites.insert(place, Site::DirectCall);
                    let to = self.modules.place(target);
                    Step::Static(Kind::Call, Tuple::new(place, to.word()))
                }
                Event::Dynamic { kind, .. } => {
                    match kind {
                        Kind::Edge => drop(self.sites.insert(place, Site::IndirectJump)),
                        Kind::Call => drop(self.sites.insert(place, Site::IndirectCall)),
                        _ => {}
                    }
                    tables.push(self.table(kind, place));
                    Step::Dynamic(kind, place)
                }
            });
        }
        Path {
            met: true,
            count: 0,
            values,
            tables: tables.into(),
            steps: steps.into(),
        }
    }

    fn table(&mut self, kind: Kind, place: Place) -> u32 {
        *self
            .table_of
            .entry((kind, place))
            .or_insert_with(|| self.tables.push())
    }

    /// The way for exact counts.
    fn count(&mut self, shared: &SharedFile, bytes: &[u8]) -> Result<(), Damaged> {
        let mut rest = bytes;
        while let Some((number, after)) = rest.split_first_chunk::<4>() {
            let number = u32::from_le_bytes(*number);
            let damaged = Damaged {
                what: "a path number",
                number: u64::from(number),
            };
            match self.paths.get(number as usize) {
                None => return Err(damaged),
                Some(path) if !path.met => self.meet(shared, number)?,
                Some(_) => {}
            }
            let path = &mut self.paths[number as usize];
            path.count += 1;
            rest = after;
            if path.values != 0 {
                let Some((words, after)) = rest.split_at_checked(8 * path.values as usize) else {
                    return Err(damaged);
                };
                for (table, word) in path.tables.iter().zip(words.as_chunks::<8>().0) {
                    self.tables.add(*table, u64::from_le_bytes(*word));
                }
                rest = after;
            }
        }
        self.tables.flush();
        Ok(())
    }

    /// The way for everything else.
    fn expand(&mut self, shared: &SharedFile, bytes: &[u8], last: bool) -> Result<(), FoldError> {
        // Taken out while the paths are worked on, and back whatever happens.
        let Some(mut ordered) = self.ordered.take() else {
            return Ok(());
        };
        let done = self.expand_into(&mut ordered, shared, bytes, last);
        self.ordered = Some(ordered);
        done
    }

    fn expand_into(
        &mut self,
        ordered: &mut Ordered,
        shared: &SharedFile,
        bytes: &[u8],
        last: bool,
    ) -> Result<(), FoldError> {
        let mut joined = std::mem::take(&mut ordered.rest);
        joined.extend_from_slice(bytes);
        let mut rest = &joined[..];
        while let Some((number, after)) = rest.split_first_chunk::<4>() {
            let number = u32::from_le_bytes(*number);
            let damaged = || Damaged {
                what: "a path number",
                number: u64::from(number),
            };
            if !self.paths.get(number as usize).ok_or_else(damaged)?.met {
                self.meet(shared, number)?;
            }
            let path = &self.paths[number as usize];
            let (words, after) = after
                .split_at_checked(8 * path.values as usize)
                .ok_or_else(damaged)?;
            if after.is_empty() && !last {
                break;
            }
            let mut words = words
                .as_chunks::<8>()
                .0
                .iter()
                .map(|w| u64::from_le_bytes(*w));
            for step in &path.steps {
                let (kind, tuple) = match *step {
                    Step::Static(kind, tuple) => (kind, tuple),
                    Step::Dynamic(kind, place) => {
                        let word = words.next().unwrap_or_default();
                        let value = if kind.value_is_place() {
                            self.modules.place(TargetPc(word)).word()
                        } else {
                            word
                        };
                        (kind, Tuple::new(place, value))
                    }
                    Step::Skipped => {
                        words.next();
                        continue;
                    }
                };
                ordered.tuples.push(tuple);
                ordered.kinds.push(kind);
            }
            if ordered.tuples.len() >= BLOCK {
                ordered.block(&self.modules)?;
            }
            rest = after;
        }
        ordered.rest = rest.to_vec();
        ordered.block(&self.modules)
    }

    /// Moves counts that name run-time addresses to places.
    fn settle(&mut self) {
        for path in &mut self.paths {
            let count = std::mem::take(&mut path.count);
            if count == 0 {
                continue;
            }
            for step in &path.steps {
                if let Step::Static(kind, tuple) = *step {
                    self.counts.push(((kind, tuple), count));
                }
            }
        }
        self.tables.drain(UNSELECTED).for_each(drop);
        for (&(kind, place), &table) in &self.table_of {
            for (value, count) in self.tables.drain(table) {
                let value = match kind.value_is_place() {
                    true => self.modules.place(TargetPc(value)).word(),
                    false => value,
                };
                self.counts.push(((kind, Tuple::new(place, value)), count));
            }
        }
    }

    /// The profile of everything folded, and the stream file finished.
    pub fn finish(mut self, kinds: KindSet) -> Result<Folded, FoldError> {
        let mut folded: BTreeMap<Kind, KindProfile> =
            kinds.iter().map(|k| (k, KindProfile::default())).collect();
        match self.ordered.take() {
            Some(ordered) => ordered.finish(&self.modules, &mut folded)?,
            None => {
                self.settle();
                self.counts.sort_unstable_by_key(|(tuple, _)| *tuple);
                for &((kind, tuple), count) in &self.counts {
                    let profile = folded.entry(kind).or_default();
                    profile.seen += count;
                    profile.messages += count;
                    let values = profile.counts.entry(tuple.pc).or_default();
                    match values.last_mut() {
                        Some((value, sum)) if *value == tuple.value => *sum += count,
                        _ => values.push((tuple.value, count)),
                    }
                }
            }
        }
        let reached = |place: &Place| folded.values().any(|k| k.counts.contains_key(place));
        let sites = self
            .sites
            .into_iter()
            .filter(|(place, _)| reached(place))
            .collect();
        Ok(Folded {
            kinds: folded,
            sites,
            modules: self.modules,
        })
    }
}

/// What a run came to.
pub struct Folded {
    /// Per kind.
    pub kinds: BTreeMap<Kind, KindProfile>,
    /// Of the branches and calls that were executed.
    pub sites: BTreeMap<Place, Site>,
    /// The modules.
    pub modules: Modules,
}

impl Ordered {
    /// Sends the collected tuples on.
    fn block(&mut self, modules: &Modules) -> Result<(), FoldError> {
        if let Some(stream) = &mut self.stream {
            while self.streamed_modules < modules.list.len() {
                stream
                    .module(&modules.list[self.streamed_modules])
                    .map_err(FoldError::Stream)?;
                self.streamed_modules += 1;
            }
        }
        let kept = usize::try_from(self.wanted).unwrap_or(usize::MAX);
        self.tuples.truncate(kept);
        self.kinds.truncate(kept);
        self.wanted -= self.tuples.len() as u64;
        let events = Events::new(&self.tuples, &self.kinds);
        for kind in &self.kinds {
            self.seen[*kind as usize] += 1;
        }
        // Both lanes are always pushed to together.
        if let Some(events) = events {
            if let Some(stream) = &mut self.stream {
                stream.events(events).map_err(FoldError::Stream)?;
            }
            self.compressor.events(events, &mut self.estimate);
        }
        self.tuples.clear();
        self.kinds.clear();
        Ok(())
    }

    fn finish(
        mut self,
        modules: &Modules,
        folded: &mut BTreeMap<Kind, KindProfile>,
    ) -> Result<(), FoldError> {
        self.block(modules)?;
        self.compressor.finish(&mut self.estimate);
        if let Some(stream) = self.stream {
            stream.finish().map_err(FoldError::Stream)?;
        }
        let Estimate {
            tuples,
            estimator,
            messages,
        } = &self.estimate;
        for (kind, tuple, count) in estimator.estimates(tuples) {
            let counts = &mut folded.entry(kind).or_default().counts;
            counts
                .entry(tuple.pc)
                .or_default()
                .push((tuple.value, count.round() as u64));
        }
        for kind in Kind::ALL {
            if self.seen[kind as usize] != 0 {
                let profile = folded.entry(kind).or_default();
                profile.seen = self.seen[kind as usize];
                profile.messages = messages[kind as usize];
            }
        }
        for profile in folded.values_mut() {
            profile
                .counts
                .values_mut()
                .for_each(|values| values.sort_unstable());
        }
        Ok(())
    }
}
