//! Account of the detached processes of a session ([`super::reattach`]).

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::serve::progress::Proof;
use crate::takeover::retake::Watch;

/// Processes that have been detached.
#[derive(Default)]
pub(super) struct Retakes {
    pub(super) looked: Option<Instant>,
    /// Watches, by number of the process. A process that is reattached gets another number.
    pub(super) watched: HashMap<usize, Watch>,
    /// Watched processes that are asked how they get on natively.
    pub(super) proofs: HashMap<usize, Proof>,
}

impl Retakes {
    /// The time to the next look.
    pub(super) fn pause(&self) -> Duration {
        let proofs = self.proofs.values().map(Proof::pause);
        proofs.min().unwrap_or(Duration::MAX)
    }
}
