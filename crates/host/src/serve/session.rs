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

mod arrivals;
mod begin;
mod bursts;
mod changes;
mod cost;
mod end;
mod execs;
mod native;
mod observing;
mod parts;
mod progress;
mod querying;
mod reattach;
mod releases;
mod retakes;
mod stops;
mod takes;

use std::io;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use trommel_profile::Profile;
use trommel_queue::State;

use crate::channel::bell;
use crate::channel::bell::IDLE;
use crate::channel::family::Family;
use crate::channel::shared::Shared;
use crate::channel::stream::StreamFile;
use crate::channel::terms::Terms;
use crate::kernel::births::Births;
use crate::ptrace::ended::Ended;
use crate::serve::engine::Engine;
use crate::serve::epochs::Epochs;
use crate::serve::identity::{End, Identity};
use crate::serve::news::News;
use crate::serve::options::RecordOptions;
use crate::serve::persist::Keeping;
use crate::serve::process::Process;
use crate::serve::recording::Ancestor;
use crate::serve::series::{self};
use crate::serve::turns::WhyAttached;
use crate::takeover::forked::Forked;
use crate::windows::Own;
use crate::windows::pacer;
use crate::windows::sampling;
use arrivals::{Arrival, Traced};
use cost::{cost, host_cpu, part};
use native::Execed;
use nix::sys::signal::{Signal, kill};
use parts::{Account, First, Means, Receivers};
use querying::Querying;
use releases::Releases;
use retakes::Retakes;
use stops::Stops;

/// The stream file of a process, and how many events are wanted in it.
pub type Stream = (io::Result<StreamFile>, Option<u64>);

/// Asked again and again, with the state of the first program and what ends its windows: how it has ended for us.
pub type Parted<'a> = &'a mut dyn FnMut(Option<State>, &mut dyn FnMut()) -> Option<Ended>;

/// A run that goes on.
pub struct Session<'a> {
    options: &'a RecordOptions,
    notice: &'a mut dyn FnMut(News),
    others: &'a mut dyn FnMut(Profile, Engine),
    terms: Terms,
    means: Means,
    receivers: Receivers,
    first: First,
    account: Account,
    families: Vec<Rc<Family>>,
    /// Processes that are there, by number.
    processes: Vec<(usize, Process)>,
    /// Processes started so far.
    started: usize,
    /// Processes that have ended and are still making others.
    ancestors: Vec<Ancestor>,
    traced: Vec<Traced>,
    /// Processes that are detached because a program asks for it.
    releases: Releases,
    arrivals: Vec<Arrival>,
    stops: Stops,
    /// True if there may be new threads and processes.
    births: Births,
    /// Processes that are forked between windows.
    forked: Forked,
    /// Programs that are executed between windows.
    execed: Execed,
    /// Processes that were detached.
    retakes: Retakes,
    /// Kept fragments of processes that executed their programs in a family.
    keeping: Vec<(Rc<Family>, Keeping)>,
    /// Profiles are given away while it goes on.
    epochs: Option<Epochs<'a>>,
    /// Commands that change its queries.
    querying: Querying,
}

const BRIEF: Duration = Duration::from_millis(2);
/// Longest pause in a run that goes on in epochs, while its processes do nothing.
const ASLEEP: Duration = Duration::from_millis(250);

impl<'a> Session<'a> {
    /// Profiles of windows are given away while the run goes on.
    pub fn in_epochs(&mut self, epochs: Option<Epochs<'a>>) {
        self.epochs = epochs;
    }

    /// Returns the terms that processes of this run get.
    pub const fn terms(&self) -> Terms {
        self.terms
    }

    /// The run begins now: when.
    pub fn begins(&mut self) -> Instant {
        self.account.began = Instant::now();
        self.account.began
    }

    /// The first program has started.
    pub fn first(&mut self, identity: Identity, shared: Shared, stream: Option<Stream>) {
        self.first.pid = Some(identity.pid);
        self.families.push(Rc::clone(shared.pages().family()));
        let program = &self.options.program.elf;
        self.observe(identity, shared, stream, program, WhyAttached::Start);
    }

    /// The first program runs already.
    pub fn finds_running(&mut self) {
        self.first.late = true;
    }

    /// The first program has started, natively.
    pub fn first_natively(&mut self, pid: Pid) {
        self.first.pid = Some(pid);
        self.execed = Execed::expected(self.options.tracing.after);
        self.first.awaited = true;
        self.started = 1;
    }

    /// Returns the kept fragments of a program, if they are kept.
    pub fn kept(&self, program: &Path) -> Option<Keeping> {
        self.options.persist.as_ref()?.of(&self.terms, program)
    }

    /// Fragments of a process that is about to execute a program are to be kept.
    pub fn will_keep(&mut self, shared: &Shared, keeping: Keeping) {
        shared.control().setup.persist.store(1, Relaxed);
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

    /// Serves until the first program has ended and everything is folded. `parted` tells when control
    /// has ended of a program that is not our child, given its state.
    pub fn serve(&mut self, mut parted: Option<Parted<'_>>) {
        let nap = self.nap(parted.is_some());
        let late = self.options.tracing.late().is_some();
        let mut looked = Instant::now();
        self.listen();
        loop {
            if let Some(parted) = &mut parted
                && self.first.ended.is_none()
            {
                self.part(parted);
            }
            self.bursts();
            // Asked before looking, so that what was published before an end is seen.
            let changed = bell::child_changed();
            if changed {
                self.changes();
            }
            self.stop_with_program(changed);
            if looked.elapsed() >= IDLE || self.first.ended.is_some() {
                looked = Instant::now();
                self.processes.iter_mut().for_each(|(_, p)| p.look());
            }
            self.pace();
            if late && self.first.ended.is_none() {
                self.execed();
            }
            if self.first.ended.is_none() {
                self.retakes();
            }
            self.epoch();
            self.newcomers();
            self.serve_each();
            self.querying();
            self.requests();
            self.released();
            self.finish();
            self.progress();
            if self.is_over() {
                return self.leave();
            }
            self.sleep(nap, late);
        }
    }

    /// The longest sleep between two rounds. `attached`: the first program is not our child.
    fn nap(&self, attached: bool) -> Duration {
        const OFTEN: Duration = Duration::from_millis(10);
        match (
            self.terms.window,
            self.means.toll,
            self.options.tracing.series,
        ) {
            (1.., None, _) => pacer::OFTEN,
            // What is wanted at its end need not be at once: looking costs.
            (1.., Some(_), _) if attached => sampling::OFTEN,
            (1.., Some(_), _) => sampling::RARE,
            (0, _, false) if self.options.stress.bursts != 0 => BRIEF,
            // Each process says when its next burst may be due.
            (0, _, false) if self.options.bursts => IDLE,
            (0, _, true) => series::PERIOD,
            (0, _, false) if attached => OFTEN,
            (0, _, false) => IDLE,
        }
    }

    /// Finds out whether control of the first program has ended.
    fn part(&mut self, parted: &mut Parted<'_>) {
        let state = self.process(0).and_then(|(_, p)| p.shared.state());
        let mut stop = || {
            let processes = self.processes.iter_mut();
            for (_, process) in processes {
                process.stop_windows();
                process.hush();
            }
            self.forked.stop();
        };
        let Some(ended) = parted(state, &mut stop) else {
            return;
        };
        self.first.ended = Some((ended, Instant::now()));
        if let Some((_, process)) = self.process(0)
            && process.end == End::No
        {
            process.end = End::Ended(None);
        }
    }

    /// Serves each process.
    fn serve_each(&mut self) {
        for (_, process) in &mut self.processes {
            if process.end == End::No && process.is_ending() {
                process.end = End::Ended(process.exit_status());
            }
            process.serve().into_iter().for_each(&mut *self.notice);
            if process.is_full() && !self.first.limited && process.end == End::No {
                self.first.limited = true;
                let _ = kill(process.identity.pid, Signal::SIGKILL);
            }
        }
    }

    /// Returns true if the first program has ended, and nothing is worth waiting for.
    fn is_over(&self) -> bool {
        const LONG: Duration = Duration::from_secs(1);
        const SHORT: Duration = Duration::from_millis(50);
        let Some((_, at)) = self.first.ended else {
            return false;
        };
        let since = at.elapsed();
        // A thread that is traced would not be left as it was, and processes that are just
        // being made are worth a moment.
        let coming = !self.traced.is_empty() || !self.arrivals.is_empty();
        !(coming && since < LONG || since < SHORT && self.expects())
    }

    /// Sleeps until a process rings, or for as long as nothing need be looked at.
    fn sleep(&self, nap: Duration, late: bool) {
        let processes = &self.processes;
        let families = &self.families;
        let pauses = processes
            .iter()
            .map(|(_, p)| p.pause().min(p.audit_pause()));
        let pause = match self.first.ended {
            None if self.arrivals.is_empty() && self.releases.is_empty() => {
                pauses.min().unwrap_or(IDLE)
            }
            _ => BRIEF,
        };
        // Beside many that sleep, looking at them would cost most. What comes of their windows rings.
        let sleeps = processes.iter().all(|(_, process)| process.sleeps());
        let pause = match self.epochs.is_some() && self.first.ended.is_none() && sleeps {
            true => ASLEEP,
            false => pause.min(nap),
        };
        let pause = match late {
            true if self.first.ended.is_none() => pause.min(self.execed.pause()),
            _ => pause,
        };
        let pause = pause.min(self.retakes.pause());
        let pause = match self.querying.is_due() {
            true => pause.min(querying::OFTEN),
            false => pause,
        };
        bell::sleep(families, pause, || {
            let news = |family: &Rc<Family>| {
                let known = |slot| processes.iter().any(|(_, p)| p.is_in(family, slot));
                family.is_asked() || !family.newcomers(known).is_empty()
            };
            processes.iter().any(|(_, p)| !p.is_idle()) || families.iter().any(news)
        });
    }

    /// Begins windows where it is time for them.
    fn pace(&mut self) {
        if self.terms.window == 0 || self.first.ended.is_some() {
            return;
        }
        let before = self.account.host_before;
        let all = self.used();
        let custom = self.receivers.custom.as_deref();
        let epochs = self.epochs.as_ref();
        let mut often = sampling::RARE;
        for (_, process) in &mut self.processes {
            let part = part(process.used(), all);
            let own = || Own {
                cpu: cost(custom, epochs).saturating_sub(before),
                part,
            };
            if let Err(error) = process.pace(own, &mut self.births) {
                (self.notice)(News::NoWindows(error));
            }
            often = process.often().unwrap_or(often).min(often);
        }
        if self.options.follow && self.means.toll.is_some() {
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

    /// CPU time that all processes of the run have used so far, without us.
    fn used(&self) -> Duration {
        let there = self.processes.iter().map(|(_, process)| process.used());
        self.account.used + there.sum::<Duration>()
    }

    /// Gives profiles away where it is time for that.
    fn epoch(&mut self) {
        let Some(epochs) = self.epochs.as_mut().filter(|_| self.first.ended.is_none()) else {
            return;
        };
        if !epochs.is_over() {
            return;
        }
        if epochs.are_of_intervals() {
            for (_, process) in &mut self.processes {
                let (latest, news) = process.latest();
                news.into_iter().for_each(&mut *self.notice);
                latest
                    .into_iter()
                    .for_each(|latest| epochs.give_latest(latest));
            }
            return;
        }
        let host = cost(self.receivers.custom.as_deref(), Some(epochs))
            .saturating_sub(self.account.host_before);
        let before = host_cpu();
        for (_, process) in &mut self.processes {
            let (profile, news) = process.epoch(self.options.kinds, host);
            news.into_iter().for_each(&mut *self.notice);
            profile.into_iter().for_each(|profile| epochs.give(profile));
        }
        epochs.took(host_cpu().saturating_sub(before));
    }

    /// Returns true if processes are being made that have not said yet who they are.
    fn expects(&self) -> bool {
        let there = self.processes.iter().map(|(_, p)| &p.shared);
        let ended = self.ancestors.iter().map(|a| &a.shared);
        there.chain(ended).any(|shared| {
            let pages = shared.pages();
            pages.family().expects(pages.slot())
        })
    }

    fn process(&mut self, number: usize) -> Option<&mut (usize, Process)> {
        self.processes.iter_mut().find(|(n, _)| *n == number)
    }
}
