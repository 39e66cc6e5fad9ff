//! `load`, `remove` and `list`: the queries of a session that runs.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use trommel_host::serve::control::client::{Ask, ask, is_name, name_of};

use super::{forecast, question};
use crate::output::{self, grouped, printable, printable_lines};

const SCHEMA: &str = "trommel.queries/1";
/// Titles of the numbers of a query, as the session gives them.
const NUMBERS: [&str; 7] = [
    "executed",
    "profiled",
    "sent",
    "dropped",
    "counted",
    "interrupts",
    "active_ns",
];

/// A query as the session lists it.
struct Listed<'a> {
    name: &'a str,
    header: &'a str,
    queues: Vec<u64>,
    numbers: [u64; NUMBERS.len()],
}

impl<'a> Listed<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let mut parts = line.split('\t');
        let (name, header) = (parts.next()?, parts.next()?);
        let queues = parts.next()?;
        let queues = queues.split(',').filter(|queue| !queue.is_empty());
        let queues: Option<Vec<u64>> = queues.map(|queue| queue.parse().ok()).collect();
        let mut numbers = [0; NUMBERS.len()];
        for number in &mut numbers {
            *number = parts.next()?.parse().ok()?;
        }
        Some(Self {
            name,
            header,
            queues: queues?,
            numbers,
        })
    }
}

/// Loads a program into a session.
pub(super) fn load(file: &Path, name: Option<&str>, pid: i32) -> Result<ExitCode> {
    let program = question(file)?;
    let name = name.map_or_else(|| name_of(file), str::to_owned);
    if !is_name(&name) {
        bail!(
            "{name:?} cannot be a name: use letters, digits, `-`, `_` and `.`, 64 at most, and not digits alone"
        );
    }
    let said = ask(pid, &Ask::Load(&name, &program))?;
    if let Some(costly) = forecast::of(&program.queries(), None) {
        output::complain(&costly);
    }
    done(&said)
}

/// Removes queries from a session.
pub(super) fn remove(what: &str, pid: i32) -> Result<ExitCode> {
    let is_queue = what.parse::<u8>().is_ok();
    let (name, number) = what.split_once(':').unwrap_or((what, "1"));
    let is_named = is_name(name) && number.parse::<u16>().is_ok();
    if !(is_queue || is_named) {
        bail!("{what:?} is neither a queue nor a name: `trommel query list` shows both");
    }
    done(&ask(pid, &Ask::Remove(what))?)
}

fn done(said: &str) -> Result<ExitCode> {
    let mut out = output::stdout();
    writeln!(out, "{}", printable_lines(said))?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Lists the queries of a session.
pub(super) fn list(pid: i32, json: bool) -> Result<ExitCode> {
    let answer = ask(pid, &Ask::List)?;
    let listed: Option<Vec<Listed<'_>>> = answer.lines().map(Listed::read).collect();
    let listed = listed.context("the session's answer cannot be read: it is of another version")?;
    let mut out = output::stdout();
    if json {
        let queries: Vec<Value> = listed.iter().map(object).collect();
        let document = json!({ "schema": SCHEMA, "queries": queries });
        writeln!(out, "{}", serde_json::to_string_pretty(&document)?)?;
    } else if listed.is_empty() {
        writeln!(out, "no queries")?;
    } else {
        table(&mut out, &listed)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn object(query: &Listed<'_>) -> Value {
    let mut object = json!({
        "name": query.name,
        "header": query.header,
        "queues": query.queues,
    });
    for (name, number) in NUMBERS.iter().zip(query.numbers) {
        object[name] = json!(number);
    }
    object
}

fn table(out: &mut impl Write, listed: &[Listed<'_>]) -> Result<()> {
    const SECOND: f64 = 1e9;
    let titles = [
        "name", "queues", "profiled", "sent", "dropped", "counted", "active", "query",
    ];
    let mut rows = vec![titles.map(str::to_owned)];
    for query in listed {
        let [_, profiled, sent, dropped, counted, _, active] = query.numbers;
        let queues: Vec<String> = query.queues.iter().map(u64::to_string).collect();
        rows.push([
            printable(query.name),
            match queues.is_empty() {
                true => "-".to_owned(),
                false => queues.join(","),
            },
            grouped(profiled),
            grouped(sent),
            grouped(dropped),
            grouped(counted),
            format!("{:.1} s", active as f64 / SECOND),
            printable(query.header),
        ]);
    }
    let columns = output::width(&std::io::stdout());
    write_rows(out, &rows, columns)
}

/// Writes rows, the query below its numbers if they do not fit beside each other. Nothing is cut.
fn write_rows(out: &mut impl Write, rows: &[[String; 8]], columns: usize) -> Result<()> {
    const QUERY: usize = 7;
    const INDENT: usize = 4;
    let width = |n: usize| rows.iter().map(|row| row[n].chars().count()).max();
    let widths: Vec<usize> = (0..=QUERY).filter_map(width).collect();
    let is_wide = widths.iter().map(|width| width + 2).sum::<usize>() > columns.saturating_add(2);
    for row in rows {
        let mut line = String::new();
        for (n, (cell, width)) in row.iter().zip(&widths).enumerate() {
            match n {
                QUERY if is_wide => {}
                0 | 1 | QUERY => line.push_str(&format!("{cell:<width$}  ")),
                _ => line.push_str(&format!("{cell:>width$}  ")),
            }
        }
        let line = output::wrapped(line.trim_end(), 0, INDENT, columns);
        writeln!(out, "{line}")?;
        if is_wide {
            let query = output::wrapped(&row[QUERY], INDENT, INDENT, columns);
            writeln!(out, "{:INDENT$}{query}", "")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_that_does_not_fit_is_below_its_numbers() {
        let row = [
            "stores",
            "1",
            "1 234 567",
            "9",
            "0",
            "0",
            "1.5 s",
            "for opSTORE * every 64 collect pc op1",
        ];
        let titles = [
            "name", "queues", "profiled", "sent", "dropped", "counted", "active", "query",
        ];
        let rows = [titles, row].map(|row| row.map(str::to_owned));
        for (columns, lines) in [(usize::MAX, 2), (112, 2), (80, 4), (30, 9)] {
            let mut out = Vec::new();
            write_rows(&mut out, &rows, columns).expect("memory");
            let text = String::from_utf8(out).expect("UTF-8");
            assert_eq!(text.lines().count(), lines, "{columns}: {text}");
            assert!(
                text.lines().all(|line| line.chars().count() <= columns),
                "{text}"
            );
            let words: Vec<&str> = text.split_whitespace().collect();
            let words = words.join(" ");
            assert!(
                words.contains("1 234 567") && words.ends_with("collect pc op1"),
                "{text}"
            );
        }
    }
}
