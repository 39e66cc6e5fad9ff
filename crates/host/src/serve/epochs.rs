//! Epochs: the results of a run, given away from time to time while it goes on.
//!
//! The program does not stop for that. Its records are folded as far as they are written, and the counts are taken
//! from the folder, which begins anew. A window that has not ended belongs to the epoch in which it ends. Epochs end at
//! multiples of their length since 1970, so that those of processes and machines are the same.

use std::time::{Duration, SystemTime};

use trommel_profile::Profile;

/// Ends of epochs, and the receiver of their profiles.
pub struct Epochs<'a> {
    every: Duration,
    number: u128,
    give: &'a mut dyn FnMut(Profile),
}

impl<'a> Epochs<'a> {
    /// Makes epochs of this length. `give` gets a profile at the end of each. Events after the last one are the recording's own.
    pub fn new(every: Duration, give: &'a mut dyn FnMut(Profile)) -> Self {
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
            give: self.give,
        }
    }

    /// Returns true if another has begun since this was asked last.
    pub(super) fn is_over(&mut self) -> bool {
        let now = number(self.every);
        // The clock may have been set back.
        now != std::mem::replace(&mut self.number, now)
    }

    pub(super) fn give(&mut self, profile: Profile) {
        (self.give)(profile);
    }
}

/// Returns the number of the epoch that it is now.
fn number(every: Duration) -> u128 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap_or_default().as_nanos() / every.as_nanos()
}
