//! Plan of a recording: all that its arguments say, checked before anything starts.
//!
//! # Strategy
//! First comes what is wanted ([`Wanted`]): compressor, queries, plug-in and kinds decide about each other. Then what goes with
//! that: services, simulated caches, convergence. Then the program is found, and the destinations are tried.

use std::ffi::{CString, OsString};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use trommel_compress::{Spec, note};
use trommel_host::ask::custom::Named;
use trommel_host::ask::service::{Chosen, Foreign, NotChosen};
use trommel_host::channel::tracing::Tracing;
use trommel_host::fold::is_exact;
use trommel_host::serve::control::client::name_of;
use trommel_host::windows::bursts::Bursts;
use trommel_host::windows::sampling::Sampling;
use trommel_query::Program;
use trommel_query::pair::Word;
use trommel_symbol::launch;
use trommel_tuple::{Kind, KindSet};

use super::checks::{self, check_callers, check_custom, check_kinds, check_query_kinds};
use super::{CHEAP_KINDS, TIMED_WINDOW, USUAL_KINDS, forecast};
use crate::args::{Events, ModuleSpec, RecordArgs};
use crate::compress;
use crate::host::{self, Options};
use crate::inherited;
use crate::output;
use crate::page;
use crate::pipes::{self, Held};
use crate::query;
use crate::report::summary::Focus;
use crate::services::{self, Offered};
use crate::simulate;

/// Windows in a second where only their length is given.
const USUAL_RATE: f64 = 1000.0;

/// A recording that can begin.
pub(super) struct Plan {
    pub(super) options: Options,
    /// Readers of its outputs, until all is written.
    pub(super) outputs: Vec<Held>,
    /// Purpose of the summary.
    pub(super) focus: Focus,
    /// Words about the cost, where it is much.
    pub(super) costly: Option<String>,
}

/// Events and means that the arguments name.
struct Wanted {
    compressor: Spec,
    /// Times that a function may be on a path; 0: contexts are not counted.
    contexts: u32,
    question: Option<Program>,
    /// Words of messages that go through the compressor.
    chosen: Option<Chosen>,
    custom: Option<Named>,
    kinds: KindSet,
    /// Windows were asked for.
    by_windows: bool,
    /// There are windows, asked for or as a stress option.
    in_windows: bool,
    /// The budget is spent on bursts.
    in_bursts: bool,
}

/// Wishes of a recording beside events.
#[derive(Clone, Copy)]
struct Asked {
    /// Answers to queries.
    queries: bool,
    /// Pairs that a plug-in makes of windows.
    plugin: bool,
    /// Lines of memory that threads hand over.
    sharing: bool,
    /// Values, by an option that is about them.
    values: bool,
}

/// Plans the recording. Gives back the arguments that it does not take.
///
/// # Errors
/// What is wrong with the arguments, the program, or a destination.
pub(super) fn of(mut args: RecordArgs) -> Result<(Plan, RecordArgs)> {
    let wanted = wanted(&args)?;
    let services = services(&args, &wanted)?;
    let simulate = simulate::asked(&args, wanted.kinds, wanted.in_windows)?;
    if args.by_caller {
        check_callers(wanted.kinds, wanted.by_windows)?;
    }
    if let Some(custom) = &wanted.custom {
        check_custom(custom, wanted.kinds, wanted.by_windows)?;
    }
    let focus = focus(
        args.events,
        wanted.kinds,
        Asked {
            queries: wanted.question.is_some(),
            plugin: wanted.custom.is_some(),
            sharing: simulate.is_some_and(|simulate| simulate.sharing),
            values: args.exact_values || args.converge.is_some(),
        },
    );
    let (kinds, in_windows) = (wanted.kinds, wanted.in_windows);
    let converge = checks::converge(&args, &wanted.compressor, kinds, in_windows)?;
    let queries = wanted.question.as_ref().map(Program::queries);
    let counted_down = queries.and_then(|all| query::forecast::of(&all, args.query_budget));
    let costly = forecast::of(&args, &wanted.compressor, kinds, converge, in_windows);
    let costly = costly.or(counted_down);
    let (program, arguments) = program(&mut args)?;
    let outputs = check_destinations(&args)?;
    let sampling = sampling(&args, &wanted);
    let natively = match args.budget {
        Some(budget) if wanted.in_bursts && args.pid.is_none() => Bursts::begins_after(budget),
        _ => Duration::ZERO,
    };
    let options = Options {
        program,
        arguments,
        inherited: inherited::inherited(),
        kinds,
        contexts: wanted.contexts,
        question: wanted
            .question
            .zip(args.query.as_deref())
            .map(|(program, file)| {
                let by_window = sampling.is_some();
                host::question(name_of(file), program, by_window, args.query_budget)
            })
            .transpose()?,
        messages: args.messages.take(),
        services,
        chosen: wanted.chosen,
        custom: wanted.custom,
        compressor: wanted.compressor,
        stream: args.stream.clone(),
        stream_limit: args.stream_limit,
        memory: args.memory,
        only: std::mem::take(&mut args.only),
        follow: !args.no_follow,
        persist: !args.no_persist,
        sampling,
        bursts: wanted.in_bursts,
        tracing: Tracing {
            after: natively,
            ..Tracing::OBSERVED
        },
        converge,
        simulate,
        prefetch: false,
        progress: !args.quiet && args.pid.is_none(),
    };
    let plan = Plan {
        options,
        outputs,
        focus,
        costly,
    };
    Ok((plan, args))
}

/// Events and means that the arguments name, checked against each other.
fn wanted(args: &RecordArgs) -> Result<Wanted> {
    let compressor = compress::parse(args.compressor.as_deref().unwrap_or("exact"))?;
    if let Some(warning) = note(&compressor).filter(|_| !args.quiet) {
        output::complain(&warning);
    }
    let contexts = checks::contexts(args, &compressor)?;
    let question = args.query.as_deref().map(query::question).transpose()?;
    let chosen = question
        .as_ref()
        .map(|q| chosen(&args.tuple, &compressor, q, args.events.is_some()));
    let chosen = chosen.transpose()?.flatten();
    let custom = args.module_lib.clone().map(named);
    let by_windows = args.budget.is_some() || args.rate.is_some() || args.window.is_some();
    if let Some(question) = question.as_ref().filter(|_| by_windows) {
        checks::check_query(question, args)?;
    }
    let in_windows = by_windows || host::stress()?.window != 0;
    let counts_all =
        compressor.to_string() == "exact" && args.converge.is_none() && !args.exact_values;
    let given = args.events.map(|events| events.kinds);
    let in_bursts = checks::in_bursts(args, given)?;
    let is_cheap = in_bursts || counts_all && !in_windows && args.stream.is_none();
    let kinds = given.unwrap_or(match (&question, &custom) {
        (None, None) if is_cheap => CHEAP_KINDS.into_iter().collect(),
        (None, None) => USUAL_KINDS.into_iter().collect(),
        _ => KindSet::NONE,
    });
    check_query_kinds(question.is_some(), kinds)?;
    check_kinds(kinds, in_windows, !args.only.is_empty())?;
    if args.query_budget.is_some() {
        checks::tell_idle_budget(question.as_ref());
    }
    Ok(Wanted {
        compressor,
        contexts,
        question,
        chosen,
        custom,
        kinds,
        by_windows,
        in_windows,
        in_bursts,
    })
}

/// Loads the services, for what there is for them.
fn services(args: &RecordArgs, wanted: &Wanted) -> Result<Vec<Foreign>> {
    let offered = Offered {
        question: wanted.question.as_ref(),
        loads: wanted.chosen.is_none(),
        intervals: wanted.compressor.interval().is_some() && !wanted.kinds.is_empty(),
    };
    services::load(&args.service, &offered)
}

/// The program, and its words as typed: what is to be executed, or runs already.
fn program(args: &mut RecordArgs) -> Result<(launch::Program, Vec<OsString>)> {
    let Some(pid) = args.pid else {
        let path = std::env::var_os("PATH");
        let mut words = std::mem::take(&mut args.program);
        let program = launch::resolve_command(&mut words, path.as_deref())?;
        return Ok((program, words));
    };
    host::running(pid)
}

/// Checks where the results go, and waits for readers of pipes among them.
fn check_destinations(args: &RecordArgs) -> Result<Vec<Held>> {
    trommel_store::check_destination(&args.output)?;
    if let Some(page) = &args.html {
        page::check(page)?;
    }
    if let Some(stream) = &args.stream {
        trommel_store::check_destination(stream)?;
    }
    let others = [&args.html, &args.stream, &args.messages];
    let others = others.into_iter().flatten();
    pipes::wait_for_all(
        std::iter::once(&args.output)
            .chain(others)
            .map(PathBuf::as_path),
    )
}

/// Windows, where they were asked for.
fn sampling(args: &RecordArgs, wanted: &Wanted) -> Option<Sampling> {
    let timed = wanted.kinds.has(Kind::Latency).then_some(TIMED_WINDOW);
    wanted.by_windows.then(|| Sampling {
        // Where rate or length is given and no budget, that is what is wanted, whatever it costs.
        budget: args.budget.unwrap_or(0.0),
        rate: args.rate.or(args.budget.is_none().then_some(USUAL_RATE)),
        length: args.window.or(timed),
        skip: args.skip,
        by_caller: args.by_caller,
    })
}

/// Words of messages that go through the compressor, if they do.
/// `events`: there are events that it compresses, too.
fn chosen(
    fields: &[Word],
    spec: &Spec,
    question: &Program,
    events: bool,
) -> Result<Option<Chosen>> {
    if is_exact(spec) {
        if !fields.is_empty() {
            bail!("--tuple is for a compressor: name one, as in -c 'H[P256]2048+A16'");
        }
        return Ok(None);
    }
    match Chosen::new(question, fields) {
        Ok(chosen) => Ok(Some(chosen)),
        Err(NotChosen::NoMessages) if fields.is_empty() && events => Ok(None),
        Err(why @ NotChosen::NoMessages) => {
            bail!(
                "-c {spec}: {why}, and nothing else is recorded: leave out -c, or name events by -e"
            )
        }
        Err(why) => bail!("-c {spec}: {why}"),
    }
}

/// The module that is named.
fn named(spec: ModuleSpec) -> Named {
    Named {
        name: spec.name,
        library: spec.library,
        // Words of a command line hold no 0.
        argument: CString::new(spec.argument).unwrap_or_default(),
    }
}

/// Purpose of the recording: what was named, or functions.
fn focus(events: Option<Events>, kinds: KindSet, asked: Asked) -> Focus {
    const OTHERS: [Kind; 4] = [Kind::Latency, Kind::Address, Kind::Type, Kind::Path];
    let named = events.is_some_and(|events| !events.kinds.is_empty());
    match asked {
        Asked { queries: true, .. } => Focus::Messages,
        Asked { plugin: true, .. } => Focus::Plugin,
        Asked { sharing: true, .. } => Focus::Sharing,
        _ if events.is_some_and(|events| events.contexts) => Focus::Contexts,
        Asked { values: true, .. } => Focus::Values,
        _ if named && kinds.has(Kind::Value) => Focus::Values,
        _ => match OTHERS.into_iter().find(|kind| kinds.has(*kind)) {
            Some(kind) => Focus::Kind(kind),
            None => Focus::Functions,
        },
    }
}
