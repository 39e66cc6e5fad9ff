//! A signal to the busiest thread of a process, so that the runtime looks around.
//!
//! # Problem
//! A program may stay in its translated code for good. Then no thread enters the runtime, and the host's news is not read.
//!
//! # Strategy
//! The thread that used most processor time lately gets one signal from the kernel's clock of its own user time
//! ([`Clock`]). So the signal arrives in code, where it
//! interrupts no system call. The runtime does the work in its signal handler (`trommel_runtime::base::knock`).
//!
//! Where the kernel refuses such clocks, the program reads the news when it next enters the runtime.
//!
//! # Why it reaches nobody else
//! The signal ends a program whose runtime does not handle it: one that has just been executed, or was detached. The kernel takes a clock away
//! from a thread that executes another program. So a clock is opened first, and it is enabled ([`Knocks::ring`]) if the runtime still handles
//! signals then. Before a process is detached its clocks are closed ([`Knocks::hush`]).

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use crate::kernel::perf::Clock;

/// User time up to the signal.
const SOON: Duration = Duration::from_micros(100);
/// From one attempt to the next.
const AGAIN: Duration = Duration::from_millis(100);

/// Signals to one process.
pub struct Knocks {
    pid: Pid,
    /// The clock of the thread that was called last, until the signal has come.
    clock: Option<Clock>,
    tried: Option<Instant>,
    /// The last call was to a thread that was named.
    by_name: bool,
    /// Processor time so far, by thread.
    used: HashMap<i32, u64>,
    /// The clock runs.
    rings: bool,
    refused: bool,
}

impl Knocks {
    /// Returns the state for a process that was not called yet.
    pub fn of(pid: Pid) -> Self {
        Self {
            pid,
            clock: None,
            tried: None,
            by_name: false,
            used: HashMap::new(),
            rings: false,
            refused: false,
        }
    }

    /// Prepares to call the process back, if that is `wanted` and it has not come since.
    pub fn look(&mut self, wanted: bool) {
        if !wanted || self.refused {
            self.clock = None;
            return;
        }
        self.call(0, AGAIN);
    }

    /// Prepares to call a thread of the process, if it was not called for so long: `tid`, or the busiest if that is 0. A thread that is no more is not called, nor
    /// one of another process.
    pub fn call(&mut self, tid: u32, again: Duration) {
        if self.refused || self.tried.is_some_and(|at| at.elapsed() < again) {
            return;
        }
        self.tried = Some(Instant::now());
        // The program may have written any number.
        let is_its = Path::new(&format!("/proc/{}/task/{tid}", self.pid)).exists();
        let named = i32::try_from(tid).ok().filter(|tid| *tid != 0 && is_its);
        // The one that is named may have gone to sleep since: then another names the next.
        self.by_name = !self.by_name;
        let named = named.filter(|_| self.by_name);
        let Some(tid) = named.or_else(|| self.busiest()) else {
            return;
        };
        match Clock::signalling(tid, SOON, libc::SIGTRAP) {
            Ok(clock) => {
                self.rings = false;
                self.clock = Some(clock);
            }
            Err(error) => {
                // The thread is gone, or a signal of ours has come first.
                let passes = [libc::ESRCH, libc::EINTR, libc::EAGAIN];
                let number = error.raw_os_error();
                self.refused = !number.is_some_and(|number| passes.contains(&number));
            }
        }
    }

    /// Makes the call that was prepared, if the process `takes` it now. Otherwise a call that is under way comes to nothing.
    pub fn ring(&mut self, takes: bool) {
        if !takes {
            self.clock = None;
        }
        if let Some(clock) = self.clock.as_ref().filter(|_| !self.rings) {
            clock.enable_once();
            self.rings = true;
        }
    }

    /// The process is not called any more.
    pub fn hush(&mut self) {
        self.clock = None;
        self.refused = true;
    }

    /// Notes that the work is done: the next call comes at once.
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
