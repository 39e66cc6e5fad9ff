//! Results: of one process, and of a run.

use trommel_profile::Profile;

use crate::channel::shared::Shared;
use crate::ptrace::ended::Ended;
use crate::serve::engine::Engine;
use crate::serve::identity::Identity;

/// A finished run.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Profile of the first process, until it became another program or ended.
    pub profile: Profile,
    /// End of the program.
    pub ended: Ended,
    /// True if we ended it, as its stream had all the events that were wanted.
    pub limited: bool,
    /// Work of the engine in the first process.
    pub engine: Engine,
    /// True if all of the stream, if one was wanted, is in its file.
    pub stream_whole: bool,
}

/// Results of a process.
pub struct Done {
    /// Its profile.
    pub profile: Profile,
    /// Work of its engine.
    pub engine: Engine,
    /// True if all of its stream, if one was wanted, is in its file.
    pub stream_whole: bool,
}

/// A process that has ended, as those that it has made remember it.
pub struct Ancestor {
    /// Identity of the process.
    pub identity: Identity,
    /// State that it shared.
    pub shared: Shared,
}

impl Ancestor {
    /// Returns true if processes are still being made by it.
    pub fn is_needed(&self) -> bool {
        let pages = self.shared.pages();
        pages.family().expects(pages.slot())
    }
}
