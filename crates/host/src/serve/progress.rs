//! Speed of a program under control against its native speed, as far as that can be measured.
//!
//! # Problem
//! The audit ([`crate::serve::audit`]) tells what control adds, and not what it saves. A program that calls
//! small functions of shared libraries has a sixth of its samples at what control adds, and is a tenth faster all the same (`docs/design/history-run.md`): its
//! traces lead through neither calls nor the jumps of its linkage tables.
//!
//! # Strategy
//! A program reads and writes the same bytes (`/proc/PID/io`) however it is executed. A process that runs natively at
//! first is looked at every [`PACE`] of CPU time, and so it is under control. Each step between two looks has a *rate*, bytes in a second. Of many
//! steps the mean is known, and its error.
//!
//! The last [`RECENT`] steps count, and under control none in the time in which the first traces are made. Control *pays* if the mean of those is higher than
//! the native one by [`MARGIN`] and by twice what both may be off, or is so by [`MARGIN`] alone after twice [`PATIENCE`].
//!
//! A first measurement may not hold later: the machine may have been slower then, or the work other work. So what stays is detached
//! now and then and asked natively again ([`Proof`]), and so is what is detached because it is not faster: for [`NATIVE`] steps. What was faster under control is
//! reattached, and proven again after four times as long. Reattaching costs some hundredths of a second, so that is a small part.
//!
//! # Limits
//! * A program that reads and writes little, or in bursts: then nothing is known, and samples decide.
//! * Other work: if the program has turned to something that takes less time for a byte, that looks like a gain. So rates that have changed by more
//!   than [`OTHER`] percent are not compared, nor are those of programs whose rates differ by themselves.

use std::collections::VecDeque;
use std::fs;
use std::time::Duration;

use nix::unistd::Pid;

use crate::kernel::clocks::cpu_of;

/// CPU time from one look to the next, at least.
pub(crate) const PACE: Duration = Duration::from_millis(8);
/// CPU time before the first: what a program begins with is other work.
pub(crate) const FIRST: Duration = Duration::from_millis(50);
/// Steps by which a rate is known.
const ENOUGH: usize = 8;
/// Steps that count, the last ones.
const RECENT: usize = 32;
/// Steps under control before it is known that it does not pay: what is hot may not all be in traces yet.
const PATIENCE: u32 = 28;
/// Native steps by which it is known whether what was detached was faster.
const NATIVE: usize = 20;
/// Percent that must be gained, at least.
const MARGIN: f64 = 3.0;
/// Percent that control cannot gain.
const OTHER: f64 = 60.0;
/// Percent that the mean of native steps may be off.
const STEADY: f64 = 8.0;
/// CPU time under control before it is proven again that it pays, the first time.
const PROVEN: Duration = Duration::from_secs(4);
/// CPU time of a process before which it is not reattached a second time for that.
const TWICE: Duration = Duration::from_secs(2);
/// Factor by which both grow each time.
const LONGER: u32 = 4;

/// Bytes that a process has read and written by some CPU time of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Look {
    cpu: Duration,
    bytes: u64,
}

/// The steps of a process.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    last: Option<Look>,
    /// Bytes in a second.
    rates: VecDeque<f64>,
    /// Steps so far.
    all: u32,
}

/// The mean of some rates, in bytes a second of CPU time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rate {
    /// It.
    pub mean: f64,
    /// Its standard error.
    pub error: f64,
}

/// Rates of a process.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Progress {
    /// Natively, before it was attached.
    pub native: Rate,
    /// Under control at last, if that was found out.
    pub under_control: Option<Rate>,
}

/// Benefit of control, by rates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Benefit {
    /// The program is faster.
    Pays,
    /// It is not, or not by as much as counts.
    DoesNot,
    /// Nothing is known yet, but may be soon.
    Open,
    /// Rates tell nothing.
    Unknown,
}

impl Steps {
    /// Looks at a process that has used so much CPU time, if that is a step.
    pub(crate) fn look(&mut self, pid: Pid, cpu: Duration) {
        let is_step = |last: Look| cpu >= last.cpu + PACE;
        if self.last.is_none_or(is_step)
            && let Some(bytes) = bytes_of(pid)
        {
            self.add(Look { cpu, bytes });
        }
    }

    fn add(&mut self, look: Look) {
        if let Some(last) = self.last.replace(look) {
            let bytes = look.bytes.saturating_sub(last.bytes) as f64;
            let time = look.cpu.saturating_sub(last.cpu).as_secs_f64();
            self.rates.push_back(bytes / time.max(f64::MIN_POSITIVE));
            self.all = self.all.saturating_add(1);
        }
        if self.rates.len() > RECENT {
            self.rates.pop_front();
        }
    }

    /// The mean of the steps, if there are enough.
    pub(crate) fn rate(&self) -> Option<Rate> {
        let n = self.rates.len();
        if n < ENOUGH {
            return None;
        }
        let mean = self.rates.iter().sum::<f64>() / n as f64;
        let squares: f64 = self.rates.iter().map(|r| (r - mean).powi(2)).sum();
        let error = (squares / (n * (n - 1)) as f64).sqrt();
        Some(Rate { mean, error })
    }

    /// Returns the verdict of these steps, under control, beside the native rate.
    pub(crate) fn beside(&self, native: Rate) -> Benefit {
        if !native.is_steady() {
            return Benefit::Unknown;
        }
        let Some(now) = self.rate() else {
            return Benefit::Open;
        };
        match now.gain_over(native) {
            Gain::Other => Benefit::Unknown,
            Gain::Percent(_) => Benefit::Pays,
            Gain::None if self.all < PATIENCE => Benefit::Open,
            Gain::None => Benefit::DoesNot,
            Gain::Unsure if self.all < 2 * PATIENCE => Benefit::Open,
            Gain::Unsure => Benefit::Pays,
        }
    }
}

/// Gain of one rate over another.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Gain {
    /// So many percent, and certainly some.
    Percent(f64),
    /// Gain of as much, it seems.
    Unsure,
    /// Nothing that counts.
    None,
    /// So much more or less that it is other work.
    Other,
}

impl Rate {
    fn is_steady(self) -> bool {
        self.mean > 0.0 && self.error * 100.0 <= STEADY * self.mean
    }

    fn gain_over(self, native: Self) -> Gain {
        let percent = |rate: f64| rate * 100.0 / native.mean;
        let gain = percent(self.mean) - 100.0;
        let off = 2.0 * percent(self.error.hypot(native.error));
        match gain {
            _ if gain.abs() > OTHER => Gain::Other,
            _ if gain <= MARGIN => Gain::None,
            _ if gain > off => Gain::Percent(gain),
            _ => Gain::Unsure,
        }
    }
}

/// CPU time under control after which it is proven again that it pays, which has been done so many times.
pub(crate) fn proven_after(times: u32) -> Duration {
    PROVEN * LONGER.saturating_pow(times)
}

/// A process that was detached, and is asked natively how it gets on.
#[derive(Debug)]
pub(crate) struct Proof {
    pid: Pid,
    under_control: Rate,
    /// Times that it was reattached for that.
    times: u32,
    steps: Steps,
    over: bool,
}

impl Proof {
    pub(crate) fn begin(pid: Pid, under_control: Rate, times: u32) -> Self {
        Self {
            pid,
            under_control,
            times,
            steps: Steps::default(),
            over: false,
        }
    }

    /// The time to the next look.
    pub(crate) fn pause(&self) -> Duration {
        match self.over {
            true => Duration::MAX,
            false => PACE,
        }
    }

    /// Looks at the process. When it is known that it was faster under control: by how many percent, and how it gets on
    /// natively.
    pub(crate) fn look(&mut self) -> Option<(u32, Rate)> {
        if self.over {
            return None;
        }
        let Some(cpu) = cpu_of(self.pid) else {
            self.over = true;
            return None;
        };
        self.steps.look(self.pid, cpu);
        self.answer(cpu)
    }

    fn answer(&mut self, cpu: Duration) -> Option<(u32, Rate)> {
        if self.steps.rates.len() < NATIVE {
            return None;
        }
        self.over = true;
        let native = self.steps.rate().filter(|rate| rate.is_steady())?;
        let too_soon = self.times > 0 && cpu < TWICE * LONGER.saturating_pow(self.times - 1);
        match self.under_control.gain_over(native) {
            Gain::Percent(gain) if !too_soon => Some((gain as u32, native)),
            _ => None,
        }
    }
}

/// Returns the bytes that a process has read and written so far, if they can be known.
fn bytes_of(pid: Pid) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    let number = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse().ok()
    };
    number("rchar:")?.checked_add(number("wchar:")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `n` steps of `rate` bytes in a second, each by up to `noise` percent more or less.
    fn steps(n: u64, rate: f64, noise: f64) -> Steps {
        let mut steps = Steps::default();
        let mut bytes = 0.0;
        for k in 0..=n {
            let look = Look {
                cpu: PACE * k as u32,
                bytes: bytes as u64,
            };
            steps.add(look);
            let random = k.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            let part = random as f64 / (1_u64 << 24) as f64;
            bytes += PACE.as_secs_f64() * rate * (1.0 + noise / 100.0 * (2.0 * part - 1.0));
        }
        steps
    }

    fn verdict(native: &Steps, under_control: &Steps) -> Benefit {
        native
            .rate()
            .map_or(Benefit::Unknown, |rate| under_control.beside(rate))
    }

    #[test]
    fn what_gets_on_faster_pays_and_what_does_not_does_not() {
        let native = steps(24, 1e8, 5.0);
        for (gain, noise, expected) in [
            (1.15, 5.0, Benefit::Pays),
            (1.05, 1.0, Benefit::Pays),
            (1.01, 1.0, Benefit::DoesNot),
            (1.0, 5.0, Benefit::DoesNot),
            (0.8, 5.0, Benefit::DoesNot),
            (2.0, 5.0, Benefit::Unknown),
            (0.2, 5.0, Benefit::Unknown),
        ] {
            let now = steps(u64::from(PATIENCE), gain * 1e8, noise);
            assert_eq!(verdict(&native, &now), expected, "{gain} {noise}");
        }
    }

    #[test]
    fn few_steps_tell_nothing_yet() {
        let native = steps(24, 1e8, 5.0);
        assert_eq!(
            verdict(&native, &steps(ENOUGH as u64 - 1, 1.2e8, 5.0)),
            Benefit::Open
        );
        let slow = steps(u64::from(PATIENCE) - 1, 0.9e8, 5.0);
        assert_eq!(verdict(&native, &slow), Benefit::Open);
        assert_eq!(steps(ENOUGH as u64 - 1, 1e8, 0.0).rate(), None);
    }

    #[test]
    fn bursts_tell_nothing() {
        assert_eq!(
            verdict(&steps(24, 1e8, 100.0), &steps(24, 1.2e8, 5.0)),
            Benefit::Unknown
        );
        assert_eq!(
            verdict(&steps(24, 0.0, 0.0), &steps(24, 0.0, 0.0)),
            Benefit::Unknown
        );
    }

    #[test]
    fn what_was_faster_under_control_is_reattached_ever_more_rarely() {
        let proof = |rate: f64, times, cpu| {
            let under_control = steps(24, rate, 5.0).rate().expect("a rate");
            let mut proof = Proof::begin(Pid::from_raw(1), under_control, times);
            proof.steps = steps(NATIVE as u64, 1e8, 5.0);
            let answer = proof.answer(Duration::from_secs(cpu));
            assert_eq!(proof.pause(), Duration::MAX);
            answer.map(|(percent, _)| percent)
        };
        assert!(proof(1.2e8, 0, 0).is_some_and(|percent| (15..25).contains(&percent)));
        assert_eq!(proof(1e8, 0, 0), None);
        assert_eq!(proof(0.8e8, 0, 0), None);
        assert_eq!(proof(2e8, 0, 0), None);
        for (times, cpu) in [(1, 2), (2, 8), (3, 32)] {
            assert_eq!(proof(1.2e8, times, cpu - 1), None);
            assert!(proof(1.2e8, times, cpu).is_some());
            assert_eq!(proven_after(times), 2 * TWICE * 4_u32.pow(times));
        }
    }

    /// Ours: what we read ourselves is counted.
    #[test]
    fn bytes_of_a_process_go_on() {
        let pid = nix::unistd::getpid();
        let before = bytes_of(pid).expect("our own");
        let read = fs::read("/proc/self/maps").expect("our own").len() as u64;
        assert!(bytes_of(pid).expect("our own") >= before + read);
        assert_eq!(bytes_of(Pid::from_raw(i32::MAX)), None);
    }
}
