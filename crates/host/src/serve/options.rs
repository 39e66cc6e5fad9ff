//! Options of a run, and the files that they name.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use trommel_compress::Spec;
use trommel_queue::COUNTER_ARRAYS;
use trommel_symbol::launch::Program;
use trommel_tuple::{Kind, KindSet};

use crate::ask::custom;
use crate::ask::service::{Chosen, Foreign};
use crate::channel::question::Question;
use crate::channel::stream::Pending;
use crate::channel::tracing::Tracing;
use crate::fold::only::Only;
use crate::fold::simulated::Simulate;
use crate::kernel::inherited::Inherited;
use crate::serve::failure::RecordError;
use crate::serve::persist::Store;
use crate::serve::stress::Stress;
use crate::takeover::keeper::Length;
use crate::windows::bursts;
use crate::windows::sampling::Sampling;
use crate::windows::toll::{self, Toll};

/// Options of a recording.
#[derive(Clone, Debug)]
pub struct RecordOptions {
    /// The program, found and checked.
    pub program: Program,
    /// Its argument vector, the name as typed first.
    pub arguments: Vec<OsString>,
    /// State that the program inherits as Trommel did.
    pub inherited: Inherited,
    /// Events to collect.
    pub kinds: KindSet,
    /// Counts calling contexts, with a function on a path as often as this at most; 0: does not.
    pub contexts: u32,
    /// The compressor.
    pub compressor: Spec,
    /// File for all events, in order.
    pub stream: Option<PathBuf>,
    /// Ends the program once the stream has this many events.
    pub stream_limit: Option<u64>,
    /// Bytes that counts of values may take; by default a quarter of what is available, at most 2 GiB.
    pub memory: Option<u64>,
    /// Places to observe; everything when empty.
    pub only: Vec<Only>,
    /// Children and the programs that they execute are observed too.
    pub follow: bool,
    /// Question that the queries ask; kept for as long as symbols are.
    pub question: Option<&'static Question>,
    /// File for their messages.
    pub messages: Option<PathBuf>,
    /// Services that get their messages, too.
    pub services: Vec<Foreign>,
    /// Words of their messages that go through the compressor, if they do.
    pub chosen: Option<Chosen>,
    /// Module that windows are given to; with queries there is none.
    pub custom: Option<custom::Named>,
    /// Traces. With events there are none.
    pub tracing: Tracing,
    /// Looks at the program in windows only.
    pub sampling: Option<Sampling>,
    /// Controls processes in bursts instead. A running one has [`Self::check_bursts`]; a program that is started runs natively for as long
    /// as [`Tracing::after`] says.
    pub bursts: bool,
    /// Places whose values are known, as shares differ by less than so many percent, are not profiled on. Only where the target counts by
    /// itself.
    pub converge: Option<f64>,
    /// Prefetches loads that miss by a regular distance. With queries there are none.
    pub prefetch: bool,
    /// Caches and predictors to simulate, and lines to look at. Not in windows, and with no queries.
    pub simulate: Option<Simulate>,
    /// News has the state of the run once a second.
    pub progress: bool,
    /// Stress options of the runtime, see `docs/testing.md`.
    pub stress: Stress,
    /// Store of fragments for later runs.
    pub persist: Option<Store>,
}

impl RecordOptions {
    /// Returns true if queries may be loaded and removed: a compressor knows those of the start only.
    pub(super) fn changes_queries(&self) -> bool {
        self.chosen.is_none() && self.question.is_some_and(Question::may_change)
    }

    /// The kinds that targets record.
    pub(super) fn recorded(&self) -> KindSet {
        let kinds = self.kinds.recorded();
        match self.simulate.is_some_and(|simulate| simulate.sharing) {
            true => kinds.with(Kind::Address),
            false => kinds,
        }
    }

    /// Measures the cost of a signal, where windows are enabled.
    pub(super) fn toll(&self) -> Result<Option<Toll>, RecordError> {
        let windows = self.sampling.filter(|_| !self.bursts);
        let measure = windows.map(|_| toll::measure());
        measure.transpose().map_err(RecordError::Windows)
    }

    /// Length of bursts, where there are any.
    pub(super) fn length_of_bursts(&self) -> Option<Length> {
        let budget = self.sampling.map_or(0.0, |wanted| wanted.budget);
        self.bursts.then_some(match self.stress.bursts {
            0 => Length::Cpu(bursts::length(budget)),
            micros => Length::Random(Duration::from_micros(micros.into())),
        })
    }

    /// Threads of a process at most that is controlled in bursts: each must have a counter array.
    pub const MOST_THREADS: usize = COUNTER_ARRAYS;

    /// Returns whether a running process can be controlled in bursts. One that is gone fails otherwise.
    pub fn check_bursts(pid: i32) -> bool {
        let threads = fs::read_dir(format!("/proc/{pid}/task"));
        threads.map_or(true, |threads| threads.count() <= Self::MOST_THREADS)
    }

    /// The stream file, if one is wanted, with the number of events that are enough.
    pub(super) fn stream(&self) -> Result<Option<(Pending, Option<u64>)>, RecordError> {
        let open = |path: &PathBuf| {
            let file = Pending::open(path).map_err(|error| RecordError::Stream {
                path: path.clone(),
                error,
            })?;
            Ok((file, self.stream_limit))
        };
        self.stream.as_ref().map(open).transpose()
    }
}
