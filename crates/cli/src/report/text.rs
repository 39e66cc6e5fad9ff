//! `report` as text: a header that says how far the numbers can be trusted, then a table a kind.
//!
//! Tables follow `perf report` and `dcpilist`: count and share first, names last, one line for
//! each entry; header lines start with `#`, so that `grep -v '^#'` leaves the data.

use std::io::{self, Write};
use std::path::Path;

use trommel_code::Program;
use trommel_compress::{Level, Sampler, Spec};
use trommel_profile::call_tree::Basis;
use trommel_profile::{KindProfile, Profile, Sum, Thread};
use trommel_symbol::readable;
use trommel_tuple::Kind;

use super::Shown;
use super::contexts;
use super::coverage;
use super::custom;
use super::filter;
use super::functions;
use super::intervals;
use super::loops;
use super::lost;
use super::misses;
use super::nameless;
use super::paths;
use super::processes;
use super::queries;
use super::samples;
use super::table::{Style, Table, VALUES_IN_ROW, limits_title, more, range, title};
use super::tree;
use super::view::{Transfer, Values, View};
use super::windows;
use crate::output::{self, command_line, duration, grouped, number_of, percent, printable, times};
use crate::shown::short;
use crate::simulate;

/// Loops on the first screen.
const LOOPS: usize = 5;

/// Writes the report: functions, where the profile tells what they did, else its events.
pub(super) fn write(
    out: &mut impl Write,
    view: &mut View<'_>,
    shown: &Shown<'_>,
    file: &Path,
) -> io::Result<()> {
    if shown.program.is_none() {
        return write_events(out, view, shown, file);
    }
    start(out, view, shown.style)?;
    functions::write(out, view, shown)?;
    let hot = loops::of(shown);
    let most = if shown.chosen { shown.top } else { LOOPS };
    if !hot.is_empty() {
        writeln!(out)?;
        loops::write(out, view, shown, &hot, most)?;
        more(out, hot.len(), most)?;
    }
    let kinds: Vec<Kind> = view.profile.kinds.keys().copied().collect();
    for kind in kinds
        .into_iter()
        .filter(|k| !matches!(k, Kind::Edge | Kind::Call))
    {
        writeln!(out)?;
        events(out, view, kind, shown)?;
    }
    results(out, view, shown)?;
    processes_of(out, shown)?;
    problems(out, view, shown.program)?;
    writeln!(
        out,
        "\n# more        trommel report --by line|loop|module|process, -e edge, -e call"
    )?;
    match functions::hottest(view, shown) {
        Some(name) => writeln!(
            out,
            "# next        {}",
            printable(&view.annotate(file, name))
        ),
        None => Ok(()),
    }?;
    out.flush()
}

/// Writes a header, and a table for each kind of event.
pub(super) fn write_events(
    out: &mut impl Write,
    view: &mut View<'_>,
    shown: &Shown<'_>,
    file: &Path,
) -> io::Result<()> {
    let Shown {
        rows, top, style, ..
    } = *shown;
    if let Some(samples) = &view.profile.samples {
        samples::header(out, view, samples, style)?;
        let hot = samples::tables(out, view, samples, rows, top, style)?;
        problems(out, view, shown.program)?;
        if let Some(command) = view.next(file, hot.into_iter()) {
            writeln!(out, "\n# next        {}", printable(&command))?;
        }
        return out.flush();
    }
    start(out, view, style)?;
    match (shown.program, view.call_paths(Basis::Contexts)) {
        (None, Some(paths)) => {
            contexts::functions(out, view, &paths, shown)?;
            writeln!(out, "\n# more        trommel report --tree, --html FILE")?;
        }
        (None, None) if !shown.one_kind => functions::missing(out, view)?,
        _ => {}
    }
    processes_of(out, shown)?;
    for kind in view.profile.kinds.keys().copied() {
        writeln!(out)?;
        events(out, view, kind, shown)?;
    }
    results(out, view, shown)?;
    problems(out, view, shown.program)?;
    next(out, view, file)?;
    out.flush()
}

/// Writes the header.
pub(crate) fn start(out: &mut impl Write, view: &mut View<'_>, style: Style) -> io::Result<()> {
    header(out, view.profile, style)?;
    if !is_of_queries(view.profile)
        && let Some(line) = coverage::line(&view.extent())
    {
        writeln!(out, "# seen        {line}")?;
    }
    if view.has_limits() && !is_of_queries(view.profile) {
        writeln!(out, "# limits      {}", view.about_limits())?;
    }
    for line in view
        .profile
        .call_tree(Basis::Contexts)
        .map(tree::lacks)
        .unwrap_or_default()
    {
        writeln!(out, "# contexts    {line}")?;
    }
    Ok(())
}

/// Writes a table of the processes, if there are several.
fn processes_of(out: &mut impl Write, shown: &Shown<'_>) -> io::Result<()> {
    if shown.rows.len() > 1 {
        writeln!(out)?;
        processes::table(out, shown.rows, shown.top, shown.style)?;
        more(out, shown.rows.len(), shown.top)?;
    }
    Ok(())
}

/// Writes the table of a kind.
fn events(
    out: &mut impl Write,
    view: &mut View<'_>,
    kind: Kind,
    shown: &Shown<'_>,
) -> io::Result<()> {
    let Shown { top, style, .. } = *shown;
    if let Some(data) = view.profile.kinds.get(&kind)
        && is_empty(data)
    {
        let (heading, _) = title(kind);
        let (heading, none) = (style.strong(heading), none_of(view.profile, data.seen));
        return writeln!(out, "# {heading}: {none}");
    }
    let all = table(out, view, kind, top, style)?;
    more(out, all, top)
}

/// Writes the table of a kind; gives the number of all its entries.
pub(super) fn table(
    out: &mut impl Write,
    view: &mut View<'_>,
    kind: Kind,
    top: usize,
    style: Style,
) -> io::Result<usize> {
    match kind {
        Kind::Path => paths::table(out, view, top, style),
        _ if kind.is_simulated() => misses::table(out, view, kind, top, style),
        _ if kind.value_is_place() => transfers(out, view, kind, top, style),
        _ => values(out, view, kind, top, style),
    }
}

/// Writes what plug-ins and queries found.
fn results(out: &mut impl Write, view: &mut View<'_>, shown: &Shown<'_>) -> io::Result<()> {
    let Shown { top, style, .. } = *shown;
    if (view.profile.windows.as_ref()).is_some_and(|windows| windows.custom.is_some()) {
        writeln!(out)?;
        custom::write(out, view, top, style)?;
    }
    if !view.profile.queries.is_empty() {
        writeln!(out)?;
        queries::write(out, view, top, style)?;
    }
    Ok(())
}

/// Writes the command that shows the function of the hottest instruction.
fn next(out: &mut impl Write, view: &mut View<'_>, file: &Path) -> io::Result<()> {
    let simulated = view.profile.simulated.as_ref();
    if simulated.is_some_and(|simulated| simulated.sharing.is_some()) {
        let file = output::command_line(&[file.as_os_str().as_encoded_bytes().to_vec()]);
        return writeln!(
            out,
            "\n# next        {}",
            printable(&format!("trommel c2c {file}"))
        );
    }
    // Paths alone are no counts of instructions.
    let mut kinds = view.profile.kinds.keys().copied();
    let Some(kind) = kinds.find(|kind| *kind != Kind::Path && !kind.is_simulated()) else {
        return Ok(());
    };
    let all = view.values(kind);
    match view.next(file, all.iter().map(|values| values.at)) {
        Some(command) => writeln!(out, "\n# next        {}", printable(&command)),
        None => Ok(()),
    }
}

fn header(out: &mut impl Write, profile: &Profile, style: Style) -> io::Result<()> {
    let Style { bold, plain, .. } = style;
    let command = match profile.command.is_empty() {
        true => "(several programs)".to_owned(),
        false => printable(&command_line(&profile.command)),
    };
    writeln!(out, "# {bold}{command}{plain}")?;
    course(out, profile)?;
    certainty(out, profile)?;
    if profile.run.undercount > 0 {
        writeln!(
            out,
            "#             but counts of values may be up to {} too low each, as memory was short",
            grouped(profile.run.undercount)
        )?;
    }
    if let Some(line) = threads(profile) {
        writeln!(out, "# threads     {line}")?;
    }
    for line in profile.simulated.iter().flat_map(simulate::lines) {
        writeln!(out, "# simulated   {line}")?;
    }
    totals(out, profile)
}

/// The run's cost and end, and the parts of it that are missing.
fn course(out: &mut impl Write, profile: &Profile) -> io::Result<()> {
    let run = &profile.run;
    let ended = match run.status {
        None if profile.sum.is_some() => "sums over all runs".into(),
        Some(status) if status >= 0 => format!("exit status {status}"),
        Some(signal) => format!("ended by signal {}", -i64::from(signal)),
        None => "its end was not seen".into(),
    };
    writeln!(
        out,
        "# cost        {} wall, {} CPU of the program, {} CPU of trommel; {ended}",
        duration(run.wall),
        duration(run.target_cpu),
        duration(run.host_cpu),
    )?;
    if let Some(sum) = profile.sum {
        let Sum {
            recordings,
            processes,
        } = sum;
        let (recordings, processes) = (grouped(recordings), grouped(processes));
        writeln!(
            out,
            "# sum         recordings: {recordings}, processes: {processes}"
        )?;
    }
    let observed = match &profile.unobserved()[..] {
        [] => "to the end".into(),
        reasons => format!("in part: {}", printable(&reasons.join("; "))),
    };
    writeln!(out, "# observed    {observed}")?;
    let waits = match run.waits {
        0 => String::new(),
        n => format!(
            " (waited {}, {} in all, for a full queue)",
            times(n),
            duration(run.wait_time)
        ),
    };
    writeln!(out, "# lost        {}{waits}", lost::with_reasons(profile))
}

/// The way in which counts were taken, and their bounds.
fn certainty(out: &mut impl Write, profile: &Profile) -> io::Result<()> {
    if let Some(data) = &profile.windows {
        return windows::heading(out, data);
    }
    let spec = &profile.compressor;
    // What was sampled is said of each query.
    if is_of_queries(profile) {
        let exact = match queries::is_sampled(profile) {
            false => "none: each message is counted",
            true => "none in messages, which are counted; what they stand for is with each query",
        };
        let (of, error) = match spec == "exact" {
            true => ("", exact.to_owned()),
            false => (", of the messages of each queue", error_bounds(spec)),
        };
        writeln!(out, "# compressor  {}{of}", printable(spec))?;
        return writeln!(out, "# error       {error}");
    }
    writeln!(out, "# compressor  {}", printable(spec))?;
    writeln!(out, "# counted     {}", profile.counted.words())?;
    if profile.filter.is_none() {
        writeln!(out, "# error       {}", error_bounds(spec))?;
    }
    for (name, text) in profile.filter.iter().flat_map(filter::lines) {
        writeln!(out, "# {name:<11} {text}")?;
    }
    Ok(())
}

/// A line for each kind: its events, and their instructions.
fn totals(out: &mut impl Write, profile: &Profile) -> io::Result<()> {
    for (kind, data) in &profile.kinds {
        let how = match (&profile.windows, &profile.filter) {
            (Some(_), _) => " (estimated)",
            (None, Some(_)) if !kind.value_is_place() => " profiled",
            _ => "",
        };
        let instructions = number_of(data.counts.len() as u64, "instruction");
        let messages = match data.messages == data.seen {
            true => String::new(),
            false => format!(", {}", number_of(data.messages, "message")),
        };
        let events = match kind.is_simulated() {
            true => misses::number(*kind, data.seen),
            false => number_of(data.seen, "event"),
        };
        writeln!(
            out,
            "# {kind:<11} {events}{how} of {instructions}{messages}"
        )?;
    }
    match intervals::candidates(profile) {
        Some(words) => writeln!(out, "# candidates  {words}"),
        None => Ok(()),
    }
}

/// Returns the number of threads, and those that made most of the events; `None` when there was one.
pub(super) fn threads(profile: &Profile) -> Option<String> {
    const SHOWN: usize = 4;
    let threads = &profile.threads;
    if threads.started == 0 {
        return None;
    }
    let sum = |t: &Thread| t.seen.values().fold(0_u64, |sum, n| sum.saturating_add(*n));
    let all = threads.each.iter().map(sum).fold(0, u64::saturating_add);
    let mut most: Vec<(u64, u32)> = threads.each.iter().map(|t| (sum(t), t.number)).collect();
    most.sort_unstable_by_key(|&(events, number)| (std::cmp::Reverse(events), number));
    let shares: Vec<String> = most
        .iter()
        .take(SHOWN)
        .filter(|(events, _)| *events != 0)
        .map(|(events, number)| format!("{:.1}% by number {number}", percent(*events, all)))
        .collect();
    let colon = if shares.is_empty() { "" } else { ": events " };
    let started = grouped(threads.started);
    Some(format!("{started} started{colon}{}", shares.join(", ")))
}

/// Returns true if queries are all that was asked.
pub(super) fn is_of_queries(profile: &Profile) -> bool {
    !profile.queries.is_empty() && profile.kinds.is_empty()
}

/// Returns how far estimated counts may be off.
///
/// One event in r is sent, independently or nearly so: a count N was estimated from N/r messages
/// and has a standard deviation of √(N·(r−1)).
fn error_bounds(compressor: &str) -> String {
    let Ok(spec) = compressor.parse::<Spec>() else {
        return "not known: another trommel wrote this profile".into();
    };
    let sampled = match spec.level {
        Level::Sample(sampler) | Level::Split(sampler, _) if spec.filter.is_none() => Some(sampler),
        _ => None,
    };
    let Some(sampler) = sampled else {
        return match spec.level {
            Level::Exact if spec.filter.is_none() => "none: every event is counted".into(),
            _ => "depends on the program; `trommel compress` measures it on a stream".into(),
        };
    };
    let rate = sampler.rate() * spec.thinning.map_or(1, Sampler::rate);
    let off = f64::from(rate.saturating_sub(1));
    let percent = 200.0 * (off / 1e6).sqrt();
    format!(
        "sampled 1 in {rate}: in 95 % of cases a count of N is within 2·√({off}·N), 1 000 000 within {percent:.1} %"
    )
}

/// A table of branches or calls; gives the number of all.
pub(super) fn transfers(
    out: &mut impl Write,
    view: &mut View<'_>,
    kind: Kind,
    top: usize,
    style: Style,
) -> io::Result<usize> {
    let Style { bold, plain, .. } = style;
    let all = view.transfers(kind);
    let total = all.iter().fold(0_u64, |sum, t| sum.saturating_add(t.count));
    let (heading, what) = title(kind);
    writeln!(
        out,
        "# {bold}{heading}{plain}: {} pairs, {} events",
        grouped(all.len() as u64),
        grouped(total)
    )?;
    let limits = limits_title(view);
    let mut table = Table::new(["count", "%", limits, what, "", "to", "source", "module"]);
    for transfer in all.iter().take(top) {
        let limits = view.limits(transfer);
        let Transfer {
            from,
            to,
            how,
            count,
        } = *transfer;
        table.row([
            grouped(count),
            format!("{:.2}%", percent(count, total)),
            limits.map_or_else(String::new, range),
            view.name(from),
            how.into(),
            view.destination(from, to),
            view.source(from),
            view.module(from),
        ]);
    }
    table.write(out, style)?;
    Ok(all.len())
}

/// A table of instructions with their values; gives the number of all.
pub(super) fn values(
    out: &mut impl Write,
    view: &mut View<'_>,
    kind: Kind,
    top: usize,
    style: Style,
) -> io::Result<usize> {
    let Style { bold, plain, .. } = style;
    let all = view.values(kind);
    let total = all
        .iter()
        .fold(0_u64, |sum, v| sum.saturating_add(v.executions));
    let constant = all
        .iter()
        .fold(0_u64, |sum, v| sum.saturating_add(v.most()));
    let profiled = all
        .iter()
        .fold(0_u64, |sum, v| sum.saturating_add(v.profiled));
    let (heading, what) = title(kind);
    writeln!(
        out,
        "# {bold}{heading}{plain}: {} instructions, {} events; {:.1} % had the most frequent value of their instruction",
        grouped(all.len() as u64),
        grouped(total),
        percent(constant, profiled),
    )?;
    let mut table = Table::new([
        "executions",
        "%",
        limits_title(view),
        what,
        "distinct",
        "values",
        "source",
        "module",
    ]);
    for entry in all.iter().take(top) {
        value_row(&mut table, view, entry, total, kind == Kind::Type);
    }
    table.write(out, style)?;
    Ok(all.len())
}

/// Adds the row of one instruction; `named`: its values are addresses worth a name.
pub(super) fn value_row(
    table: &mut Table<8>,
    view: &mut View<'_>,
    entry: &Values<'_>,
    total: u64,
    named: bool,
) {
    let executions = view.executions(entry);
    let shown = entry.top(VALUES_IN_ROW).into_iter().map(|(value, count)| {
        let share = percent(count, entry.profiled);
        let doubt = executions.as_ref().map_or_else(String::new, |e| {
            let limits = e.share(entry.position(value), count);
            let off = (100.0 * limits.high - share).max(share - 100.0 * limits.low);
            format!("±{off:.1}")
        });
        match view.name_of_address(value).filter(|_| named) {
            Some(name) => format!("{} {share:.1}%{doubt}", short(&readable(&name))),
            None if entry.kind() == Kind::Value => {
                let words = view.shown(entry.at, value);
                format!("{} {share:.1}%{doubt}", short(&words))
            }
            None => format!("{value:#x} {share:.1}%{doubt}"),
        }
    });
    let shown = shown.collect::<Vec<_>>().join(", ");
    table.row([
        match entry.has_more() {
            true => format!("{}{}", grouped(entry.executions), filter::MORE),
            false => grouped(entry.executions),
        },
        format!("{:.2}%", percent(entry.executions, total)),
        executions.map_or_else(String::new, |e| range(e.all)),
        view.name(entry.at),
        grouped(entry.distinct() as u64),
        shown,
        view.source(entry.at),
        view.module(entry.at),
    ]);
}

/// Modules whose names could not be read, for those that were asked about.
fn problems(
    out: &mut impl Write,
    view: &mut View<'_>,
    program: Option<&Program>,
) -> io::Result<()> {
    let profile = view.profile;
    let nameless = match (&profile.samples, program) {
        (Some(samples), _) => nameless::of_samples(view, samples),
        (None, Some(program)) => nameless::of_program(profile, program),
        (None, None) => None,
    };
    let stripped = program.and_then(|program| nameless::stripped(view, program));
    for line in nameless.into_iter().chain(stripped) {
        writeln!(out, "# no names: {}", printable(&line))?;
    }
    for module in &profile.modules {
        if module.path.first() == Some(&b'/')
            && let Some(problem) = view.problem(module.id)
        {
            writeln!(out, "# no names: {}", printable(problem))?;
        }
    }
    Ok(())
}

/// The reason why nothing was collected of so many events. No event is not the same as none that was sampled.
pub(super) fn none_of(profile: &Profile, seen: u64) -> String {
    let spec = profile.compressor.parse::<Spec>().ok();
    let interval = spec.as_ref().and_then(Spec::interval);
    match (seen, &profile.windows, interval) {
        (0, Some(_), _) => "no window saw any".to_owned(),
        (0, None, _) => "none".to_owned(),
        (_, _, Some(_)) => format!("none of {} events is a candidate", grouped(seen)),
        (_, _, None) => format!("none of {} events was sampled", grouped(seen)),
    }
}

/// Returns true if nothing was collected of a kind.
pub(super) fn is_empty(data: &KindProfile) -> bool {
    data.counts.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_follow_from_the_sampler() {
        for (spec, wanted) in [
            ("exact", "none"),
            ("P256", "1 in 256"),
            ("CR1k:sum", "1 in 1000"),
            ("H[P256]2048+A16", "2·√(255·N), 1 000 000 within 3.2 %"),
            ("T[256]2048/2way/2bit", "depends"),
            ("Z9", "not known"),
        ] {
            let bounds = error_bounds(spec);
            assert!(bounds.contains(wanted), "{spec}: {bounds}");
        }
    }
}
