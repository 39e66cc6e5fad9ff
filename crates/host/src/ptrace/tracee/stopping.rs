//! All threads of a process stopped.
//!
//! # Problem
//! A thread that the kernel is busy with does not stop before that is done. It may be waiting for another thread of the process that has
//! stopped already: one that serves its faults (`userfaultfd`) or its file system (FUSE).
//!
//! # Strategy
//! When a thread has not stopped after a moment and may wait in the kernel, the others run on until it has. It stays stopped, and the others are
//! stopped then. While threads leave one after the other, those that are out run on for the others, too ([`Tracees::stop_whole`]). Each such turn adds a thread at least. If a turn adds none, as one of those that stayed is waited for, they run on too.
//!
//! A thread that does not stop in time, as the kernel is busy with it or no processor is free, stays seized and stops later. Whoever goes on
//! without it releases it then ([`Tracees::release_late`]), or it would stand still for ever.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::time::{Duration, Instant};

use nix::sys::ptrace;
use nix::unistd::Pid;

use super::stops::{
    Waited, add_late, forget_late, has_ended, interrupt, stopped_late, take_late, wait_for_stop,
};
use super::{StopFailure, Tracees, other};
use crate::kernel::workers;

/// The time after which a thread that waits in the kernel is taken for one that waits for another.
const MOMENT: Duration = Duration::from_millis(5);
/// The same for one that runs: while a stop is asked for, the kernel waits for some faults in a loop.
const LONGER: Duration = Duration::from_millis(20);
/// The time in which the others serve such a thread.
const TURN: Duration = Duration::from_millis(50);

impl Tracees {
    /// Stops all threads that are not stopped yet. On failure none is that was not before, but for those that are late.
    pub fn stop_all(&mut self, patience: Duration) -> Result<(), StopFailure> {
        self.stop_beside(self.stopped.len(), patience)
    }

    /// Stops all threads that are not stopped yet. Those that are may run on meanwhile, and are stopped again. On failure all do.
    pub fn stop_whole(&mut self, patience: Duration) -> Result<(), StopFailure> {
        self.stop_beside(0, patience)
    }

    /// Stops all threads. The first ones of those that are stopped, so many, stay so.
    fn stop_beside(&mut self, before: usize, patience: Duration) -> Result<(), StopFailure> {
        let limit = Instant::now() + patience;
        // Those before this place stay stopped.
        let mut staying = before;
        let mut asked = Vec::new();
        let mut began = Instant::now();
        loop {
            match self.seize_new(&asked) {
                Ok(new) => asked.extend(new),
                Err(failure) => {
                    add_late(asked);
                    self.release_late();
                    return Err(failure);
                }
            }
            if asked.is_empty() {
                break;
            }
            self.wait_for(&mut asked, limit.min(Instant::now() + MOMENT));
            if asked.is_empty() {
                continue;
            }
            if began.elapsed() > LONGER || asked.iter().any(|tid| waits(*tid)) {
                self.let_others_run(staying);
                let missing = asked.len();
                self.wait_for(&mut asked, limit.min(Instant::now() + TURN));
                staying = match asked.len() < missing {
                    true => self.stopped.len(),
                    false => before,
                };
                began = Instant::now();
            }
            if let Some(&late) = asked.first()
                && Instant::now() >= limit
            {
                self.let_others_run(before);
                add_late(asked);
                return Err(StopFailure::Busy(late));
            }
        }
        match self.stopped.is_empty() {
            true => Err(StopFailure::Gone),
            false => Ok(()),
        }
    }

    /// Releases the threads that are stopped but for the first ones.
    fn let_others_run(&mut self, first: usize) {
        let others = self.stopped.split_off(first);
        others.into_iter().for_each(|tid| self.let_run(tid));
    }

    /// Waits until threads that were asked to have stopped. Those that have not are left.
    fn wait_for(&mut self, asked: &mut Vec<Pid>, limit: Instant) {
        asked.retain(|&tid| match wait_for_stop(tid, limit) {
            Waited::Stopped => {
                self.stopped.push(tid);
                false
            }
            Waited::Gone => false,
            Waited::Untold => {
                add_late(std::iter::once(tid));
                false
            }
            Waited::Late => true,
        });
    }

    /// Makes us the tracer of a thread; `false` if it is gone.
    fn seize(&self, tid: Pid) -> Result<bool, StopFailure> {
        match ptrace::seize(tid, ptrace::Options::PTRACE_O_TRACESYSGOOD) {
            Ok(()) => Ok(true),
            Err(nix::Error::ESRCH) => Ok(false),
            Err(_) if has_ended(tid) => Ok(false),
            Err(e) => Err(StopFailure::Refused(tid, other(e))),
        }
    }

    /// Seizes threads that are not stopped, nor were asked to stop, and asks them.
    fn seize_new(&self, asked: &[Pid]) -> Result<Vec<Pid>, StopFailure> {
        let mut new = Vec::new();
        for tid in threads(self.pid)? {
            if self.stopped.contains(&tid) || asked.contains(&tid) {
                continue;
            }
            if take_late(tid) {
                match has_ended(tid) {
                    true => add_late(std::iter::once(tid)),
                    false => new.push(tid),
                }
                continue;
            }
            if workers::is_worker(self.pid, tid) {
                continue;
            }
            match self.seize(tid) {
                Ok(true) => {
                    interrupt(tid);
                    new.push(tid);
                }
                Ok(false) => {}
                Err(failure) => {
                    add_late(new);
                    self.release_late();
                    return Err(failure);
                }
            }
        }
        Ok(new)
    }

    /// In a process just forked: late threads are the parent's.
    pub fn forget_late() {
        forget_late();
    }

    /// Releases threads that have stopped too late. Returns true while there are some that have not stopped yet: this thread has to ask again soon.
    pub fn release_late(&self) -> bool {
        let (stopped, others) = stopped_late();
        stopped.into_iter().for_each(|tid| self.let_run(tid));
        others
    }
}

/// Returns true for a thread that waits in the kernel, for what a signal does not end.
fn waits(tid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{tid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| rest.starts_with('D'))
}

/// The threads of a process.
fn threads(pid: Pid) -> Result<Vec<Pid>, StopFailure> {
    let listing = |e: io::Error| match e.kind() {
        io::ErrorKind::NotFound => StopFailure::Gone,
        _ => StopFailure::Listing(e),
    };
    let entries = fs::read_dir(format!("/proc/{pid}/task")).map_err(listing)?;
    let names = entries.map_while(Result::ok).map(|entry| entry.file_name());
    let number = |name: OsString| Some(Pid::from_raw(name.to_str()?.parse().ok()?));
    Ok(names.filter_map(number).collect())
}
