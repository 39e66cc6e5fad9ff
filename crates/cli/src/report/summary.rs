//! The short table at the end of `record`.
//!
//! It is printed while the user waits for the prompt, so it reads symbol tables but only small
//! debug information; `report` reads all of it.

use std::io::{self, Write};

use trommel_code::Program;
use trommel_profile::Profile;
use trommel_profile::call_tree::Basis;
use trommel_profile::confidence::Confidence;
use trommel_symbol::{Files, Symbols};
use trommel_tuple::Kind;

use super::Shown;
use super::contexts;
use super::custom;
use super::filter;
use super::functions;
use super::paths;
use super::processes::{self, Row};
use super::queries;
use super::samples;
use super::table::{Style, Table, limits_title};
use super::text;
use super::view::{Values, View};
use super::windows;
use crate::load;
use crate::others::{self, Others};
use crate::output;
use crate::simulate;

const ROWS: usize = 5;
/// Opening this much debug information takes some fifteen milliseconds. The C library has more: its functions go without a source here.
const DEBUG_LIMIT: u64 = 6 << 20;
/// Loads with a smaller share of all executions say nothing about the program.
const MIN_SHARE: u64 = 1000;

/// Pairs of a place and a value in all profiles, above which they are not added up while the user
/// waits.
const MOST_TUPLES: usize = 4 << 20;
/// Processes shown.
const PROCESSES: usize = 10;

/// Writes the summary of a recording for stderr.
pub(crate) fn write(out: &mut impl Write, first: &Profile, others: &Others) -> io::Result<()> {
    if others.is_empty() {
        return one(out, first, 1);
    }
    let style = Style::of(&io::stderr());
    let rows: Vec<Row> = std::iter::once(Row::new(first))
        .chain(others.rows().cloned())
        .collect();
    processes::table(out, &rows, PROCESSES, style)?;
    if others::tuples(first) + others.tuples() > MOST_TUPLES {
        let seen = rows.iter().map(Row::seen).fold(0, u64::saturating_add);
        let told = std::iter::once(others::told(first)).chain(others.told());
        return match processes::merge(told, false) {
            Some((merged, _)) => cost(out, &merged, seen),
            None => Ok(()),
        };
    }
    let all = std::iter::once(first.clone()).chain(others.profiles());
    match processes::merge(all, false) {
        Some((merged, rows)) => one(out, &merged, rows.len()),
        None => Ok(()),
    }
}

impl<'a> Shown<'a> {
    /// The parts of a summary.
    fn summary(program: Option<&'a Program>, style: Style) -> Self {
        Self {
            program,
            wanted: None,
            rows: &[],
            top: ROWS,
            chosen: true,
            style,
        }
    }
}

fn one(out: &mut impl Write, profile: &Profile, processes: usize) -> io::Result<()> {
    let files = Files::new();
    let symbols = Symbols::new(&files, &profile.modules).with_debug_limit(DEBUG_LIMIT);
    let mut view = View::new(
        profile,
        symbols,
        Confidence::of_processes(profile, processes),
    );
    let style = Style::of(&io::stderr());
    let seen = (profile.kinds.values()).fold(0_u64, |sum, k| sum.saturating_add(k.seen));
    cost(out, profile, seen)?;
    let program = view.program();
    if let Some(program) = &program {
        let shown = Shown::summary(Some(program), style);
        functions::summary(out, &mut view, &shown)?;
    }
    if let (None, Some(paths)) = (&program, view.call_paths(Basis::Contexts)) {
        let shown = Shown::summary(None, style);
        contexts::functions(out, &mut view, &paths, &shown)?;
    }
    for (&kind, data) in &profile.kinds {
        let derived = program.is_some() && matches!(kind, Kind::Edge | Kind::Call);
        if derived && !text::is_empty(data) {
            continue;
        }
        if text::is_empty(data) {
            writeln!(out, "trommel: no {kind} events")?;
        } else if kind.value_is_place() {
            text::transfers(out, &mut view, kind, ROWS, style)?;
        } else if kind == Kind::Path {
            paths::table(out, &mut view, ROWS, style)?;
        } else if kind == Kind::Value {
            semi_invariant(out, &mut view, style)?;
        } else {
            text::values(out, &mut view, kind, ROWS, style)?;
        }
    }
    for line in profile.simulated.iter().flat_map(simulate::lines) {
        writeln!(out, "trommel: simulated: {line}")?;
    }
    custom::write(out, &mut view, ROWS, style)?;
    queries::write(out, &mut view, ROWS, style)
}

/// Writes the summary of a recording of the whole machine.
pub(crate) fn of_machine(out: &mut impl Write, profiles: &[Profile]) -> io::Result<()> {
    let Some((profile, rows)) = processes::merge(profiles.iter().cloned(), false) else {
        return Ok(());
    };
    let Some(found) = &profile.samples else {
        return Ok(());
    };
    let files = Files::new();
    let symbols = load::symbols(&files, &profile).with_debug_limit(DEBUG_LIMIT);
    let mut view = View::new(
        &profile,
        symbols,
        Confidence::of_processes(&profile, rows.len()),
    );
    let style = Style::of(&io::stderr());
    for (name, text) in found.machine.iter().flat_map(samples::lines) {
        writeln!(out, "trommel: {name}: {}", output::printable(&text))?;
    }
    match found.machine.as_ref().is_some_and(|m| m.of_processes) {
        true => samples::summary(out, &mut view, found, ROWS, style),
        false => samples::tables(out, &mut view, found, &rows, ROWS, style).map(drop),
    }
}

fn cost(out: &mut impl Write, profile: &Profile, seen: u64) -> io::Result<()> {
    let run = &profile.run;
    let dropped = match run.dropped {
        0 => "nothing lost".into(),
        n => format!("{} EVENTS LOST", output::grouped(n)),
    };
    let counted = match profile.call_tree(Basis::Contexts) {
        Some(tree) if profile.kinds.is_empty() => {
            let contexts = tree.nodes().len() as u64;
            format!("{} calling contexts", output::grouped(contexts))
        }
        _ => format!("{} events", output::grouped(seen)),
    };
    writeln!(
        out,
        "trommel: {counted}{} in {} ({} CPU of the program, {} of trommel), {dropped}",
        if profile.windows.is_some() {
            " (estimated)"
        } else {
            ""
        },
        output::duration(run.wall),
        output::duration(run.target_cpu),
        output::duration(run.host_cpu),
    )?;
    if let Some(windows) = &profile.windows {
        for (name, text) in windows::lines(windows) {
            writeln!(out, "trommel: {name}: {text}")?;
        }
    }
    for (name, text) in profile.filter.iter().flat_map(filter::lines) {
        writeln!(out, "trommel: {name}: {text}")?;
    }
    if run.waits > 0 {
        writeln!(
            out,
            "trommel: the program waited {} times, {} in all, for trommel to catch up",
            output::grouped(run.waits),
            output::duration(run.wait_time),
        )?;
    }
    if let Some(line) = text::threads(profile) {
        writeln!(out, "trommel: threads: {line}")?;
    }
    for reason in &run.detach {
        writeln!(
            out,
            "trommel: not observed to the end: {}",
            output::printable(reason)
        )?;
    }
    Ok(())
}

/// The hottest loads that nearly always load the same: what could be specialised.
fn semi_invariant(out: &mut impl Write, view: &mut View<'_>, style: Style) -> io::Result<()> {
    let all = view.values(Kind::Value);
    let total = all
        .iter()
        .fold(0_u64, |sum, v| sum.saturating_add(v.executions));
    let hot = |v: &&Values<'_>| v.executions >= total / MIN_SHARE;
    let steady = |v: &&Values<'_>| v.most() >= v.profiled - v.profiled / 10;
    let chosen: Vec<_> = all.iter().filter(hot).filter(steady).take(ROWS).collect();
    let found = if chosen.is_empty() { ": none" } else { "" };
    writeln!(
        out,
        "# Semi-invariant loads (one value in 90 % of executions or more){found}"
    )?;
    if chosen.is_empty() {
        return Ok(());
    }
    let mut table = Table::new([
        "executions",
        "%",
        limits_title(view),
        "load",
        "distinct",
        "values",
        "source",
        "module",
    ]);
    for entry in chosen {
        text::value_row(&mut table, view, entry, total, false);
    }
    table.write(out, style)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trommel_profile::KindProfile;
    use trommel_tuple::Place;

    #[test]
    fn steady_loads_are_shown_and_others_are_not() {
        let counts = [
            (Place::from_word(0x10), vec![(7, 950), (8, 50)]),
            (Place::from_word(0x18), vec![(7, 1_000)]),
            (Place::from_word(0x28), vec![(1, 50_000), (2, 50_000)]),
            (Place::from_word(0x30), vec![(3, 10)]),
            (Place::from_word(0x20), vec![(1, 50), (2, 50)]),
        ];
        let values = KindProfile {
            seen: 200,
            messages: 200,
            counts: counts.into(),
        };
        let profile = Profile {
            kinds: [(Kind::Value, values), (Kind::Edge, KindProfile::default())].into(),
            ..Profile::default()
        };
        let mut text = Vec::new();
        write(&mut text, &profile, &Others::default()).expect("memory");
        let text = String::from_utf8(text).expect("UTF-8");
        assert!(
            text.contains("[anon]+0x10") && text.contains(" 7 95.0%"),
            "{text}"
        );
        assert!(
            !text.contains("0x20") && text.contains("nothing lost"),
            "{text}"
        );
        assert!(text.contains("no edge events"), "{text}");
    }
}
