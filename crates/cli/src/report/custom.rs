//! Results of a customisation module from windows (`docs/modules.md`).

use std::cmp::Reverse;
use std::io::{self, Write};

use trommel_profile::confidence::Executions;
use trommel_profile::custom::{Custom, Value, Valued};
use trommel_tuple::Place;

use super::table::{Style, Table, VALUES_IN_ROW, more, range};
use super::view::View;
use crate::json::Json;
use crate::output::{grouped, percent, printable};
use crate::shown::short;

/// The pairs of an instruction.
struct Row<'p> {
    at: Place,
    valued: &'p Valued,
    /// Number of pairs, estimated.
    pairs: u64,
    /// Most frequent first.
    values: Vec<(u64, &'p Value)>,
    /// Limits of `values`, in their order.
    limits: Executions,
}

/// Instructions, most pairs first.
fn rows(custom: &Custom) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    for (&at, valued) in &custom.sites {
        let mut values: Vec<(u64, &Value)> = valued.values.iter().map(|(v, k)| (*v, k)).collect();
        values.sort_by_key(|(value, known)| (Reverse(known.count), *value));
        let counts: Vec<(u64, u64)> = values.iter().map(|(v, known)| (*v, known.count)).collect();
        rows.push(Row {
            at,
            valued,
            pairs: (valued.sampled.executions.round() as u64).max(1),
            limits: Executions::of_windows(&valued.sampled, &counts),
            values,
        });
    }
    rows.sort_by_key(|row| (Reverse(row.pairs), row.at));
    rows
}

/// Returns what people are shown of a value.
fn shown(view: &mut View<'_>, custom: &Custom, value: u64, known: &Value) -> String {
    match (&known.text, custom.places) {
        (_, true) => view.name(Place::from_word(value)),
        // In one line.
        (Some(text), false) => short(&printable(text)),
        (None, false) => format!("{value:#x}"),
    }
}

/// Writes the table of a module, if there was one; `top` limits its rows.
pub(super) fn write(
    out: &mut impl Write,
    view: &mut View<'_>,
    top: usize,
    style: Style,
) -> io::Result<()> {
    let windows = view.profile.windows.as_ref();
    let Some(custom) = windows.and_then(|windows| windows.custom.as_ref()) else {
        return Ok(());
    };
    let rows = rows(custom);
    let total = rows
        .iter()
        .fold(0_u64, |sum, r| sum.saturating_add(r.pairs));
    let first = |row: &Row<'_>| row.values.first().map_or(0, |(_, known)| known.count);
    let constant = rows.iter().map(first).fold(0, u64::saturating_add);
    writeln!(
        out,
        "# {}: {} instructions, {} pairs (estimated); {:.1} % had the most frequent value of their instruction",
        style.strong(&printable(&custom.title)),
        grouped(rows.len() as u64),
        grouped(total),
        percent(constant, total),
    )?;
    writeln!(
        out,
        "#   by the customisation module {}, of {} windows{}",
        printable(&custom.name),
        grouped(custom.windows),
        match custom.lost {
            0 => String::new(),
            n => format!("; {} MORE WERE NOT GIVEN TO IT", grouped(n)),
        }
    )?;
    for why in &custom.failures {
        writeln!(out, "#   FAILED {}", printable(why))?;
    }
    if rows.is_empty() {
        return Ok(());
    }
    let mut table = Table::new([
        "pairs",
        "%",
        "95 % limits",
        "instruction",
        "values",
        "source",
        "module",
    ]);
    for row in rows.iter().take(top) {
        let mut values = Vec::new();
        for (n, &(value, known)) in row.values.iter().enumerate().take(VALUES_IN_ROW) {
            let share = percent(known.count, row.pairs);
            let limits = row.limits.share(n, known.count);
            let off = (100.0 * limits.high - share).max(share - 100.0 * limits.low);
            values.push(format!(
                "{} {share:.1}%±{off:.1}",
                shown(view, custom, value, known)
            ));
        }
        table.row([
            grouped(row.pairs),
            format!("{:.2}%", percent(row.pairs, total)),
            range(row.limits.all),
            view.name(row.at),
            values.join(", "),
            view.source(row.at),
            view.module(row.at),
        ]);
    }
    table.write(out, style)?;
    more(out, rows.len(), top)
}

/// Writes the member `custom`, if there was a module.
pub(super) fn json<W: Write>(
    json: &mut Json<W>,
    view: &mut View<'_>,
    top: usize,
    mut place: impl FnMut(&mut Json<W>, &mut View<'_>, &str, Place) -> io::Result<()>,
) -> io::Result<()> {
    let windows = view.profile.windows.as_ref();
    let Some(custom) = windows.and_then(|windows| windows.custom.as_ref()) else {
        return Ok(());
    };
    json.member_object("custom")?;
    json.text("name", &custom.name)?;
    json.text("title", &custom.title)?;
    for (name, number) in [
        ("windows", custom.windows),
        ("windows_not_given", custom.lost),
        ("pairs", custom.pairs),
    ] {
        json.number(name, number)?;
    }
    json.texts("failures", &custom.failures)?;
    json.member_array("instructions")?;
    for row in rows(custom).iter().take(top) {
        json.object()?;
        place(json, view, "at", row.at)?;
        json.number("pairs", row.pairs)?;
        json.number("pairs_low", row.limits.all.low.floor() as u64)?;
        json.number("pairs_high", row.limits.all.high.ceil() as u64)?;
        let sampled = &row.valued.sampled;
        json.number("samples", sampled.samples)?;
        json.real("draws", sampled.draws())?;
        json.real("kept", sampled.probability)?;
        json.member_array("top")?;
        for (n, &(value, known)) in row.values.iter().enumerate().take(top) {
            json.object()?;
            match custom.places {
                true => place(json, view, "value", Place::from_word(value))?,
                false => {
                    json.number("value", value)?;
                    json.optional_text("text", known.text.as_deref())?;
                }
            }
            json.number("count", known.count)?;
            json.real("share", known.count as f64 / row.pairs as f64)?;
            let share = row.limits.share(n, known.count);
            json.real("share_low", share.low)?;
            json.real("share_high", share.high)?;
            json.end_object()?;
        }
        json.end_array()?;
        json.end_object()?;
    }
    json.end_array()?;
    json.end_object()
}
