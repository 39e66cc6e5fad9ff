//! Relational queries put to programs (`docs/query.md`): the program handed over, the tags of its code, and the
//! results of its messages.
//!
//! The target evaluates queries by itself (`trommel_runtime::observe::query`). It gets the assembled program without
//! the rules for tags: modules and functions have names here. For each region of code that it finds, it
//! waits until the host has reported which ranges have tags.
//!
//! Messages come among the records of each thread, in the order in which the thread sent them. All of them go to each
//! *service* ([`crate::ask::service`]). So do interrupts, for which the target makes us look at once. After
//! `interrupt sync` the target waits until we have looked.

mod changes;
mod loaded;
mod posted;

use std::cell::RefCell;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use trommel_profile::intervals::Interval;
use trommel_profile::queries::Queries;
use trommel_query::quick::MAX_WAYS;
use trommel_query::{Program, Rate, Sampling};
use trommel_queue::queries::{Header, INSTRUCTIONS, LOADS, MAX_RANGES, Posted, Sort};
use trommel_queue::thread_page::WAYS;
use trommel_symbol::Files;

use crate::ask::service::{Compressed, Instance, Message, Service, Write};
use crate::channel::modules::Modules;
use crate::channel::question::{Question, Ways};
use crate::channel::shared::Shared;
use crate::kernel::knock::Knocks;
pub use changes::Changes;
use loaded::Loaded;

/// A program has no more than there is room for.
const _: () = assert!(MAX_WAYS <= WAYS && trommel_query::MAX_INSTRUCTIONS == INSTRUCTIONS);

/// A process that is met so soon after the start of the run has its queries from the start on.
const AT_START: Duration = Duration::from_millis(100);

/// Results of the queries in one process.
pub struct Answers {
    question: &'static Question,
    /// The program file.
    main: Vec<u8>,
    files: &'static Files,
    /// Programs in force, by place.
    loads: [Option<Loaded>; LOADS],
    ways: Ways,
    /// Results of those that are not in force any more.
    ended: Vec<Queries>,
    write: Option<Rc<RefCell<Write>>>,
    services: Vec<Instance>,
    /// Compressors of the messages, if they are compressed.
    compressed: Option<Compressed>,
    pid: u32,
    /// Start of the run.
    began: Instant,
    knocks: Knocks,
    /// The last change that the target had made when somebody looked.
    noted: u32,
}

impl Answers {
    /// Begins the answers of the process `pid`, which runs the program file `main`, in a run since `began`. `write`: where messages are
    /// written; `services`: those of libraries.
    pub fn new(
        question: &'static Question,
        main: &Path,
        files: &'static Files,
        (write, services): (Option<Rc<RefCell<Write>>>, Vec<Instance>),
        pid: Pid,
        (shared, began): (&Shared, Instant),
    ) -> Self {
        let main = std::fs::canonicalize(main).unwrap_or_else(|_| main.to_owned());
        let mut answers = Self {
            question,
            main: main.as_os_str().as_bytes().to_vec(),
            files,
            loads: [const { None }; LOADS],
            ways: Ways::default(),
            ended: Vec::new(),
            write,
            services,
            compressed: None,
            pid: pid.as_raw() as u32,
            began,
            knocks: Knocks::of(pid),
            noted: shared.queries().heeded.load(Acquire),
        };
        answers.meet(shared);
        answers
    }

    /// Finds the programs that the process has in its places: it may be a child of one that had them.
    fn meet(&mut self, shared: &Shared) {
        let all = self.question.loads();
        for place in 0..LOADS {
            let area = shared.load(place);
            let id = area.id.load(Acquire);
            let Some(load) = all.iter().find(|load| load.id == id && id != 0) else {
                continue;
            };
            let first = u16::try_from(area.ways.load(Relaxed)).ok();
            let mut loaded = Loaded::new(load, first, 0);
            loaded.off = area.off.load(Relaxed);
            let after_start = self.began.elapsed() > AT_START;
            let from = if after_start { self.now() } else { 0 };
            loaded.is_active_from(from);
            self.ways.keep(loaded.ways());
            self.loads[place] = Some(loaded);
        }
    }

    fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    /// Replies to a request of the program's.
    pub fn reply(&self, posted: &Posted) {
        let loads = self.compressed.is_none();
        let reply = posted::answer(self.question, posted, loads);
        let refused = reply.as_ref().err().map_or("", |why| why.as_str());
        let refused = refused.as_bytes();
        posted.put(0, refused);
        posted.refused.store(refused.len() as u32, Relaxed);
    }

    /// Compresses the messages.
    pub fn compressing(self, compressed: Compressed) -> Self {
        Self {
            compressed: Some(compressed),
            ..self
        }
    }

    /// Returns whether the target waits for tags.
    pub fn is_tagged(&self) -> bool {
        self.question.names_code()
    }

    /// Tells the target of the tags in a new region. False when there are more ranges than there is room for.
    pub fn tell(&mut self, shared: &Shared, range: &Range<u64>, modules: &Modules) -> bool {
        let (files, main) = (self.files, &self.main[..]);
        let loads = self.loads.iter_mut().enumerate();
        let mut fits = true;
        for (place, load) in loads {
            if let Some(load) = load {
                fits &= load.tell(shared.load(place), range, modules, (files, main));
            }
        }
        fits
    }

    /// The number and program of each load in force, by place.
    pub fn in_force(&self) -> impl Iterator<Item = Option<(u32, &Program)>> {
        let loads = self.loads.iter();
        loads.map(|load| load.as_ref().map(|load| (load.id, load.program.as_ref())))
    }

    /// A message of a thread.
    pub fn message(&mut self, thread: u32, header: Header, words: &[u64], modules: &Modules) {
        self.give((thread, header), words, None, modules);
    }

    /// A message of a thread in a window of this weight, which others tabulate.
    pub fn message_in_window(
        &mut self,
        thread: u32,
        header: Header,
        words: &[u64],
        weight: f64,
        modules: &Modules,
    ) {
        self.give((thread, header), words, Some(weight), modules);
    }

    fn give(
        &mut self,
        (thread, header): (u32, Header),
        words: &[u64],
        weight: Option<f64>,
        modules: &Modules,
    ) {
        let load = self.loads.get_mut(usize::from(header.load));
        let Some(load) = load.and_then(Option::as_mut) else {
            return;
        };
        let at = usize::from(header.at);
        let places = load.places.get(at);
        let rate = match load.sampling.get(at) {
            Some(Sampling::Every(rate)) => *rate,
            _ => Rate::of_rank(header.rank.into()),
        };
        let message = Message {
            pid: self.pid,
            thread,
            header,
            words,
            places: places.copied().unwrap_or(0),
            names: load.names.get(at).map_or(&[], Vec::as_slice),
            load: (load.id, &load.name),
            stands_for: match weight {
                None => rate.one_in().into(),
                Some(weight) => (f64::from(rate.one_in()) * weight).round().max(1.0) as u64,
            },
        };
        let mut write = self.write.as_ref().map(|write| write.borrow_mut());
        let write = write
            .iter_mut()
            .map(|write| &mut **write as &mut dyn Service);
        let services = self.services.iter_mut().map(|s| s as &mut dyn Service);
        let compressed = self.compressed.iter_mut().map(|c| c as &mut dyn Service);
        let tabulate = (weight.is_none()).then_some(&mut load.tabulate as &mut dyn Service);
        let all = tabulate.into_iter();
        for service in all.chain(write).chain(compressed).chain(services) {
            match header.sort {
                Sort::Message => service.message(&message, modules),
                Sort::Interrupt => service.interrupt(&message, false, modules),
                Sort::Synchronous => service.interrupt(&message, true, modules),
            }
        }
    }

    /// Returns true if a service is to be given intervals.
    pub fn takes_intervals(&self) -> bool {
        self.services.iter().any(Instance::takes_intervals)
    }

    /// An interval of an interval profiler has ended.
    pub fn interval(&mut self, thread: u32, interval: &Interval, modules: &Modules) {
        for service in &mut self.services {
            service.interval((self.pid, thread), interval, modules);
        }
    }

    /// Regions are about to be replaced: what names their addresses is given its place.
    pub fn settle(&mut self, modules: &Modules) {
        for load in self.loads.iter_mut().flatten() {
            load.tabulate.settle(modules);
        }
    }

    /// Returns the results since the last time, of each load. What windows count is to be added.
    pub fn take(&mut self, shared: &Shared) -> Vec<Queries> {
        let mut all = std::mem::take(&mut self.ended);
        all.extend(self.so_far(shared));
        all.sort_by_key(|queries| queries.load);
        all
    }

    /// Returns the results of the queries, of each load.
    pub fn finish(mut self, shared: &Shared, modules: &Modules) -> Vec<Queries> {
        self.note(shared);
        for place in 0..LOADS {
            self.end(place, shared, modules);
        }
        let compressed = self.compressed.into_iter();
        let services = compressed.flat_map(|compressed| compressed.finish(self.pid));
        let own = self.services.into_iter();
        let services: Vec<_> = services
            .chain(own.map(|s| s.finish(self.pid, modules)))
            .collect();
        let mut all = self.ended;
        all.sort_by_key(|queries| queries.load);
        if let Some(first) = all.first_mut() {
            first.services = services;
        }
        all
    }

    /// The program of a place is not in force any more.
    fn end(&mut self, place: usize, shared: &Shared, modules: &Modules) {
        if let Some(mut load) = self.loads[place].take() {
            load.tabulate.settle(modules);
            if load.goes.is_some() {
                load.was_active_until(load.off, self.began.elapsed().as_nanos() as u64);
            }
            if let Some(first) = load.first_way {
                self.ways.free(first);
            }
            let mut queries = load.so_far(place, shared);
            (queries.messages, queries.untabulated) = load.tabulate.into_counts();
            self.ended.push(queries);
        }
    }
}

/// Ranges that can be told, for messages.
pub const RANGES: usize = MAX_RANGES;
