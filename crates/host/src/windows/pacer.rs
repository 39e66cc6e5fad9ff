//! Pacer of windows: a signal for each thread of a process, so many times in a second of its CPU time.
//!
//! # Problem
//! A thread enters a window where a signal finds it in its own code. The signal must not end a system
//! call, must come to every thread that runs, and nothing of it may be seen in the program. The moments must
//! not be in step with the program.
//!
//! # Strategy
//! *Ticks.* The kernel interrupts a thread that runs at each of its ticks anyway. Each thread has a timer of its user time, which
//! it arms itself (`runtime/src/engine/window/timer.rs`), and whose signal costs little more than its delivery. More than one window a tick there
//! cannot be.
//!
//! *Events.* Further windows, and each thread's first signal, come of a perf event of the kernel's CPU clock, which counts
//! user time only and sends the thread a signal at each overflow. It is exact to microseconds at any rate, and costs the interrupt of a timer and
//! another that sends the signal. Events are ours and so are their descriptors. New threads are found by looking; at each look every
//! thread gets another period, drawn uniformly from seven to nine eighths of what is wanted: enough not to keep step with
//! anything, and little enough for windows to be worth nearly the same.
//!
//! Both come in the thread's own code. A signal sent from outside (`tgkill`) would find
//! threads in system calls, some of which then fail with EINTR whatever the handler's flags. So would a timer's before Linux 5.11,
//! where there are events only.
//!
//! # Why nothing else is hit
//! An event is enabled when the runtime has been seen in the process after it, and the kernel
//! removes it when the process becomes another program. A process that restricts its system calls gets no more signals, unless its
//! filters allow the runtime's own calls. They are read each time that there are more of them.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use nix::sys::utsname::uname;
use nix::time::{ClockId, clock_getres};
use nix::unistd::Pid;
use trommel_compress::random::SplitMix64;
use trommel_queue::{Control, WINDOW_SIGNAL};

use crate::channel::family::Family;
use crate::kernel::births::Seen;
use crate::kernel::clocks::stamp;
use crate::kernel::perf::Clock;
use crate::kernel::running::{filters_of, restricts_itself};
use crate::kernel::workers;
use crate::ptrace::filters::{NoWindows, allow_windows};

/// User time between two signals, usually.
const PERIOD: Duration = Duration::from_millis(1);
/// Time between two looks for new threads.
pub const OFTEN: Duration = Duration::from_millis(5);
/// Time between two windows that events begin where timers begin the others.
const NOW_AND_THEN: Duration = Duration::from_secs(1);
/// User time to a thread's first signal, where timers begin the others.
const SOON: Duration = Duration::from_millis(1);

/// Signals in a second of user time.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Rates {
    /// Signals of threads' timers.
    pub ticks: f64,
    /// Signals of events.
    pub events: f64,
}

impl Rates {
    /// Both.
    pub fn all(&self) -> f64 {
        self.ticks + self.events
    }
}

/// The time from one tick of the kernel to the next, where timers of user time interrupt no system calls.
pub fn tick() -> Option<Duration> {
    const SINCE: (u32, u32) = (5, 11);
    let release = uname().ok()?.release().to_str()?.to_owned();
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(|n| n.parse::<u32>().unwrap_or(0));
    let version = (numbers.next()?, numbers.next()?);
    let tick = clock_getres(ClockId::CLOCK_MONOTONIC_COARSE).ok()?;
    let tick = Duration::from(tick);
    let is_plausible = (Duration::from_micros(500)..Duration::from_millis(20)).contains(&tick);
    (version >= SINCE && is_plausible).then_some(tick)
}

/// A thread's event.
struct Event {
    clock: Clock,
    /// It goes on.
    steady: bool,
    /// Moment when it was asked for one signal last.
    once: Option<Instant>,
}

/// The events of one process's threads.
pub struct Pacer {
    pid: Pid,
    events: HashMap<i32, Event>,
    looked: Option<Instant>,
    births: Seen,
    refused: bool,
    /// Filters of system calls that the process had when they were judged.
    judged: u32,
    rates: Rates,
    often: Duration,
    tick: Option<Duration>,
    /// Draws periods; none: they are all alike.
    random: Option<SplitMix64>,
}

impl Pacer {
    /// No events yet. `period`: user time between two signals, if not as usual.
    pub fn new(pid: Pid, period: Option<Duration>) -> Self {
        let period = period.unwrap_or(PERIOD);
        Self {
            pid,
            events: HashMap::new(),
            looked: None,
            births: Seen::default(),
            refused: false,
            judged: 0,
            rates: Rates {
                ticks: 0.0,
                events: 1.0 / period.as_secs_f64(),
            },
            often: OFTEN,
            tick: tick(),
            random: None,
        }
    }

    /// Periods are drawn at random, and new threads looked for so often.
    pub fn at_random(mut self, often: Duration) -> Self {
        self.random = Some(SplitMix64::new(stamp()));
        self.often = often;
        self
    }

    /// Sets the time between two looks for new threads, from now on.
    pub fn set_often(&mut self, often: Duration) {
        self.often = often;
    }

    /// Signals in a second, from the next look on.
    pub fn set_rates(&mut self, rates: Rates) {
        self.rates = rates;
    }

    /// Returns true if it is time to look.
    pub fn is_time(&self) -> bool {
        !self.refused && self.looked.is_none_or(|at| at.elapsed() >= self.often)
    }

    /// Looks for new threads, if it is time and there may be any. Processes without the memory of `family` are left alone; those without
    /// control words of their own have no timers. `births`: [`Births::generation`](crate::kernel::births::Births::generation).
    ///
    /// # Errors
    /// The kernel refuses events, or the process its own system calls; reported once.
    pub fn look(
        &mut self,
        family: &Family,
        control: Option<&Control>,
        births: u64,
    ) -> io::Result<()> {
        if !self.is_time() {
            return Ok(());
        }
        self.looked = Some(Instant::now());
        if !self.are_allowed(control)? {
            return Ok(());
        }
        let tick = control.and_then(|control| self.tell(control));
        let steady = self.rates.events > 0.0;
        let mut events = std::mem::take(&mut self.events);
        for event in events.values_mut() {
            let period = self.draw(tick.is_some());
            event.keep_on(steady, self.random.is_some().then_some(period));
        }
        self.events = events;
        if !self.births.is_news(births) {
            return Ok(());
        }
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid));
        let names = tasks.into_iter().flatten().flatten();
        let there: Vec<i32> = names
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect();
        self.events.retain(|tid, _| there.contains(tid));
        let mut new = Vec::new();
        for tid in there {
            if self.events.contains_key(&tid) || workers::is_worker(self.pid, Pid::from_raw(tid)) {
                continue;
            }
            let period = self.draw(tick.is_some());
            match Clock::signalling(tid, period, WINDOW_SIGNAL) {
                Ok(clock) => new.push((tid, clock)),
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => {
                    self.refused = true;
                    self.end(control);
                    return Err(error);
                }
            }
        }
        let Some((one, _)) = new.first() else {
            return Ok(());
        };
        // The runtime may not have come as far, or be gone. From here on the kernel removes them when it goes.
        if !family.is_mapped_by(Pid::from_raw(*one)) {
            self.births.look_again();
            return Ok(());
        }
        for (tid, clock) in new {
            let mut event = Event {
                clock,
                steady: false,
                once: None,
            };
            event.keep_on(steady, None);
            self.events.insert(tid, event);
        }
        Ok(())
    }

    /// Returns whether windows may begin, as far as the process restricts its system calls.
    ///
    /// # Errors
    /// Its filters refuse them; reported once.
    fn are_allowed(&mut self, control: Option<&Control>) -> io::Result<bool> {
        let filters = match restricts_itself(self.pid) {
            true => filters_of(self.pid),
            false => 0,
        };
        if self.judged == filters {
            return Ok(true);
        }
        match allow_windows(self.pid) {
            Ok(()) => {
                self.judged = filters;
                Ok(true)
            }
            Err(NoWindows::NotNow) => Ok(false),
            Err(why) => {
                self.refused = true;
                self.end(control);
                Err(io::Error::other(why))
            }
        }
    }

    /// Tells the threads how often their timers are to begin windows; the time of a tick, if they are.
    fn tell(&self, control: &Control) -> Option<Duration> {
        let window = &control.window;
        let tick = self.tick.filter(|_| self.rates.ticks > 0.0);
        let mean = tick.map_or(0.0, |tick| 256.0 / (self.rates.ticks * tick.as_secs_f64()));
        let nanos = tick.map_or(0, |tick| tick.as_nanos() as u32);
        window.tick.store(nanos, Relaxed);
        // A timer that is to go off in an hour is one that never does.
        window.ticks.store((mean as u32).min(1 << 24), Relaxed);
        tick
    }

    /// No more signals.
    pub fn end(&mut self, control: Option<&Control>) {
        self.events.clear();
        if let Some(control) = control {
            control.window.ticks.store(0, Relaxed);
        }
    }

    /// User time up to the next signal of an event.
    fn draw(&mut self, ticks: bool) -> Duration {
        let mean = match self.rates.events > 0.0 {
            true => Duration::from_secs_f64(1.0 / self.rates.events),
            false if ticks => SOON,
            false => PERIOD,
        };
        match &mut self.random {
            None => mean,
            Some(random) => {
                let mean = mean.as_nanos() as u64;
                Duration::from_nanos(mean - mean / 8 + random.below(mean / 4))
            }
        }
    }
}

impl Event {
    /// Goes on, or comes now and then. `period`: another.
    fn keep_on(&mut self, steady: bool, period: Option<Duration>) {
        if let Some(period) = period {
            self.clock.set_period(period);
        }
        match (steady, self.steady) {
            (true, false) => self.clock.enable(),
            (false, true) => self.clock.disable(),
            _ => {}
        }
        self.steady = steady;
        if !steady && self.once.is_none_or(|at| at.elapsed() >= NOW_AND_THEN) {
            self.once = Some(Instant::now());
            self.clock.enable_once();
        }
    }
}
