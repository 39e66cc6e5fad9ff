//! Waits of threads: where each stopped to run, and for how long.
//!
//! # Problem
//! Clocks do not tick while a thread waits. Most of a server's time is such time, and people ask what it waits for.
//!
//! # Strategy
//! The kernel reports each moment in which a thread gives up its processor by itself, with its registers and stack ([`Attributes::of_waits`]),
//! and each moment in which it runs again. What is between is the wait, and it counts for the call path of its beginning.
//! Nothing is sampled: each wait is one record. A thread that is only made to wait by others that run (preempted) does not wait for anything.
//!
//! # Invariants
//! * A thread waits once at a time. Where its next stop comes before its return, a record was lost: that wait is not counted, but told.
//! * A wait that is not over counts up to now, once.
//!
//! [`Attributes::of_waits`]: crate::kernel::perf::Attributes::of_waits

use std::collections::HashMap;

use trommel_profile::call_tree::Weight;

use super::stacks::Path;

/// A thread that has stopped.
struct Stopped {
    pid: u32,
    path: Path,
    /// Time from which on it counts, in nanoseconds; `None`: it is about to stop.
    since: Option<u64>,
    /// It has counted before, up to `since`.
    counted: bool,
}

/// A wait, or a part of one.
pub(super) struct Wait {
    pub(super) pid: u32,
    pub(super) path: Path,
    pub(super) weight: Weight,
}

/// Threads that do not run, by the kernel's numbers.
#[derive(Default)]
pub(super) struct Waits {
    threads: HashMap<u32, Stopped>,
    /// Waits whose end was lost.
    pub(super) lost: u64,
}

impl Waits {
    /// A thread is about to stop, at the end of this path.
    pub(super) fn stops(&mut self, pid: u32, tid: u32, path: Path) {
        let stopped = Stopped {
            pid,
            path,
            since: None,
            counted: false,
        };
        let before = self.threads.insert(tid, stopped);
        self.lost += u64::from(before.is_some_and(|before| before.since.is_some()));
    }

    /// It has given up its processor. `preempted`: others took it.
    pub(super) fn gone(&mut self, tid: u32, time: u64, preempted: bool) {
        if preempted {
            self.threads.remove(&tid);
        } else if let Some(stopped) = self.threads.get_mut(&tid) {
            stopped.since.get_or_insert(time);
        }
    }

    /// It runs again. Returns its wait.
    pub(super) fn back(&mut self, tid: u32, time: u64) -> Option<Wait> {
        let stopped = self.threads.remove(&tid)?;
        Some(Wait {
            pid: stopped.pid,
            weight: Weight {
                times: u64::from(!stopped.counted),
                own: time.saturating_sub(stopped.since?),
            },
            path: stopped.path,
        })
    }

    /// Its process executes another program, or it has ended: its path is of no use any more.
    pub(super) fn forget(&mut self, pid: u32, tid: Option<u32>) {
        match tid {
            Some(tid) => drop(self.threads.remove(&tid)),
            None => self.threads.retain(|_, stopped| stopped.pid != pid),
        }
    }

    /// Returns what has been waited for so far by those that still wait. They count from now on.
    pub(super) fn so_far(&mut self, now: u64) -> Vec<Wait> {
        let mut all: Vec<(&u32, &mut Stopped)> = self.threads.iter_mut().collect();
        all.sort_by_key(|(tid, _)| **tid);
        let mut waits = Vec::new();
        for (_, stopped) in all {
            let Some(since) = stopped.since.replace(now) else {
                stopped.since = None;
                continue;
            };
            waits.push(Wait {
                pid: stopped.pid,
                path: stopped.path.clone(),
                weight: Weight {
                    times: u64::from(!std::mem::replace(&mut stopped.counted, true)),
                    own: now.saturating_sub(since),
                },
            });
        }
        waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weight(wait: Option<Wait>) -> Option<(u64, u64)> {
        wait.map(|wait| (wait.weight.times, wait.weight.own))
    }

    #[test]
    fn a_wait_is_from_the_stop_to_the_return() {
        let mut waits = Waits::default();
        waits.stops(1, 7, Path::default());
        waits.gone(7, 100, false);
        assert_eq!(weight(waits.back(7, 130)), Some((1, 30)));
        // Its beginning is not known.
        assert_eq!(weight(waits.back(7, 140)), None);
        assert_eq!(waits.lost, 0);
    }

    #[test]
    fn who_is_preempted_does_not_wait() {
        let mut waits = Waits::default();
        waits.stops(1, 7, Path::default());
        waits.gone(7, 100, true);
        assert_eq!(weight(waits.back(7, 130)), None);
        assert!(waits.so_far(200).is_empty());
    }

    #[test]
    fn a_wait_that_goes_on_counts_once_and_for_its_time() {
        let mut waits = Waits::default();
        waits.stops(1, 7, Path::default());
        waits.gone(7, 100, false);
        let parts: Vec<_> = [110, 150]
            .into_iter()
            .flat_map(|now| waits.so_far(now))
            .map(|wait| (wait.weight.times, wait.weight.own))
            .collect();
        assert_eq!(parts, [(1, 10), (0, 40)]);
        assert_eq!(weight(waits.back(7, 157)), Some((0, 7)));
    }

    #[test]
    fn a_return_that_was_lost_is_told() {
        let mut waits = Waits::default();
        waits.stops(1, 7, Path::default());
        waits.gone(7, 100, false);
        waits.stops(1, 7, Path::default());
        assert_eq!(waits.lost, 1);
        waits.gone(7, 500, false);
        assert_eq!(weight(waits.back(7, 510)), Some((1, 10)));
    }

    #[test]
    fn another_program_and_an_end_leave_nothing() {
        let mut waits = Waits::default();
        for tid in [7, 8] {
            waits.stops(1, tid, Path::default());
            waits.gone(tid, 100, false);
        }
        waits.forget(1, Some(7));
        assert_eq!(waits.so_far(110).len(), 1);
        waits.forget(1, None);
        assert!(waits.so_far(120).is_empty());
    }
}
