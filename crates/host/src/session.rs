//! A run: the first program and all that comes of it, served until the first has ended.
//!
//! # Problem
//! A build starts thousands of processes, a few at a time, each with a queue that fills in
//! milliseconds; a shell's live for one. Each must be served as if it were the only one, and a
//! thread for each would cost more than the processes.
//!
//! # Strategy
//! The calling thread serves all queues in turn: it takes chunks as the targets' threads fill them,
//! folds each and gives it back, and sleeps when there is none ([`crate::bell`]). Processes made by
//! `fork` are found in their family's directory; those that become other programs ask
//! ([`crate::follow`]). It is the tracer too, and so the only thread there is.
//!
//! The run is over when the first program has ended. Processes that are still there then are let go:
//! their slots are closed, and they leave when they come to it next.
//!
//! # Invariants
//! * What a process published before it ended is folded, whoever ends first.
//! * A process whose slot is closed or whose family is dropped runs on natively.

mod epochs;
mod execs;
mod strangers;

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use trommel_compress::Strata;
use trommel_profile::Profile;
use trommel_profile::memory::Levels;
use trommel_queue::{Request, State};
use trommel_symbol::Files;
use trommel_tuple::Kind;

use crate::audit::Audit;
use crate::bell;
use crate::births::Births;
use crate::custom::{self, Custom};
use crate::family::{Family, Newcomer};
use crate::fold::{Folder, is_exact};
use crate::follow::{self, Change};
use crate::launch::Ended;
use crate::levels;
use crate::memory::{self, Budget};
use crate::modules::Images;
use crate::only::Selection;
use crate::pacer;
use crate::persist::Keeping;
use crate::pids;
use crate::prefetch::cache::Geometry;
use crate::prefetch::{self, Prefetch, Wanted};
use crate::process::{Ancestor, Done, End, IDLE, Identity, Process};
use crate::queries::{Answers, Question};
use crate::record::{Engine, RecordError, RecordOptions, Recording};
use crate::relatives::Relatives;
use crate::sampling;
use crate::series::{self, Series};
use crate::service::{Instance, Write};
use crate::shared::{Counts, Shared, Terms};
use crate::stream::{Pending, StreamFile};
use crate::toll::Toll;
use crate::tracee::reaped;
use crate::windows::Windows;
pub use epochs::Epochs;
use execs::{Arrival, Traced};
use strangers::Strangers;

/// The stream file of a process, and how many events are wanted in it.
pub type Stream = (io::Result<StreamFile>, Option<u64>);

/// Asked again and again, with the state of the first program and what ends its windows: how it has ended for us.
pub type Parted<'a> = &'a mut dyn FnMut(Option<State>, &mut dyn FnMut()) -> Option<Ended>;

/// A run that goes on.
pub struct Session<'a> {
    options: &'a RecordOptions,
    notice: &'a mut dyn FnMut(&str),
    others: &'a mut dyn FnMut(Profile, Engine),
    terms: Terms,
    images: Images,
    budget: Rc<Budget>,
    files: &'static Files,
    families: Vec<Rc<Family>>,
    /// Those that are there, by number.
    processes: Vec<(usize, Process)>,
    /// Processes started so far.
    started: usize,
    /// The first program runs natively, and has number 0 when it is taken under control.
    awaited: bool,
    /// Those that have ended and are still making others.
    ancestors: Vec<Ancestor>,
    /// The first, when it is not there any more.
    done: Option<Done>,
    /// Streams opened for processes of a number.
    streams: HashMap<Pid, usize>,
    /// All of every stream is in its file, so far.
    stream_whole: bool,
    traced: Vec<Traced>,
    arrivals: Vec<Arrival>,
    main: Option<Pid>,
    ended: Option<(Ended, Instant)>,
    /// What a signal that begins a window costs, where there are any within a budget.
    toll: Option<Toll>,
    /// By what latencies are told apart, where they are wanted.
    levels: Option<Levels>,
    /// Whether there may be new threads and processes.
    births: Births,
    /// Processes that are forked between windows.
    relatives: Relatives,
    /// Programs that are executed between windows.
    strangers: Strangers,
    /// Our CPU time when the run began.
    host_before: Duration,
    /// We ended the first program, as its stream had all the events that were wanted.
    limited: bool,
    /// Where messages of queries are written.
    messages: Option<Rc<RefCell<Write>>>,
    /// Services of libraries for the first process, until it begins.
    services: Option<Vec<Instance>>,
    /// What windows are given to.
    custom: Option<Rc<Custom>>,
    /// Where fragments of processes are kept that executed their programs in a family.
    keeping: Vec<(Rc<Family>, Keeping)>,
    /// Profiles are given away while it goes on.
    epochs: Option<Epochs<'a>>,
}

/// What the program itself counts. Paths and values, where the order of events does not matter; the events of a stratified sampler, where all are wanted and nowhere else, and values need not be
/// hashed with the papers' function.
fn counts(options: &RecordOptions) -> Counts {
    let kinds = options.kinds;
    let transfers = kinds.iter().all(Kind::value_is_place);
    let stress = &options.stress;
    if kinds.is_empty()
        || options.stream.is_some()
        || stress.window != 0
        || stress.events
        || options.sampling.is_some()
    {
        return Counts::Nothing;
    }
    match Strata::of(&options.compressor) {
        _ if is_exact(&options.compressor) => Counts::Paths,
        Some(strata) if options.only.is_empty() && (transfers || strata.is_cheap()) => {
            Counts::Strata(strata)
        }
        _ => Counts::Nothing,
    }
}

/// The file for messages, if they are to be written.
fn messages_for(options: &RecordOptions) -> Result<Option<Rc<RefCell<Write>>>, RecordError> {
    let (Some(path), Some(question)) = (&options.messages, options.question) else {
        return Ok(None);
    };
    let write = Write::create(path, &question.program);
    let write = write.map_err(|error| RecordError::Messages {
        path: path.clone(),
        error,
    })?;
    Ok(Some(Rc::new(RefCell::new(write))))
}

/// Services of libraries for the first process.
fn first_services(options: &RecordOptions) -> Result<Vec<Instance>, RecordError> {
    let begin = |of| {
        let instance = Instance::begin(of);
        match instance.failure() {
            None => Ok(instance),
            Some(why) => Err(RecordError::Service {
                name: of.name().to_owned(),
                why: why.to_owned(),
            }),
        }
    };
    options.services.iter().map(begin).collect()
}

/// The customisation module, loaded.
fn custom_of(named: &custom::Named) -> Result<Rc<Custom>, RecordError> {
    Custom::start(named.clone()).map_err(|why| RecordError::Custom {
        name: named.name.clone(),
        why,
    })
}

const BRIEF: Duration = Duration::from_millis(2);
/// How long a run is left alone that goes on in epochs, while its processes do nothing.
const ASLEEP: Duration = Duration::from_millis(250);

impl<'a> Session<'a> {
    /// A run in which nothing has started. `notice` gets what the user should know.
    /// `others` gets the profiles of all processes but the first.
    pub fn new(
        options: &'a RecordOptions,
        toll: Option<Toll>,
        notice: &'a mut dyn FnMut(&str),
        others: &'a mut dyn FnMut(Profile, Engine),
    ) -> Result<Self, RecordError> {
        // Before anything else is there that its process would keep.
        let custom = options.custom.as_ref().map(custom_of).transpose()?;
        let messages = messages_for(options)?;
        let services = Some(first_services(options)?);
        let prefetch = match (options.stress.prefetch, options.prefetch) {
            (true, _) => Wanted::Everywhere,
            (false, true) => Wanted::Misses,
            (false, false) => Wanted::Nothing,
        };
        let timed = toll.filter(|_| options.kinds.has(Kind::Latency));
        // Before the account of what the run costs begins.
        let levels = timed.map(|toll| levels::measure(toll.cycle));
        Ok(Self {
            options,
            notice,
            others,
            terms: Terms {
                kinds: options.kinds,
                counts: counts(options),
                options: options.stress.options,
                window: match options.sampling {
                    Some(sampling) => sampling.first_length(),
                    None => options.stress.window,
                },
                window_skip: options.sampling.map_or(0, |sampling| sampling.skip()),
                follow: options.follow,
                tracing: options.tracing,
                question: match prefetch {
                    Wanted::Misses => Some(Box::leak(Box::new(prefetch::question()))),
                    Wanted::Nothing | Wanted::Everywhere => match &custom {
                        Some(custom) => Some(custom.question),
                        None => options.question,
                    },
                },
                listed: custom.is_some(),
                prefetch,
            },
            images: Images::default(),
            budget: Rc::new(Budget::new(options.memory)),
            // One for each run of the command: symbols borrow from it until the end.
            files: Box::leak(Box::new(Files::new())),
            families: Vec::new(),
            processes: Vec::new(),
            started: 0,
            awaited: false,
            ancestors: Vec::new(),
            done: None,
            streams: HashMap::new(),
            stream_whole: true,
            traced: Vec::new(),
            arrivals: Vec::new(),
            main: None,
            ended: None,
            toll,
            levels,
            births: Births::default(),
            relatives: Relatives::default(),
            strangers: Strangers::default(),
            host_before: host_cpu(),
            limited: false,
            messages,
            services,
            custom,
            keeping: Vec::new(),
            epochs: None,
        })
    }

    /// Profiles of windows are given away while the run goes on.
    pub fn in_epochs(&mut self, epochs: Option<Epochs<'a>>) {
        self.epochs = epochs;
    }

    /// What processes of this run are told.
    pub const fn terms(&self) -> Terms {
        self.terms
    }

    /// The first program has started.
    pub fn first(&mut self, identity: Identity, shared: Shared, stream: Option<Stream>) {
        self.main = Some(identity.pid);
        self.families.push(Rc::clone(shared.pages().family()));
        let program = &self.options.program.elf;
        self.observe(identity, shared, stream, program);
    }

    /// The first program has started, natively.
    pub fn first_natively(&mut self, pid: Pid) {
        self.main = Some(pid);
        self.strangers = Strangers::expected(self.options.tracing.after);
        self.awaited = true;
        self.started = 1;
    }

    /// What was kept of a program's fragments, if they are kept.
    pub fn kept(&self, program: &Path) -> Option<Keeping> {
        self.options.persist.as_ref()?.of(&self.terms, program)
    }

    /// Fragments of a process that is about to execute a program are to be kept.
    pub fn will_keep(&mut self, shared: &Shared, keeping: Keeping) {
        shared.control().persist.store(1, Relaxed);
        let family = Rc::clone(shared.pages().family());
        self.keeping.push((family, keeping));
    }

    /// Keeps what a process has made that has ended.
    fn keep(&mut self, process: &Process) {
        let pages = process.shared.pages();
        let of = |(family, _): &(Rc<Family>, _)| Rc::ptr_eq(family, pages.family());
        if pages.slot() == 0
            && let Some(n) = self.keeping.iter().position(of)
            && let Some(store) = &self.options.persist
        {
            let (_, keeping) = self.keeping.swap_remove(n);
            store.keep(&keeping, &process.shared);
        }
    }

    fn observe(
        &mut self,
        identity: Identity,
        shared: Shared,
        stream: Option<Stream>,
        program: &Path,
    ) {
        let selection = Selection::new(self.options.only.clone(), program, self.files);
        let images = self.images.clone();
        let budget = Rc::clone(&self.budget);
        let spec = &self.options.compressor;
        let counts = self.terms.counts;
        let mut folder = Folder::new(spec, counts, stream, selection, images, budget);
        let number = match self.awaited && self.main == Some(identity.pid) {
            true => {
                self.awaited = false;
                0
            }
            false => {
                self.started += 1;
                self.started - 1
            }
        };
        let first = number == 0;
        let tracing = &self.options.tracing;
        let series = tracing.series.then(Series::begin);
        let audit = tracing
            .audits()
            .then(|| Audit::begin(identity.pid, !tracing.stay));
        if let Some(question) = self.options.question {
            let write = self.messages.clone();
            let pid = identity.pid.as_raw() as u32;
            let services = self.services.take();
            let services = services
                .unwrap_or_else(|| self.options.services.iter().map(Instance::begin).collect());
            let answers = Answers::new(question, program, self.files, write, services, pid);
            folder = folder.of_queries(answers);
        }
        if self.terms.prefetch == Wanted::Misses {
            folder =
                folder.of_prefetches(Prefetch::new(Geometry::of_machine()).calling(identity.pid));
        }
        let windows = self.windows(identity.pid, first);
        self.relatives.has_begun(identity.pid);
        if let Some(toll) = self.toll {
            folder = folder.of_windows(toll.cycle, self.levels.clone());
            if let Some(custom) = &self.custom {
                let pid = identity.pid.as_raw() as u32;
                folder = folder.of_custom(custom.begin(), pid);
            }
        }
        let process = Process::new(identity, shared, folder, first, series, audit, windows);
        self.processes.push((number, process));
    }

    /// The windows of a process.
    fn windows(&self, pid: Pid, first: bool) -> Option<Windows> {
        if let (Some(sampling), Some(toll)) = (self.options.sampling, self.toll) {
            return Some(Windows::within(sampling, toll, pid));
        }
        (self.terms.window != 0 && first).then(|| {
            let pace = self.options.stress.pace;
            let period = (pace != 0).then(|| Duration::from_micros(pace.into()));
            Windows::at_pace(pid, period)
        })
    }

    /// Serves until the first program has ended and everything is folded. `parted` tells when control
    /// has ended of a program that is not our child, given its state.
    pub fn serve(&mut self, mut parted: Option<Parted<'_>>) {
        const OFTEN: Duration = Duration::from_millis(10);
        let nap = match parted {
            None => IDLE,
            Some(_) => OFTEN,
        };
        let late = self.options.tracing.late().is_some();
        let nap = match (self.terms.window, self.toll, self.options.tracing.series) {
            (1.., None, _) => pacer::OFTEN,
            // What is wanted at its end need not be at once: looking costs.
            (1.., Some(_), _) if parted.is_some() => sampling::OFTEN,
            (1.., Some(_), _) => sampling::SELDOM,
            (0, _, true) => series::PERIOD,
            (0, _, false) => nap,
        };
        let mut looked = Instant::now();
        loop {
            if let Some(parted) = &mut parted
                && self.ended.is_none()
            {
                let state = self.process(0).and_then(|(_, p)| p.shared.state());
                let mut stop = || {
                    let processes = self.processes.iter_mut();
                    processes.for_each(|(_, process)| process.stop_windows());
                    self.relatives.stop();
                };
                if let Some(ended) = parted(state, &mut stop) {
                    self.ended = Some((ended, Instant::now()));
                    if let Some((_, process)) = self.process(0)
                        && process.end == End::No
                    {
                        process.end = End::Ended(None);
                    }
                }
            }
            // Asked before looking, so that what was published before an end is seen.
            if bell::child_changed() {
                self.changes();
            }
            if looked.elapsed() >= IDLE || self.ended.is_some() {
                looked = Instant::now();
                self.processes.iter_mut().for_each(|(_, p)| p.look());
            }
            self.pace();
            if late && self.ended.is_none() {
                self.strangers();
            }
            self.epoch();
            self.newcomers();
            for (_, process) in &mut self.processes {
                if process.end == End::No && process.is_ending() {
                    process.end = End::Ended(process.exit_status());
                }
                process.serve(self.notice);
                if process.is_full() && !self.limited && process.end == End::No {
                    self.limited = true;
                    let _ = nix::sys::signal::kill(
                        process.identity.pid,
                        nix::sys::signal::Signal::SIGKILL,
                    );
                }
            }
            self.requests();
            self.finish();
            if let Some(since) = self.since_end() {
                const LONG: Duration = Duration::from_secs(1);
                const SHORT: Duration = Duration::from_millis(50);
                // A thread that is traced would not be left as it was, and processes that are just
                // being made are worth a moment.
                let coming = !self.traced.is_empty() || !self.arrivals.is_empty();
                let traced = coming && since < LONG;
                let expected = since < SHORT && self.expects();
                if !traced && !expected {
                    return self.leave();
                }
            }
            let processes = &self.processes;
            let families = &self.families;
            let pause = processes
                .iter()
                .map(|(_, p)| p.pause().min(p.audit_pause()));
            let pause = pause.min();
            let pause = match self.ended {
                None if self.arrivals.is_empty() => pause.unwrap_or(IDLE),
                _ => BRIEF,
            };
            // Beside many that sleep, looking at them would cost most. What comes of their windows rings.
            let sleeps = processes.iter().all(|(_, process)| process.sleeps());
            let pause = match self.epochs.is_some() && self.ended.is_none() && sleeps {
                true => ASLEEP,
                false => pause.min(nap),
            };
            let pause = match late {
                true if self.ended.is_none() => pause.min(self.strangers.pause()),
                _ => pause,
            };
            bell::sleep(families, pause, || {
                let news = |family: &Rc<Family>| {
                    let known = |slot| is_known(processes, family, slot);
                    family.is_asked() || !family.newcomers(known).is_empty()
                };
                processes.iter().any(|(_, p)| !p.is_idle()) || families.iter().any(news)
            });
        }
    }

    /// Begins windows where it is time for them.
    fn pace(&mut self) {
        if self.terms.window == 0 || self.ended.is_some() {
            return;
        }
        let before = self.host_before;
        let custom = self.custom.as_deref();
        let mut often = sampling::SELDOM;
        for (_, process) in &mut self.processes {
            let host = || cpu_with(custom).saturating_sub(before);
            process.pace(host, &mut self.births, self.notice);
            often = process.often().unwrap_or(often).min(often);
        }
        if self.options.follow && self.toll.is_some() {
            self.relatives.look(often, &mut self.births, || {
                let processes = self.processes.iter();
                let known = processes.filter_map(|(_, process)| {
                    let period = process.period_of_windows()?;
                    Some((process.identity.pid, Rc::clone(process.family()), period))
                });
                known.collect()
            });
            self.strangers();
        }
    }

    /// Gives profiles away where it is time for that.
    fn epoch(&mut self) {
        let Some(epochs) = self.epochs.as_mut().filter(|_| self.ended.is_none()) else {
            return;
        };
        if !epochs.is_over() {
            return;
        }
        let host = host_cpu().saturating_sub(self.host_before);
        for (_, process) in &mut self.processes {
            if let Some(profile) = process.epoch(self.options.kinds, host, self.notice) {
                epochs.give(profile);
            }
        }
    }

    /// Whether processes are being made that have not said yet who they are.
    fn expects(&self) -> bool {
        let there = self.processes.iter().map(|(_, p)| &p.shared);
        let ended = self.ancestors.iter().map(|a| &a.shared);
        there.chain(ended).any(|shared| {
            let pages = shared.pages();
            pages.family().expects(pages.slot())
        })
    }

    /// How long ago the first program ended.
    fn since_end(&self) -> Option<Duration> {
        self.ended.map(|(_, at)| at.elapsed())
    }

    /// What children of ours have come to.
    fn changes(&mut self) {
        // Ended while it was taken under control.
        while let Some((pid, ended)) = reaped() {
            self.changed(Change::Ended(pid, ended));
        }
        loop {
            let arrivals = &self.arrivals;
            let is_marked = |pid, signal| {
                let on_it = |a: &&Arrival| a.landing.pid() == pid;
                arrivals
                    .iter()
                    .find(on_it)
                    .is_some_and(|a| a.landing.is_at_mark(signal))
            };
            let Some(change) = follow::change(is_marked) else {
                return self.late();
            };
            self.changed(change);
        }
    }

    fn changed(&mut self, change: Change) {
        match change {
            Change::Ended(pid, ended) => {
                if let Some(custom) = &self.custom {
                    custom.child_ended(pid, ended.status);
                }
                self.arrivals.retain(|arrival| arrival.landing.pid() != pid);
                if Some(pid) == self.main {
                    self.ended = Some((ended, Instant::now()));
                }
                if let Some(at) = self.traced.iter().position(|t| t.tid == pid) {
                    // Killed in the middle: whoever waits for its request may go on.
                    let traced = self.traced.swap_remove(at);
                    if let Some((_, process)) = self.process(traced.number) {
                        process.shared.answer(Request::IDLE);
                    }
                }
                for (_, process) in &mut self.processes {
                    if process.identity.pid == pid && process.end == End::No {
                        process.end = End::Ended(ended.status);
                    }
                }
            }
            Change::Exec(pid) => self.exec(pid),
            Change::Marked(pid) => self.arrived(pid),
        }
    }

    fn process(&mut self, number: usize) -> Option<&mut (usize, Process)> {
        self.processes.iter_mut().find(|(n, _)| *n == number)
    }

    /// Processes that were made by `fork`.
    fn newcomers(&mut self) {
        for family in self.families.clone() {
            family.provide();
            for newcomer in family.newcomers(|slot| is_known(&self.processes, &family, slot)) {
                self.newcomer(&family, &newcomer);
            }
        }
    }

    fn newcomer(&mut self, family: &Rc<Family>, newcomer: &Newcomer) {
        let there = self.processes.iter().map(|(_, p)| (&p.identity, &p.shared));
        let ended = self.ancestors.iter().map(|a| (&a.identity, &a.shared));
        let parent = there.chain(ended).find(|(_, shared)| {
            let pages = shared.pages();
            Rc::ptr_eq(pages.family(), family) && pages.slot() == newcomer.parent
        });
        let Some((parent, theirs)) = parent else {
            // The directory was damaged.
            return;
        };
        let Ok(shared) = Shared::forked(theirs, newcomer) else {
            return;
        };
        let pid = match newcomer.foreign {
            true => pids::process(newcomer.pid, family),
            false => Some(Pid::from_raw(newcomer.pid)),
        };
        let identity = Identity {
            // None: it has ended already.
            pid: pid.unwrap_or(Pid::from_raw(0)),
            parent: parent.pid.as_raw() as u32,
            command: parent.command.clone(),
        };
        self.begin(identity, shared);
    }

    /// Observes another process.
    fn begin(&mut self, identity: Identity, shared: Shared) {
        let stream = self.options.stream.as_ref().map(|path| {
            let mut name = path.clone().into_os_string();
            let pid = identity.pid;
            let before = self.streams.entry(pid).or_default();
            *before += 1;
            name.push(format!(".{pid}"));
            if *before > 1 {
                name.push(format!(".{before}"));
            }
            (
                Pending::open(Path::new(&name)).and_then(Pending::begin),
                None,
            )
        });
        // Asked for only where it matters: most processes live for a millisecond.
        let tagged = self.options.question.is_some_and(Question::is_tagged);
        let program = match self.options.only.is_empty() && !tagged {
            true => None,
            false => program_of(identity.pid),
        };
        let elf = &self.options.program.elf;
        self.observe(identity, shared, stream, program.as_ref().unwrap_or(elf));
    }

    /// Makes profiles of the processes that have ended.
    fn finish(&mut self) {
        let mut n = 0;
        while n < self.processes.len() {
            if self.processes[n].1.end == End::No {
                n += 1;
                continue;
            }
            let (number, mut process) = self.processes.swap_remove(n);
            // What came between the last look and its end.
            process.serve(self.notice);
            process.shared.close();
            self.keep(&process);
            let compressor = self.options.compressor.to_string();
            let host = cpu_with(self.custom.as_deref()).saturating_sub(self.host_before);
            let kinds = self.options.kinds;
            let large = self.budget.is_large();
            let (done, ancestor) = process.finish(&compressor, kinds, host, self.notice);
            self.stream_whole &= done.stream_whole;
            match number {
                0 => self.done = Some(done),
                _ => (self.others)(done.profile, done.engine),
            }
            if large {
                memory::give_back();
            }
            self.ancestors.push(ancestor);
        }
        self.newcomers();
        self.ancestors.retain(Ancestor::is_needed);
        let there = self.processes.iter().map(|(_, p)| p.family());
        let ended = self.ancestors.iter().map(|a| a.shared.pages().family());
        let used: Vec<*const Family> = there.chain(ended).map(Rc::as_ptr).collect();
        (self.families).retain(|family| used.contains(&Rc::as_ptr(family)));
    }

    /// The first program has ended: processes that are still there go on without us.
    fn leave(&mut self) {
        let mut left = 0;
        for (_, process) in &mut self.processes {
            process.stop_windows();
            process.end = End::Left;
            left += u64::from(process.is_controlled());
        }
        if left != 0 {
            let (processes, go) = match left {
                1 => ("process", "goes"),
                _ => ("processes", "go"),
            };
            (self.notice)(&format!(
                "the program has ended; {left} {processes} of its {go} on natively"
            ));
        }
        self.finish();
        self.strangers.release();
    }

    /// What the run has come to, which began at `clock`.
    ///
    /// # Errors
    /// The runtime could not start in the first program.
    pub fn conclude(mut self, clock: Instant) -> Result<Recording, RecordError> {
        let (ended, at) = self.ended.unwrap_or((Ended::default(), Instant::now()));
        let wall = at.duration_since(clock);
        let done = match self.done.take() {
            Some(done) => done,
            // It was never taken under control.
            None if self.awaited => Done {
                profile: Profile {
                    command: Identity::first(Pid::from_raw(0), &self.options.arguments).command,
                    ..Profile::default()
                },
                engine: Engine::default(),
                stream_whole: true,
            },
            None => {
                return Err(RecordError::NotStarted {
                    program: self.options.program.path.clone(),
                });
            }
        };
        let native = self.awaited;
        if let Some(messages) = &self.messages
            && let Err(error) = messages.borrow_mut().finish()
        {
            (self.notice)(&format!(
                "messages are missing in their file: {error}; the profile has all of them"
            ));
        }
        let engine = done.engine;
        let mut first = done.profile;
        if self.epochs.is_some() {
            return Ok(Recording {
                profile: first,
                ended,
                limited: false,
                engine,
                stream_whole: self.stream_whole,
            });
        }
        let limited = self.limited && ended.status == Some(-libc::SIGKILL);
        let nothing = first.kinds.values().all(|kind| kind.seen == 0);
        if engine.fragments == 0 && nothing && first.run.let_go.is_empty() && !native {
            if ended.status == Some(NOT_STARTED) {
                return Err(RecordError::NotStarted {
                    program: self.options.program.path.clone(),
                });
            }
            let words = "the runtime did not start".to_owned();
            first.run.let_go.push(words);
        }
        if limited {
            let words = "it was ended when the stream had all the events that were wanted";
            first.run.let_go.push(words.to_owned());
        }
        // What the run as a whole came to.
        first.run.wall = wall.as_nanos() as u64;
        first.run.target_cpu = ended.cpu.as_nanos() as u64;
        first.run.host_cpu = cpu_with(self.custom.as_deref()).as_nanos() as u64;
        first.run.status = ended.status;
        if let Some(windows) = &mut first.windows {
            // It may have ended before anybody looked.
            if windows.cpu == 0 {
                let paid = windows.in_windows + windows.in_kernel;
                windows.cpu = first.run.target_cpu.saturating_sub(paid);
            }
            windows.wall = windows.wall.max(first.run.wall);
        }
        Ok(Recording {
            profile: first,
            ended,
            limited,
            engine,
            stream_whole: self.stream_whole,
        })
    }
}

fn is_known(processes: &[(usize, Process)], family: &Rc<Family>, slot: usize) -> bool {
    processes
        .iter()
        .any(|(_, p)| Rc::ptr_eq(p.family(), family) && p.shared.pages().slot() == slot)
}

/// The program that a process runs.
fn program_of(pid: Pid) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// The arguments of a process.
fn command_of(pid: Pid) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = bytes.strip_suffix(b"\0").unwrap_or(&bytes);
    let words = words.split(|&c| c == 0).map(<[u8]>::to_vec);
    words.map(|w| OsString::from_vec(w).into_vec()).collect()
}

/// The exit status of a program whose runtime could not start.
const NOT_STARTED: i32 = 126;

/// CPU time of this process so far.
/// Our CPU time, with that of the process of a module.
fn cpu_with(custom: Option<&Custom>) -> Duration {
    host_cpu() + custom.map_or(Duration::ZERO, Custom::cpu)
}

fn host_cpu() -> Duration {
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF);
    usage.map_or(Duration::ZERO, |u| {
        let t = |v: nix::sys::time::TimeVal| {
            Duration::new(v.tv_sec() as u64, v.tv_usec() as u32 * 1000)
        };
        t(u.user_time()) + t(u.system_time())
    })
}
