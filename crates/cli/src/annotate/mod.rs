//! `trommel annotate`: a function instruction by instruction, with all that a profile has of each.
//!
//! In the manner of `dcpilist` (*Value Sampling*, section 2.4): frequency, share, source line and instruction, then what is known of it: where
//! a branch went, what was called, which values a load loaded, how long it took, which stores were in its way. Frequencies are
//! of the events that an instruction has, or follow from those around it ([`trommel_code::Flow`]).

mod all;
mod annotated;
mod events;
mod json;
mod known;
mod listing;
mod notes;
mod order;
mod paint;
mod source;
mod text;

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, anyhow, bail};
use trommel_code::{Body, FlowControl, Instruction, Mnemonic, Text};
use trommel_profile::confidence::Confidence;
use trommel_profile::limits::Limits;
use trommel_profile::memory::{Levels, Pair};
use trommel_profile::windows::Windows;
use trommel_profile::{Module, Profile};
use trommel_symbol::Files;
use trommel_tuple::{Kind, Place, Vaddr};

use crate::args::AnnotateArgs;
use crate::arguments::{self, Argued};
use crate::callers::{self};
use crate::find::{self, FunctionMatch};
use crate::latency;
use crate::load;
use crate::output;
use crate::report::table::Style;
use crate::report::view::{Values, View};
use crate::shown::quoted;
use annotated::{Annotated, InTheWay, Latency, Line, Part, Passed};
use known::{Known, sampled_at};
pub(crate) use listing::{Listed, listing};

/// Values of an instruction that people are shown unless they ask for more.
const DEFAULT_TOP: usize = 3;

/// Runs the command.
pub(crate) fn run(args: &AnnotateArgs) -> Result<ExitCode> {
    if args.all {
        return all::run(args);
    }
    let (file, wanted) = match &args.what[..] {
        [file, wanted] => (PathBuf::from(file), wanted),
        [wanted] => (PathBuf::from(trommel_store::DEFAULT_FILE), wanted),
        _ => bail!("name a function: trommel annotate [FILE] FUNCTION"),
    };
    let wanted = named(wanted)?;
    let (profile, rows, _) = load::profiles(&file, &args.select)?.merge()?;
    let confidence = Confidence::of_processes(&profile, rows.len());
    let files = Files::new();
    let symbols = load::symbols(&files, &profile);
    let mut view = View::new(&profile, symbols, confidence);
    only_paths(&profile, &file)?;
    let found = find::find(&profile, view.symbols(), wanted)?;
    if found.events(&profile) == 0 {
        bail!("{}", nothing(&profile, &file, &found));
    }
    let function = annotate(&mut view, found, top(args))?;
    let mut out = output::stdout();
    if args.json {
        json::write(&mut out, &mut view, &function)?;
    } else {
        let style = Style::of(&io::stdout());
        text::write(&mut out, &mut view, &function, style, args.cold)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Values of each instruction to show.
fn top(args: &AnnotateArgs) -> usize {
    match (args.top, args.json) {
        (Some(0), _) | (None, true) => usize::MAX,
        (Some(n), _) => n,
        (None, false) => DEFAULT_TOP,
    }
}

/// Checks that there is something to show instructions with.
fn only_paths(profile: &Profile, file: &Path) -> Result<()> {
    if !profile.kinds.is_empty() && profile.kinds.keys().all(|kind| *kind == Kind::Path) {
        bail!(
            "{}: holds paths only, and instructions are shown with counts of branches, calls and loads: record those too, as in \
             `trommel record -e path,edge,call`",
            file.display()
        );
    }
    Ok(())
}

fn named(wanted: &OsString) -> Result<&str> {
    let text = wanted.to_str().filter(|text| !text.is_empty());
    text.ok_or_else(|| anyhow!("{wanted:?}: not a function's name; names are UTF-8"))
}

/// Returns why there is nothing to show, and what to do.
fn nothing(profile: &Profile, file: &Path, found: &FunctionMatch) -> String {
    if profile.samples.is_some() {
        let (file, name) = (file.display(), &found.name);
        return format!(
            "{file}: no sample was in {name}; `trommel report` names the functions that have some, and longer recordings more"
        );
    }
    let command = output::command_line(&profile.command);
    let only = output::command_line(&[found.name.clone().into_bytes()]);
    format!(
        "{}: holds no events of {}: it was not executed, or {}; record it with `trommel record --only {only} -- {command}`",
        file.display(),
        found.name,
        match profile.windows {
            Some(_) => "no window met it",
            None => "not recorded",
        },
    )
}

fn annotate<'p>(view: &mut View<'p>, found: FunctionMatch, top: usize) -> Result<Annotated<'p>> {
    let profile = view.profile;
    let module = profile.module(found.module);
    let module = module.ok_or_else(|| anyhow!("{}: in no module", found.name))?;
    let code = (view.symbols().code(found.module)).map_err(|why| no_code(&found, module, &why))?;
    let known = Known::of(view, found.module, &code, std::slice::from_ref(&found));
    let known = known.into_iter().next();
    let known = known.filter(|known| !known.body.lines().is_empty());
    let known = known.ok_or_else(|| {
        let (name, file) = (&found.name, find::file_name(module));
        anyhow!("{name}: no code at these addresses of {file}")
    })?;
    let inside = |call: Place| call.module() == found.module && known.body.contains(call.vaddr().0);
    let mut passed = arguments::by_call(view, inside);
    annotated_as(view, found, known, &mut passed, top)
}

/// A function of which counts are known; `passed` has the arguments of its calls.
fn annotated_as<'p>(
    view: &mut View<'p>,
    found: FunctionMatch,
    known: Known,
    passed: &mut HashMap<Place, Vec<Argued>>,
    top: usize,
) -> Result<Annotated<'p>> {
    let profile = view.profile;
    let module = profile.module(found.module);
    let module = module.ok_or_else(|| anyhow!("{}: in no module", found.name))?;
    let body = &known.body;
    let executed = known.executed();
    let time = known.time(profile, found.module);
    let mut writer = Text::new();
    let mut lines = Vec::with_capacity(body.lines().len());
    for (n, line) in body.lines().iter().enumerate() {
        let at = Place::new(found.module, Vaddr(line.at));
        let count = known.count(n);
        let sampled = sampled_at(profile, at).cloned();
        // Of what is known of the function, be it executions or time.
        let (part, whole) = match (&time, &sampled) {
            (Some(time), Some(found)) => (found.sampled.executions, time.executions),
            _ => (count.map_or(0.0, |count| count.times), executed),
        };
        let mut line = Line {
            at,
            instruction: line.instruction,
            text: text_of(view, body, at, &line.instruction, &mut writer),
            count,
            share: part / whole.max(1.0),
            taken: None,
            targets: Vec::new(),
            values: Vec::new(),
            distinct: 0,
            by_caller: callers::of(view, Kind::Value, at),
            types: Vec::new(),
            arguments: Vec::new(),
            latency: None,
            conflicts: Vec::new(),
            sampled,
        };
        control(view, &mut line, top);
        values(view, &mut line, top);
        let calls = passed.remove(&at).unwrap_or_default();
        line.arguments = calls.iter().map(|a| given(view, a, top)).collect();
        memory(view, &mut line, top);
        lines.push(line);
    }
    let entered = body.index(found.entry()).and_then(|n| known.count(n));
    let profile = view.profile;
    let signals = profile
        .deliveries
        .get(&Place::new(module.id, Vaddr(found.entry())));
    let signals = signals.copied().unwrap_or(0);
    let signals = profile.after_calls.is_some().then_some(signals);
    Ok(Annotated {
        ranges: body.ranges().to_vec(),
        found,
        module,
        lines,
        executed,
        time,
        entered,
        callers: known.callers,
        signals,
    })
}

/// Returns why there are no instructions to show, and what to do.
fn no_code(found: &FunctionMatch, module: &Module, why: &impl std::fmt::Display) -> anyhow::Error {
    let id: String = module.build_id.iter().map(|b| format!("{b:02x}")).collect();
    let id = match &id[..] {
        "" => String::new(),
        id => format!(" (build id {id})"),
    };
    anyhow!(
        "{}: {why}; its instructions are in the file that was recorded{id}: put that back, or record again",
        found.name
    )
}

/// Returns an instruction in words, with names of what is outside of its function.
fn text_of(
    view: &mut View<'_>,
    body: &Body,
    at: Place,
    instruction: &Instruction,
    writer: &mut Text,
) -> String {
    // Only its address is taken: what is loaded from there may be anything.
    let is_lea = instruction.mnemonic() == Mnemonic::Lea;
    writer.write(instruction, &mut |address| {
        let place = Place::new(at.module(), Vaddr(address));
        if body.contains(address) {
            return None;
        }
        if view.locate(place).function.is_some() {
            return Some(view.name(place));
        }
        let text = view.symbols().text(at.module(), address);
        text.filter(|_| is_lea).map(|text| quoted(&text))
    })
}

/// The most frequent values of an instruction, each with its part.
fn parts(view: &mut View<'_>, all: &Values<'_>, top: usize) -> Vec<(u64, Part)> {
    let limits = view.executions(all);
    let part = |(value, count): (u64, u64)| {
        let share = (count as f64 / all.profiled.max(1) as f64).min(1.0);
        let limits = limits.as_ref().map(|l| l.share(all.position(value), count));
        (
            value,
            Part {
                count,
                share,
                limits,
            },
        )
    };
    all.top(top).into_iter().map(part).collect()
}

/// Adds the targets of control.
fn control(view: &mut View<'_>, line: &mut Line<'_>, top: usize) {
    let flow = line.instruction.flow_control();
    let kind = match flow {
        FlowControl::ConditionalBranch | FlowControl::IndirectBranch => Kind::Edge,
        _ => Kind::Call,
    };
    let Some(all) = view.values_at(kind, line.at) else {
        return;
    };
    if flow == FlowControl::ConditionalBranch {
        let target = line.instruction.near_branch_target();
        let taken = Place::new(line.at.module(), Vaddr(target)).word();
        let ways = parts(view, &all, usize::MAX);
        let none = Part {
            count: 0,
            share: 0.0,
            limits: None,
        };
        let found = ways.iter().find(|(to, _)| *to == taken);
        line.taken = Some(found.map_or(none, |(_, part)| *part));
        return;
    }
    let targets = parts(view, &all, top).into_iter();
    line.targets = targets
        .map(|(to, part)| (Place::from_word(to), part))
        .collect();
}

/// Adds the values that were loaded.
fn values(view: &mut View<'_>, line: &mut Line<'_>, top: usize) {
    if let Some(all) = view.values_at(Kind::Value, line.at) {
        line.distinct = all.distinct();
        for (value, part) in parts(view, &all, top) {
            let words = view.shown(line.at, value);
            line.values.push((value, words, part));
        }
    }
    if let Some(all) = view.values_at(Kind::Type, line.at) {
        for (value, part) in parts(view, &all, top) {
            let name = view.name_of_address(value);
            let name = name.unwrap_or_else(|| format!("{value:#x}"));
            line.types.push((value, name, part));
        }
    }
}

/// Returns what was passed in a register.
fn given(view: &mut View<'_>, argued: &Argued, top: usize) -> Passed {
    let mut values = Vec::new();
    for (value, count, share, (low, high)) in argued.top().into_iter().take(top) {
        let limits = Some(Limits { low, high });
        let part = Part {
            count,
            share,
            limits,
        };
        values.push((value, argued.shown(view, value), part));
    }
    Passed {
        register: argued.register(),
        to: argued.function,
        values,
    }
}

/// Adds latencies and conflicts.
fn memory(view: &View<'_>, line: &mut Line<'_>, top: usize) {
    let Some(windows) = &view.profile.windows else {
        return;
    };
    if let (Some(levels), Some(all)) = (&windows.levels, view.values_at(Kind::Latency, line.at)) {
        line.latency = Some(latency_of(view, &all, levels));
    }
    let is = |(pair, _): &(&Pair, _)| pair.load == line.at || pair.store == line.at;
    let mut pairs: Vec<InTheWay> = (windows.pairs.iter().filter(is))
        .map(|(pair, sampled)| InTheWay {
            pair: *pair,
            part: of_load(windows, pair, sampled),
        })
        .collect();
    pairs.sort_by_key(|found| std::cmp::Reverse(found.part.count));
    pairs.truncate(top);
    line.conflicts = pairs;
}

fn latency_of(view: &View<'_>, all: &Values<'_>, levels: &Levels) -> Latency {
    let load = latency::load(view, *all, levels);
    let names = levels.levels.iter().map(|level| level.cache.name());
    let parts = load.shares.iter().map(|(share, limits)| Part {
        count: (share * all.executions as f64).round() as u64,
        share: *share,
        limits: Some(*limits),
    });
    Latency {
        median: load.median,
        levels: names.zip(parts).collect(),
    }
}

/// Returns how often a pair was in each other's way, and the part of the load's executions that this is.
fn of_load(windows: &Windows, pair: &Pair, sampled: &trommel_profile::sampled::Sampled) -> Part {
    let load = windows.at(Kind::Address, pair.load);
    let executions = load.map_or(sampled.executions, |load| load.executions);
    let share = (sampled.executions / executions.max(1.0)).min(1.0);
    Part {
        count: sampled.executions.round() as u64,
        share,
        limits: Some(load.unwrap_or(sampled).share(share)),
    }
}
