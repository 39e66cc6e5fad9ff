//! One process under observation, from its first record to its profile.
//!
//! A process here runs one program: after an `exec` it is another process with the same number.
//! At its end, all that its threads recorded is read up to their write pointers, published or not. So nothing is lost.
//!
//! The same is done before its code changes, as records must be understood while their code is still there.
//! It is done as well whenever a young process is served. So little is left to fold when a short program ends.

pub mod bursts;
mod map;
mod profile;
mod queue;
mod served;
mod serving;

use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, SystemTime};

use trommel_profile::Scope;
use trommel_profile::queries::Queries;
use trommel_queue::State;

use crate::ask::queries::Changes;
use crate::channel::bell::IDLE;
use crate::channel::family::Family;
use crate::channel::shared::Shared;
use crate::fold::Folder;
use crate::kernel::births::Births;
use crate::kernel::compiled::Compiled;
use crate::kernel::handle::Handle;
use crate::kernel::running;
use crate::serve::audit::Audit;
use crate::serve::identity::{End, Identity};
use crate::serve::progress::Rate;
use crate::serve::series::Series;
use crate::serve::turns::{Moment, Turns, WhyAttached};
use crate::serve::unobserved::Unobserved;
use crate::windows::{Own, Windows};
use bursts::InBursts;
use map::MapAnswers;
use queue::Queue;
use served::Served;

/// A process that is observed.
pub struct Process {
    /// Identity of the process.
    pub identity: Identity,
    /// State that it shares with the host.
    pub shared: Shared,
    folder: Folder,
    queue: Queue,
    served: Served,
    clock: Instant,
    /// Start of the period that its profile covers.
    since: (SystemTime, Instant),
    /// CPU time that it had used when its latest intervals were asked for last.
    cpu: Duration,
    /// Folds now what is written, published or not.
    hurried: bool,
    /// Tells of its end.
    handle: Handle,
    /// End of the process, as it was found.
    pub end: End,
    /// Part of its run that is observed.
    pub scope: Scope,
    /// It is the first.
    first: bool,
    /// Series of its engine's figures, if that was asked for.
    series: Option<Series>,
    /// Audit of its time, if that is enabled.
    audit: Option<Audit>,
    windows: Option<Windows>,
    /// Its bursts, if it is controlled in bursts.
    bursts: Option<InBursts>,
    /// Times and reason of its control: when and why it was attached, and when it was detached.
    turns: Turns,
    /// Start of the run.
    run: Instant,
    /// Names of code that it makes.
    compiled: Compiled,
    /// Its memory map, where it may not read that itself.
    map: MapAnswers,
}

impl Process {
    /// A process that starts.
    pub fn new(
        identity: Identity,
        shared: Shared,
        folder: Folder,
        first: bool,
        series: Option<Series>,
        audit: Option<Audit>,
        windows: Option<Windows>,
    ) -> Self {
        Self {
            handle: Handle::open(identity.pid),
            compiled: Compiled::of(identity.pid.as_raw() as u32),
            identity,
            shared,
            folder,
            queue: Queue::default(),
            served: Served::default(),
            clock: Instant::now(),
            since: (SystemTime::now(), Instant::now()),
            cpu: Duration::ZERO,
            hurried: false,
            end: End::No,
            scope: Scope::default(),
            first,
            series,
            audit,
            windows,
            bursts: None,
            turns: Turns::default(),
            run: Instant::now(),
            map: MapAnswers::default(),
        }
    }

    /// Begins to account its CPU time, for who looks at its latest intervals.
    pub fn looked_at(mut self) -> Self {
        self.cpu = running::cpu_time(self.identity.pid).unwrap_or_default();
        self
    }

    /// Notes why it has just been attached, in a run that began at `run`.
    pub fn taken(mut self, run: Instant, why: WhyAttached) -> Self {
        self.run = run;
        self.turns.taken = Some((why, Moment::now(run, self.identity.pid)));
        self
    }

    /// Marks it as native from now on: it could not be reattached, for the reason `why`.
    pub fn stays(&mut self, why: &str) {
        let reason = Unobserved::NotReattached(why.to_owned());
        self.served.unobserved.push(reason);
        self.end = End::Stays;
    }

    /// User time that it lost under control since that paid last, as far as is known.
    pub fn lost(&self) -> Duration {
        self.audit.as_ref().map_or(Duration::ZERO, Audit::lost)
    }

    /// Begins windows, if there are to be any. `own`: our own CPU time so far; `births`: whether there may be new threads.
    ///
    /// # Errors
    /// The kernel refuses what begins windows.
    pub fn pace(&mut self, own: impl FnOnce() -> Own, births: &mut Births) -> io::Result<()> {
        match &mut self.windows {
            Some(windows) if self.end == End::No => windows.look(&self.shared, own, births),
            _ => Ok(()),
        }
    }

    /// The time between its windows, while they are to go on.
    pub fn period_of_windows(&self) -> Option<Duration> {
        let goes_on = self.end == End::No;
        self.windows.as_ref().filter(|_| goes_on)?.period()
    }

    /// CPU time that it would have used without windows or bursts when its account was looked at last.
    pub fn used(&self) -> Duration {
        let in_windows = self.windows.as_ref().map(Windows::used);
        let in_bursts = || self.bursts.as_ref().map(|bursts| bursts.account.used());
        in_windows.or_else(in_bursts).unwrap_or_default()
    }

    /// From one look at its windows to the next.
    pub fn often(&self) -> Option<Duration> {
        self.windows.as_ref()?.often()
    }

    /// Returns true if it does nothing, as far as is known by looking at its windows.
    pub fn sleeps(&self) -> bool {
        self.windows.as_ref().is_some_and(Windows::are_idle)
    }

    /// No window begins any more.
    pub fn stop_windows(&mut self) {
        if let Some(windows) = &mut self.windows {
            windows.stop(&self.shared);
        }
    }

    /// It is not called by signals any more: it is about to be detached, or is another program.
    pub fn hush(&mut self) {
        self.folder.hush();
    }

    /// The family of its file.
    pub fn family(&self) -> &std::rc::Rc<Family> {
        self.shared.pages().family()
    }

    /// Returns true if its slot is this one of a family.
    pub fn is_in(&self, family: &std::rc::Rc<Family>, slot: usize) -> bool {
        std::rc::Rc::ptr_eq(self.family(), family) && self.shared.pages().slot() == slot
    }

    /// Its threads so far; 0 where there was only one.
    fn threads(&self) -> u64 {
        let started = u64::from(self.shared.control().process.threads.load(Relaxed));
        if started > 1 { started } else { 0 }
    }

    /// Returns true if the stream has all the events that were wanted.
    pub fn is_full(&self) -> bool {
        self.folder.is_full()
    }

    /// Returns true if it has said that it ends, and only the kernel is busy with it.
    pub fn is_ending(&self) -> bool {
        self.shared.is_ending()
    }

    /// Returns true if it runs under control, as far as it has said.
    pub fn is_controlled(&self) -> bool {
        self.shared.state() == Some(State::Controlled)
    }

    /// Returns true if it was detached, as far as it has said.
    pub fn is_detach(&self) -> bool {
        self.shared.state() == Some(State::Native)
    }

    /// Returns true if there is nothing to do for it.
    pub fn is_idle(&self) -> bool {
        self.shared.is_idle(self.queue.taken) && !self.is_ending()
    }

    /// Returns the longest pause until it is served again, if it does not ask. Windows fill little.
    pub fn pause(&self) -> Duration {
        const SHORTEST: Duration = Duration::from_micros(200);
        let age = self.clock.elapsed();
        match self.windows.as_ref().and_then(Windows::often) {
            None => {
                let longest = self.folder.converge_pause().unwrap_or(IDLE);
                let longest = self
                    .pause_of_bursts()
                    .map_or(longest, |pause| pause.min(IDLE));
                (age / 16).clamp(SHORTEST, longest)
            }
            Some(often) => (age / 4).clamp(SHORTEST * 4, often),
        }
    }

    /// Compares it with a native rate, as in [`Audit::compare_with`].
    pub(crate) fn compare_with(&mut self, native: Rate, times: u32, prove: bool) {
        if let Some(audit) = &mut self.audit {
            audit.compare_with(native, times, prove);
        }
    }

    /// Returns its rate under control, as in [`Audit::under_control`].
    pub(crate) fn under_control(&self) -> Option<(Rate, u32)> {
        self.audit.as_ref()?.under_control()
    }

    /// Returns the longest pause until its samples are looked at.
    pub fn audit_pause(&self) -> Duration {
        match &self.audit {
            Some(audit) if !self.is_detach() => audit.pause(),
            _ => Duration::MAX,
        }
    }

    /// Returns the exit status that it has announced.
    pub fn exit_status(&self) -> Option<i32> {
        let said = self.shared.control().process.exit_status.load(Relaxed);
        said.checked_sub(1).map(|status| (status & 0xff) as i32)
    }

    /// Sees to it that it is asked the queries that are wanted now. Returns how far it has come, if it is asked any and runs under control.
    pub fn change_queries(&mut self) -> Option<Changes> {
        let now = self.folder.query_changes(&self.shared)?;
        if self.end != End::No || !matches!(self.shared.state(), Some(State::Controlled)) {
            return None;
        }
        if now == Changes::Made && !self.folder.queries_differ() {
            return Some(now);
        }
        let left = self.folder.left_queries(&self.shared);
        if left != 0 {
            self.hurried = true;
            self.fold();
            self.hurried = false;
        }
        self.folder.change_queries(&self.shared, left);
        self.folder.query_changes(&self.shared)
    }

    /// Returns the results of its queries so far, without messages.
    pub fn queries_so_far(&self) -> Vec<Queries> {
        self.folder.queries_so_far(&self.shared)
    }

    /// Finds out whether it is there.
    pub fn look(&mut self) {
        if self.end == End::No && self.handle.has_ended() {
            self.end = End::Ended(self.exit_status().or_else(|| self.handle.status()));
        }
    }
}
