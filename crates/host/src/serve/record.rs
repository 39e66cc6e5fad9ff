//! A program recorded from its first instruction to its end, and the processes that it starts.
//!
//!
//! Here is what goes in and what comes out; [`crate::serve::session`] does it.

mod attached;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;

use trommel_compress::Spec;
use trommel_profile::Profile;
pub use trommel_queue::Optimise;
use trommel_symbol::launch::Program;
use trommel_tuple::KindSet;

pub use attached::{NotAttached, record_running};

use crate::ask::custom;
use crate::ask::prefetch;
use crate::ask::service::Foreign;
use crate::channel::bell;
use crate::channel::family::Family;
use crate::channel::question::Question;
use crate::channel::shared::Shared;
use crate::channel::stream::Pending;
use crate::channel::tracing::Tracing;
use crate::fold::only::Only;
use crate::kernel::interrupt::Guard;
use crate::ptrace::ended::Ended;
use crate::ptrace::launch::{Command, Inherited, LaunchFailure, launch, start};
use crate::serve::audit::Shares;
use crate::serve::persist::{Keeping, Store};
use crate::serve::process::{Identity, Turns};
use crate::serve::progress::Progress;
use crate::serve::series::{Figures, Sample};
pub use crate::serve::session::Epochs;
use crate::serve::session::Session;
use crate::serve::stress::Stress;
use crate::windows::sampling::Sampling;
use crate::windows::toll::{self, Toll};

/// What to record.
#[derive(Clone, Debug)]
pub struct RecordOptions {
    /// The program, found and checked.
    pub program: Program,
    /// Its argument vector, the name as typed first.
    pub arguments: Vec<OsString>,
    /// What the program is to find as we did.
    pub inherited: Inherited,
    /// Events to collect.
    pub kinds: KindSet,
    /// The compressor.
    pub compressor: Spec,
    /// Where every event goes, in order.
    pub stream: Option<PathBuf>,
    /// Ends the program once the stream has this many events.
    pub stream_limit: Option<u64>,
    /// Bytes that counts of values may take; by default a quarter of what is available, at most 2 GiB.
    pub memory: Option<u64>,
    /// What to observe; everything when empty.
    pub only: Vec<Only>,
    /// Children and the programs that they execute are observed too.
    pub follow: bool,
    /// What is asked by queries; kept for as long as symbols are.
    pub question: Option<&'static Question>,
    /// Where their messages are written, too.
    pub messages: Option<PathBuf>,
    /// What else they go to.
    pub services: Vec<Foreign>,
    /// What windows are given to; with queries there is none.
    pub custom: Option<custom::Named>,
    /// Traces. With events there are none.
    pub tracing: Tracing,
    /// Looks at the program in windows only.
    pub sampling: Option<Sampling>,
    /// Places whose values are known, as shares differ by less than so many percent, are not profiled on. Only where the target counts by
    /// itself.
    pub converge: Option<f64>,
    /// What misses by a regular distance is prefetched. With queries nothing is.
    pub prefetch: bool,
    /// Stress options of the runtime, see `docs/testing.md`.
    pub stress: Stress,
    /// Where fragments are kept for later runs.
    pub persist: Option<Store>,
}

/// A finished run.
#[derive(Clone, Debug)]
pub struct Recording {
    /// What was collected in the first process, until it became another program or ended.
    pub profile: Profile,
    /// How the program ended.
    pub ended: Ended,
    /// Whether we ended it, as its stream had all the events that were wanted.
    pub limited: bool,
    /// What the engine did in the first process.
    pub engine: Engine,
    /// Whether all of the stream, if one was wanted, is in its file.
    pub stream_whole: bool,
}

/// The engine's own figures.
#[derive(Clone, Debug, Default)]
pub struct Engine {
    /// Fragments made.
    pub fragments: u64,
    /// App instructions in them.
    pub instructions: u64,
    /// Of them, those taken from earlier runs.
    pub kept_fragments: u64,
    /// Traces made.
    pub traces: u64,
    /// App instructions in them.
    pub trace_instructions: u64,
    /// Bytes of code in them.
    pub trace_bytes: u64,
    /// Paths that were recorded and of which no trace was made.
    pub traces_abandoned: u64,
    /// Returns to the dispatcher.
    pub dispatches: u64,
    /// Indirect branches that the inline lookup did not find.
    pub indirect_misses: u64,
    /// System calls the runtime handled.
    pub syscalls: u64,
    /// Signals delivered to handlers.
    pub signals: u64,
    /// Bytes of code cache.
    pub cache_bytes: u64,
    /// Times code was dropped because it changed or the cache was full.
    pub invalidations: u64,
    /// Children started, which ran natively.
    pub children: u64,
    /// Bytes of records.
    pub record_bytes: u64,
    /// What it did, and how long that took.
    pub figures: Figures,
    /// The same over time, if that was asked for.
    pub series: Vec<Sample>,
    /// When and why it was attached, and when it was detached.
    pub turns: Turns,
    /// What samples of its program counters found, if some were taken.
    pub shares: Option<Shares>,
    /// How it got on natively and under control, if that was found out.
    pub progress: Option<Progress>,
    /// What was found to prefetch, if that was asked for.
    pub prefetch: Option<prefetch::Report>,
}

/// Why a run could not be recorded at all.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The program did not start.
    #[error("{}: {failure}", .program.display())]
    Launch {
        /// The program.
        program: PathBuf,
        /// Why.
        failure: LaunchFailure,
    },
    /// A running program was not taken under control.
    #[error("process {pid}: {why}")]
    NotAttached {
        /// The process.
        pid: i32,
        /// Why.
        why: NotAttached,
    },
    /// No shared memory.
    #[error(
        "cannot make the memory shared with the program: {0}; `trommel doctor` tells what is in the way"
    )]
    Shared(std::io::Error),
    /// The program has no room for the runtime, or may not have it.
    #[error("{}: the runtime cannot start in it: a limit or a sandbox refuses it memory; `trommel doctor` tells which", .program.display())]
    NotStarted {
        /// The program; nothing of it has run.
        program: PathBuf,
    },
    /// No windows.
    #[error(
        "no windows can be begun: the kernel refuses perf events: {0}; sysctl kernel.perf_event_paranoid must be 2 or less, or give this command CAP_PERFMON"
    )]
    Windows(std::io::Error),
    /// No file for messages.
    #[error("{}: cannot write messages: {error}", .path.display())]
    Messages {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// A service that cannot do its work.
    #[error("service {name}: {why}")]
    Service {
        /// What it is called.
        name: String,
        /// As it says.
        why: String,
    },
    /// A customisation module that cannot be used.
    #[error("customisation module {name}: {why}")]
    Custom {
        /// What it is called.
        name: String,
        /// What is wrong with it.
        why: custom::Refusal,
    },
    /// No stream file.
    #[error("{}: cannot write the event stream: {error}", .path.display())]
    Stream {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
}

/// Runs the program and collects its events. `notice` gets, as it happens, what the user should
/// know: one line each. `others` gets the profile of each further process when that ends, and what its engine did. While it runs, `guard` gives it the interrupts; who writes the profile keeps
/// the guard until that is done.
///
/// Must be called while this process has one thread.
///
/// # Errors
/// Why there is nothing to record.
pub fn record(
    options: &RecordOptions,
    guard: &Guard,
    notice: &mut dyn FnMut(&str),
    others: &mut dyn FnMut(Profile, Engine),
) -> Result<Recording, RecordError> {
    let toll = toll(options)?;
    if options.tracing.late().is_some() {
        return record_late(options, guard, notice, others);
    }
    let family = Family::new().map_err(RecordError::Shared)?;
    let mut session = Session::new(options, toll, notice, others)?;
    let shared = Shared::first(&family, session.terms()).map_err(RecordError::Shared)?;
    let stream = stream_for(options)?;
    session.begins();
    let command = command(options, guard);
    let keeping = session.kept(&options.program.elf);
    if keeping.is_some() {
        shared.control().persist.store(1, Relaxed);
    }
    let kept = keeping.as_ref().and_then(Keeping::file);
    let launched = launch(&command, family.fd(), kept, || shared.warm());
    let pid = launched.map_err(|failure| RecordError::Launch {
        program: options.program.path.clone(),
        failure,
    })?;
    guard.program(pid);
    let watch = bell::watch();
    let stream = stream.map(|(file, limit)| (file.begin(), limit));
    let identity = Identity::first(pid, &options.arguments);
    if let Some(keeping) = keeping {
        session.will_keep(&shared, keeping);
    }
    session.first(identity, shared, stream);
    session.serve(None);
    guard.ended();
    drop(watch);
    session.conclude()
}

fn command<'a>(options: &'a RecordOptions, guard: &'a Guard) -> Command<'a> {
    Command {
        file: &options.program.path,
        args: options.arguments.iter().map(OsString::as_os_str).collect(),
        inherited: options.inherited,
        guard,
    }
}

/// As [`record`], of programs that run natively at first.
fn record_late(
    options: &RecordOptions,
    guard: &Guard,
    notice: &mut dyn FnMut(&str),
    others: &mut dyn FnMut(Profile, Engine),
) -> Result<Recording, RecordError> {
    let mut session = Session::new(options, None, notice, others)?;
    session.begins();
    let watch = bell::watch();
    let started = start(&command(options, guard));
    let pid = started.map_err(|failure| RecordError::Launch {
        program: options.program.path.clone(),
        failure,
    })?;
    guard.program(pid);
    session.first_natively(pid);
    session.serve(None);
    guard.ended();
    drop(watch);
    session.conclude()
}

/// Whether windows can be begun here.
///
/// # Errors
/// The kernel refuses.
pub fn check_windows() -> Result<(), RecordError> {
    toll::measure().map(drop).map_err(RecordError::Windows)
}

/// What a signal costs, where windows are wanted.
fn toll(options: &RecordOptions) -> Result<Option<Toll>, RecordError> {
    let measure = options.sampling.map(|_| toll::measure());
    measure.transpose().map_err(RecordError::Windows)
}

/// The stream file, if one is wanted, with the number of events that are enough.
fn stream_for(options: &RecordOptions) -> Result<Option<(Pending, Option<u64>)>, RecordError> {
    let open = |path: &PathBuf| {
        let file = Pending::open(path).map_err(|error| RecordError::Stream {
            path: path.clone(),
            error,
        })?;
        Ok((file, options.stream_limit))
    };
    options.stream.as_ref().map(open).transpose()
}
