//! A run: the first program and all that comes of it, served until the first has ended.
//!
//! # Problem
//! A build starts thousands of processes, a few at a time, each with a queue that fills in
//! milliseconds; a shell's live for one. Each must be served as if it were the only one, and a
//! thread for each would cost more than the processes.
//!
//! # Strategy
//! The calling thread serves all queues in turn: it takes chunks as the targets' threads fill them,
//! folds each and gives it back, and sleeps when there is none ([`crate::channel::bell`]). Processes made by
//! `fork` are found in their family's directory; those that become other programs ask
//! ([`crate::ptrace::follow`]). It is the tracer too, and so the only thread there is.
//!
//! The run is over when the first program has ended. Processes that are still there then are detached:
//! their slots are closed, and they leave when they come to it next.
//!
//! # Invariants
//! * What a process published before it ended is folded, whoever ends first.
//! * A process whose slot is closed or whose family is dropped runs on natively.

mod begin;
mod end;
mod epochs;
mod execed;
mod execs;
mod retakes;

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
use trommel_profile::Profile;
use trommel_profile::memory::Levels;
use trommel_queue::{Request, State};
use trommel_symbol::Files;

use crate::ask::converge::Converge;
use crate::ask::custom::Custom;
use crate::ask::prefetch::Prefetch;
use crate::ask::prefetch::cache::Geometry;
use crate::ask::queries::Answers;
use crate::ask::service::{Instance, Write};
use crate::channel::bell;
use crate::channel::family::{Family, Newcomer};
use crate::channel::memory::Budget;
use crate::channel::modules::Images;
use crate::channel::pids;
use crate::channel::question::Question;
use crate::channel::shared::Shared;
use crate::channel::stream::{Pending, StreamFile};
use crate::channel::terms::Prefetching;
use crate::channel::terms::{TargetCounts, Terms};
use crate::fold::Folder;
use crate::fold::only::Selection;
use crate::kernel::births::Births;
use crate::ptrace::ended::Ended;
use crate::ptrace::follow::{self, Change};
use crate::ptrace::tracee::reaped;
use crate::serve::audit::Audit;
use crate::serve::persist::Keeping;
use crate::serve::process::{Ancestor, Done, End, IDLE, Identity, Process, Taken};
use crate::serve::record::{Engine, RecordOptions};
use crate::serve::series::{self, Series};
use crate::takeover::forked::Forked;
use crate::windows::Windows;
use crate::windows::pacer;
use crate::windows::sampling;
use crate::windows::toll::Toll;
pub use epochs::Epochs;
use execed::Execed;
use execs::{Arrival, Traced};
use retakes::Retakes;

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
    /// The first program runs natively, and has number 0 when it is attached.
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
    forked: Forked,
    /// Programs that are executed between windows.
    execed: Execed,
    /// Processes that were detached.
    retakes: Retakes,
    /// When it began.
    began: Instant,
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

const BRIEF: Duration = Duration::from_millis(2);
/// How long a run is left alone that goes on in epochs, while its processes do nothing.
const ASLEEP: Duration = Duration::from_millis(250);

impl<'a> Session<'a> {
    /// Profiles of windows are given away while the run goes on.
    pub fn in_epochs(&mut self, epochs: Option<Epochs<'a>>) {
        self.epochs = epochs;
    }

    /// What processes of this run are told.
    pub const fn terms(&self) -> Terms {
        self.terms
    }

    /// The run begins now: when.
    pub fn begins(&mut self) -> Instant {
        self.began = Instant::now();
        self.began
    }

    /// The first program has started.
    pub fn first(&mut self, identity: Identity, shared: Shared, stream: Option<Stream>) {
        self.main = Some(identity.pid);
        self.families.push(Rc::clone(shared.pages().family()));
        let program = &self.options.program.elf;
        self.observe(identity, shared, stream, program, Taken::Start);
    }

    /// The first program has started, natively.
    pub fn first_natively(&mut self, pid: Pid) {
        self.main = Some(pid);
        self.execed = Execed::expected(self.options.tracing.after);
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
        why: Taken,
    ) {
        let selection = Selection::new(self.options.only.clone(), program, self.files);
        let images = self.images.clone();
        let budget = Rc::clone(&self.budget);
        let spec = &self.options.compressor;
        let counts = self.terms.counts;
        let events = (self.options.kinds, counts);
        let mut folder = Folder::new(spec, events, stream, selection, images, budget);
        if self.terms.selects {
            folder = folder.of_selected();
        }
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
        if self.terms.prefetch == Prefetching::Misses {
            folder =
                folder.of_prefetches(Prefetch::new(Geometry::of_machine()).calling(identity.pid));
        }
        if let Some(limit) = self.terms.converge {
            let rate = match counts {
                TargetCounts::Strata(strata) => strata.rate.into(),
                TargetCounts::Nothing | TargetCounts::Paths | TargetCounts::Intervals(_) => 1,
            };
            folder = folder.of_converge(Converge::new(limit, rate).calling(identity.pid));
        }
        let windows = self.windows(identity.pid, first);
        self.forked.has_begun(identity.pid);
        if let Some(toll) = self.toll {
            folder = folder.of_windows(toll.cycle, self.levels.clone());
            if self.terms.stacks {
                folder = folder.by_caller(self.terms.kinds);
            }
            if let Some(custom) = &self.custom {
                let pid = identity.pid.as_raw() as u32;
                folder = folder.of_custom(custom.begin(), pid);
            }
        }
        let process = Process::new(identity, shared, folder, first, series, audit, windows);
        let process = process.taken(self.began, why);
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
            (1.., Some(_), _) => sampling::RARE,
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
                    self.forked.stop();
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
                self.execed();
            }
            if self.ended.is_none() {
                self.retakes();
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
                true if self.ended.is_none() => pause.min(self.execed.pause()),
                _ => pause,
            };
            let pause = pause.min(self.retakes.pause());
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
        let mut often = sampling::RARE;
        for (_, process) in &mut self.processes {
            let host = || cpu_with(custom).saturating_sub(before);
            process.pace(host, &mut self.births, self.notice);
            often = process.often().unwrap_or(often).min(often);
        }
        if self.options.follow && self.toll.is_some() {
            self.forked.look(often, &mut self.births, || {
                let processes = self.processes.iter();
                let known = processes.filter_map(|(_, process)| {
                    let period = process.period_of_windows()?;
                    Some((process.identity.pid, Rc::clone(process.family()), period))
                });
                known.collect()
            });
            self.execed();
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
        // Ended while it was attached.
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
        self.begin(identity, shared, Taken::Fork);
    }

    /// Observes another process.
    fn begin(&mut self, identity: Identity, shared: Shared, why: Taken) {
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
        let program = program.as_ref().unwrap_or(elf);
        self.observe(identity, shared, stream, program, why);
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

/// Our CPU time so far, with that of the process of a module.
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
