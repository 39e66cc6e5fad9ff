//! The seam to the engine: what the command line says, in the host's terms.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use trommel_compress::Spec;
use trommel_host::ask::custom::Named;
use trommel_host::ask::service::{Chosen, Foreign};
use trommel_host::channel::question::Question;
use trommel_host::channel::tracing::Tracing;
use trommel_host::fold::only;
use trommel_host::fold::simulated::Simulate;
use trommel_host::kernel::inherited::Inherited;
use trommel_host::kernel::interrupt::Guard;
use trommel_host::kernel::running::{self, Refusal};
use trommel_host::serve::attached;
use trommel_host::serve::engine::Engine;
use trommel_host::serve::epochs::Epochs;
use trommel_host::serve::failure::RecordError;
use trommel_host::serve::news::News;
use trommel_host::serve::options::RecordOptions;
use trommel_host::serve::persist::Store;
use trommel_host::serve::record;
use trommel_host::serve::recording::Recording;
use trommel_host::windows::sampling::Sampling;
use trommel_profile::Profile;
use trommel_query::Program as Query;
use trommel_query::throttle::Together;
use trommel_symbol::launch::Program;
use trommel_tuple::{KindSet, Vaddr};

use crate::args::Only;
use crate::caches;
use crate::compress;
use crate::exit::ProgramEnd;
use crate::inherited;
use crate::news;
use crate::others::Others;
use crate::status::Status;

/// Options of the runtime for tests, from the environment: see `docs/testing.md`.
const STRESS: &str = "TROMMEL_STRESS";

/// Seed of random numbers of queries.
const QUERY_SEED: u64 = 1;

/// Settings of a recording. They have been checked as far as possible without running anything.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// The program that was found.
    pub(crate) program: Program,
    /// Its argument vector, the name as typed first.
    pub(crate) arguments: Vec<OsString>,
    /// State that the program would inherit without us.
    pub(crate) inherited: Inherited,
    /// Events to collect.
    pub(crate) kinds: KindSet,
    /// Counts calling contexts, with a function on a path as often as this at most; 0: does not.
    pub(crate) contexts: u32,
    /// The compressor.
    pub(crate) compressor: Spec,
    /// Queries to ask.
    pub(crate) question: Option<&'static Question>,
    /// File for the messages of queries.
    pub(crate) messages: Option<PathBuf>,
    /// Services that get messages too.
    pub(crate) services: Vec<Foreign>,
    /// Words of their messages that go through the compressor.
    pub(crate) chosen: Option<Chosen>,
    /// Customisation module that gets windows.
    pub(crate) custom: Option<Named>,
    /// File for every event, in order.
    pub(crate) stream: Option<PathBuf>,
    /// Ends the program once the stream has this many events.
    pub(crate) stream_limit: Option<u64>,
    /// Bytes that counts of values may take.
    pub(crate) memory: Option<u64>,
    /// Code to observe; everything when empty.
    pub(crate) only: Vec<Only>,
    /// Observe children and the programs that they execute too.
    pub(crate) follow: bool,
    /// Keep fragments for the next run.
    pub(crate) persist: bool,
    /// Looks at the program in windows only.
    pub(crate) sampling: Option<Sampling>,
    /// Controls a running program in bursts instead.
    pub(crate) bursts: bool,
    /// Traces.
    pub(crate) tracing: Tracing,
    /// Places whose values are known, as shares differ by less than so many percent, are not profiled on.
    pub(crate) converge: Option<f64>,
    /// Caches and predictors to simulate.
    pub(crate) simulate: Option<Simulate>,
    /// Set to prefetch loads that miss at regular distances.
    pub(crate) prefetch: bool,
    /// Shows the state of the run on a terminal.
    pub(crate) progress: bool,
}

impl Options {
    /// Exact counts of these kinds in one process, and nothing else.
    pub(crate) fn of(program: Program, arguments: Vec<OsString>, kinds: KindSet) -> Result<Self> {
        Ok(Self {
            program,
            arguments,
            inherited: inherited::inherited(),
            kinds,
            contexts: 0,
            compressor: compress::parse("exact")?,
            question: None,
            messages: None,
            services: Vec::new(),
            chosen: None,
            custom: None,
            stream: None,
            stream_limit: None,
            memory: None,
            only: Vec::new(),
            follow: false,
            persist: false,
            sampling: None,
            bursts: false,
            tracing: Tracing::NONE,
            converge: None,
            simulate: None,
            prefetch: false,
            progress: false,
        })
    }
}

/// Returns what a running process executes, and its arguments.
pub(crate) fn running(pid: i32) -> Result<(Program, Vec<OsString>)> {
    let refused = |refusal: Refusal| RecordError::NotAttached {
        pid,
        why: refusal.into(),
    };
    let running = running::look(pid).map_err(refused)?;
    let program = Program {
        path: running.program.clone(),
        scripts: Vec::new(),
        elf: running.program,
        image: running.image,
    };
    Ok((program, running.arguments))
}

/// Collects events of a running process until it ends, is detached after `duration`, or `guard` is
/// interrupted.
pub(crate) fn record_running(
    options: Options,
    pid: i32,
    duration: Option<Duration>,
    guard: &Guard,
) -> Result<(Recording, ProgramEnd)> {
    let notice = &mut news::say;
    let recording = record_epochs(options, pid, duration, guard, notice, None)?;
    Ok((recording, ProgramEnd::Exited(0)))
}

/// Records a running process as [`record_running`] does; with `epochs` profiles are given away meanwhile, and the recording has the rest.
pub(crate) fn record_epochs(
    options: Options,
    pid: i32,
    duration: Option<Duration>,
    guard: &Guard,
    notice: &mut dyn FnMut(News),
    epochs: Option<Epochs<'_>>,
) -> Result<Recording> {
    let mut options = to_host(options)?;
    options.follow = false;
    anyhow::ensure!(
        options.stress.window == 0,
        "{STRESS}: windows are for programs that `record` starts"
    );
    let recording = attached::record_running(&options, pid, duration, guard, notice, epochs)?;
    Ok(recording)
}

/// Queries that may change while they are asked. `by_window`: in windows alone. `together`: percent of each thread's time that all
/// with `every auto` may take.
pub(crate) fn question(
    name: String,
    program: Query,
    by_window: bool,
    together: Option<f64>,
) -> Result<&'static Question> {
    let question = Question::new(program, QUERY_SEED, stress()?.rates).changing(name);
    let question = question.together(together.and_then(Together::percent));
    let question = match by_window {
        true => question.by_window(),
        false => question,
    };
    Ok(Box::leak(Box::new(question)))
}

fn to_host(options: Options) -> Result<RecordOptions> {
    let only = |only: &Only| match only {
        Only::Name(name) => only::Only::Name(name.clone()),
        Only::Range(low, high) => only::Only::Range(Vaddr(*low), Vaddr(*high)),
    };
    let stress = stress()?;
    Ok(RecordOptions {
        program: options.program,
        arguments: options.arguments,
        inherited: options.inherited,
        kinds: options.kinds,
        contexts: options.contexts,
        compressor: options.compressor,
        question: options.question,
        messages: options.messages,
        services: options.services,
        chosen: options.chosen,
        custom: options.custom,
        stream: options.stream,
        stream_limit: options.stream_limit,
        memory: options.memory,
        only: options.only.iter().map(only).collect(),
        follow: options.follow,
        persist: caches::directory()
            .filter(|_| options.persist)
            .and_then(|caches| Store::open(&caches.join("fragments"))),
        sampling: options.sampling,
        bursts: options.bursts,
        tracing: options.tracing,
        converge: options.converge,
        simulate: options.simulate,
        prefetch: options.prefetch,
        progress: options.progress,
        stress,
    })
}

/// Runs the program and collects its events. `guard` keeps interrupts from us; `others` keeps the
/// processes that it starts, and `engine` is told what was done with each.
pub(crate) fn record(
    options: Options,
    guard: &Guard,
    others: &mut Others,
    engine: &mut dyn FnMut(&Profile, Engine),
) -> Result<(Recording, ProgramEnd)> {
    let done = run(options, guard, &mut |profile, of| {
        engine(&profile, of);
        others.keep(profile);
    })?;
    others.sort();
    Ok(done)
}

/// Records a program as [`record`](fn@record) does; `others` gets the profile of each further process.
pub(crate) fn run(
    options: Options,
    guard: &Guard,
    others: &mut dyn FnMut(Profile, Engine),
) -> Result<(Recording, ProgramEnd)> {
    let mut status = Status::of_terminal();
    let mut options = to_host(options)?;
    options.progress &= status.is_some();
    let mut notice = |news| match (&mut status, news) {
        (Some(status), News::Progress(state)) => status.show(&state),
        (Some(status), news) => {
            status.erase();
            news::say(news);
        }
        (None, news) => news::say(news),
    };
    let recording = record::record(&options, guard, &mut notice, others);
    if let Some(status) = &mut status {
        status.erase();
    }
    let recording = recording?;
    let outcome = match recording.ended.status {
        _ if recording.limited => ProgramEnd::Exited(0),
        Some(status) if status < 0 => ProgramEnd::Signaled(-status),
        Some(status) => ProgramEnd::Exited(status as u8),
        None => ProgramEnd::Exited(1),
    };
    Ok((recording, outcome))
}

/// Returns what tests make common.
pub(crate) fn stress() -> Result<trommel_host::serve::stress::Stress> {
    match std::env::var(STRESS) {
        Ok(text) => {
            trommel_host::serve::stress::parse(&text).map_err(|e| anyhow::anyhow!("{STRESS}: {e}"))
        }
        Err(_) => Ok(Default::default()),
    }
}
