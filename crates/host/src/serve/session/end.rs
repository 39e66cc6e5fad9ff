//! The end of processes, and of the run.

use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use nix::unistd::Pid;
use trommel_profile::Profile;

use super::Session;
use super::cost::{cost, cpu_with};
use crate::channel::family::Family;
use crate::channel::memory;
use crate::channel::stream::remedy;
use crate::ptrace::ended::Ended;
use crate::serve::engine::Engine;
use crate::serve::failure::RecordError;
use crate::serve::identity::{End, Identity};
use crate::serve::news::News;
use crate::serve::recording::{Ancestor, Done, Recording};
use crate::serve::unobserved::Unobserved;
use crate::windows::bursts::Bursts;

/// The exit status of a program whose runtime could not start.
const NOT_STARTED: i32 = 126;

impl Session<'_> {
    /// Makes profiles of the processes that have ended.
    pub(super) fn finish(&mut self) {
        let mut n = 0;
        while n < self.processes.len() {
            if self.processes[n].1.end == End::No {
                n += 1;
                continue;
            }
            let (number, mut process) = self.processes.swap_remove(n);
            self.account.waited += process.waited();
            self.account.used += process.used();
            // What came between the last look and its end.
            process.serve().into_iter().for_each(&mut *self.notice);
            if let Some(epochs) = &mut self.epochs {
                let (latest, _) = process.latest();
                latest
                    .into_iter()
                    .for_each(|latest| epochs.give_latest(latest));
            }
            process.shared.close();
            self.keep(&process);
            let compressor = match self.terms.converge {
                Some(limit) => format!("{} converge {limit}%", self.options.compressor),
                None => self.options.compressor.to_string(),
            };
            let host = cost(self.receivers.custom.as_deref(), self.epochs.as_ref());
            let host = host.saturating_sub(self.account.host_before);
            let kinds = self.options.kinds;
            let large = self.means.budget.is_large();
            let (done, ancestor, news) = process.finish(&compressor, kinds, host);
            news.into_iter().for_each(&mut *self.notice);
            self.receivers.stream_whole &= done.stream_whole;
            match number {
                0 => self.first.done = Some(done),
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
    pub(super) fn leave(&mut self) {
        let mut left = 0;
        for (_, process) in &mut self.processes {
            process.stop_windows();
            process.hush();
            process.end = End::Left;
            left += u64::from(process.is_controlled());
        }
        if left != 0 {
            (self.notice)(News::GoesOn(left));
        }
        self.finish();
        self.execed.release();
    }

    /// Ends the run and returns its recording.
    ///
    /// # Errors
    /// The runtime could not start in the first program.
    pub fn conclude(mut self) -> Result<Recording, RecordError> {
        let (ended, at) = self
            .first
            .ended
            .unwrap_or((Ended::default(), Instant::now()));
        let wall = at.duration_since(self.account.began);
        let done = match self.first.done.take() {
            Some(done) => done,
            // It was never attached.
            None if self.first.awaited => Done {
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
        let native = self.first.awaited;
        let never_in_bursts = native && self.options.bursts;
        if let Some(messages) = &self.receivers.messages
            && let Err(error) = messages.borrow_mut().finish()
        {
            let path = self.options.messages.as_deref().unwrap_or(Path::new(""));
            let remedy = remedy(&error);
            let why = format!("{}: {error}{remedy}", path.display());
            (self.notice)(News::MessagesMissing(why));
        }
        let engine = done.engine;
        let mut first = done.profile;
        if self.epochs.is_some() {
            return Ok(Recording {
                profile: first,
                ended,
                limited: false,
                engine,
                stream_whole: self.receivers.stream_whole,
            });
        }
        let limited = self.first.limited && ended.status == Some(-libc::SIGKILL);
        let nothing = first.kinds.values().all(|kind| kind.seen == 0);
        if engine.fragments == 0 && nothing && first.run.detach.is_empty() && !native {
            if ended.status == Some(NOT_STARTED) {
                return Err(RecordError::NotStarted {
                    program: self.options.program.path.clone(),
                });
            }
            first.run.detach.push(Unobserved::NotStarted.to_string());
        }
        if limited {
            first.run.detach.push(Unobserved::Limited.to_string());
        }
        // What the run as a whole came to.
        first.run.wall = wall.as_nanos() as u64;
        first.run.target_cpu = ended.cpu.as_nanos() as u64;
        first.run.host_cpu = cpu_with(self.receivers.custom.as_deref()).as_nanos() as u64;
        first.run.status = ended.status;
        if never_in_bursts {
            let budget = self
                .options
                .sampling
                .map_or(0.0, |sampling| sampling.budget);
            first.windows = Some(Bursts::none(budget));
        }
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
            stream_whole: self.receivers.stream_whole,
        })
    }
}
