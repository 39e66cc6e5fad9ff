//! `compress --per-interval`: the candidates of each interval, and phases, as text, CSV and JSON.
//!
//! All three are of the same intervals, in their order. Text shows the hottest candidate of each; CSV has a row for
//! each candidate, and one for an interval without any.

use std::io::{self, Write};

use serde_json::{Value, json};
use trommel_profile::accuracy::{Evaluation, Interval};
use trommel_tuple::stream::Module;
use trommel_tuple::{Kind, Message, Place};

use super::NONE;
use crate::output::{grouped, percent, printable};
use crate::report::table::{Style, Table};

/// Titles of the CSV.
const COLUMNS: &str =
    "spec,interval,start,events,phase,error_percent,kind,module,vaddr,to_module,value,count";

/// The intervals of those compressors that have any.
fn all(evaluations: &[Evaluation]) -> impl Iterator<Item = (&Evaluation, &[Interval])> {
    let each = |e: &'_ Evaluation| e.interval.as_ref().map(|i| i.each.len());
    let with = evaluations.iter().filter(move |e| each(e).is_some());
    with.map(|e| (e, e.interval.as_ref().map_or(&[][..], |i| &i.each)))
}

/// Phases with their number of intervals and of events, in the order of their numbers.
fn phases(intervals: &[Interval]) -> Vec<(u64, u64)> {
    let mut phases = vec![(0, 0); intervals.iter().map(|i| i.phase).max().unwrap_or(0)];
    for interval in intervals {
        let (number, events) = &mut phases[interval.phase - 1];
        *number += 1;
        *events += interval.events;
    }
    phases
}

/// Writes a table for each compressor.
pub(super) fn text(
    out: &mut impl Write,
    style: Style,
    evaluations: &[Evaluation],
    modules: &[Module],
) -> io::Result<()> {
    for (e, intervals) in all(evaluations) {
        let phases = phases(intervals);
        let (n, found) = (grouped(intervals.len() as u64), phases.len());
        writeln!(out, "\n# {}: intervals: {n}, phases: {found}", e.spec)?;
        let total: u64 = phases.iter().map(|(_, events)| events).sum();
        for (number, (intervals, events)) in phases.iter().enumerate() {
            let share = percent(*events, total);
            let (number, intervals) = (number + 1, grouped(*intervals));
            writeln!(
                out,
                "# phase {number}: {intervals} intervals, {share:.1}% of their events"
            )?;
        }
        let mut table = Table::new([
            "interval",
            "start",
            "phase",
            "error",
            "candidates",
            "hottest",
        ]);
        for (number, interval) in intervals.iter().enumerate() {
            table.row([
                (number + 1).to_string(),
                grouped(interval.start),
                interval.phase.to_string(),
                format!("{:.2}%", interval.error.total()),
                interval.candidates.len().to_string(),
                hottest(interval, modules),
            ]);
        }
        table.numbers(5).write(out, style)?;
    }
    Ok(())
}

/// The most frequent candidate in words, with its share of the interval.
fn hottest(interval: &Interval, modules: &[Module]) -> String {
    interval.candidates.first().map_or_else(
        || NONE.into(),
        |m| {
            let share = percent(m.count, interval.events);
            let value = match m.kind.value_is_place() {
                true => place(Place::from_word(m.tuple.value), modules),
                false => format!("{:#x}", m.tuple.value),
            };
            format!(
                "{share:.1}% {} {} {value}",
                m.kind,
                place(m.tuple.pc, modules)
            )
        },
    )
}

/// A place with the file name of its module, or the number of a module that has none.
fn place(place: Place, modules: &[Module]) -> String {
    let module = modules.iter().find(|m| m.id == place.module());
    let path = module.map(|m| String::from_utf8_lossy(&m.path));
    let name = path.as_deref().map(|p| p.rsplit('/').next().unwrap_or(p));
    match name {
        Some(name) => format!("{}:{:#x}", printable(name), place.vaddr()),
        None => format!("{}:{:#x}", place.module().0, place.vaddr()),
    }
}

/// Writes all intervals as CSV (RFC 4180, but lines end with a line feed).
pub(super) fn csv(out: &mut impl Write, evaluations: &[Evaluation]) -> io::Result<()> {
    writeln!(out, "{COLUMNS}")?;
    for (e, intervals) in all(evaluations) {
        for (number, i) in intervals.iter().enumerate() {
            let (spec, number, error) = (e.spec, number + 1, i.error.total() + 0.0);
            // A spec with a threshold has a comma.
            let front = format!(
                "\"{spec}\",{number},{},{},{},{error:.4}",
                i.start, i.events, i.phase
            );
            if i.candidates.is_empty() {
                writeln!(out, "{front},,,,,,")?;
            }
            for m in &i.candidates {
                let (pc, count) = (m.tuple.pc, m.count);
                let (to, value) = match m.kind.value_is_place() {
                    true => {
                        let to = Place::from_word(m.tuple.value);
                        (to.module().0.to_string(), to.vaddr().0)
                    }
                    false => (String::new(), m.tuple.value),
                };
                let (module, vaddr) = (pc.module().0, pc.vaddr().0);
                writeln!(
                    out,
                    "{front},{},{module},{vaddr},{to},{value},{count}",
                    m.kind
                )?;
            }
        }
    }
    Ok(())
}

/// Adds the intervals to the JSON of each evaluation.
pub(super) fn add(values: &mut Value, evaluations: &[Evaluation], modules: &[Module]) {
    let named = |m: &Module| json!({"id": m.id.0, "path": String::from_utf8_lossy(&m.path)});
    let list = values.as_array_mut().into_iter().flatten();
    for (value, e) in list.zip(evaluations) {
        let Some(found) = &e.interval else { continue };
        value["modules"] = modules.iter().map(named).collect();
        value["per_interval"] = found.each.iter().map(interval).collect();
        let phases = phases(&found.each);
        let phase = |(n, (intervals, events)): (usize, &(u64, u64))| json!({"phase": n + 1, "intervals": intervals, "events": events});
        value["phases"] = phases.iter().enumerate().map(phase).collect();
    }
}

fn interval(i: &Interval) -> Value {
    // Four decimals, as all errors here; a sum of nothing is -0.
    let error = (i.error.total() * 1e4).round() / 1e4 + 0.0;
    json!({
        "start": i.start,
        "events": i.events,
        "phase": i.phase,
        "error": error,
        "candidates": i.candidates.iter().map(candidate).collect::<Value>(),
    })
}

fn candidate(m: &Message) -> Value {
    let at = |place: Place| json!({"module": place.module().0, "vaddr": place.vaddr().0});
    let mut value = json!({"kind": m.kind.name(), "at": at(m.tuple.pc), "count": m.count});
    match Kind::value_is_place(m.kind) {
        true => value["to"] = at(Place::from_word(m.tuple.value)),
        false => value["value"] = json!(m.tuple.value),
    }
    value
}
