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

use std::cell::RefCell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

use trommel_profile::Module;
use trommel_profile::queries::{Acted, Queries, Seen};
use trommel_query::quick::{MAX_WAYS, Quick};
use trommel_query::tag::Where;
use trommel_query::{Entry, Field, Operation, Program, Rate, Sampling, Subject, image};
use trommel_queue::queries::{self as shared, Header, INSTRUCTIONS, MAX_RANGES, Sort};
use trommel_queue::thread_page::WAYS;
use trommel_symbol::{Files, Symbols};

use crate::ask::service::{Compressed, Instance, Message, Service, Tabulate, Write};
use crate::channel::modules::Modules;
use crate::channel::question::Question;
use crate::channel::shared::Shared;
use crate::channel::tags::Told;

/// A program has no more than there is room for.
const _: () = assert!(MAX_WAYS == WAYS && trommel_query::MAX_INSTRUCTIONS == INSTRUCTIONS);

/// The reason why a program of queries cannot be answered by looking at a program that runs.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Unanswerable {
    /// An event.
    #[error(
        "{0} is an event of a processor, which no program can see happen and this machine does not count: \
         only a model of one knows it: put the query to `trommel model`, or query a class of instructions, such as opLOAD"
    )]
    Event(&'static str),
    /// A fact of a pipeline.
    #[error(
        "{0} is a fact of a processor's pipeline, which no program can see: put the query to `trommel model`, or \
         collect pc, thread, op1 to op3, res1, res2 or misc"
    )]
    Pipeline(&'static str),
    /// The result of a system call.
    #[error(
        "opSYS: {0} is not known to `record`, which looks at what is executed before a system call is made; \
         collect op1 (rax), op2 (rdi) and op3 (rsi), and query other classes for results in a query of their own"
    )]
    Result(&'static str),
}

/// Checks that `record` can answer a program.
///
/// # Errors
/// The first reason why it cannot.
pub fn check(program: &Program) -> Result<(), Unanswerable> {
    for (entry, control) in program.table().entries() {
        let class = match entry.subject() {
            Subject::Event(event) => return Err(Unanswerable::Event(event.name())),
            Subject::Class(class) => class,
        };
        if let Some(field) = control.fields.iter().find(|f| f.is_of_pipeline()) {
            return Err(Unanswerable::Pipeline(field.name()));
        }
        let is_result = |f: &Field| matches!(f, Field::Res1 | Field::Res1Up);
        if class.operation == Operation::System
            && let Some(field) = control.fields.iter().find(is_result)
        {
            return Err(Unanswerable::Result(field.name()));
        }
    }
    Ok(())
}

/// Results of the queries in one process.
pub struct Answers {
    asked: &'static Question,
    /// Words of its messages that are addresses of code, by instruction, by bit.
    places: Vec<u8>,
    /// Sampling of the executions that its messages are about, by instruction.
    sampling: Vec<Sampling>,
    /// The program file.
    main: Vec<u8>,
    files: &'static Files,
    /// Ranges with tags reported so far.
    told: Told,
    /// Rules about code that was found, by rule.
    met: Vec<bool>,
    tabulate: Tabulate,
    write: Option<Rc<RefCell<Write>>>,
    services: Vec<Instance>,
    /// Compressors of the messages, if they are compressed.
    compressed: Option<Compressed>,
    pid: u32,
}

impl Answers {
    /// Begins the answers of the process `pid`, which runs the program file `main`. `write`: where messages are written; `services`: those of
    /// libraries.
    pub fn new(
        asked: &'static Question,
        main: &Path,
        files: &'static Files,
        write: Option<Rc<RefCell<Write>>>,
        services: Vec<Instance>,
        pid: u32,
    ) -> Self {
        let mut places = vec![0; asked.program.code().len()];
        let mut sampling = vec![Sampling::ALWAYS; places.len()];
        for query in asked.program.queries() {
            let code = query.code_words();
            sampling[query.code.clone()].fill(query.sampling);
            places[query.code].fill(code);
        }
        let main = std::fs::canonicalize(main).unwrap_or_else(|_| main.to_owned());
        Self {
            met: vec![false; asked.program.tags().len()],
            asked,
            places,
            sampling,
            main: main.as_os_str().as_bytes().to_vec(),
            files,
            told: Told::default(),
            tabulate: Tabulate::default(),
            write,
            services,
            compressed: None,
            pid,
        }
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
        self.asked.is_tagged()
    }

    /// Tells the target of the tags in a new region. False when there are more ranges than there is room for.
    pub fn tell(
        &mut self,
        to: &shared::Queries,
        range: std::ops::Range<u64>,
        modules: &Modules,
    ) -> bool {
        let place = modules.place_at(trommel_queue::dict::TargetPc(range.start));
        let Some(module) = modules.list.get(usize::from(place.module().0)) else {
            return true;
        };
        // What was told of other code that was there does not hold any more.
        let mut ranges = vec![(range.clone(), 0)];
        let bias = range.start.wrapping_sub(place.vaddr().0);
        for (n, rule) in self.asked.program.tags().iter().enumerate() {
            let inside = |from: u64, to: u64| {
                let [from, to] = [from, to].map(|a| a.saturating_add(bias));
                let [from, to] = [from, to].map(|a| a.clamp(range.start, range.end));
                (from < to).then_some(from..to)
            };
            let found: Vec<_> = match &rule.place {
                Where::Module(name) if named(module, name) => vec![range.clone()],
                Where::Module(_) => Vec::new(),
                Where::Range {
                    from,
                    to,
                    module: of,
                } => {
                    let here = match of {
                        Some(name) => named(module, name),
                        None => module.path == self.main,
                    };
                    let both = if here { inside(*from, *to) } else { None };
                    both.into_iter().collect()
                }
                Where::Symbol(name) => {
                    let symbols = Symbols::new(self.files, std::slice::from_ref(module));
                    let all = symbols.ranges_of(module.id, name);
                    all.into_iter()
                        .filter_map(|r| inside(r.start, r.end))
                        .collect()
                }
            };
            self.met[n] |= !found.is_empty();
            ranges.extend(found.into_iter().map(|r| (r, rule.tag)));
        }
        let mut ranges = ranges.into_iter();
        ranges.all(|(range, tag)| self.told.tell(to, &range, tag))
    }

    /// A message of a thread.
    pub fn message(&mut self, thread: u32, header: Header, words: &[u64], modules: &Modules) {
        let at = usize::from(header.at);
        let places = self.places.get(at);
        let rate = match self.sampling.get(at) {
            Some(Sampling::Every(rate)) => *rate,
            _ => Rate::of_rank(header.rank.into()),
        };
        let message = Message {
            pid: self.pid,
            thread,
            header,
            words,
            places: places.copied().unwrap_or(0),
            stands_for: rate.one_in().into(),
        };
        let mut write = self.write.as_ref().map(|write| write.borrow_mut());
        let write = write
            .iter_mut()
            .map(|write| &mut **write as &mut dyn Service);
        let services = self.services.iter_mut().map(|s| s as &mut dyn Service);
        let compressed = self.compressed.iter_mut().map(|c| c as &mut dyn Service);
        let all = [&mut self.tabulate as &mut dyn Service].into_iter();
        for service in all.chain(write).chain(compressed).chain(services) {
            match header.sort {
                Sort::Message => service.message(&message, modules),
                Sort::Interrupt => service.interrupt(&message, false, modules),
                Sort::Synchronous => service.interrupt(&message, true, modules),
            }
        }
    }

    /// Regions are about to be replaced: what names their addresses is given its place.
    pub fn settle(&mut self, modules: &Modules) {
        self.tabulate.settle(modules);
    }

    /// Returns the results of the queries.
    pub fn finish(mut self, shared: &Shared, modules: &Modules) -> Queries {
        self.tabulate.settle(modules);
        let (mut seen, mut done) = counts(shared.queries());
        let quick = Quick::of(&self.asked.program);
        for (n, way) in quick.ways().iter().enumerate() {
            let times = shared.times_of_way(n);
            let of = &mut seen[way.entry.number()];
            of.executed = of.executed.saturating_add(times);
            of.profiled = of.profiled.saturating_add(times);
            if !way.counted.is_empty() {
                of.acted = of.acted.saturating_add(times);
            }
            for at in &way.counted {
                let of = &mut done[at.number()];
                of.counted = of.counted.saturating_add(times);
                of.counted_for = of.counted_for.saturating_add(times);
            }
        }
        let program = &self.asked.program;
        let (messages, untabulated) = self.tabulate.into_counts();
        Queries {
            program: image::encode(program),
            places: self.places,
            unmet: (self.met.iter().zip(0..))
                .filter_map(|(met, n)| (!met).then_some(n))
                .collect(),
            seen: (seen.into_iter().zip(Entry::all()))
                .filter(|(_, entry)| program.table().get(*entry).is_some())
                .map(|(seen, entry)| (entry.number() as u8, seen))
                .collect(),
            done: done.into_iter().take(program.code().len()).collect(),
            messages,
            untabulated,
            services: (self.compressed.into_iter())
                .flat_map(Compressed::finish)
                .chain((self.services.into_iter()).map(|s| s.finish(self.pid, modules)))
                .collect(),
        }
    }
}

/// Counts that the target has made itself, by table entry and by instruction.
fn counts(from: &shared::Queries) -> (Vec<Seen>, Vec<Acted>) {
    let seen = from.seen.iter().map(|seen| Seen {
        executed: seen.executed.load(Relaxed),
        profiled: seen.profiled.load(Relaxed),
        acted: seen.acted.load(Relaxed),
    });
    let done = from.done.iter().map(|done| Acted {
        sent: done.sent.load(Relaxed),
        served: done.served.load(Relaxed),
        dropped: done.dropped.load(Relaxed),
        counted: done.counted.load(Relaxed),
        counted_for: done.counted_for.load(Relaxed),
        interrupted: done.interrupted.load(Relaxed),
    });
    (seen.collect(), done.collect())
}

/// Ranges that can be told, for messages.
pub const RANGES: usize = MAX_RANGES;

fn named(module: &Module, name: &str) -> bool {
    let path = Path::new(OsStr::from_bytes(&module.path));
    let file = path
        .file_name()
        .is_some_and(|f| f.as_bytes() == name.as_bytes());
    path == Path::new(name) || file
}
