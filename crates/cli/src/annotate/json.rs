//! `annotate --json`: schema `trommel.annotate/1`, described in `docs/json.md`.

use std::io::{self, Write};

use trommel_code::{Count, How};
use trommel_profile::limits::LEVEL;
use trommel_tuple::Kind;

use super::annotated::{Annotated, Line, Part};
use crate::callers;
use crate::json::Json;
use crate::report::place::{modules, place};
use crate::report::samples::json_operands;
use crate::report::view::View;

/// The schema's name. Fields may be added to it; none is removed or changed.
const SCHEMA: &str = "trommel.annotate/1";

pub(super) fn write(
    out: &mut impl Write,
    view: &mut View<'_>,
    function: &Annotated<'_>,
) -> io::Result<()> {
    let mut json = Json::new(out);
    json.object()?;
    json.text("schema", SCHEMA)?;
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
    json.member_object("limits")?;
    json.text("basis", view.basis().name())?;
    json.real("level", LEVEL)?;
    json.text("assumes", view.basis().assumes())?;
    json.end_object()?;
    json.member_object("entered")?;
    count(&mut json, function.entered.as_ref())?;
    json.end_object()?;
    if let Some(time) = &function.time {
        json.number("samples", time.samples)?;
        json.number("time_ns", time.executions.round() as u64)?;
    }
    json.number("instructions_executed", function.executed.round() as u64)?;
    json.member_array("callers")?;
    for (from, count) in &function.callers {
        json.object()?;
        place(&mut json, view, "from", *from)?;
        json.number("count", *count)?;
        json.end_object()?;
    }
    json.end_array()?;
    modules(&mut json, view.profile)?;
    json.member_array("instructions")?;
    for line in &function.lines {
        instruction(&mut json, view, line)?;
    }
    json.end_array()?;
    json.end_object()?;
    json.finish()
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
    if !line.targets.is_empty() {
        json.member_array("targets")?;
        for (to, share) in &line.targets {
            json.object()?;
            place(json, view, "to", *to)?;
            part(json, share)?;
            json.end_object()?;
        }
        json.end_array()?;
    }
    if let Some(sampled) = view.sampled(Kind::Value, line.at) {
        json.number("samples", sampled.samples)?;
        json.real("draws", sampled.draws())?;
    }
    if !line.values.is_empty() {
        json.number("distinct", line.distinct as u64)?;
    }
    for (name, values, word) in [
        ("values", &line.values, "shown"),
        ("types", &line.types, "class"),
    ] {
        if values.is_empty() {
            continue;
        }
        json.member_array(name)?;
        for (value, words, share) in values {
            json.object()?;
            json.number("value", *value)?;
            json.text(word, words)?;
            part(json, share)?;
            json.end_object()?;
        }
        json.end_array()?;
    }
    if !line.by_caller.is_empty() {
        let shown = |view: &mut View<'_>, value| Some(view.shown(line.at, value));
        callers::json(json, view, &line.by_caller, usize::MAX, shown)?;
    }
    if !line.arguments.is_empty() {
        json.member_array("arguments")?;
        for passed in &line.arguments {
            json.object()?;
            json.text("register", passed.register)?;
            place(json, view, "to", passed.to)?;
            json.member_array("values")?;
            for (value, words, share) in &passed.values {
                json.object()?;
                json.number("value", *value)?;
                json.text("shown", words)?;
                part(json, share)?;
                json.end_object()?;
            }
            json.end_array()?;
            json.end_object()?;
        }
        json.end_array()?;
    }
    if let Some(latency) = &line.latency {
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
        json.end_object()?;
    }
    if !line.conflicts.is_empty() {
        json.member_array("conflicts")?;
        for found in &line.conflicts {
            json.object()?;
            json.text("kind", found.pair.conflict.name())?;
            place(json, view, "store", found.pair.store)?;
            place(json, view, "load", found.pair.load)?;
            part(json, &found.part)?;
            json.end_object()?;
        }
        json.end_array()?;
    }
    json.end_object()
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
