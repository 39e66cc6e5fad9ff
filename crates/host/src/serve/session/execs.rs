//! Programs that the processes of a run become: asked for, followed into ([`crate::ptrace::follow`]), and observed from the mark on
//! ([`crate::ptrace::landing`]).

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::Acquire;
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use trommel_queue::{Request, Unfollowed};

use super::Session;
use super::arrivals::{Arrival, Traced};
use crate::channel::family::Family;
use crate::channel::pids;
use crate::channel::shared::{Asked, Shared};
use crate::ptrace::follow;
use crate::ptrace::inject::{Kept, inject};
use crate::ptrace::landing::Landing;
use crate::serve::identity::{End, Identity, program_of};
use crate::serve::news::News;
use crate::serve::persist::{self, Keeping};
use crate::serve::turns::WhyAttached;

impl Session<'_> {
    /// Threads that want to become other programs, or could not, and those that want a process to be detached.
    pub(super) fn requests(&mut self) {
        for n in 0..self.processes.len() {
            let (number, process) = &self.processes[n];
            let number = *number;
            if self.is_releasing(number) {
                continue;
            }
            if let Some(asked) = process.shared.asked() {
                if asked.process != 0 {
                    self.release(number, &asked);
                    continue;
                }
                let answer = self.asked(number, &asked);
                self.processes[n].1.shared.answer(answer);
            } else if process.shared.request_state().load(Acquire) == Request::FAILED {
                self.traced.retain(|traced| {
                    let it = traced.number == number;
                    if it {
                        follow::release(traced.tid);
                    }
                    !it
                });
                self.processes[n].1.shared.answer(Request::IDLE);
            }
        }
    }

    fn asked(&mut self, number: usize, asked: &Asked) -> u32 {
        if self.options.tracing.late().is_some() {
            // As the first program did.
            return Request::NATIVE;
        }
        let Some((_, process)) = self.process(number) else {
            return Request::NATIVE;
        };
        let pid = process.identity.pid;
        // Nothing is traced that is not what it says.
        let tid = match (process.shared.is_foreign(), asked.spawned) {
            (false, false) => Some(asked.tid()).filter(|tid| pids::is_thread_of(*tid, pid)),
            (true, false) => pids::thread(pid, asked.tid),
            (false, true) => Some(asked.tid()).filter(|tid| process.family().is_mapped_by(*tid)),
            (true, true) => pids::process(asked.tid, process.family()),
        };
        let pid = match asked.spawned {
            true => tid.unwrap_or(pid),
            false => pid,
        };
        let why = asked.why.or_else(|| match tid.map(follow::seize) {
            Some(Ok(())) => None,
            _ => Some(Unfollowed::NotTraced),
        });
        let tid = tid.unwrap_or(pid);
        match why {
            None => {
                self.traced.push(Traced {
                    tid,
                    process: pid,
                    number,
                    spawned: asked.spawned,
                });
                Request::GO
            }
            Some(why) => {
                (self.notice)(News::FileRunsNatively {
                    path: asked.path.clone(),
                    pid: pid.as_raw(),
                    why,
                });
                Request::NATIVE
            }
        }
    }

    /// A process is another program, stopped inside the call.
    pub(super) fn exec(&mut self, pid: Pid) {
        let which = self
            .traced
            .iter()
            .position(|t| t.process == pid || t.tid == pid);
        let Some(which) = which else {
            return;
        };
        let Traced {
            number, spawned, ..
        } = self.traced.swap_remove(which);
        let mut parent = 0;
        let mut foreign = false;
        let mut limits = None;
        if let Some((_, process)) = self.process(number) {
            limits = process.shared.limits().filter(|_| !spawned);
            foreign = process.shared.is_foreign();
            if spawned {
                parent = process.identity.pid.as_raw() as u32;
                process.shared.answer(Request::IDLE);
            } else {
                parent = process.identity.parent;
                process.end = End::Exec;
                process.hush();
            }
        }
        match Landing::begin(pid, None, None, limits) {
            Ok(landing) => {
                follow::go_on(pid);
                self.arrivals.push(Arrival {
                    landing,
                    parent,
                    foreign,
                    since: Instant::now(),
                });
                follow::expect(pid);
            }
            Err(error) => {
                let identity = Identity::executed(pid, parent);
                follow::detach(pid);
                self.runs_natively(identity, Some(error));
            }
        }
    }

    /// A process has come to the mark.
    pub(super) fn arrived(&mut self, pid: Pid) {
        let on_it = |a: &Arrival| a.landing.pid() == pid;
        let Some(which) = self.arrivals.iter().position(on_it) else {
            return;
        };
        let Arrival {
            landing,
            parent,
            foreign,
            since,
        } = self.arrivals.swap_remove(which);
        let terms = self.terms;
        let mut made = None;
        let alike = !foreign && persist::is_like_us(pid);
        let mut prepare = |file: OwnedFd| -> io::Result<Option<Kept>> {
            let family = Family::of(file)?;
            let shared = Shared::first(&family, terms)?;
            shared.warm();
            shared.set_foreign(foreign);
            let keeping = match alike {
                true => program_of(pid).and_then(|program| self.kept(&program)),
                false => None,
            };
            let kept = keeping.as_ref().and_then(Keeping::kept);
            if let Some(keeping) = keeping {
                self.will_keep(&shared, keeping);
            }
            made = Some((family, shared));
            Ok(kept)
        };
        match (inject(landing, None, Some(&mut prepare)), made) {
            (Ok(None), Some((family, shared))) => {
                self.families.push(family);
                let identity = Identity::executed(pid, parent);
                self.begin(identity, shared, WhyAttached::Exec);
            }
            (Ok(Some(landing)), _) => {
                follow::go_on(pid);
                self.arrivals.push(Arrival {
                    landing,
                    parent,
                    foreign,
                    since,
                });
            }
            (taken, _) => {
                let identity = Identity::executed(pid, parent);
                follow::detach(pid);
                self.runs_natively(identity, taken.err());
            }
        }
    }

    /// Says so. The identity was read while the process stood still: one that has ended has no arguments any more.
    fn runs_natively(&mut self, identity: Identity, why: Option<io::Error>) {
        (self.notice)(News::NotInjected(identity, why));
    }

    /// Detaches processes that have not reached the mark: something keeps them from sending it.
    pub(super) fn late(&mut self) {
        const LATE: Duration = Duration::from_secs(2);
        while let Some(n) = self.arrivals.iter().position(|a| a.since.elapsed() > LATE) {
            let arrival = self.arrivals.swap_remove(n);
            let pid = arrival.landing.pid();
            let identity = Identity::executed(pid, arrival.parent);
            follow::release(pid);
            self.runs_natively(identity, None);
        }
    }
}
