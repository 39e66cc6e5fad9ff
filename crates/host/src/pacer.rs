//! Windows begun: a signal for each thread of a process, so many times in a second of its CPU time.
//!
//! # Problem
//! A thread enters a window where a signal finds it in its own code. The signal must not end a system
//! call, must come to every thread that runs, and nothing of it may be seen in the program. The moments must
//! not keep step with what the program does.
//!
//! # Strategy
//! Each thread has a perf event of the kernel's CPU clock, which counts user time only and sends the
//! thread a signal at each overflow. The clock ticks in the thread's own code, so the signal arrives there.
//! The events are ours and so are their descriptors. New threads are found by looking; at each look every
//! thread gets another period, drawn uniformly from seven to nine eighths of what is wanted: enough not to keep step with
//! anything, and little enough for windows to be worth nearly the same.
//!
//! Of what Linux has this disturbs least: the high-resolution timer is exact to microseconds at any rate, where timers of
//! CPU time tick 250 times a second at most (`timer_create`), and a signal sent from outside (`tgkill`) would find
//! threads in system calls, some of which then fail with EINTR whatever the handler's flags.
//!
//! # Why nothing else is hit
//! An event is enabled when the runtime has been seen in the process behind it, and the kernel
//! removes it when the process becomes another program.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use trommel_compress::random::SplitMix64;
use trommel_queue::WINDOW_SIGNAL;

use crate::family::Family;
use crate::perf::Clock;
use crate::series::stamp;

/// User time between two signals, usually.
const PERIOD: Duration = Duration::from_millis(1);
/// How often new threads are looked for.
pub const OFTEN: Duration = Duration::from_millis(5);

/// The events of one process's threads.
pub struct Pacer {
    pid: Pid,
    events: HashMap<i32, Clock>,
    looked: Option<Instant>,
    refused: bool,
    period: Duration,
    often: Duration,
    /// Draws periods; none: they are all alike.
    random: Option<SplitMix64>,
}

impl Pacer {
    /// No events yet. `period`: user time between two signals, if not as usual.
    pub fn new(pid: Pid, period: Option<Duration>) -> Self {
        Self {
            pid,
            events: HashMap::new(),
            looked: None,
            refused: false,
            period: period.unwrap_or(PERIOD),
            often: OFTEN,
            random: None,
        }
    }

    /// Periods are drawn at random, and new threads looked for so often.
    pub fn at_random(mut self, often: Duration) -> Self {
        self.random = Some(SplitMix64::new(stamp()));
        self.often = often;
        self
    }

    /// The mean time between two signals, from the next look on.
    pub fn set_period(&mut self, period: Duration) {
        self.period = period;
    }

    /// Looks for new threads, if it is time. Processes without the memory of `family` are left alone.
    ///
    /// # Errors
    /// The kernel refuses events; told once.
    pub fn look(&mut self, family: &Family) -> io::Result<()> {
        if self.looked.is_some_and(|at| at.elapsed() < self.often) || self.refused {
            return Ok(());
        }
        self.looked = Some(Instant::now());
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid));
        let names = tasks.into_iter().flatten().flatten();
        let there: Vec<i32> = names
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect();
        self.events.retain(|tid, _| there.contains(tid));
        for tid in there {
            let period = self.draw();
            if let Some(event) = self.events.get(&tid) {
                if self.random.is_some() {
                    event.set_period(period);
                }
                continue;
            }
            match Clock::signalling(tid, period, WINDOW_SIGNAL) {
                Ok(event) => {
                    // The runtime may not have come as far, or be gone.
                    if family.is_mapped_by(Pid::from_raw(tid)) {
                        event.enable();
                        self.events.insert(tid, event);
                    }
                }
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => {
                    self.refused = true;
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn draw(&mut self) -> Duration {
        match &mut self.random {
            None => self.period,
            Some(random) => {
                let mean = self.period.as_nanos() as u64;
                Duration::from_nanos(mean - mean / 8 + random.below(mean / 4))
            }
        }
    }
}
