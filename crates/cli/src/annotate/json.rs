//! `annotate --json`: schemas `trommel.annotate/1` and, of all functions, `trommel.annotations/1`. `docs/json.md` describes both.

use std::io::{self, Write};

use anyhow::Result;
use trommel_code::{Count, How};
use trommel_profile::limits::LEVEL;
use trommel_tuple::{Kind, Place};

use super::annotated::{Annotated, InTheWay, Latency, LeftOut, Line, Part, Passed};
use crate::callers;
use crate::json::Json;
use crate::report::place::{modules, place, tables};
use crate::report::samples::json_operands;
use crate::report::view::View;

/// The schema's name. Fields may be added to it; none is removed or changed.
const SCHEMA: &str = "trommel.annotate/1";
/// The name of that of all functions, which has places in one table.
const SCHEMA_OF_ALL: &str = "trommel.annotations/1";

pub(super) fn write(
    out: &mut impl Write,
    view: &mut View<'_>,
    function: &Annotated<'_>,
) -> io::Result<()> {
    let mut json = Json::new(out);
    json.object()?;
    json.text("schema", SCHEMA)?;
    limits(&mut json, view)?;
    modules(&mut json, view.profile)?;
    members(&mut json, view, function)?;
    json.end_object()?;
    json.finish()
}

/// Writes all functions, as `next` gives them: `trommel.annotations/1`.
pub(super) fn write_all<'p>(
    out: &mut impl Write,
    view: &mut View<'p>,
    next: &mut dyn FnMut(&mut View<'p>) -> Option<Result<Annotated<'p>>>,
    left_out: &[LeftOut],
) -> Result<()> {
    let mut json = Json::new(out);
    json.object()?;
    json.text("schema", SCHEMA_OF_ALL)?;
    limits(&mut json, view)?;
    modules(&mut json, view.profile)?;
    json.member_array("functions")?;
    while let Some(function) = next(view) {
        json.object()?;
        members(&mut json, view, &function?)?;
        json.end_object()?;
    }
    json.end_array()?;
    json.member_array("left_out")?;
    for left in left_out {
        json.object()?;
        json.number("module", left.module.0)?;
        json.number("functions", left.functions)?;
        json.text("why", &left.why)?;
        json.end_object()?;
    }
    json.end_array()?;
    tables(&mut json, view)?;
    json.end_object()?;
    Ok(json.finish()?)
}

fn limits<W: Write>(json: &mut Json<W>, view: &View<'_>) -> io::Result<()> {
    json.member_object("limits")?;
    json.text("basis", view.basis().name())?;
    json.real("level", LEVEL)?;
    json.text("assumes", view.basis().assumes())?;
    json.end_object()
}

/// The members of a function.
fn members<W: Write>(
    json: &mut Json<W>,
    view: &mut View<'_>,
    function: &Annotated<'_>,
) -> io::Result<()> {
    json.text("function", &function.found.name)?;
    json.number("module", function.module.id.0)?;
    json.member_array("ranges")?;
    for range in &function.ranges {
        json.object()?;
        json.number("start", range.start)?;
        json.number("end", range.end)?;
        json.end_object()?;
    }
    json.end_array()?;
    json.member_object("entered")?;
    count(json, function.entered.as_ref())?;
    json.end_object()?;
    if let Some(time) = &function.time {
        json.number("samples", time.samples)?;
        json.number("time_ns", time.executions.round() as u64)?;
    }
    json.text("unit", view.profile.unit().name())?;
    json.number("instructions_executed", function.executed.round() as u64)?;
    json.member_array("callers")?;
    for (from, count) in &function.callers {
        json.object()?;
        place(json, view, "from", *from)?;
        json.number("count", *count)?;
        json.end_object()?;
    }
    json.end_array()?;
    if let Some(signals) = function.signals {
        json.number("signals", signals)?;
    }
    json.member_array("instructions")?;
    for line in &function.lines {
        instruction(json, view, line)?;
    }
    json.end_array()
}

fn instruction<W: Write>(
    json: &mut Json<W>,
    view: &mut View<'_>,
    line: &Line<'_>,
) -> io::Result<()> {
    json.object()?;
    place(json, view, "at", line.at)?;
    json.number("bytes", line.instruction.len() as u64)?;
    json.text("text", &line.text)?;
    count(json, line.count.as_ref())?;
    json.real("share_of_function", line.share)?;
    if let Some(found) = &line.sampled {
        json.number("samples", found.sampled.samples)?;
        json.number("time_ns", found.sampled.executions.round() as u64)?;
        json_operands(json, found, usize::MAX)?;
    }
    if let Some(taken) = &line.taken {
        json.member_object("taken")?;
        part(json, taken)?;
        json.end_object()?;
    }
    targets(json, view, &line.targets)?;
    if let Some(sampled) = view.sampled(Kind::Value, line.at) {
        json.number("samples", sampled.samples)?;
        json.real("draws", sampled.draws())?;
    }
    if !line.values.is_empty() {
        json.number("distinct", line.distinct as u64)?;
        values(json, "values", "shown", &line.values)?;
    }
    if !line.types.is_empty() {
        values(json, "types", "class", &line.types)?;
    }
    if !line.by_caller.is_empty() {
        let shown = |view: &mut View<'_>, value| Some(view.shown(line.at, value));
        callers::json(json, view, &line.by_caller, usize::MAX, shown)?;
    }
    arguments(json, view, &line.arguments)?;
    if let Some(latency) = &line.latency {
        levels(json, latency)?;
    }
    conflicts(json, view, &line.conflicts)?;
    json.end_object()
}

/// Targets of a branch or call, if they are known.
fn targets<W: Write>(
    json: &mut Json<W>,
    view: &mut View<'_>,
    targets: &[(Place, Part)],
) -> io::Result<()> {
    if targets.is_empty() {
        return Ok(());
    }
    json.member_array("targets")?;
    for (to, share) in targets {
        json.object()?;
        place(json, view, "to", *to)?;
        part(json, share)?;
        json.end_object()?;
    }
    json.end_array()
}

/// Values, each with its words under the name `word`.
fn values<W: Write>(
    json: &mut Json<W>,
    name: &str,
    word: &str,
    values: &[(u64, String, Part)],
) -> io::Result<()> {
    json.member_array(name)?;
    for (value, words, share) in values {
        json.object()?;
        json.number("value", *value)?;
        json.text(word, words)?;
        part(json, share)?;
        json.end_object()?;
    }
    json.end_array()
}

/// Arguments of a call, if any were seen.
fn arguments<W: Write>(
    json: &mut Json<W>,
    view: &mut View<'_>,
    arguments: &[Passed],
) -> io::Result<()> {
    if arguments.is_empty() {
        return Ok(());
    }
    json.member_array("arguments")?;
    for passed in arguments {
        json.object()?;
        json.text("register", passed.register)?;
        place(json, view, "to", passed.to)?;
        values(json, "values", "shown", &passed.values)?;
        json.end_object()?;
    }
    json.end_array()
}

/// Time that a load took.
fn levels<W: Write>(json: &mut Json<W>, latency: &Latency) -> io::Result<()> {
    json.member_object("latency")?;
    json.number("median_cycles", latency.median)?;
    json.member_array("levels")?;
    for (name, share) in &latency.levels {
        json.object()?;
        json.text("name", name)?;
        part(json, share)?;
        json.end_object()?;
    }
    json.end_array()?;
    json.end_object()
}

/// Stores in the way of a load, if any were.
fn conflicts<W: Write>(
    json: &mut Json<W>,
    view: &mut View<'_>,
    conflicts: &[InTheWay],
) -> io::Result<()> {
    if conflicts.is_empty() {
        return Ok(());
    }
    json.member_array("conflicts")?;
    for found in conflicts {
        json.object()?;
        json.text("kind", found.pair.conflict.name())?;
        place(json, view, "store", found.pair.store)?;
        place(json, view, "load", found.pair.load)?;
        part(json, &found.part)?;
        json.end_object()?;
    }
    json.end_array()
}

/// The members of an object that say how often something was executed.
fn count<W: Write>(json: &mut Json<W>, count: Option<&Count>) -> io::Result<()> {
    let Some(count) = count else {
        return json.null("executions");
    };
    json.number("executions", count.times.round() as u64)?;
    json.text(
        "known",
        match count.how {
            How::Counted => "counted",
            How::Derived => "derived",
        },
    )?;
    if let Some(limits) = count.limits {
        json.number("executions_low", limits.low.floor() as u64)?;
        json.number("executions_high", limits.high.ceil() as u64)?;
    }
    Ok(())
}

/// The members of an object that is a part of an instruction's executions.
fn part<W: Write>(json: &mut Json<W>, part: &Part) -> io::Result<()> {
    json.number("count", part.count)?;
    json.real("share", part.share)?;
    if let Some(limits) = part.limits {
        json.real("share_low", limits.low)?;
        json.real("share_high", limits.high)?;
    }
    Ok(())
}
