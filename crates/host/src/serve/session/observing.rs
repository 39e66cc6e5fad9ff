//! Processes that a session begins to observe.

use std::path::Path;
use std::process;
use std::rc::Rc;
use std::time::Duration;

use nix::unistd::Pid;
use trommel_profile::Scope;

use super::{Session, Stream};
use crate::ask::converge::Converge;
use crate::ask::prefetch::Prefetch;
use crate::ask::prefetch::cache::Geometry;
use crate::ask::queries::Answers;
use crate::ask::service::{Compressed, Instance};
use crate::channel::family::{Family, Newcomer};
use crate::channel::pids;
use crate::channel::question::Question;
use crate::channel::shared::Shared;
use crate::channel::stream::Pending;
use crate::channel::terms::{Prefetching, TargetCounts};
use crate::fold::Folder;
use crate::fold::only::{Only, Selection};
use crate::serve::audit::Audit;
use crate::serve::epochs::Epochs;
use crate::serve::identity::{Identity, program_of};
use crate::serve::process::Process;
use crate::serve::series::Series;
use crate::serve::turns::WhyAttached;
use crate::takeover::detach::started;
use crate::windows::Windows;
use crate::windows::bursts::FACTOR_ERROR;

impl Session<'_> {
    /// Observes a process that runs `program` and is under control because of `why`.
    pub(super) fn observe(
        &mut self,
        identity: Identity,
        shared: Shared,
        stream: Option<Stream>,
        program: &Path,
        why: WhyAttached,
    ) {
        let pid = identity.pid;
        let number = self.number(pid);
        let folder = self.folder(pid, stream, program, &shared);
        let tracing = &self.options.tracing;
        let series = tracing.series.then(Series::begin);
        let audit = tracing.audits().then(|| Audit::begin(pid, !tracing.stay));
        let first = number == 0;
        let windows = self.windows(pid, first);
        self.forked.has_begun(pid);
        let process = Process::new(identity, shared, folder, first, series, audit, windows);
        let mut process = process.taken(self.account.began, why);
        process.scope = self.scope(first, why, pid);
        if self.epochs.as_ref().is_some_and(Epochs::are_of_intervals) {
            process = process.looked_at();
        }
        self.processes.push((number, process));
    }

    /// The part of a process's run that is observed, of the first or another one that is under control because of `why`.
    fn scope(&self, first: bool, why: WhyAttached, pid: Pid) -> Scope {
        let late = match why {
            WhyAttached::Start | WhyAttached::Fork | WhyAttached::Exec => false,
            // Samples stand for what ran natively before the first of them too, of a process that was not there before us.
            WhyAttached::Late => self.options.sampling.is_none() || ran_before_us(pid),
            WhyAttached::Back(_) | WhyAttached::Faster(_) => true,
        };
        Scope {
            late: first && self.first.late || late,
            only: self.options.only.iter().map(Only::to_string).collect(),
        }
    }

    /// The number of a process in this session: 0 for the first program.
    fn number(&mut self, pid: Pid) -> usize {
        if self.first.awaited && self.first.pid == Some(pid) {
            self.first.awaited = false;
            return 0;
        }
        self.started += 1;
        self.started - 1
    }

    /// The folder of a process, with all that the run asks of it.
    fn folder(
        &mut self,
        pid: Pid,
        stream: Option<Stream>,
        program: &Path,
        shared: &Shared,
    ) -> Folder {
        let number = pid.as_raw() as u32;
        let selection = Selection::new(self.options.only.clone(), program, self.means.files);
        let images = self.means.images.seen_by(pid);
        let budget = Rc::clone(&self.means.budget);
        let counts = self.terms.counts;
        let events = (self.options.kinds, counts);
        let spec = &self.options.compressor;
        let simulate = self.options.simulate;
        let mut folder = Folder::new(spec, events, stream, selection, images, budget, simulate);
        if self.epochs.as_ref().is_some_and(Epochs::are_of_intervals) {
            folder = folder.of_latest();
        }
        if self.terms.contexts != 0 {
            folder = folder.of_contexts();
        }
        if self.terms.selects {
            folder = folder.of_selected();
        }
        let (question, changes) = (self.options.question, self.options.changes_queries());
        let begin = |of| Instance::begin(of, question, changes);
        let begin = || self.options.services.iter().map(begin).collect();
        let services = self.receivers.services.take().unwrap_or_else(begin);
        if let Some(question) = self.options.question {
            let write = self.receivers.messages.clone();
            let receivers = (write, services);
            let since = (shared, self.account.began);
            let mut answers =
                Answers::new(question, program, self.means.files, receivers, pid, since);
            if let Some(chosen) = &self.options.chosen {
                answers = answers.compressing(Compressed::new(*spec, chosen.clone()));
            }
            folder = folder.of_queries(answers);
        } else {
            folder = folder.of_services(services, pid);
        }
        if self.terms.prefetch == Prefetching::Misses {
            folder = folder.of_prefetches(Prefetch::new(Geometry::of_machine()).calling(pid));
        }
        if let Some(limit) = self.terms.converge {
            let rate = match counts {
                TargetCounts::Strata(strata) => strata.rate.into(),
                TargetCounts::Nothing | TargetCounts::Paths | TargetCounts::Intervals(_) => 1,
            };
            folder = folder.of_converge(Converge::new(limit, rate).calling(pid));
        }
        if self.options.bursts {
            return folder.of_bursts(FACTOR_ERROR);
        }
        let Some(toll) = self.means.toll else {
            return folder;
        };
        folder = folder.of_windows(toll.cycle, self.means.levels.clone());
        if self.terms.stacks {
            folder = folder.by_caller(self.terms.kinds);
        }
        if self.options.question.is_some() {
            folder = folder.of_windowed_queries();
        }
        match &self.receivers.custom {
            Some(custom) => folder.of_custom(custom.begin(), number),
            None => folder,
        }
    }

    /// The windows of a process.
    fn windows(&self, pid: Pid, first: bool) -> Option<Windows> {
        if let (Some(sampling), Some(toll)) = (self.options.sampling, self.means.toll) {
            return Some(Windows::within(sampling, toll, pid));
        }
        (self.terms.window != 0 && first).then(|| {
            let pace = self.options.stress.pace;
            let period = (pace != 0).then(|| Duration::from_micros(pace.into()));
            Windows::at_pace(pid, period)
        })
    }

    /// Processes that were made by `fork`.
    pub(super) fn newcomers(&mut self) {
        for family in self.families.clone() {
            family.provide();
            for newcomer in self.unknown(&family) {
                self.newcomer(&family, &newcomer);
            }
        }
    }

    /// Processes of a family that are not observed yet.
    fn unknown(&self, family: &Rc<Family>) -> Vec<Newcomer> {
        let known = |slot| self.processes.iter().any(|(_, p)| p.is_in(family, slot));
        family.newcomers(known)
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
        self.begin(identity, shared, WhyAttached::Fork);
    }

    /// Observes another process.
    pub(super) fn begin(&mut self, identity: Identity, shared: Shared, why: WhyAttached) {
        let stream = self.options.stream.as_ref().map(|path| {
            let mut name = path.clone().into_os_string();
            let pid = identity.pid;
            let before = self.receivers.streams.entry(pid).or_default();
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
        let tagged = self.options.question.is_some_and(Question::names_code);
        let program = match self.options.only.is_empty() && !tagged {
            true => None,
            false => program_of(identity.pid),
        };
        let elf = &self.options.program.elf;
        let program = program.as_ref().unwrap_or(elf);
        self.observe(identity, shared, stream, program, why);
    }
}

/// Returns true if a process was started before this one.
fn ran_before_us(pid: Pid) -> bool {
    let [its, ours] = [pid.as_raw() as u32, process::id()].map(started);
    its.is_some_and(|its| ours.is_none_or(|ours| its < ours))
}
