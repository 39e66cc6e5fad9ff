//! Cost of a signal on this machine before its handler begins and after it has ended, and cost of a sample.
//!
//! # Problem
//! A window measures its own cost, but not what the kernel does
//! around it: the timer's interrupt, the event, the signal's frame with all vector registers, the return.
//! Every clock of the program is stopped meanwhile.
//!
//! # Strategy
//! This process sends itself such signals for a few milliseconds while it does nothing but read the time stamp counter.
//! Where the counter jumps, it was interrupted: the jump is the cost. A handler that does nothing adds nothing.
//!
//! The signal of a timer of CPU time comes where the kernel runs anyway. It costs as much as a signal that a thread sends to itself.
// Signals of this very thread, and the time stamp counter.
#![allow(unsafe_code)]

use std::mem::zeroed;
use std::time::{Duration, Instant};

use nix::unistd::gettid;

use crate::kernel::clocks::stamp;
use crate::kernel::perf::ring::Ring;
use crate::kernel::perf::{Attributes, Clock};

/// The time between two signals of a measurement.
const PERIOD: Duration = Duration::from_micros(70);
const SIGNALS: usize = 20;
/// It takes a few of them to be sure.
const FEW: usize = 8;
/// Cost of a signal where it cannot be measured: the larger side of what was seen on virtual machines.
const UNKNOWN: Duration = Duration::from_micros(5);

/// Costs that were measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Toll {
    /// Cost of one signal of an event.
    pub signal: Duration,
    /// Cost of one signal of a timer of CPU time.
    pub tick: Duration,
    /// Nanoseconds of a cycle of the time stamp counter.
    pub cycle: f64,
}

extern "C" fn nothing(_: i32) {}

/// Measures, for some milliseconds. `Err`: the kernel refuses perf events.
///
/// # Errors
/// What the kernel says.
pub fn measure() -> std::io::Result<Toll> {
    let signal = libc::SIGRTMIN();
    let event = Clock::signalling(gettid().as_raw(), PERIOD, signal)?;
    let (began, first) = (Instant::now(), stamp());
    // SAFETY: all-zero is a valid action.
    let mut action: libc::sigaction = unsafe { zeroed() };
    action.sa_sigaction = nothing as *const () as usize;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: all-zero is a valid action.
    let mut before: libc::sigaction = unsafe { zeroed() };
    // SAFETY: both are valid, and the handler does nothing.
    unsafe { libc::sigaction(signal, &raw const action, &raw mut before) };
    let tick = of_sent(signal);
    event.enable();
    let gaps = gaps(began);
    drop(event);
    // SAFETY: the disposition that there was; nothing sends the signal any more.
    unsafe { libc::sigaction(signal, &raw const before, std::ptr::null_mut()) };
    let cycles = stamp().saturating_sub(first).max(1);
    let cycle = began.elapsed().as_nanos() as f64 / cycles as f64;
    Ok(Toll {
        signal: typical(gaps).map_or(UNKNOWN, |gap| {
            Duration::from_nanos((gap as f64 * cycle) as u64)
        }),
        tick: Duration::from_nanos((tick as f64 * cycle) as u64),
        cycle,
    })
}

/// Measures what a sample of a processor costs whatever runs there: the clock's interrupt, and what the kernel writes down, with so many
/// bytes of the stack. `Err`: the kernel refuses such samples.
///
/// # Errors
/// What the kernel says.
pub fn of_samples(stack: u32) -> std::io::Result<Duration> {
    let attributes = Attributes::of_machine(PERIOD);
    measured(&match stack {
        0 => attributes,
        bytes => attributes.with_stacks(bytes),
    })
}

/// The same as [`of_samples`], of samples that need no privilege. Where they cannot be measured, it is a usual cost.
pub fn of_own_samples(stack: u32) -> Duration {
    measured(&Attributes::of_own(PERIOD, stack)).unwrap_or(UNKNOWN)
}

fn measured(attributes: &Attributes) -> std::io::Result<Duration> {
    /// On virtual machines there are shorter interruptions of other kinds, and sometimes more of them than samples.
    const TIMES: usize = 3;
    let all: Vec<Duration> = (0..TIMES)
        .map(|_| measured_once(attributes))
        .collect::<Result<_, _>>()?;
    Ok(all.into_iter().max().unwrap_or(UNKNOWN))
}

fn measured_once(attributes: &Attributes) -> std::io::Result<Duration> {
    /// With room for the stacks of all samples.
    const PAGES: usize = 256;
    const FEW_PAGES: usize = 16;
    let clock = Clock::of_this_thread(attributes)?;
    let pages = if attributes.has_stacks() {
        PAGES
    } else {
        FEW_PAGES
    };
    // Without it there is nothing to write to.
    let _ring = Ring::map(&clock, pages)?;
    let (began, first) = (Instant::now(), stamp());
    clock.enable();
    let gaps = gaps(began);
    clock.disable();
    let cycles = stamp().saturating_sub(first).max(1);
    let cycle = began.elapsed().as_nanos() as f64 / cycles as f64;
    Ok(typical(gaps).map_or(UNKNOWN, |gap| {
        Duration::from_nanos((gap as f64 * cycle) as u64)
    }))
}

/// Cycles of a signal that this thread sends to itself.
fn of_sent(signal: i32) -> u64 {
    let mut taken: Vec<u64> = (0..SIGNALS)
        .map(|_| {
            let before = stamp();
            // SAFETY: has a handler, which does nothing.
            unsafe { libc::raise(signal) };
            stamp() - before
        })
        .collect();
    taken.sort_unstable();
    taken[taken.len() / 2]
}

/// The jumps of the counter that are no noise.
fn gaps(began: Instant) -> Vec<u64> {
    /// Cycles: reading the counter takes some tens.
    const NOISE: u64 = 1000;
    let mut gaps = Vec::with_capacity(SIGNALS);
    let mut last = stamp();
    while gaps.len() < SIGNALS {
        let now = stamp();
        if now - last > NOISE {
            gaps.push(now - last);
            if began.elapsed() > 2 * SIGNALS as u32 * PERIOD {
                break;
            }
            // The clock was read.
            last = stamp();
            continue;
        }
        last = now;
    }
    gaps
}

/// The median, if there are enough of them.
fn typical(mut gaps: Vec<u64>) -> Option<u64> {
    gaps.sort_unstable();
    (gaps.len() >= FEW).then(|| gaps[gaps.len() / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_costs_microseconds() {
        // Where the kernel refuses there is nothing to measure.
        let Ok(toll) = of_samples(0) else {
            return;
        };
        let micros = toll.as_nanos() as f64 / 1000.0;
        assert!((0.1..200.0).contains(&micros), "{micros} µs");
    }

    #[test]
    fn a_signal_costs_microseconds() {
        // Where the kernel refuses there is nothing to measure.
        let Ok(toll) = measure() else {
            return;
        };
        let micros = toll.signal.as_nanos() as f64 / 1000.0;
        assert!((0.3..200.0).contains(&micros), "{micros} µs");
        assert!(toll.tick < toll.signal * 4, "{toll:?}");
        assert!((0.1..2.0).contains(&toll.cycle), "{} ns", toll.cycle);
    }
}
