//! `trommel record`: run a program, write its profile, say what was found.
//!
//! All that can be wrong with the arguments is found before the program starts: the program
//! itself, the destination, the compressor. Once the program has run, its profile is written
//! first; the summary comes after and cannot lose it.

mod checks;
mod forecast;
mod plan;

use std::borrow::Cow;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use trommel_host::kernel::interrupt;
use trommel_profile::Profile;
use trommel_store::Written;
use trommel_tuple::Kind;

use crate::args::RecordArgs;
use crate::exit::{self, ProgramEnd};
use crate::host;
use crate::machine;
use crate::next::next_steps;
use crate::others::Others;
use crate::output;
use crate::page;
use crate::report::queries;
use crate::report::summary::{self, Focus};
use crate::stats;
pub(crate) use checks::{check_callers, check_kinds, check_query_kinds};

/// Instructions of a window in which latencies are measured, where nothing is said: what beginning it has displaced in the
/// first cache is a small part of what it sees.
pub(crate) const TIMED_WINDOW: u32 = 4096;

/// Events where none are named, no queries are put and all of them are cheap: sampled, or written to a stream.
pub(crate) const USUAL_KINDS: [Kind; 3] = [Kind::Edge, Kind::Call, Kind::Value];
/// Events where each is counted: values would cost several times as much, and functions and loops follow from these.
pub(crate) const CHEAP_KINDS: [Kind; 2] = [Kind::Edge, Kind::Call];

/// Runs the command.
pub(crate) fn run(args: RecordArgs) -> Result<ExitCode> {
    let stacks = args.events.is_some_and(|events| events.stacks);
    if args.all || args.samples || args.off_cpu || stacks {
        return machine::run(args);
    }
    let (planned, args) = plan::of(args)?;
    let _outputs = planned.outputs;
    let to = args.stats.as_deref().map(stats::open).transpose()?;
    if let Some(costly) = planned.costly.filter(|_| !args.quiet) {
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
        None => host::record(planned.options, &guard, &mut others, &mut keep)?,
        Some(pid) => host::record_running(planned.options, pid, args.duration, &guard)?,
    };
    let shown = (!args.quiet).then_some(planned.focus);
    let mut concluded = conclude(&args, (&recording.profile, &others), shown);
    // The profile is there, whatever becomes of these.
    let stats = match (to, &args.stats) {
        (Some(out), Some(path)) => stats::write(out, path, &recording, &engines),
        _ => Ok(()),
    };
    drop(guard);
    let whole = recording.stream_whole;
    // The process ends now: giving back each piece of the profile would only take time.
    std::mem::forget(recording);
    let stream = args.stream.as_deref().filter(|_| whole);
    if let Some(focus) = shown {
        concluded.say(stream, focus, args.html.is_some())?;
    }
    stats?;
    if let (Some(page), Some(_)) = (&args.html, &concluded.written) {
        page::of_file(&concluded.path, page)?;
    }
    let stream_missing = args.stream.is_some() && !whole;
    let elsewhere = concluded.path != args.output || concluded.written.is_none();
    match outcome {
        // A script must not take a profile or stream that is not where it should be for a success.
        ProgramEnd::Exited(0) if elsewhere || stream_missing => Ok(ExitCode::FAILURE),
        outcome => Ok(exit::like(outcome)),
    }
}

/// The first process, and those that came of it.
type Profiles<'a> = (&'a Profile, &'a Others);

/// A recording's end: where its profile is, and what is said of it.
struct Concluded {
    path: PathBuf,
    /// None if the profile could not be written.
    written: Option<Written>,
    /// The summary.
    text: Vec<u8>,
}

impl Concluded {
    /// Prints the summary and the next commands, with the stream's if it is whole. A `page` that is written needs no command.
    fn say(&mut self, stream: Option<&Path>, focus: Focus, page: bool) -> Result<()> {
        let mut text = std::mem::take(&mut self.text);
        if let Some(written) = &self.written {
            let focus = match page {
                true if focus == Focus::Contexts => Focus::Functions,
                _ => focus,
            };
            next_steps(&mut text, &self.path, written, stream, &focus.command())?;
        }
        // In one piece, so that it does not mix with what else is written there.
        let _ = std::io::stderr().write_all(&text);
        Ok(())
    }
}

/// Writes the profile, as [`save`] does, and its summary if that is `shown`. Side by side, since the user waits for both;
/// nothing is printed before the file is there.
fn conclude(args: &RecordArgs, profiles: Profiles<'_>, shown: Option<Focus>) -> Concluded {
    let path = &args.output;
    let mut text = Vec::new();
    let Some(focus) = shown else {
        let (path, written) = save(path, profiles);
        return Concluded {
            path,
            written,
            text,
        };
    };
    // The lines of the files and of the next command.
    let mut lines = summary::LINES - 2 - usize::from(args.stream.is_some());
    if let Some(over) = queries::over_budget(profiles.0, args.query_budget) {
        let over = output::said(&over, &std::io::stderr());
        lines -= over.lines().count();
        text.extend(over.into_bytes());
    }
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
    Concluded {
        path,
        written,
        text,
    }
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
