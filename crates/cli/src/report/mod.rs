//! `trommel report`: a profile for people ([`text`]) and for programs ([`json`]).

mod by;
mod contexts;
mod coverage;
mod custom;
mod database;
pub(crate) mod filter;
pub(crate) mod functions;
mod inlined;
mod intervals;
mod json;
mod loops;
mod lost;
mod misses;
mod nameless;
mod paths;
pub(crate) mod place;
mod places;
pub(crate) mod processes;
pub(crate) mod queries;
mod row;
pub(crate) mod samples;
mod stacks;
pub(crate) mod summary;
pub(crate) mod table;
pub(crate) mod text;
mod tree;
pub(crate) mod view;
mod waits;
pub(crate) mod windows;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use trommel_code::{Function, Inlined, Program};
use trommel_profile::Profile;
use trommel_profile::call_tree::Basis;
use trommel_profile::confidence::Confidence;
use trommel_symbol::{Files, Symbols};
use trommel_tuple::{Kind, ModuleId};

use crate::args::{By, ReportArgs};
use crate::load;
use crate::output;
use view::View;

/// Entries of each kind that people are shown unless they ask for more.
const DEFAULT_TOP: usize = 20;

/// Runs the command.
pub(crate) fn run(args: &ReportArgs) -> Result<ExitCode> {
    if args.no_debug_info && args.by == Some(By::Line) {
        bail!("--by line: lines are known from debug information alone; leave out --no-debug-info");
    }
    let mut loaded = load::profiles(&args.source.file, &args.source.select)?;
    let file = &args.source.file;
    loaded.only(file, &args.pid)?;
    let parts = (args.by == Some(By::Process)).then(|| loaded.profiles.clone());
    let whole = loaded.whole.take();
    let (mut profile, rows, database) = loaded.merge()?;
    // Of all kinds together: they went through one compressor, each process through its own.
    let confidence = Confidence::of_processes(&profile, rows.len());
    let files = Files::new();
    let derived = match whole {
        Some(whole) if args.event.is_none() => derive(whole, &files, args)
            .map(|p| (p, Some(load::wanted(&profile, &args.source.select)))),
        _ => None,
    };
    if let Some(kind) = args.event {
        only(&mut profile, kind, file)?;
    }
    let top = match (args.top, args.json) {
        (Some(0), _) | (None, true) => usize::MAX,
        (Some(n), _) => n,
        (None, false) => DEFAULT_TOP,
    };
    let symbols = symbols(&files, &profile, args);
    let mut view = View::new(&profile, symbols, confidence);
    view.full_names = args.full_names;
    view.expands = args.inlined;
    if args.per_interval {
        let shown = Shown {
            program: None,
            inlined: None,
            wanted: None,
            rows: &rows,
            top,
            chosen: args.top.is_some(),
            one_kind: args.event.is_some(),
            style: table::Style::of(&std::io::stdout()),
        };
        intervals::write(&mut output::stdout(), &mut view, args, &shown)?;
        return Ok(ExitCode::SUCCESS);
    }
    view.places = (args.schema == 2).then(Default::default);
    let derived = match derived {
        None if args.event.is_none() => view.program().map(|program| (program, None)),
        derived => derived,
    };
    let (program, wanted) = derived.map_or((None, None), |(p, wanted)| (Some(p), wanted));
    let inlined = match (&program, args.inlined) {
        (Some(program), true) => Some(view.inlined(program)),
        _ => None,
    };
    let shown = Shown {
        program: program.as_ref(),
        inlined: inlined.as_ref(),
        wanted: wanted.as_deref(),
        rows: &rows,
        top,
        chosen: args.top.is_some(),
        one_kind: args.event.is_some(),
        style: table::Style::of(&std::io::stdout()),
    };
    let mut out = output::stdout();
    if args.json {
        json::write(&mut out, &mut view, &shown, database.as_ref())?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(about) = &database {
        database::write(&mut out, about)?;
    }
    if args.tree {
        return trees(&mut out, &mut view, args, &shown);
    }
    match (args.by, args.event) {
        (None | Some(By::Function), None) => text::write(&mut out, &mut view, &shown, file)?,
        (Some(By::Event), _) | (None, Some(_)) => {
            text::write_events(&mut out, &mut view, &shown, file)?;
        }
        (Some(by), _) => by::write(&mut out, &mut view, &shown, by, parts.as_deref())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The symbols of a profile's modules, as far as they are wanted.
fn symbols<'f>(files: &'f Files, profile: &Profile, args: &ReportArgs) -> Symbols<'f> {
    let limit = if args.no_debug_info { 0 } else { u64::MAX };
    load::symbols(files, profile).with_debug_limit(limit)
}

/// Writes the call paths of a profile.
fn trees(
    out: &mut impl Write,
    view: &mut View<'_>,
    args: &ReportArgs,
    shown: &Shown<'_>,
) -> Result<ExitCode> {
    let lines = args.top.map_or(tree::LINES, |_| shown.top);
    let all: Vec<_> = Basis::ALL
        .iter()
        .filter(|basis| !args.off_cpu || Basis::OFF_CPU.contains(basis))
        .filter_map(|basis| match args.inlined {
            true => view.expanded_paths(*basis, shown.program.zip(shown.inlined)),
            false => view.call_paths(*basis),
        })
        .collect();
    for paths in &all {
        tree::write(out, view, paths, (lines, shown.style))?;
    }
    if all.is_empty() && args.off_cpu {
        bail!(
            "{}: holds no waits; record them with `trommel record --off-cpu`",
            args.source.file.display()
        );
    }
    if all.is_empty() {
        bail!(
            "{}: holds no call paths; record them with `trommel record -e stack` (samples) or `-e context` (exact)",
            args.source.file.display()
        );
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Parts that reports are made of, beside the profile.
#[derive(Clone, Copy)]
pub(crate) struct Shown<'a> {
    /// Work of the functions, where that follows from the profile.
    program: Option<&'a Program>,
    /// The same, divided by inlined functions, where that is asked for.
    inlined: Option<&'a Inlined>,
    /// Modules that are wanted; `None`: all.
    wanted: Option<&'a [ModuleId]>,
    rows: &'a [processes::Row],
    /// Lines of each table.
    top: usize,
    /// The user chose how many.
    chosen: bool,
    /// The user chose a kind of events.
    one_kind: bool,
    style: table::Style,
}

impl Shown<'_> {
    /// Functions of the modules that are wanted.
    fn functions(&self) -> impl Iterator<Item = &Function> {
        let all = self.program.iter().flat_map(|program| &program.functions);
        all.filter(|f| self.wanted.is_none_or(|wanted| wanted.contains(&f.module)))
    }
}

/// Derives what functions did in all of these processes.
fn derive(profiles: Vec<Profile>, files: &Files, args: &ReportArgs) -> Option<Program> {
    let (profile, rows) = processes::merge(profiles, false)?;
    let symbols = symbols(files, &profile, args);
    let mut confidence = Confidence::of_processes(&profile, rows.len());
    Program::new(&profile, &symbols, &mut confidence)
}

/// Leaves events of one kind.
fn only(profile: &mut Profile, kind: Kind, file: &Path) -> Result<()> {
    if !profile.kinds.contains_key(&kind) {
        let there: Vec<_> = profile.kinds.keys().map(|k| k.name()).collect();
        bail!(
            "{}: holds no `{kind}` events, only: {}; record them with `trommel record -e {kind}`",
            file.display(),
            if there.is_empty() {
                "none".into()
            } else {
                there.join(", ")
            }
        );
    }
    profile.kinds.retain(|k, _| *k == kind);
    if let Some(intervals) = &mut profile.intervals {
        intervals.retain(|candidate| candidate.kind == kind);
    }
    Ok(())
}
