//! Windows within a budget: how often, how long, and what they have cost.
//!
//! # Problem
//! What a window costs depends on the machine, on the program's code and on how much of it is translated already, and
//! changes while the program runs. The user says what may be paid, in percent, and it must be kept.
//!
//! # Strategy
//! Each process has a controller. A few times a second it asks what has been paid. The runtime adds up the CPU time from where
//! the handler of a signal begins to where the thread is native again. The kernel's work around that was measured
//! at the start ([`crate::windows::toll`]). The host's own CPU time is known, and divided among processes by their CPU time. The rest of
//! the program's CPU time is what it would have taken without us. What may be paid of that, less what has been paid, is *credit*. The rate is
//! such that the budget is paid from now on, more of it while there is credit and less while there is debt, in proportion to what
//! may be paid within a time that is in proportion to the run.
//!
//! A window counts for the time since the last one, so estimates rest on as many windows as there are only while
//! the rate does not change much. So windows are never stopped for a debt, and those that cost a multiple of the
//! others, as the first do, whose code is still to be translated, do not decide the rate.
//!
//! A long window sees more for its way in and out, but what is seen in it belongs together and says less than the
//! same in several. So the length stays what it is while there are neither very few windows nor very
//! many.
//!
//! Windows at the kernel's ticks cost least ([`crate::windows::pacer`]). Others are begun when there are as many of those as there are
//! ticks, and the budget is for more.
//!
//! # Why the budget is kept
//! Each look takes the whole account since the beginning, so errors of a look are made good by the next; between two looks
//! no more can be spent than the rate and the cost of a window, as it was, allow.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use trommel_profile::windows::Windows;
use trommel_queue::{Control, MAX_SKIP};

use crate::kernel::clocks::cpu_of;
use crate::kernel::running::modes_of;
use crate::windows::Own;
use crate::windows::pacer::{Rates, tick};
use crate::windows::toll::Toll;

/// From one look to the next, at first.
pub const OFTEN: Duration = Duration::from_millis(40);
/// Later on, where a look costs much of the budget: so many percent of it are looked at that often, fewer less often.
const WORTH: f64 = 8.0;
/// The least often that is looked.
pub const RARE: Duration = Duration::from_millis(320);
/// The part of a run so far that may go by until the next look.
const PART: u32 = 8;
/// CPU time over which the start is spread.
const LONG: Duration = Duration::from_secs(5);
/// Windows in a second of CPU time, if a budget decides.
const RATES: (f64, f64) = (10.0, 20_000.0);
/// Instructions of a window, if a budget decides.
const LENGTHS: (u32, u32) = (256, 4096);
/// Instructions of a window at first.
const LENGTH: u32 = 2048;
/// Below and above which rates the length changes.
const RATES_OF_LENGTH: (f64, f64) = (20.0, 4000.0);
/// Shortest run in which few windows say that they are too long: the first ones say nothing.
const SETTLED: Duration = Duration::from_secs(1);
/// The part of the budget that is aimed at: what the program's own code loses of the processor's caches to windows shows in
/// no clock. A guess, from runs that differ by as much as they are to tell (`cargo xtask budget`).
const AIM: f64 = 0.72;
/// Nanoseconds in a window before one has been seen.
const GUESS: f64 = 20_000.0;
/// Nanoseconds in a window at most, for all that the rate is told.
const MOST: f64 = 4.0 * GUESS;
/// The rate where hardly any windows are to be.
const NEVER: f64 = 0.5;

/// Sampling that the user asks for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sampling {
    /// Percent that may be paid; 0: rate and length are fixed.
    pub budget: f64,
    /// Windows in a second of CPU time, if that is fixed.
    pub rate: Option<f64>,
    /// Instructions of a window, if that is fixed.
    pub length: Option<u32>,
    /// Below how many instructions are passed before a window, at random.
    pub skip: u32,
    /// Values are told apart by who called the function that they are seen in.
    pub by_caller: bool,
}

impl Sampling {
    /// Instructions of a window at first.
    pub fn first_length(&self) -> u32 {
        self.length.unwrap_or(LENGTH)
    }

    /// Returns the number of instructions that the runtime may pass: it puts marks only where that is not 0.
    pub fn skip(&self) -> u32 {
        self.skip.clamp(1, MAX_SKIP)
    }
}

/// The controller of one process.
#[derive(Debug)]
pub struct Controller {
    wanted: Sampling,
    toll: Toll,
    pid: Pid,
    /// Moment when windows could begin, and the process's CPU time then.
    began: Option<(Instant, Duration)>,
    looked: Option<Instant>,
    rates: Rates,
    /// Most windows that there can be at ticks, in a second.
    ticks: f64,
    length: u32,
    /// Nanoseconds in a window, lately.
    cost: f64,
    paid: Paid,
    /// CPU time of the process when it was last there.
    cpu: Duration,
    /// Its user and system time in the kernel's units, when windows could begin and when it was last there.
    modes: [[u64; 2]; 2],
    /// It had used none since the look before.
    idle: bool,
    wall: Duration,
    host: Duration,
    /// Part of the host's time that the process is charged.
    part: f64,
    /// CPU time that the host had taken when windows could begin.
    start: Duration,
}

/// Costs that the program has paid.
#[derive(Clone, Copy, Debug, Default)]
struct Paid {
    windows: u64,
    /// Signals that were to begin one at ticks.
    ticks: u64,
    /// In windows.
    inside: u64,
    /// Time that the kernel needed beyond that.
    outside: u64,
}

impl Paid {
    fn read(control: &Control, toll: &Toll) -> Self {
        let windows = &control.windows;
        let ended = windows.ended.load(Relaxed);
        let all = ended + windows.skipped.load(Relaxed);
        let waited = windows.waited.load(Relaxed);
        let ticks = windows.timed.load(Relaxed).min(all + waited);
        let outside = (all + waited - ticks) as u128 * toll.signal.as_nanos()
            + ticks as u128 * toll.tick.as_nanos();
        Self {
            windows: ended,
            ticks: ticks.saturating_sub(waited),
            inside: windows.nanos.load(Relaxed),
            outside: outside as u64,
        }
    }

    fn all(&self) -> f64 {
        (self.inside + self.outside) as f64
    }
}

impl Controller {
    /// Makes that of a process that has no windows yet.
    pub fn new(wanted: Sampling, toll: Toll, pid: Pid) -> Self {
        let mut new = Self {
            wanted,
            toll,
            pid,
            began: None,
            looked: None,
            rates: Rates::default(),
            ticks: tick().map_or(0.0, |tick| 1.0 / tick.as_secs_f64()),
            length: wanted.first_length(),
            cost: GUESS,
            paid: Paid::default(),
            cpu: Duration::ZERO,
            modes: [[0; 2]; 2],
            idle: false,
            wall: Duration::ZERO,
            host: Duration::ZERO,
            part: 1.0,
            start: Duration::ZERO,
        };
        new.decide();
        new
    }

    /// The mean CPU time from one window to the next.
    pub fn period(&self) -> Duration {
        Duration::from_secs_f64(1.0 / self.rates.all())
    }

    /// Returns the rates of windows in a second, by timers and by events.
    pub fn rates(&self) -> Rates {
        self.rates
    }

    /// Returns true if the process did nothing between the last two looks.
    pub const fn is_idle(&self) -> bool {
        self.idle
    }

    /// Returns true if it is time to look at the account.
    pub fn is_time(&self) -> bool {
        self.looked.is_none_or(|at| at.elapsed() >= self.often())
    }

    /// From one look to the next: rarely within a small budget, which looks are paid from, and more often at first.
    pub fn often(&self) -> Duration {
        let most = match self.wanted.budget {
            0.0 => OFTEN,
            percent => OFTEN.mul_f64((WORTH / percent).max(1.0)).min(RARE),
        };
        (self.wall / PART).clamp(OFTEN, most)
    }

    /// Looks at the account, given the host's own CPU time since the run began.
    pub fn look(&mut self, control: &Control, own: Own) {
        self.looked = Some(Instant::now());
        self.part = own.part;
        self.take(control, own.cpu);
        self.decide();
        control.window.length.store(self.length, Relaxed);
    }

    fn take(&mut self, control: &Control, host: Duration) {
        let cpu = cpu_of(self.pid).unwrap_or(self.cpu).max(self.cpu);
        self.modes[1] = modes_of(self.pid).unwrap_or(self.modes[1]);
        if self.began.is_none() {
            self.modes[0] = self.modes[1];
        }
        let (began, _) = *self.began.get_or_insert_with(|| {
            self.start = host;
            (Instant::now(), cpu)
        });
        self.idle = cpu == self.cpu;
        self.cpu = cpu;
        self.wall = began.elapsed();
        self.host = host;
        if control.windows.refused_timers.load(Relaxed) != 0 {
            self.ticks = 0.0;
        }
        let paid = Paid::read(control, &self.toll);
        let new = paid.windows.saturating_sub(self.paid.windows);
        // A few windows say little, the more the older ones are forgotten.
        const ENOUGH: u64 = 4;
        if new >= ENOUGH {
            let cost = (paid.inside - self.paid.inside) as f64 / new as f64;
            const NEW: f64 = 0.5;
            self.cost += NEW * (cost - self.cost);
            self.paid = paid;
        }
    }

    /// CPU time that the process would have used without us when it was looked at last.
    pub fn used(&self) -> Duration {
        Duration::from_nanos(self.native(&self.paid) as u64)
    }

    /// Returns the CPU time that the program would have used without us so far, in nanoseconds.
    fn native(&self, paid: &Paid) -> f64 {
        let before = self.began.map_or(Duration::ZERO, |(_, cpu)| cpu);
        (self.cpu.saturating_sub(before).as_nanos() as f64 - paid.all()).max(0.0)
    }

    /// Returns the part of the CPU time that the program spent in its own code; `None`: it is not known.
    fn user(&self) -> Option<f64> {
        let [then, now] = self.modes;
        let [user, system] = [0, 1].map(|mode| now[mode].saturating_sub(then[mode]) as f64);
        (user + system > 0.0).then(|| user / (user + system))
    }

    fn decide(&mut self) {
        if let Some(rate) = self.wanted.rate {
            self.rates = self.of_both(rate);
            return;
        }
        let budget = self.wanted.budget / 100.0 * AIM;
        let native = self.native(&self.paid);
        let host = match native > 0.0 {
            false => 0.0,
            true => {
                let [start, since] = [self.start, self.host.saturating_sub(self.start)]
                    .map(|host| host.as_nanos() as f64 * self.part);
                // What is taken at the start is spread over the run to come.
                start / native.max(LONG.as_nanos() as f64) + since / native
            }
        };
        let share = (budget - host).max(budget / 4.0);
        let credit = share * native - self.paid.all();
        let horizon = (native / 4.0).max(5e8);
        let rate = self.for_pay(share * 1e9 * haste(credit / (share * horizon)));
        if self.wanted.length.is_none() {
            self.fit_length(rate);
        }
        self.rates = self.of_both(match rate >= RATES.0 {
            true => rate.min(RATES.1),
            false if rate > 0.0 && self.length == LENGTHS.0 => rate.max(NEVER),
            false => NEVER.max(rate),
        });
    }

    /// Windows in a second that cost so many nanoseconds: those at ticks first.
    fn for_pay(&self, pay: f64) -> f64 {
        let cost = self.cost.min(MOST);
        let of_tick = cost + self.toll.tick.as_nanos() as f64;
        let of_event = cost + self.toll.signal.as_nanos() as f64;
        let ticks = self.ticks * of_tick;
        match pay > ticks {
            true => self.ticks + (pay - ticks) / of_event,
            false => pay / of_tick,
        }
    }

    /// Returns as many at ticks as there can be, and the rest by events.
    fn of_both(&self, rate: f64) -> Rates {
        /// Events for less than this part of all are not worth their interrupts.
        const LITTLE: f64 = 0.05;
        let ticks = rate.min(self.ticks);
        let events = rate - ticks;
        Rates {
            ticks,
            events: if events > LITTLE * rate { events } else { 0.0 },
        }
    }

    fn fit_length(&mut self, rate: f64) {
        let (least, most) = LENGTHS;
        let (few, many) = RATES_OF_LENGTH;
        if rate < few && self.length > least && self.wall > SETTLED {
            self.length /= 2;
        } else if rate > many && self.length < most {
            self.length *= 2;
        }
    }

    /// Returns what began windows, in words.
    fn pacing(&self, skip: u32) -> String {
        let Paid { windows, ticks, .. } = self.paid;
        let how = match ticks {
            0 => "perf cpu-clock".to_owned(),
            _ if ticks >= windows => "CPU-time timers".to_owned(),
            _ => format!(
                "CPU-time timers ({ticks}), perf cpu-clock ({})",
                windows - ticks
            ),
        };
        let passed = skip - 1;
        format!("{how}, at random intervals, up to {passed} instructions passed first")
    }

    /// Returns the account so far.
    pub fn so_far(&mut self, control: &Control, host: Duration) -> Windows {
        self.take(control, host);
        let windows = &control.windows;
        let load = |word: &std::sync::atomic::AtomicU64| word.load(Relaxed);
        let paid = Paid::read(control, &self.toll);
        self.paid = paid;
        let skip = self.wanted.skip();
        Windows {
            budget: self.wanted.budget,
            taken: load(&windows.ended),
            whole: load(&windows.whole),
            calls: load(&windows.calls),
            signals: load(&windows.signals),
            refused: load(&windows.refused),
            skipped: load(&windows.skipped),
            instructions: load(&windows.instructions),
            length: self.length,
            rate: self.rates.all(),
            cpu: self.native(&paid) as u64,
            user: (self.native(&paid) * self.user().unwrap_or_default()) as u64,
            wall: self.wall.as_nanos() as u64,
            in_windows: paid.inside,
            in_kernel: paid.outside,
            host: self.host.as_nanos() as u64,
            pacing: self.pacing(skip),
            ..Windows::default()
        }
    }
}

/// Returns the factor on the budget from now on, with a credit of so many times what may be paid within the horizon.
fn haste(credit: f64) -> f64 {
    /// Strength of a debt's brake: where windows cost twice what they are thought to, a quarter of the horizon is owed.
    const BRAKE: f64 = 4.0;
    match credit > 0.0 {
        true => 1.0 + credit.min(1.0),
        false => 1.0 / (1.0 - BRAKE * credit),
    }
}
