//! `trommel record`: run a program, write its profile, say what was found.
//!
//! All that can be wrong with the arguments is found before the program starts: the program
//! itself, the destination, the compressor. Once the program has run, its profile is written
//! first; the summary comes after and cannot lose it.

mod checks;
mod forecast;

use std::borrow::Cow;
use std::ffi::CString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use trommel_compress::Spec;
use trommel_host::ask::custom::Named;
use trommel_host::ask::service::{Chosen, NotChosen};
use trommel_host::channel::tracing::Tracing;
use trommel_host::fold::is_exact;
use trommel_host::kernel::interrupt;
use trommel_host::serve::control::client::name_of;
use trommel_host::windows::bursts::Bursts;
use trommel_host::windows::sampling::Sampling;
use trommel_profile::Profile;
use trommel_query::Program;
use trommel_query::pair::Word;
use trommel_store::Written;
use trommel_symbol::launch;
use trommel_tuple::{Kind, KindSet};

use crate::args::{Events, ModuleSpec, RecordArgs};
use crate::compress;
use crate::exit::{self, ProgramEnd};
use crate::host::{self, Options};
use crate::inherited;
use crate::machine;
use crate::next::next_steps;
use crate::others::Others;
use crate::output;
use crate::page;
use crate::query;
use crate::report::summary::{self, Focus};
use crate::services::{self, Offered};
use crate::simulate;
use crate::stats;
use checks::check_custom;
pub(crate) use checks::{check_callers, check_kinds, check_query_kinds};

/// Windows in a second where only their length is given.
const USUAL_RATE: f64 = 1000.0;

/// Instructions of a window in which latencies are measured, where nothing is said: what beginning it has displaced in the
/// first cache is a small part of what it sees.
pub(crate) const TIMED_WINDOW: u32 = 4096;

/// Events where none are named, no queries are put and all of them are cheap: sampled, or written to a stream.
pub(crate) const USUAL_KINDS: [Kind; 3] = [Kind::Edge, Kind::Call, Kind::Value];
/// Events where each is counted: values would cost several times as much, and functions and loops follow from these.
pub(crate) const CHEAP_KINDS: [Kind; 2] = [Kind::Edge, Kind::Call];

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

/// Runs the command.
pub(crate) fn run(args: RecordArgs) -> Result<ExitCode> {
    let stacks = args.events.is_some_and(|events| events.stacks);
    if args.all || args.samples || stacks {
        return machine::run(args);
    }
    let compressor = compress::parse(args.compressor.as_deref().unwrap_or("exact"))?;
    let contexts = checks::contexts(&args, &compressor)?;
    let question = args.query.as_deref().map(query::question).transpose()?;
    let chosen = question
        .as_ref()
        .map(|q| chosen(&args.tuple, &compressor, q, args.events.is_some()));
    let chosen = chosen.transpose()?.flatten();
    let custom = args.module_lib.clone().map(named);
    let by_windows = args.budget.is_some() || args.rate.is_some() || args.window.is_some();
    if let Some(question) = question.as_ref().filter(|_| by_windows) {
        checks::check_query(question, &args)?;
    }
    let in_windows = by_windows || host::stress()?.window != 0;
    let counts_all =
        compressor.to_string() == "exact" && args.converge.is_none() && !args.exact_values;
    let given = args.events.map(|events| events.kinds);
    let in_bursts = checks::in_bursts(&args, given)?;
    let kinds = given.unwrap_or(match (&question, &custom) {
        (None, None) if in_bursts => CHEAP_KINDS.into_iter().collect(),
        (None, None) if counts_all && !in_windows && args.stream.is_none() => {
            CHEAP_KINDS.into_iter().collect()
        }
        (None, None) => USUAL_KINDS.into_iter().collect(),
        _ => KindSet::NONE,
    });
    check_query_kinds(question.is_some(), kinds)?;
    check_kinds(kinds, in_windows, !args.only.is_empty())?;
    if args.query_budget.is_some() {
        checks::tell_idle_budget(question.as_ref());
    }
    let intervals = compressor.interval().is_some() && !kinds.is_empty();
    let offered = Offered {
        question: question.as_ref(),
        loads: chosen.is_none(),
        intervals,
    };
    let services = services::load(&args.service, &offered)?;
    let simulate = simulate::asked(&args, kinds, in_windows)?;
    if args.by_caller {
        check_callers(kinds, by_windows)?;
    }
    if let Some(custom) = &custom {
        check_custom(custom, kinds, by_windows)?;
    }
    let asked = Asked {
        queries: question.is_some(),
        plugin: custom.is_some(),
        sharing: simulate.is_some_and(|simulate| simulate.sharing),
        values: args.exact_values || args.converge.is_some(),
    };
    let converge = checks::converge(&args, &compressor, kinds, in_windows)?;
    let costly = forecast::of(&args, &compressor, kinds, converge, in_windows);
    let (program, arguments) = match args.pid {
        None => {
            let path = std::env::var_os("PATH");
            let mut words = args.program;
            let program = launch::resolve_command(&mut words, path.as_deref())?;
            (program, words)
        }
        Some(pid) => host::running(pid)?,
    };
    trommel_store::check_destination(&args.output)?;
    if let Some(page) = &args.html {
        page::check(page)?;
    }
    if let Some(stream) = &args.stream {
        trommel_store::check_destination(stream)?;
    }
    let stream = args.stream.clone();
    let timed = kinds.has(Kind::Latency).then_some(TIMED_WINDOW);
    let sampling = by_windows.then(|| Sampling {
        // Where rate or length is given and no budget, that is what is wanted, whatever it costs.
        budget: args.budget.unwrap_or(0.0),
        rate: args.rate.or(args.budget.is_none().then_some(USUAL_RATE)),
        length: args.window.or(timed),
        skip: args.skip,
        by_caller: args.by_caller,
    });
    let natively = match args.budget {
        Some(budget) if in_bursts && args.pid.is_none() => Bursts::begins_after(budget),
        _ => Duration::ZERO,
    };
    let options = Options {
        program,
        arguments,
        inherited: inherited::inherited(),
        kinds,
        contexts,
        question: question
            .zip(args.query.as_deref())
            .map(|(program, file)| {
                let by_window = sampling.is_some();
                host::question(name_of(file), program, by_window, args.query_budget)
            })
            .transpose()?,
        messages: args.messages,
        services,
        chosen,
        custom,
        compressor,
        stream: args.stream,
        stream_limit: args.stream_limit,
        memory: args.memory,
        only: args.only,
        follow: !args.no_follow,
        persist: !args.no_persist,
        sampling,
        bursts: in_bursts,
        tracing: Tracing {
            after: natively,
            ..Tracing::OBSERVED
        },
        converge,
        simulate,
        prefetch: false,
        progress: !args.quiet && args.pid.is_none(),
    };
    let to = args.stats.as_deref().map(stats::open).transpose()?;
    if let Some(costly) = costly.filter(|_| !args.quiet) {
        output::complain(&costly);
    }
    let guard = interrupt::guard();
    let mut others = Others::beside(&args.output);
    let mut engines = Vec::new();
    let mut keep = |profile: &Profile, engine| {
        if to.is_some() {
            engines.push((stats::part_of(profile), engine));
        }
    };
    let (recording, outcome) = match args.pid {
        None => host::record(options, &guard, &mut others, &mut keep)?,
        Some(pid) => host::record_running(options, pid, args.duration, &guard)?,
    };
    let profiles = (&recording.profile, &others);
    let focus = focus(args.events, kinds, asked);
    // The lines of the files and of the next command.
    let room = summary::LINES - 2 - usize::from(stream.is_some());
    let shown = (!args.quiet).then_some((focus, room));
    let (path, written, mut text) = conclude(&args.output, profiles, shown);
    // The profile is there, whatever becomes of these.
    let stats = match (to, &args.stats) {
        (Some(out), Some(path)) => stats::write(out, path, &recording, &engines),
        _ => Ok(()),
    };
    drop(guard);
    let stream_missing = stream.is_some() && !recording.stream_whole;
    let stream = stream.filter(|_| recording.stream_whole);
    if !args.quiet {
        if let Some(written) = &written {
            next_steps(
                &mut text,
                &path,
                written,
                stream.as_deref(),
                &focus.command(),
            )?;
        }
        // In one piece, so that it does not mix with what else is written there.
        let _ = std::io::stderr().write_all(&text);
    }
    // The process ends now: giving back each piece of the profile would only take time.
    std::mem::forget(recording);
    stats?;
    if let (Some(page), Some(_)) = (&args.html, &written) {
        page::of_file(&path, page)?;
    }
    match outcome {
        // A script must not take a profile or stream that is not where it should be for a success.
        ProgramEnd::Exited(0) if path != args.output || written.is_none() || stream_missing => {
            Ok(ExitCode::FAILURE)
        }
        outcome => Ok(exit::like(outcome)),
    }
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

/// The first process, and those that came of it.
type Profiles<'a> = (&'a Profile, &'a Others);

/// Writes the profile, as [`save`] does, and its summary. Side by side, since the user waits for both;
/// nothing is printed before the file is there.
fn conclude(
    path: &Path,
    profiles: Profiles<'_>,
    shown: Option<(Focus, usize)>,
) -> (PathBuf, Option<Written>, Vec<u8>) {
    let mut text = Vec::new();
    let Some((focus, lines)) = shown else {
        let (path, written) = save(path, profiles);
        return (path, written, text);
    };
    let (path, written) = std::thread::scope(|scope| {
        let writer = std::thread::Builder::new().spawn_scoped(scope, || save(path, profiles));
        // Into memory, which does not fail.
        let _ = summary::write(&mut text, profiles, focus, lines);
        match writer.map(|writer| writer.join()) {
            Ok(Ok(saved)) => saved,
            // No thread, or a defect: once more, here.
            _ => save(path, profiles),
        }
    });
    (path, written, text)
}

/// Writes the profile to `path` or, where that fails, to the directory for temporary files: a run
/// may have taken hours. Gives the path used.
fn save(path: &Path, (first, others): Profiles<'_>) -> (PathBuf, Option<Written>) {
    let profiles = || {
        let others = others.profiles().map(Cow::Owned);
        std::iter::once(Cow::Borrowed(first)).chain(others)
    };
    let error = match trommel_store::write_each(path, profiles()) {
        Ok(written) => return (path.to_owned(), Some(written)),
        Err(error) => error,
    };
    output::complain(&error.to_string());
    let other = std::env::temp_dir().join(format!("trommel-{}.data", std::process::id()));
    match trommel_store::write_each(&other, profiles()) {
        Ok(written) => {
            output::complain(&format!("the profile is in {} instead", other.display()));
            (other, Some(written))
        }
        Err(_) => (other, None),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_that_cannot_be_where_it_should_is_saved_elsewhere() {
        let (path, written) = save(
            Path::new("/dev/full"),
            (&Profile::default(), &Others::default()),
        );
        assert!(written.is_some() && path.starts_with(std::env::temp_dir()));
        assert_eq!(
            trommel_store::read(&path).expect("saved"),
            [Profile::default()]
        );
        std::fs::remove_file(path).expect("clean");
    }
}
