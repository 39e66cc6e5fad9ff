//! Misses of simulated caches, and mispredicted branches: how often each instruction missed, and of how many accesses.

use std::io::{self, Write};

use trommel_profile::Profile;
use trommel_profile::simulated::Simulated;
use trommel_tuple::{Kind, Place};

use super::filter;
use super::table::{OF_ACCESSES, OF_BRANCHES, Style, Table, limits_title, range, title};
use super::view::{Values, View};
use crate::output::{grouped, number_of, percent};

/// The number of events of a simulated kind, in words.
pub(super) fn number(kind: Kind, events: u64) -> String {
    let (one, many) = match kind {
        Kind::Miss => ("first-level miss", "first-level misses"),
        Kind::LastMiss => ("last-level miss", "last-level misses"),
        _ => ("misprediction", "mispredictions"),
    };
    match events {
        1 => format!("1 {one}"),
        n => format!("{} {many}", grouped(n)),
    }
}

/// Returns the numbers of simulated events, where nothing else was recorded.
pub(super) fn counted(profile: &Profile) -> Option<String> {
    let simulated = profile.simulated.as_ref()?;
    let kinds = &profile.kinds;
    if kinds.is_empty() {
        let lines = simulated.sharing.as_ref()?.lines.len();
        let lines = number_of(lines as u64, "line");
        return Some(format!("{lines} handed over between threads"));
    }
    let all: Vec<String> = kinds
        .iter()
        .filter(|(kind, _)| kind.is_simulated())
        .map(|(kind, data)| number(*kind, data.seen))
        .collect();
    (all.len() == kinds.len()).then(|| all.join(", "))
}

/// Returns what an instruction executed of what can miss: accesses, or branches. `None` where the recording does not say it.
pub(super) fn executed(simulated: &Simulated, kind: Kind, at: Place) -> Option<u64> {
    let of = match kind {
        Kind::Mispredict => &simulated.branches,
        _ => &simulated.accesses,
    };
    of.get(&at).copied()
}

/// The same of all instructions.
fn all(simulated: &Simulated, kind: Kind) -> u64 {
    match kind {
        Kind::Mispredict => [simulated.conditional, simulated.indirect]
            .iter()
            .fold(0, |sum, of| of.branches.saturating_add(sum)),
        _ => [simulated.loads, simulated.stores]
            .iter()
            .fold(0, |sum, of| of.accesses.saturating_add(sum)),
    }
}

/// Writes a table of the instructions that missed, those that missed most first. Returns the number of all.
pub(super) fn table(
    out: &mut impl Write,
    view: &mut View<'_>,
    kind: Kind,
    top: usize,
    style: Style,
) -> io::Result<usize> {
    let is_branch = kind == Kind::Mispredict;
    let every = view.values(kind);
    let sum = |n: u64, values: &Values<'_>| n.saturating_add(values.executions);
    let missed = every.iter().fold(0, sum);
    let profile = view.profile;
    let simulated = profile.simulated.as_ref();
    let (heading, one) = title(kind);
    let of = if is_branch { "executions" } else { "accesses" };
    let rate = simulated
        .map(|simulated| all(simulated, kind))
        .map_or_else(String::new, |whole| {
            format!(
                " of {} {of} ({:.2} %)",
                grouped(whole),
                percent(missed, whole)
            )
        });
    let by = if is_branch { "of" } else { "by" };
    let places = match (every.len(), is_branch) {
        (1, _) => format!("1 {one}"),
        (n, false) => format!("{} instructions", grouped(n as u64)),
        (n, true) => format!("{} branches", grouped(n as u64)),
    };
    writeln!(
        out,
        "# {}: {}{rate}, {by} {places}",
        style.strong(heading),
        grouped(missed)
    )?;
    let (count, [whole, part], value) = match is_branch {
        true => ("mispredicted", OF_BRANCHES, "went most often to"),
        false => ("misses", OF_ACCESSES, "lines"),
    };
    let limits = limits_title(view);
    let titles = [
        count, "%", whole, part, limits, one, value, "source", "module",
    ];
    let mut table = Table::new(titles).numbers(4);
    for values in every.iter().take(top) {
        table.row(row(view, values, missed));
    }
    table.write(out, style)?;
    Ok(every.len())
}

/// The cells of an instruction.
fn row(view: &mut View<'_>, values: &Values<'_>, missed: u64) -> [String; 9] {
    let kind = values.kind();
    let simulated = view.profile.simulated.as_ref();
    let whole = simulated.and_then(|simulated| executed(simulated, kind, values.at));
    let limits = view.executions(values);
    let value = match kind {
        Kind::Mispredict => values.top(1).first().map_or_else(String::new, |(to, _)| {
            view.destination(values.at, Place::from_word(*to))
        }),
        _ => grouped(values.distinct() as u64),
    };
    [
        match values.has_more() {
            true => format!("{}{}", grouped(values.executions), filter::MORE),
            false => grouped(values.executions),
        },
        format!("{:.2}%", percent(values.executions, missed)),
        whole.map_or_else(String::new, grouped),
        whole.map_or_else(String::new, |whole| {
            format!("{:.2}%", percent(values.executions, whole))
        }),
        limits.map_or_else(String::new, |limits| range(limits.all)),
        view.name(values.at),
        value,
        view.source(values.at),
        view.module(values.at),
    ]
}
