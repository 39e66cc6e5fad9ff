//! Reports on a run that goes on, for those who look at it.

use std::fs;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use super::Session;
use super::cost::host_cpu;
use crate::kernel::clocks;
use crate::serve::news::{News, Progress};

/// Time from one report to the next.
const PERIOD: Duration = Duration::from_secs(1);

impl Session<'_> {
    /// Reports the state of the run, if it is time to and somebody asked.
    pub(super) fn progress(&mut self) {
        if !self.options.progress
            || self.first.ended.is_some()
            || self.account.progressed.elapsed() < PERIOD
        {
            return;
        }
        self.account.progressed = Instant::now();
        let mut state = Progress {
            wall: self.account.began.elapsed(),
            program: clocks::ended_children_cpu(),
            host: host_cpu().saturating_sub(self.account.host_before),
            waited: self.account.waited,
            processes: self.processes.len(),
            written: 0,
        };
        for (_, process) in &self.processes {
            let pid = process.identity.pid;
            state.program += clocks::cpu_of(pid).unwrap_or_default();
            state.waited += process.waited();
            state.written = state.written.wrapping_add(written(pid));
        }
        (self.notice)(News::Progress(state));
    }
}

/// Returns the bytes that a process has written so far; 0 where that is not known.
fn written(pid: Pid) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("wchar:"));
    line.and_then(|line| line.trim().parse().ok()).unwrap_or(0)
}
