//! Program counters of the threads of a process, sampled by the kernel's clock of each.
//!
//! Threads come and go, so their list is read again at each look. Nothing is sampled where the kernel refuses events,
//! nor of threads beyond [`THREADS`].

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use nix::unistd::Pid;

use crate::kernel::perf::Sampler;

/// Threads that are sampled at a time.
const THREADS: usize = 16;

/// The samplers of a process.
pub struct Samplers {
    pid: Pid,
    period: Duration,
    threads: HashMap<i32, Sampler>,
    refused: bool,
}

impl Samplers {
    /// None yet. `period`: user time of a thread from one sample to the next.
    pub fn new(pid: Pid, period: Duration) -> Self {
        Self {
            pid,
            period,
            threads: HashMap::new(),
            refused: false,
        }
    }

    /// User time of a thread from one sample to the next.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// The kernel does not allow any.
    pub fn are_refused(&self) -> bool {
        self.refused
    }

    /// Samples less or more often from now on.
    pub fn set_period(&mut self, period: Duration) {
        self.period = period;
        self.threads.values().for_each(|s| s.set_period(period));
    }

    /// Stops all sampling.
    pub fn stop(&mut self) {
        self.threads.clear();
    }

    /// Looks for new threads, and calls `found` with each program counter since the last time.
    pub fn drain(&mut self, mut found: impl FnMut(u64)) {
        if self.refused {
            return;
        }
        self.find();
        for sampler in self.threads.values_mut() {
            sampler.drain(&mut found);
        }
    }

    fn find(&mut self) {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid));
        let names = tasks.into_iter().flatten().flatten();
        let there: Vec<i32> = names
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect();
        self.threads.retain(|tid, _| there.contains(tid));
        for tid in there {
            if self.threads.len() >= THREADS {
                return;
            }
            if self.threads.contains_key(&tid) {
                continue;
            }
            match Sampler::open(tid, self.period) {
                Ok(sampler) => {
                    self.threads.insert(tid, sampler);
                }
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                // Too many, or not allowed: with those that there are, or without.
                Err(_) => {
                    self.refused = self.threads.is_empty();
                    return;
                }
            }
        }
    }
}
