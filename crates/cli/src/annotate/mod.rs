//! `trommel annotate`: a function instruction by instruction, with all that a profile has of each.
//!
//! In the manner of `dcpilist` (*Value Sampling*, section 2.4): frequency, share, source line and instruction, then what is known of it: where
//! a branch went, what was called, which values a load loaded, how long it took, which stores were in its way. Frequencies are
//! of the events that an instruction has, or follow from those around it ([`trommel_code::Flow`]).

mod annotated;
mod events;
mod find;
mod json;
mod source;
mod text;

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, anyhow, bail};
use trommel_code::{Body, Flow, FlowControl, Mnemonic, Text};
use trommel_profile::Profile;
use trommel_profile::confidence::Confidence;
use trommel_profile::limits::Limits;
use trommel_profile::memory::{Levels, Pair};
use trommel_profile::windows::Windows;
use trommel_symbol::Files;
use trommel_tuple::{Kind, Place, Vaddr};

use crate::args::AnnotateArgs;
use crate::arguments::{self, Argued};
use crate::callers::{self};
use crate::latency;
use crate::load;
use crate::output;
use crate::report::table::Style;
use crate::report::view::{Values, View};
use crate::shown::quoted;
use annotated::{Annotated, InTheWay, Latency, Line, Part, Passed};
use events::OfModule;
use find::FunctionMatch;

/// Values of an instruction that people are shown unless they ask for more.
const DEFAULT_TOP: usize = 3;

/// Runs the command.
pub(crate) fn run(args: &AnnotateArgs) -> Result<ExitCode> {
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
    if !profile.kinds.is_empty() && profile.kinds.keys().all(|kind| *kind == Kind::Path) {
        bail!(
            "{}: holds paths only, and instructions are shown with counts of branches, calls and loads: record those too, as in \
             `trommel record -e path,edge,call`",
            file.display()
        );
    }
    let found = find::find(&profile, view.symbols(), wanted)?;
    if found.events(&profile) == 0 {
        bail!("{}", nothing(&profile, &file, &found));
    }
    let top = match (args.top, args.json) {
        (Some(0), _) | (None, true) => usize::MAX,
        (Some(n), _) => n,
        (None, false) => DEFAULT_TOP,
    };
    let function = annotate(&mut view, found, top)?;
    let mut out = output::stdout();
    if args.json {
        json::write(&mut out, &mut view, &function)?;
    } else {
        let terminal = io::stdout().is_terminal();
        let width = terminal.then(terminal_size::terminal_size).flatten();
        let width = width.map_or(usize::MAX, |(width, _)| width.0.into());
        let style = Style::new(output::colours(&io::stdout()));
        text::write(&mut out, &mut view, &function, style, width)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn named(wanted: &OsString) -> Result<&str> {
    let text = wanted.to_str().filter(|text| !text.is_empty());
    text.ok_or_else(|| anyhow!("{wanted:?}: not a function's name; names are UTF-8"))
}

/// Returns why there is nothing to show, and what to do.
fn nothing(profile: &Profile, file: &std::path::Path, found: &FunctionMatch) -> String {
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
    let module = profile.modules.iter().find(|m| m.id == found.module);
    let module = module.ok_or_else(|| anyhow!("{}: in no module", found.name))?;
    let code = view.symbols().code(found.module).map_err(|why| {
        let id: String = module.build_id.iter().map(|b| format!("{b:02x}")).collect();
        let id = match &id[..] {
            "" => String::new(),
            id => format!(" (build id {id})"),
        };
        anyhow!(
            "{}: {why}; its instructions are in the file that was recorded{id}: put that back, or record again",
            found.name
        )
    })?;
    let functions = view.symbols().functions(found.module).into_iter();
    let mut functions: Vec<Range<u64>> = functions.map(|f| f.range).collect();
    functions.sort_unstable_by_key(|r| (r.start, r.end));
    functions.dedup();
    let entry = found.ranges.first().map_or(0, |r| r.start);
    let (body, counts, callers) = match &profile.samples {
        // Nobody has seen an instruction executed.
        Some(samples) => {
            let of_module = samples.places.keys().filter(|p| p.module() == found.module);
            let places: Vec<u64> = of_module.map(|place| place.vaddr().0).collect();
            (
                Body::new(&code, &found.ranges, &places),
                Vec::new(),
                Vec::new(),
            )
        }
        None => {
            let mut events = OfModule::new(view, found.module, &code, &functions);
            let flow = Flow::new(&code, &functions, &found.ranges, &mut events);
            let counts = (0..flow.body.lines().len())
                .map(|n| flow.count(n))
                .collect();
            let arrivals = events.arrivals_at(entry);
            let callers = arrivals.iter().map(|t| (t.from, t.count)).collect();
            (flow.body, counts, callers)
        }
    };
    let count = |n: usize| counts.get(n).copied().flatten();
    let sampled = |at| {
        profile
            .samples
            .as_ref()?
            .places
            .get(&Place::new(found.module, Vaddr(at)))
    };
    let time = profile.samples.as_ref().map(|_| {
        let here = body.lines().iter().filter_map(|line| sampled(line.at));
        trommel_profile::samples::sum(here.map(|at| &at.sampled))
    });
    if body.lines().is_empty() {
        let name = &found.name;
        bail!(
            "{name}: no code at these addresses of {}",
            find::file_name(module)
        );
    }
    let entered = body.index(entry).and_then(count);
    let counted = (0..body.lines().len()).filter_map(count);
    let executed: f64 = counted.map(|count| count.times).sum();
    let inside = |call: Place| call.module() == found.module && body.contains(call.vaddr().0);
    let mut passed = arguments::by_call(view, inside);
    let mut writer = Text::new();
    let mut lines = Vec::with_capacity(body.lines().len());
    for (n, line) in body.lines().iter().enumerate() {
        let at = Place::new(found.module, Vaddr(line.at));
        let inside = |to| body.contains(to);
        // Only its address is taken: what is loaded from there may be anything.
        let is_lea = line.instruction.mnemonic() == Mnemonic::Lea;
        let text = writer.write(&line.instruction, &mut |address| {
            let place = Place::new(found.module, Vaddr(address));
            if inside(address) {
                return None;
            }
            if view.locate(place).function.is_some() {
                return Some(view.name(place));
            }
            let text = view.symbols().text(found.module, address);
            text.filter(|_| is_lea).map(|text| quoted(&text))
        });
        let count = count(n);
        let sampled = sampled(at.vaddr().0).cloned();
        // Of what is known of the function, be it executions or time.
        let (part, whole) = match (&time, &sampled) {
            (Some(time), Some(found)) => (found.sampled.executions, time.executions),
            _ => (count.map_or(0.0, |count| count.times), executed),
        };
        let mut line = Line {
            at,
            instruction: line.instruction,
            text,
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
    Ok(Annotated {
        ranges: body.ranges().to_vec(),
        found,
        module,
        lines,
        executed,
        time,
        entered,
        callers,
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
