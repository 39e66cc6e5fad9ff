//! Parts of a run's state: its first program, its account, those that are given what processes tell, and what all processes share.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use trommel_profile::memory::Levels;
use trommel_symbol::Files;

use super::cost::host_cpu;
use crate::ask::custom::Custom;
use crate::ask::service::{Instance, Write};
use crate::channel::memory::Budget;
use crate::channel::modules::Images;
use crate::ptrace::ended::Ended;
use crate::serve::recording::Done;
use crate::windows::toll::Toll;

/// The first program.
#[derive(Default)]
pub(super) struct First {
    /// The process, once it has started.
    pub(super) pid: Option<Pid>,
    /// It runs natively, and has number 0 when it is attached.
    pub(super) awaited: bool,
    /// It ran already when it was attached.
    pub(super) late: bool,
    /// We ended it, as its stream had all the events that were wanted.
    pub(super) limited: bool,
    /// The way in which control of it has ended, and the moment.
    pub(super) ended: Option<(Ended, Instant)>,
    /// Its profile, when it is not there any more.
    pub(super) done: Option<Done>,
}

/// Times of a run, and what it takes.
pub(super) struct Account {
    /// Start of the run.
    pub(super) began: Instant,
    /// Our CPU time then.
    pub(super) host_before: Duration,
    /// The moment at which the state of the run was reported last.
    pub(super) progressed: Instant,
    /// Time that processes that have ended waited for the host.
    pub(super) waited: Duration,
    /// CPU time that processes that have ended used without us.
    pub(super) used: Duration,
}

impl Account {
    /// Begins now.
    pub(super) fn begin() -> Self {
        Self {
            began: Instant::now(),
            host_before: host_cpu(),
            progressed: Instant::now(),
            waited: Duration::ZERO,
            used: Duration::ZERO,
        }
    }
}

/// Receivers of what processes tell, beside their profiles.
pub(super) struct Receivers {
    /// Streams opened for processes of a number.
    pub(super) streams: HashMap<Pid, usize>,
    /// All of every stream is in its file, so far.
    pub(super) stream_whole: bool,
    /// Writer of the queries' messages.
    pub(super) messages: Option<Rc<RefCell<Write>>>,
    /// Services of libraries for the first process, until it begins.
    pub(super) services: Option<Vec<Instance>>,
    /// Module that windows are given to.
    pub(super) custom: Option<Rc<Custom>>,
}

/// Things that all processes of a run share.
pub(super) struct Means {
    pub(super) images: Images,
    pub(super) budget: Rc<Budget>,
    pub(super) files: &'static Files,
    /// Cost of a signal that begins a window, where there are any within a budget.
    pub(super) toll: Option<Toll>,
    /// By what latencies are told apart, where they are wanted.
    pub(super) levels: Option<Levels>,
}
