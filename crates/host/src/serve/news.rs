//! News: what the user should know, as it happens.
//!
//! The host tells facts. `cli` makes sentences of them.

use std::time::Duration;

use crate::channel::shared::Damaged;
use crate::serve::control::NoDirectory;
use crate::serve::failure::RuntimeFailure;
use crate::serve::identity::Identity;
use crate::serve::unobserved::Unobserved;
use trommel_queue::Unfollowed;

/// A process that news is about.
#[derive(Clone, Debug)]
pub enum Who {
    /// The program that the run began with.
    Program,
    /// Another process.
    Process(Identity),
}

/// Something that the user should know.
#[derive(Debug)]
pub enum News {
    /// The kernel refuses what begins windows.
    NoWindows(std::io::Error),
    /// Commands cannot change the queries.
    NoControl(NoDirectory),
    /// Counts of windows, where a stress option sets their pace.
    WindowCounts(WindowCounts),
    /// Children of a process run natively, for want of room.
    ChildrenUnobserved(Who),
    /// A process was detached.
    Detached(Who, Unobserved),
    /// The runtime has failed in a process.
    RuntimeFailed(RuntimeFailure),
    /// Rare values of a process are dropped, for want of memory.
    ValuesDropped(Who),
    /// The customisation module has failed.
    ModuleFailed(String),
    /// More ranges of code are selected than a target can be given; later ones are not observed.
    UnselectedRanges(usize),
    /// More ranges of code have tags than a target can be given; later ones have tag 0.
    UntaggedRanges(usize),
    /// A target damaged the memory that it shares with the host.
    Damaged(Damaged),
    /// The event stream ends early.
    StreamCut {
        /// The reason.
        error: String,
        /// Events go on that are not written.
        goes_on: bool,
    },
    /// A file that a process executes runs natively.
    FileRunsNatively {
        /// The file.
        path: Vec<u8>,
        /// The process.
        pid: i32,
        /// The reason.
        why: Unfollowed,
    },
    /// A process that has executed a program runs natively.
    NotInjected(Identity, Option<std::io::Error>),
    /// A process could not be attached.
    NotAttached(Identity, String),
    /// The program has ended, and so many of its processes go on natively.
    GoesOn(u64),
    /// Messages are missing in their file.
    MessagesMissing(String),
    /// The program could not be detached cleanly.
    NotDetached(String),
    /// The state of the run, once a second where that was asked for.
    Progress(Progress),
}

/// The state of a run that goes on.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Progress {
    /// Time since the start.
    pub wall: Duration,
    /// CPU time of the processes of the program.
    pub program: Duration,
    /// CPU time of Trommel.
    pub host: Duration,
    /// Time that processes waited for Trommel to catch up.
    pub waited: Duration,
    /// Processes that are there.
    pub processes: usize,
    /// Bytes that they have written, to whatever.
    pub written: u64,
}

/// Counts of windows in one process, and the last windows.
#[derive(Clone, Debug)]
pub struct WindowCounts {
    /// Each count with its name.
    pub counts: [(&'static str, u64); 7],
    /// Last windows, each by its first address, its last address, and its number of instructions.
    pub last: Vec<[u64; 3]>,
}
