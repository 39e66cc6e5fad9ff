//! A difference as text, Markdown and JSON.

use std::io::{self, Write};

use trommel_code::Count;
use trommel_symbol::{readable, readable_of_engine};

use super::{Change, Difference, Entry};
use crate::json::Json;
use crate::output::{command_line, grouped, printable};
use crate::report::table::{Style, Table, more};
use crate::shown::short;

/// Entries that differ, and those of which that is not known.
fn shown(difference: &Difference) -> Vec<&Entry> {
    let differs = |e: &&Entry| e.verdict != Change::Same;
    difference.entries.iter().filter(differs).collect()
}

pub(super) fn text(
    out: &mut impl Write,
    difference: &Difference,
    top: usize,
    style: Style,
    full_names: bool,
) -> io::Result<()> {
    for (side, what) in difference.sides.iter().zip(["before", "after"]) {
        writeln!(
            out,
            "# {what:<8} {} {}  {}: {}",
            grouped(side.executed.times.round() as u64),
            side.profile.unit().in_words(),
            printable(&side.path),
            printable(&command_line(&side.profile.command)),
        )?;
    }
    writeln!(out, "# change   {:+.2} %", difference.percent())?;
    let all = shown(difference);
    let same = difference.entries.len() - all.len();
    if all.is_empty() {
        writeln!(
            out,
            "# no difference: {} functions are the same",
            grouped(same as u64)
        )?;
        return out.flush();
    }
    let open = all.iter().filter(|e| e.verdict == Change::Unknown).count();
    writeln!(
        out,
        "\n# {}: {} changed, {} the same{}",
        style.strong("Functions"),
        grouped((all.len() - open) as u64),
        grouped(same as u64),
        match open {
            0 => String::new(),
            n => format!(", {} cannot be told (?)", grouped(n as u64)),
        },
    )?;
    let titles = ["change", "%", "before", "after", "", "function", "module"];
    let mut table = Table::new(titles).numbers(4);
    for entry in all.iter().take(top) {
        table.row([
            signed(entry.change()),
            part(difference, entry),
            figure(&entry.own[0]),
            figure(&entry.own[1]),
            match entry.verdict {
                Change::Unknown => "?".into(),
                _ => String::new(),
            },
            name(entry, full_names),
            entry.module.clone(),
        ]);
    }
    table.write(out, style)?;
    more(out, all.len(), top)?;
    out.flush()
}

fn name(entry: &Entry, full: bool) -> String {
    match full {
        true => entry.name.clone(),
        false if entry.module.starts_with('[') => short(&readable_of_engine(&entry.name)),
        false => short(&readable(&entry.name)),
    }
}

/// The change in percent of what the program executed before.
fn part(difference: &Difference, entry: &Entry) -> String {
    let before = difference.sides[0].executed.times.max(1.0);
    format!("{:+.2}%", 100.0 * entry.change() / before)
}

fn figure(count: &Count) -> String {
    match count.times.round() as u64 {
        0 => "-".into(),
        n => grouped(n),
    }
}

fn signed(change: f64) -> String {
    let sign = if change < 0.0 { "-" } else { "+" };
    format!("{sign}{}", grouped(change.abs().round() as u64))
}

/// A table for a comment on a change.
pub(super) fn markdown(
    out: &mut impl Write,
    difference: &Difference,
    top: usize,
    full_names: bool,
) -> io::Result<()> {
    let [before, after] = [0, 1].map(|n: usize| difference.sides[n].executed);
    writeln!(
        out,
        "**{:+.2} %** {}: {} before, {} after.\n",
        difference.percent(),
        difference.sides[0].profile.unit().in_words(),
        figure(&before),
        figure(&after),
    )?;
    let all = shown(difference);
    if all.is_empty() {
        writeln!(out, "No function differs.")?;
        return out.flush();
    }
    writeln!(out, "| change | % | before | after | function | file |")?;
    writeln!(out, "| ---: | ---: | ---: | ---: | --- | --- |")?;
    for entry in all.iter().take(top) {
        let doubt = if entry.verdict == Change::Unknown {
            " ?"
        } else {
            ""
        };
        writeln!(
            out,
            "| {} | {}{doubt} | {} | {} | `{}` | {} |",
            signed(entry.change()),
            part(difference, entry),
            figure(&entry.own[0]),
            figure(&entry.own[1]),
            printable(&name(entry, full_names)).replace('|', "\\|"),
            printable(&entry.module),
        )?;
    }
    out.flush()
}

pub(super) fn json(out: &mut impl Write, difference: &Difference, top: usize) -> io::Result<()> {
    let mut json = Json::new(out);
    json.object()?;
    json.text("schema", "trommel.diff/1")?;
    for (side, name) in difference.sides.iter().zip(["before", "after"]) {
        json.member_object(name)?;
        json.text("path", &side.path)?;
        let words = side.profile.command.iter();
        json.texts("command", words.map(|word| String::from_utf8_lossy(word)))?;
        json.text("basis", side.basis.name())?;
        json.text("unit", side.profile.unit().name())?;
        json.count("instructions", &side.executed)?;
        json.end_object()?;
    }
    json.real("change_percent", difference.percent())?;
    json.member_array("functions")?;
    let differs = |e: &&Entry| e.verdict != Change::Same;
    for entry in difference.entries.iter().filter(differs).take(top) {
        json.object()?;
        let linkage = Some(&*entry.linkage_name).filter(|n| !n.is_empty());
        json.optional_text("linkage_name", linkage)?;
        json.text("name", &entry.name)?;
        json.text("module", &entry.module)?;
        json.text("verdict", entry.verdict.name())?;
        json.number("change", entry.change().round() as i64)?;
        for (n, name) in ["before", "after"].into_iter().enumerate() {
            json.member_object(name)?;
            json.count("self", &entry.own[n])?;
            json.count("calls", &entry.calls[n])?;
            json.end_object()?;
        }
        json.end_object()?;
    }
    json.end_array()?;
    let same = difference
        .entries
        .iter()
        .filter(|e| e.verdict == Change::Same)
        .count();
    json.number("same", same as u64)?;
    json.end_object()?;
    json.finish()
}
