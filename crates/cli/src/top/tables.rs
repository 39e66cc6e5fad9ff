//! The tables of a screen, as lines that fit.

use std::time::Duration;

use super::history::{History, Sum};
use super::intervals::CandidateRow;
use super::snapshot::{FunctionRow, TransferRow, ValueRow};
use super::state::{Shown, State};
use crate::output::{duration, grouped};
use crate::report::processes::cut;
use crate::report::table::{Style, Table};

/// Rows of a table: nobody looks further down, and each screen makes them anew.
const MOST: usize = 200;
/// Values of a load.
const VALUES: usize = 3;

/// A table: its titles, and its rows.
pub(super) struct Lines {
    pub(super) head: String,
    pub(super) rows: Vec<String>,
}

/// Returns a table in an order, in lines of so many columns.
pub(super) fn lines(
    history: &History,
    sum: &Sum,
    state: &State,
    (shown, order): (Shown, &str),
    width: usize,
) -> Lines {
    match shown {
        Shown::Candidates => candidates(history, state.whole, order, width),
        Shown::Functions => functions(sum, order, width),
        Shown::Branches => transfers(sum.branches(), sum.seen("edge"), order, width),
        Shown::Calls => transfers(sum.calls(), sum.seen("call"), order, width),
        Shown::Values => values(sum, order, width),
        Shown::Processes => processes(sum, order, width),
    }
}

fn written<const N: usize>(table: &Table<N>, width: usize) -> Lines {
    let mut style = Style::new(false);
    style.width = width;
    let mut text = Vec::new();
    // Into memory, which does not fail.
    let _ = table.write(&mut text, style);
    let text = String::from_utf8_lossy(&text);
    let mut lines = text.lines().map(str::to_owned);
    let head = lines.next().unwrap_or_default();
    Lines {
        // It is marked by its look.
        head: head.replacen('#', " ", 1),
        rows: lines.collect(),
    }
}

fn share(part: f64, whole: f64) -> String {
    match whole > 0.0 {
        true => format!("{:.1}%", (100.0 * part / whole).min(100.0)),
        false => String::new(),
    }
}

fn functions(sum: &Sum, order: &str, width: usize) -> Lines {
    let mut all = sum.functions();
    let by_self = |a: &&FunctionRow, b: &&FunctionRow| b.own.total_cmp(&a.own);
    let by_name =
        |a: &&FunctionRow, b: &&FunctionRow| (&a.name, &a.module).cmp(&(&b.name, &b.module));
    all.sort_by(|a, b| match order {
        "name" => by_name(a, b),
        "calls" => (b.calls.total_cmp(&a.calls)).then_with(|| by_name(a, b)),
        _ => by_self(a, b).then_with(|| by_name(a, b)),
    });
    let (own, calls) = match sum.is_time {
        true => ("time", ""),
        false => (&*sum.unit, "calls"),
    };
    let mut table = Table::new([own, "%", calls, "function", "module"]).numbers(3);
    for row in all.into_iter().take(MOST) {
        let (own, calls) = match sum.is_time {
            true => (duration(row.own.round() as u64), String::new()),
            false => (
                grouped(row.own.round() as u64),
                grouped(row.calls.round() as u64),
            ),
        };
        table.row([
            own,
            share(row.own, sum.total),
            calls,
            row.name.clone(),
            row.module.clone(),
        ]);
    }
    written(&table, width)
}

fn transfers(mut all: Vec<&TransferRow>, seen: u64, order: &str, width: usize) -> Lines {
    let by_name = |a: &&TransferRow, b: &&TransferRow| {
        (&a.from, &a.to, &a.kind).cmp(&(&b.from, &b.to, &b.kind))
    };
    all.sort_by(|a, b| match order {
        "name" => by_name(a, b),
        _ => b.count.cmp(&a.count).then_with(|| by_name(a, b)),
    });
    let mut table = Table::new(["count", "%", "from", "", "to", "module"]);
    for row in all.into_iter().take(MOST) {
        table.row([
            grouped(row.count),
            share(row.count as f64, seen as f64),
            row.from.clone(),
            row.kind.clone(),
            row.to.clone(),
            row.module.clone(),
        ]);
    }
    written(&table, width)
}

fn values(sum: &Sum, order: &str, width: usize) -> Lines {
    let most = |row: &ValueRow| {
        let most = row.top.first().map_or(0, |value| value.count);
        most as f64 / row.executions.max(1) as f64
    };
    let by_name = |a: &&ValueRow, b: &&ValueRow| (&a.at, &a.module).cmp(&(&b.at, &b.module));
    let mut all = sum.values();
    all.sort_by(|a, b| match order {
        "name" => by_name(a, b),
        "share" => (most(b).total_cmp(&most(a)))
            .then_with(|| b.executions.cmp(&a.executions))
            .then_with(|| by_name(a, b)),
        _ => (b.executions.cmp(&a.executions)).then_with(|| by_name(a, b)),
    });
    let seen = sum.seen("value");
    let mut table = Table::new(["executions", "%", "load", "values", "module"]);
    for row in all.into_iter().take(MOST) {
        let top = row.top.iter().take(VALUES).map(|value| {
            let share = share(value.count as f64, row.executions as f64);
            format!("{} {share}", value.shown)
        });
        table.row([
            grouped(row.executions),
            share(row.executions as f64, seen as f64),
            row.at.clone(),
            top.collect::<Vec<_>>().join(", "),
            row.module.clone(),
        ]);
    }
    written(&table, width)
}

/// Candidates of the latest intervals, of each thread.
fn candidates(history: &History, whole: bool, order: &str, width: usize) -> Lines {
    let latest = history.latest(whole);
    let several = latest.len() > 1;
    let rows = latest.iter().flat_map(|(interval, age)| {
        let of = |row| (interval.thread, *age, row);
        interval.candidates.iter().map(of)
    });
    let mut rows: Vec<(Option<u32>, Duration, &CandidateRow)> = rows.collect();
    let by_share = |a: &CandidateRow, b: &CandidateRow| {
        let name = |row: &CandidateRow| (row.at.clone(), row.to.clone(), row.value.clone());
        (b.share.total_cmp(&a.share)).then_with(|| name(a).cmp(&name(b)))
    };
    rows.sort_by(|(of_a, _, a), (of_b, _, b)| match order {
        "name" => (&a.at, &a.to, &a.value).cmp(&(&b.at, &b.to, &b.value)),
        "thread" => (of_a.cmp(of_b)).then_with(|| by_share(a, b)),
        _ => by_share(a, b).then_with(|| of_a.cmp(of_b)),
    });
    let ended = if several { "ended" } else { "" };
    let mut table =
        Table::new(["count", "%", "thread", ended, "kind", "at", "to", "module"]).numbers(4);
    for (thread, age, row) in rows.into_iter().take(MOST) {
        let to = row.to.as_ref().or(row.value.as_ref());
        let [thread, ended] = match thread.filter(|_| several) {
            None => [String::new(), String::new()],
            Some(thread) => [thread.to_string(), ago(age)],
        };
        table.row([
            grouped(row.count),
            format!("{:.1}%", 100.0 * row.share),
            thread,
            ended,
            row.kind.clone(),
            row.at.clone(),
            to.cloned().unwrap_or_default(),
            row.module.clone(),
        ]);
    }
    written(&table, width)
}

/// A time that is over, in words.
pub(super) fn ago(time: Duration) -> String {
    format!("{} ago", duration(time.as_nanos() as u64))
}

fn processes(sum: &Sum, order: &str, width: usize) -> Lines {
    let mut all = sum.processes();
    all.sort_by(|a, b| match order {
        "pid" => a.pid.cmp(&b.pid),
        _ => (b.self_ns.cmp(&a.self_ns)).then_with(|| a.pid.cmp(&b.pid)),
    });
    let whole: u64 = all.iter().map(|row| row.self_ns).sum();
    let mut table = Table::new(["time", "%", "pid", "command"]).numbers(3);
    for row in all.into_iter().take(MOST) {
        table.row([
            duration(row.self_ns),
            share(row.self_ns as f64, whole as f64),
            row.pid.to_string(),
            cut(&row.command),
        ]);
    }
    written(&table, width)
}
