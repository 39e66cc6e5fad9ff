//! Processes that are detached because a program asks for it ([`crate::takeover::release`]).

use std::rc::Rc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use trommel_queue::{Detached, Request, State};

use super::Session;
use crate::channel::family::Family;
use crate::channel::shared::Asked;
use crate::kernel::running::{only_descendants, proc_text};
use crate::serve::process::Process;
use crate::takeover::release::Release;

/// Longest time that a process is waited for that has been forked and not said who it is.
const PATIENCE: Duration = Duration::from_secs(3);

/// Processes that are detached because a program asks for it.
#[derive(Default)]
pub(super) struct Releases {
    going: Vec<Releasing>,
    /// Process that asks for one that is not known yet, and since when.
    awaited: Option<(usize, Instant)>,
}

impl Releases {
    /// Returns true if there is nothing to wait for.
    pub(super) fn is_empty(&self) -> bool {
        self.going.is_empty() && self.awaited.is_none()
    }
}

/// A process that is being detached.
struct Releasing {
    /// Number of the process that asked.
    asker: usize,
    /// Number of the process that is detached.
    target: usize,
    work: Release,
}

impl Session<'_> {
    /// A process wants another one, or itself, to be detached. Begins, or answers that it cannot be.
    pub(super) fn release(&mut self, asker: usize, asked: &Asked) {
        let of_asker = |(number, _): &(usize, Process)| *number == asker;
        let Some(group) = group_of(asked.process) else {
            return self.answer_release(asker);
        };
        let of_group = |(_, process): &(usize, Process)| process.identity.pid == group;
        let is_plain = |(_, process): &&(usize, Process)| !process.shared.is_foreign();
        let from = self.processes.iter().find(|p| of_asker(p)).filter(is_plain);
        let to = self.processes.iter().rfind(|p| of_group(p));
        let is_ours = |family: &Rc<Family>| family.is_mapped_by(group);
        if to.is_none() && from.is_some() && self.families.iter().any(is_ours) {
            let awaited = self.releases.awaited.filter(|(number, _)| *number == asker);
            let (_, since) = *self
                .releases
                .awaited
                .insert(awaited.unwrap_or((asker, Instant::now())));
            if since.elapsed() < PATIENCE {
                return;
            }
        }
        let is_controlled = |(_, process): &&(usize, Process)| process.is_controlled();
        let to = to
            .filter(is_plain)
            .filter(is_controlled)
            .filter(|_| !only_descendants());
        let pair = from.zip(to);
        let pair = pair.map(|(_, (target, process))| (*target, process.identity.pid));
        if let Some((target, _)) = pair
            && let Some((_, process)) = self.process(target)
        {
            process.hush();
        }
        let begun = pair.and_then(|(target, pid)| {
            // It needs the addresses.
            let held = (target == asker).then(|| Pid::from_raw(asked.tid));
            let work = Release::begin(pid, held).ok()?;
            Some(Releasing {
                asker,
                target,
                work,
            })
        });
        self.releases.awaited = None;
        match begun {
            Some(begun) => self.releases.going.push(begun),
            None => self.answer_release(asker),
        }
    }

    fn answer_release(&mut self, asker: usize) {
        if let Some((_, process)) = self.process(asker) {
            process.shared.answer(Request::NATIVE);
        }
    }

    /// Returns true while a process of this number waits for one that is being detached.
    pub(super) fn is_releasing(&self, asker: usize) -> bool {
        self.releases.going.iter().any(|one| one.asker == asker)
    }

    /// Answers those who wait for processes that are detached now.
    pub(super) fn released(&mut self) {
        let mut n = 0;
        while n < self.releases.going.len() {
            let Some(done) = self.releases.going[n].work.outcome() else {
                n += 1;
                continue;
            };
            let Releasing { asker, target, .. } = self.releases.going.swap_remove(n);
            let is_own = asker == target;
            if done && let Some((_, process)) = self.process(target) {
                let why = match is_own {
                    true => Detached::Place,
                    false => Detached::Traced,
                };
                let words = &process.shared.control().process;
                words.detach.store(why as u32, Relaxed);
                words.state.store(State::Native as u32, SeqCst);
            }
            self.answer_release(asker);
        }
    }
}

/// The process that a thread is of.
fn group_of(tid: u32) -> Option<Pid> {
    let status = proc_text(&format!("/proc/{tid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    line.trim().parse().ok().map(Pid::from_raw)
}
