//! A program called back that does not reach itself: there is something to ask it, or to tell.
//!
//! # Problem
//! A program may stay in the code that it has for good: nobody enters the runtime there, and nobody finds what the host has to say.
//!
//! # Strategy
//! The thread that has used most processor time lately gets a signal from the kernel's clock of its own user time
//! ([`Clock`]), once: so it arrives in code, where it
//! interrupts no system call. What is to be done then is done by the runtime in its handler (`trommel_runtime::base::knock`).
//!
//! Where the kernel refuses such clocks the program finds out when it reaches.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use crate::kernel::perf::Clock;

/// User time up to the signal.
const SOON: Duration = Duration::from_micros(100);
/// From one attempt to the next.
const AGAIN: Duration = Duration::from_millis(100);

/// Who calls a process back.
pub struct Knocks {
    pid: Pid,
    /// That of the thread that was called last, until it has come.
    clock: Option<Clock>,
    tried: Option<Instant>,
    /// By thread, processor time so far.
    used: HashMap<i32, u64>,
    refused: bool,
}

impl Knocks {
    /// For a process that was not called yet.
    pub fn of(pid: Pid) -> Self {
        Self {
            pid,
            clock: None,
            tried: None,
            used: HashMap::new(),
            refused: false,
        }
    }

    /// Calls it back, if it is `wanted` and has not come since.
    pub fn look(&mut self, wanted: bool) {
        if !wanted || self.refused {
            self.clock = None;
            return;
        }
        if self.tried.is_some_and(|at| at.elapsed() < AGAIN) {
            return;
        }
        self.tried = Some(Instant::now());
        let Some(tid) = self.busiest() else {
            return;
        };
        match Clock::signalling(tid, SOON, libc::SIGTRAP) {
            Ok(clock) => {
                clock.enable_once();
                self.clock = Some(clock);
            }
            Err(error) => self.refused = error.raw_os_error() != Some(libc::ESRCH),
        }
    }

    /// What was wanted has been done: the next time it is called at once.
    pub fn done(&mut self) {
        self.clock = None;
        self.tried = None;
    }

    /// The thread that has used most processor time since it was asked last.
    fn busiest(&mut self) -> Option<i32> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid)).ok()?;
        let tids = tasks.flatten();
        let tids = tids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let now: HashMap<i32, u64> = tids
            .filter_map(|tid| Some((tid, used(self.pid, tid)?)))
            .collect();
        let before = std::mem::replace(&mut self.used, now);
        let lately = |tid: &i32, used: u64| used - before.get(tid).copied().unwrap_or(0).min(used);
        let busiest = self
            .used
            .iter()
            .max_by_key(|(tid, used)| lately(tid, **used));
        busiest.map(|(tid, _)| *tid)
    }
}

/// Processor time of a thread in user mode, in the kernel's unit.
fn used(pid: Pid, tid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(11)?.parse().ok()
}
