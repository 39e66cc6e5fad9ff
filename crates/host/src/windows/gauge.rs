//! The speed of bursts, measured: executions of an instruction that are counted natively, too.
//!
//! # Problem
//! A burst tells how often code was executed in it, and how long that took under control. How long it would have taken natively decides how many
//! executions it stands for. Without hardware counters nothing tells that: the same code takes from 1.1 to 1.9 times as long with its counters.
//!
//! # Strategy
//! A debug register counts executions of one instruction while a program runs natively, at some microseconds each ([`Breakpoint`]).
//! After a burst some instructions ([`PLACES`]) are chosen that bursts execute some ten times, and they are counted for [`LENGTH`] of native
//! time. Executions a second, natively over those in the burst, are how much slower the burst was.
//! What the traps themselves take is measured once ([`toll`]), and left out.
//!
//! # Why it is correct
//! * Instructions are chosen by what *earlier* bursts executed. Chosen by this one, those would be preferred that it happened to execute often, and
//!   bursts would seem to be fast.
//! * The ratio is of sums over all trials ([`Speed`]), so it is right in the mean also where a program has phases: which of the two a phase falls into is
//!   chance. Its error comes of the differences between trials, so phases make it larger.
//! * Times are CPU times of the threads in which there was counting. A thread that is made meanwhile is in neither number.
//! * An instruction that is executed far more often than in earlier bursts is not trapped any more after some hundred times, so a trial costs a few milliseconds
//!   at most. The kernel tells the time up to then.
//!
//! A program that executes everything millions of times in a burst has no such instruction, and its speed is not known.

use std::fs;
use std::hint::black_box;
use std::ops::{Range, RangeInclusive};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use crate::kernel::clocks::{cpu_of, own_cpu};
use crate::kernel::perf::breakpoint::Breakpoint;

/// Instructions that are counted at a time: a processor has four debug registers.
pub const PLACES: usize = 4;
/// Native CPU time of a trial.
const LENGTH: Duration = Duration::from_millis(20);
/// Executions that are worth being counted, at least.
const LEAST: u64 = 6;
/// The same at most, however cheap they are.
const MOST: f64 = 400.0;
/// Nanoseconds that a trial may take: a small part of what a burst costs.
const PAID: f64 = 1e6;
/// Times [`PAID`] that a thread may take before it is not counted any more.
const CUT: f64 = 4.0;
/// Trials before their ratio is believed, and executions in them.
const TRIALS: u64 = 5;
const ENOUGH: u64 = 100;
/// Longest time of a trial on the wall.
const PATIENCE: Duration = Duration::from_secs(2);

/// Nanoseconds that counting one execution takes. `None`: it is not possible here.
fn toll() -> Option<f64> {
    static TOLL: OnceLock<Option<f64>> = OnceLock::new();
    *TOLL.get_or_init(|| {
        const TIMES: u32 = 48;
        #[inline(never)]
        fn passed(n: u32) -> u32 {
            black_box(n)
        }
        let address = passed as fn(u32) -> u32 as usize as u64;
        let counted = Breakpoint::begin(0, address, u64::from(2 * TIMES)).ok()?;
        let began = own_cpu();
        for n in 0..TIMES {
            black_box(passed(n));
        }
        let took = own_cpu().saturating_sub(began);
        (counted.counted().times == u64::from(TIMES))
            .then(|| took.as_nanos() as f64 / f64::from(TIMES))
    })
}

/// Executions in a burst of this length of an instruction that may be counted, and those of all that are counted at a time at most, if any may.
pub fn wanted(burst: Duration) -> Option<RangeInclusive<u64>> {
    let wanted = wanted_at(toll()?)?;
    // As often in the time of a trial.
    let times = |times: u64| (times as f64 * burst.as_secs_f64() / LENGTH.as_secs_f64()) as u64;
    Some(times(*wanted.start())..=times(*wanted.end()))
}

/// The same for a burst of [`LENGTH`], where one execution costs `toll` nanoseconds.
fn wanted_at(toll: f64) -> Option<RangeInclusive<u64>> {
    let most = (PAID / toll).min(MOST) as u64;
    (most >= LEAST).then_some(LEAST..=most)
}

/// Instructions that are counted while their process is native.
pub struct Gauge {
    pid: Pid,
    counted: Vec<Place>,
    from: Duration,
    began: Instant,
}

/// An instruction that is counted, in each thread.
struct Place {
    threads: Vec<Breakpoint>,
    /// Executions in a nanosecond of the burst.
    rate: f64,
}

impl Place {
    /// Executions, and the CPU time in which they were counted.
    fn counted(&self) -> (u64, Duration) {
        let counted = || self.threads.iter().map(Breakpoint::counted);
        let times = counted().map(|counted| counted.times).sum();
        (times, counted().map(|counted| counted.time).sum())
    }
}

impl Gauge {
    /// Begins to count at these addresses. Each was executed so many times in a burst that ran for so many nanoseconds.
    pub fn begin(pid: Pid, often: &[(u64, u64)], nanos: f64) -> Option<Self> {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
        let threads: Vec<i32> = threads
            .filter_map(|thread| thread.ok()?.file_name().to_str()?.parse().ok())
            .collect();
        let most = (CUT * PAID / PLACES as f64 / toll()?).max(MOST) as u64;
        // One that is not counted would make the sum wrong. A thread that ends just now is missed once in a long while.
        let place = |&(address, times): &(u64, u64)| {
            let threads = threads
                .iter()
                .map(|tid| Breakpoint::begin(*tid, address, most));
            Some(Place {
                threads: threads.collect::<Result<_, _>>().ok()?,
                rate: times as f64 / nanos.max(1.0),
            })
        };
        let counted: Vec<Place> = often.iter().filter_map(place).collect();
        (!counted.is_empty()).then_some(Self {
            pid,
            counted,
            from: cpu_of(pid)?,
            began: Instant::now(),
        })
    }

    /// Returns what was counted, if that has lasted for long enough.
    pub fn end(&self) -> Option<Trial> {
        let took = cpu_of(self.pid)?.saturating_sub(self.from);
        if took < LENGTH && self.began.elapsed() < PATIENCE {
            return None;
        }
        let toll = toll().unwrap_or(0.0);
        let counted: Vec<(f64, f64)> = (self.counted.iter().map(Place::counted))
            .map(|(times, time)| (times as f64, time.as_nanos() as f64))
            .collect();
        let times: f64 = counted.iter().map(|(times, _)| times).sum();
        let longest = counted
            .iter()
            .fold(1.0, |most: f64, (_, time)| most.max(*time));
        let places = self.counted.iter().zip(&counted);
        let expected = places.map(|(place, &(own, time))| {
            // Traps of the others come as evenly as can be.
            let paid = toll * (own + (times - own) * time / longest);
            place.rate * (time - paid).max(0.0)
        });
        Some(Trial {
            counted: times,
            expected: expected.sum(),
            paid: times * toll,
        })
    }
}

/// Executions of instructions in a stretch of native time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Trial {
    /// Those that there were.
    pub counted: f64,
    /// Those that there would have been at the speed of the burst.
    pub expected: f64,
    /// Nanoseconds that counting took.
    pub paid: f64,
}

/// The speed of native code over that of bursts, from trials.
#[derive(Clone, Copy, Default, Debug)]
pub struct Speed {
    trials: u64,
    counted: f64,
    expected: f64,
    /// Sums of squares and of products.
    squares: [f64; 3],
}

/// A ratio and its limits, which hold in 95 of 100 cases.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measured {
    /// Times that a burst takes as long as native code.
    pub slowdown: f64,
    /// Distance of the limits from it.
    pub error: f64,
    /// Executions that were counted natively.
    pub executions: u64,
}

impl Speed {
    /// Adds a trial.
    pub fn add(&mut self, trial: &Trial) {
        let Trial {
            counted, expected, ..
        } = *trial;
        self.trials += 1;
        self.counted += counted;
        self.expected += expected;
        for (sum, more) in self.squares.iter_mut().zip([
            counted * counted,
            expected * expected,
            counted * expected,
        ]) {
            *sum += more;
        }
    }

    /// The ratio of the sums, if anything is known of it. Its error is that of a ratio estimator (Cochran, *Sampling Techniques*, section 6.4).
    pub fn measured(&self) -> Option<Measured> {
        if self.trials < TRIALS || self.expected <= 0.0 {
            return None;
        }
        let ratio = self.counted / self.expected;
        let [counted, expected, both] = self.squares;
        let squares = (counted + ratio * ratio * expected - 2.0 * ratio * both).max(0.0);
        let n = self.trials as f64;
        Some(Measured {
            slowdown: ratio,
            error: NORMAL * (squares * n / (n - 1.0)).sqrt() / self.expected,
            executions: self.counted as u64,
        })
    }
}

/// Standard errors within limits that hold in 95 of 100 cases.
const NORMAL: f64 = 1.96;

impl Measured {
    /// The standard error over the ratio.
    pub fn relative_error(&self) -> f64 {
        self.error / NORMAL / self.slowdown
    }

    /// Returns true if it is known well enough to be taken for the truth.
    pub fn is_known(&self) -> bool {
        /// Times that a burst takes: an optimised trace saves some jumps, and nothing takes ten times as long.
        const POSSIBLE: Range<f64> = 0.8..10.0;
        /// Relative error of what is not known any more.
        const WORST: f64 = 0.3;
        self.executions >= ENOUGH
            && self.error < WORST * self.slowdown
            && POSSIBLE.contains(&self.slowdown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(counted: f64, expected: f64) -> Trial {
        Trial {
            counted,
            expected,
            paid: 0.0,
        }
    }

    #[test]
    fn traps_that_are_dear_are_few_or_none() {
        assert_eq!(wanted_at(1e3), Some(6..=400));
        assert_eq!(wanted_at(22e3), Some(6..=45));
        assert_eq!(wanted_at(1e6), None);
    }

    #[test]
    fn a_ratio_is_of_all_trials_together() {
        let mut speed = Speed::default();
        for n in 0..4 {
            speed.add(&trial(30.0 + f64::from(n), 20.0));
            assert_eq!(speed.measured(), None, "too few trials");
        }
        speed.add(&trial(24.0, 20.0));
        let measured = speed.measured().expect("enough");
        assert!(
            measured.is_known() && (measured.slowdown - 1.5).abs() < 1e-9,
            "{measured:?}"
        );
        assert!(measured.error > 0.0 && measured.error < 0.2, "{measured:?}");
        assert_eq!(measured.executions, 150);
    }

    #[test]
    fn trials_that_differ_tell_little() {
        let mut speed = Speed::default();
        for n in 0..6 {
            speed.add(&trial(if n == 0 { 300.0 } else { 1.0 }, 30.0));
        }
        assert!(!speed.measured().expect("trials").is_known());
    }

    /// Executions of a function of this process are counted, all of them, where the machine can.
    #[test]
    fn executions_of_this_process_are_counted() {
        #[inline(never)]
        fn here(n: u64) -> u64 {
            black_box(n)
        }
        let address = here as fn(u64) -> u64 as usize as u64;
        let Ok(counted) = Breakpoint::begin(0, address, 100) else {
            eprintln!("not tested: the kernel counts no executions here");
            return;
        };
        let before = counted.counted();
        for n in 0..7 {
            black_box(here(n));
        }
        assert_eq!((before.times, counted.counted().times), (0, 7));
        assert!(counted.counted().time > Duration::ZERO);
        for n in 0..1000 {
            black_box(here(n));
        }
        assert_eq!(counted.counted().times, 100, "no more than was said");
        assert!(toll().is_some_and(|nanos| nanos > 0.0));
    }
}
