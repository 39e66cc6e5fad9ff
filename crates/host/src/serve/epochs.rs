//! Epochs: the results of a run, given away from time to time while it goes on.
//!
//! The program does not stop for that. Its records are folded as far as they are written, and the counts are taken
//! from the folder, which begins anew. Or the latest intervals of an interval profiler are given away, and nothing is taken.
//! A window that has not ended belongs to the epoch in which it ends. Epochs end at
//! multiples of their length since 1970, so that those of processes and machines are the same.

use std::time::{Duration, SystemTime};

use trommel_profile::Profile;

use crate::fold::intervals::Ended;

/// Ends of epochs, and the receiver of their results.
pub struct Epochs<'a> {
    every: Duration,
    number: u128,
    give: Receiver<'a>,
}

/// Receivers of results.
enum Receiver<'a> {
    Windows(&'a mut dyn FnMut(Profile)),
    Intervals(&'a mut dyn FnMut(LatestIntervals)),
}

/// Latest intervals of an interval profiler at the end of an epoch.
#[derive(Clone, Debug)]
pub struct LatestIntervals {
    /// Profile without counts: the process and its modules.
    pub profile: Profile,
    /// CPU time of the process in the epoch.
    pub cpu: Duration,
    /// Intervals that have ended so far.
    pub ended: u64,
    /// The latest one of each thread, the last one first.
    pub latest: Vec<Ended>,
}

impl<'a> Epochs<'a> {
    /// Makes epochs of this length. `give` gets a profile at the end of each. Events after the last one are the recording's own.
    pub fn new(every: Duration, give: &'a mut dyn FnMut(Profile)) -> Self {
        Self::giving(every, Receiver::Windows(give))
    }

    /// Makes epochs of a run with an interval profiler. `give` gets the latest intervals at the end of each, and at the end of the run.
    pub fn of_intervals(every: Duration, give: &'a mut dyn FnMut(LatestIntervals)) -> Self {
        Self::giving(every, Receiver::Intervals(give))
    }

    fn giving(every: Duration, give: Receiver<'a>) -> Self {
        let every = every.max(Duration::from_millis(1));
        Self {
            every,
            number: number(every),
            give,
        }
    }

    /// The same, for no longer than something else.
    pub fn shorter<'b>(self) -> Epochs<'b>
    where
        'a: 'b,
    {
        Epochs {
            every: self.every,
            number: self.number,
            give: match self.give {
                Receiver::Windows(give) => Receiver::Windows(give),
                Receiver::Intervals(give) => Receiver::Intervals(give),
            },
        }
    }

    /// Returns true if the latest intervals are given.
    pub(super) const fn are_of_intervals(&self) -> bool {
        matches!(self.give, Receiver::Intervals(_))
    }

    /// Returns true if another has begun since this was asked last.
    pub(super) fn is_over(&mut self) -> bool {
        let now = number(self.every);
        // The clock may have been set back.
        now != std::mem::replace(&mut self.number, now)
    }

    pub(super) fn give(&mut self, profile: Profile) {
        if let Receiver::Windows(give) = &mut self.give {
            give(profile);
        }
    }

    pub(super) fn give_latest(&mut self, latest: LatestIntervals) {
        if let Receiver::Intervals(give) = &mut self.give {
            give(latest);
        }
    }
}

/// Returns the number of the epoch that it is now.
fn number(every: Duration) -> u128 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap_or_default().as_nanos() / every.as_nanos()
}
