//! A thread's next window, asked of the kernel by the thread itself.
//!
//! # Problem
//! The signal of a perf event costs the interrupt of a timer and another that sends it: on virtual machines
//! tens of microseconds, more than the window that it begins. But the kernel interrupts each thread that runs anyway, at its
//! ticks.
//!
//! # Strategy
//! A timer of the thread's own user time (`timer_create`) expires at a tick that finds the thread in its own code, and nothing
//! is interrupted for it. It is armed once, for some ticks; the signal that comes of it arms it again. How many ticks is drawn from
//! seven to nine eighths of what the host wants ([`Control::windows`](trommel_queue::Control)); a long wait is made of several, as
//! the host may want another. It is armed first by a signal of the host's, or at the end of the window that a program begins in.
//! There is a signal of the host's now and then later, in case that of a timer was lost.
//!
//! # Why it is correct
//! * The kernel sees to expired timers when the thread returns to its own code (since Linux 5.11: the host asks for none of
//!   an older one), so no system call of the app's is interrupted.
//! * A timer belongs to the process: one that is forked has none ([`Timer::forget`]), and the kernel takes it away
//!   from one that becomes another program.
//! * Without a host it is not armed again. Before the signal's handler goes it is deleted ([`Timer::delete`]).
#![allow(unsafe_code)] // reason: structures that the kernel reads.

use core::sync::atomic::Ordering::Relaxed;

use linux_raw_sys::general as nr;
use trommel_queue::WINDOW_SIGNAL;

use crate::base::signals::Info;
use crate::base::sys;
use crate::channel::deliver::Queue;

/// A thread's timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Timer {
    id: Option<u32>,
    /// The kernel gives none.
    refused: bool,
    /// Ticks that are left when it expires, and the mean that was wanted when they were drawn.
    left: u32,
    mean: u32,
    /// Nanoseconds of the thread's CPU time at which its signal is lost; 0 when it is not armed.
    lost: u64,
}

/// Returns whether a signal is one of these timers'.
pub fn is_of(value: u64, info: &Info) -> bool {
    info.timer_value() == Some(value)
}

impl Timer {
    /// Armed again, if the host wants that. `came`: its signal has come. `now`: of the calling thread's CPU time. `below`
    /// draws a number below another. Whether a window is to begin.
    pub fn go_on(
        &mut self,
        queue: &Queue,
        value: u64,
        tid: u32,
        came: bool,
        now: u64,
        below: impl FnMut(u32) -> u32,
    ) -> bool {
        /// Multiple of the armed time that a thread may take that is mostly in system calls.
        const PATIENCE: u64 = 64;
        /// Ticks that it is armed for at once.
        const LONG: u32 = 10;
        let (window, windows) = (&queue.control().window, &queue.control().windows);
        let (mean, tick) = (window.ticks.load(Relaxed), window.tick.load(Relaxed));
        if came {
            windows.timed.fetch_add(1, Relaxed);
        } else if now < self.lost {
            return true;
        }
        self.lost = 0;
        if mean == 0 || tick == 0 || self.refused || queue.host_is_there().is_err() {
            windows.waited.fetch_add(u64::from(came), Relaxed);
            return !came;
        }
        if self.id.is_none() {
            self.id = make(tid, value);
            self.refused = self.id.is_none();
            windows
                .refused_timers
                .fetch_add(u32::from(self.refused), Relaxed);
        }
        let Some(id) = self.id else { return true };
        let begin = !came || self.left == 0;
        if begin {
            self.left = draw(mean, below);
        } else if self.mean != mean {
            // Not drawn anew, or a thread that sleeps would never come to its end.
            self.left = scaled(self.left, mean, self.mean);
        }
        self.mean = mean;
        let ticks = self.left.min(LONG);
        self.left -= ticks;
        let (tick, ticks) = (u64::from(tick), u64::from(ticks));
        // Half a tick less: ticks are not all as long.
        arm(id, ticks * tick - tick / 2);
        self.lost = now + PATIENCE * ticks * tick;
        windows.waited.fetch_add(u64::from(!begin), Relaxed);
        begin
    }

    /// Deletes the timer.
    pub fn delete(&mut self) {
        if let Some(id) = self.id {
            // SAFETY: a timer of ours.
            let _ = unsafe { sys::call(nr::__NR_timer_delete, [id.into(), 0, 0, 0, 0, 0]) };
        }
        *self = Self::default();
    }

    /// Forgets the timer in a copy of the process that it belongs to.
    pub fn forget(&mut self) {
        *self = Self::default();
    }
}

/// Ticks that are left, where another mean is wanted from now on.
fn scaled(left: u32, mean: u32, before: u32) -> u32 {
    let before = u64::from(before.max(1));
    let left = (u64::from(left) * u64::from(mean) + before / 2) / before;
    u32::try_from(left).unwrap_or(u32::MAX).max(1)
}

/// Ticks, for a mean in parts of 256.
fn draw(mean: u32, mut below: impl FnMut(u32) -> u32) -> u32 {
    let drawn = mean - mean / 8 + below(mean / 4 + 1);
    (drawn / 256 + u32::from(below(256) < drawn % 256)).max(1)
}

/// A timer of the user time of the calling thread, whose id is `tid`.
fn make(tid: u32, value: u64) -> Option<u32> {
    /// The clock of a thread's own user time: `CPUCLOCK_VIRT` of thread 0.
    const USER_TIME: i64 = (!0 << 3) | 4 | 1;
    const SIGEV_THREAD_ID: u64 = 4;
    let mut event = [0_u64; 8];
    event[0] = value;
    event[1] = WINDOW_SIGNAL as u64 | SIGEV_THREAD_ID << 32;
    event[2] = tid.into();
    let mut id = 0_u32;
    let args = [
        USER_TIME as u64,
        event.as_ptr() as u64,
        &raw mut id as u64,
        0,
        0,
        0,
    ];
    // SAFETY: a `struct sigevent`, and room for the number.
    unsafe { sys::checked(nr::__NR_timer_create, args) }.ok()?;
    // SAFETY: written by the kernel just now.
    Some(unsafe { (&raw const id).read_volatile() })
}

/// Expires once, so many nanoseconds from now.
fn arm(id: u32, nanos: u64) {
    const SECOND: u64 = 1_000_000_000;
    // struct itimerspec: interval, value.
    let when = [0, 0, nanos / SECOND, nanos % SECOND];
    let args = [id.into(), 0, when.as_ptr() as u64, 0, 0, 0];
    // SAFETY: a timer of ours and a `struct itimerspec`.
    let _ = unsafe { sys::call(nr::__NR_timer_settime, args) };
}

#[cfg(test)]
mod tests {
    use super::{draw, scaled};

    #[test]
    fn what_is_left_follows_the_mean() {
        assert_eq!(scaled(10, 512, 256), 20);
        assert_eq!(scaled(10, 256, 1 << 24), 1);
        assert_eq!(scaled(u32::MAX, u32::MAX, 0), u32::MAX);
    }

    #[test]
    fn ticks_have_the_mean_that_is_wanted() {
        let mut x = 7_u64;
        let mut below = |bound: u32| {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((x >> 33) as u32) % bound
        };
        for mean in [256, 300, 700, 2560, 100_000] {
            let rounds = 20_000;
            let drawn: alloc::vec::Vec<u32> = (0..rounds).map(|_| draw(mean, &mut below)).collect();
            let all: u64 = drawn.iter().map(|&n| u64::from(n)).sum();
            let found = all as f64 / f64::from(rounds);
            let wanted = f64::from(mean) / 256.0;
            assert!((found / wanted - 1.0).abs() < 0.06, "{found} of {wanted}");
            assert!(drawn.iter().all(|&n| n >= 1));
            let (least, most) = (drawn.iter().min(), drawn.iter().max());
            assert!(mean == 256 || least < most, "{mean}");
        }
    }
}
