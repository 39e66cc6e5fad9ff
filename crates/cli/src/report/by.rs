//! `report --by`: instructions added up by line, loop, module or process; and events by thread.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io::{self, Write};
use std::rc::Rc;

use anyhow::{Result, bail};
use trommel_code::Count;
use trommel_profile::Profile;
use trommel_profile::confidence::Confidence;
use trommel_symbol::Files;
use trommel_tuple::{ModuleId, Place, Vaddr};

use super::Shown;
use super::functions::{executed, figure, module};
use super::loops;
use super::processes::{self, Row};
use super::samples;
use super::table::{Table, limits_title, more, range};
use super::text;
use super::view::View;
use crate::args::By;
use crate::load;
use crate::output::{command_line, grouped, percent};

/// Writes the header and one table. `parts` are the processes by themselves, where these are asked for.
pub(super) fn write(
    out: &mut impl Write,
    view: &mut View<'_>,
    shown: &Shown<'_>,
    by: By,
    parts: Option<&[Profile]>,
) -> Result<()> {
    if shown.program.is_none() && !matches!(by, By::Thread | By::Process) {
        bail!(
            "instructions follow from branches and calls, and this profile has not both: record it with \
             `trommel record -e edge,call`, or see its events: trommel report --by event"
        );
    }
    let profile = view.profile;
    if let Some(samples) = &profile.samples {
        samples::header(out, view, samples, shown.style)?;
    } else {
        text::start(out, view, shown.style)?;
    }
    if let (By::Process, Some(samples)) = (by, &profile.samples) {
        let total = samples.total();
        samples::processes(out, shown.rows, &total, shown.top, shown.style)?;
        return Ok(out.flush()?);
    }
    writeln!(out)?;
    match by {
        By::Line => lines(out, view, shown)?,
        By::Loop => {
            let all = loops::of(shown);
            loops::write(out, view, shown, &all, shown.top)?;
            more(out, all.len(), shown.top)?;
        }
        By::Module => modules(out, view, shown)?,
        By::Thread => threads(out, view, shown)?,
        By::Process => of_processes(out, shown, parts.unwrap_or_default())?,
        By::Function | By::Event => {}
    }
    Ok(out.flush()?)
}

/// Lines of source; what has none is one entry for each module.
fn lines(out: &mut impl Write, view: &mut View<'_>, shown: &Shown<'_>) -> io::Result<()> {
    type Line = (ModuleId, Option<(Rc<str>, u32)>);
    let mut sums: HashMap<Line, (Count, Place)> = HashMap::new();
    let whole = executed(shown).times;
    for (&id, code) in shown.program.iter().flat_map(|p| &p.modules) {
        if shown.wanted.is_some_and(|wanted| !wanted.contains(&id)) {
            continue;
        }
        let Ok(bytes) = view.symbols().code(id) else {
            continue;
        };
        for block in code.blocks.all() {
            let Some(count) = block.count.filter(|c| c.times > 0.0) else {
                continue;
            };
            for at in block.places(&bytes) {
                let place = Place::new(id, Vaddr(at));
                let line = view.line(place);
                let sum = (sums.entry((id, line))).or_insert((Count::of_events(0.0, None), place));
                sum.0 = sum.0.plus(count);
            }
        }
    }
    let mut all: Vec<_> = sums.into_iter().collect();
    all.sort_by(|a, b| {
        let more = b.1.0.times.total_cmp(&a.1.0.times);
        more.then_with(|| a.1.1.cmp(&b.1.1))
    });
    writeln!(
        out,
        "# {}: {}",
        shown.style.strong("Lines"),
        grouped(all.len() as u64)
    )?;
    let limits = limits_title(view);
    let titles = ["self", "%", limits, "line", "function", "module"];
    let mut table = Table::new(titles);
    for ((id, line), (count, place)) in all.iter().take(shown.top) {
        let (name, function) = match line {
            Some((file, line)) => {
                let file = file.rsplit('/').next().unwrap_or(file);
                (format!("{file}:{line}"), view.function(*place))
            }
            None => ("(no debug information)".to_owned(), String::new()),
        };
        table.row([
            figure(count, false),
            format!("{:.2}%", 100.0 * count.times / whole.max(1.0)),
            count.limits.map_or_else(String::new, range),
            name,
            function,
            module(view, *id),
        ]);
    }
    table.write(out, shown.style)?;
    more(out, all.len(), shown.top)
}

fn modules(out: &mut impl Write, view: &View<'_>, shown: &Shown<'_>) -> io::Result<()> {
    let whole = executed(shown).times;
    let mut sums: HashMap<ModuleId, (Count, u64, bool)> = HashMap::new();
    for function in shown.functions() {
        let nothing = (Count::of_events(0.0, None), 0, false);
        let sum = sums.entry(function.module).or_insert(nothing);
        sum.0 = sum.0.plus(function.executed);
        sum.1 += 1;
        sum.2 |= function.at_least;
    }
    let mut all: Vec<_> = sums.into_iter().collect();
    all.sort_by(|a, b| b.1.0.times.total_cmp(&a.1.0.times).then(a.0.cmp(&b.0)));
    writeln!(
        out,
        "# {}: {}",
        shown.style.strong("Modules"),
        grouped(all.len() as u64)
    )?;
    let mut table = Table::new(["self", "%", "functions", limits_title(view), "file"]).numbers(3);
    for (id, (count, functions, at_least)) in all.iter().take(shown.top) {
        table.row([
            figure(count, *at_least),
            format!("{:.2}%", 100.0 * count.times / whole.max(1.0)),
            grouped(*functions),
            count.limits.map_or_else(String::new, range),
            view.path(*id),
        ]);
    }
    table.write(out, shown.style)?;
    more(out, all.len(), shown.top)
}

/// Threads by their events: which instructions were whose is not recorded.
fn threads(out: &mut impl Write, view: &View<'_>, shown: &Shown<'_>) -> io::Result<()> {
    let threads = &view.profile.threads;
    let sum =
        |t: &trommel_profile::Thread| t.seen.values().fold(0_u64, |s, n| s.saturating_add(*n));
    let total = threads.each.iter().map(sum).fold(0, u64::saturating_add);
    let started = grouped(threads.started.max(1));
    writeln!(
        out,
        "# {}: {started} started",
        shown.style.strong("Threads")
    )?;
    if threads.each.is_empty() {
        let why = match (threads.started, shown.rows.len()) {
            (0 | 1, _) => "there was one thread",
            (_, 2..) => "events by thread are known of one process: --pid PID",
            _ => "events by thread were not recorded",
        };
        return writeln!(out, "# {why}");
    }
    let mut order: Vec<_> = threads.each.iter().collect();
    order.sort_by_key(|t| (Reverse(sum(t)), t.number));
    let mut table = Table::new(["events", "%", "number", "tid", "by kind"]).numbers(4);
    for thread in order.iter().take(shown.top) {
        let kinds = thread.seen.iter();
        let kinds: Vec<String> = kinds.map(|(k, n)| format!("{k} {}", grouped(*n))).collect();
        table.row([
            grouped(sum(thread)),
            format!("{:.2}%", percent(sum(thread), total)),
            thread.number.to_string(),
            thread.tid.to_string(),
            kinds.join(", "),
        ]);
    }
    table.write(out, shown.style)?;
    more(out, order.len(), shown.top)
}

fn of_processes(out: &mut impl Write, shown: &Shown<'_>, parts: &[Profile]) -> io::Result<()> {
    let files = Files::new();
    let mut all: Vec<(Option<Count>, Row)> = Vec::new();
    for profile in parts {
        let symbols = load::symbols(&files, profile);
        let mut confidence = Confidence::new(profile);
        let program = trommel_code::Program::new(profile, &symbols, &mut confidence);
        all.push((program.map(|p| p.executed()), Row::new(profile)));
    }
    let times = |count: &Option<Count>| count.map_or(0.0, |c| c.times);
    let whole: f64 = all.iter().map(|(count, _)| times(count)).sum();
    all.sort_by(|a, b| times(&b.0).total_cmp(&times(&a.0)));
    writeln!(
        out,
        "# {}: {}",
        shown.style.strong("Processes"),
        grouped(all.len() as u64)
    )?;
    let mut table = Table::new(["self", "%", "pid", "ended", "threads", "command"]).numbers(3);
    for (count, row) in all.iter().take(shown.top) {
        table.row([
            count.map_or_else(|| "-".into(), |count| figure(&count, false)),
            format!("{:.2}%", 100.0 * times(count) / whole.max(1.0)),
            row.pid.to_string(),
            row.ended(),
            row.threads.to_string(),
            processes::cut(&command_line(&row.command)),
        ]);
    }
    table.write(out, shown.style)?;
    more(out, all.len(), shown.top)
}
