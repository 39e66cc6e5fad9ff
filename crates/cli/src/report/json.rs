//! `report --json`: schema `trommel.report/1`, described in `docs/json.md`.

use std::io::{self, Write};

use trommel_profile::limits::LEVEL;
use trommel_profile::{Counted, Run, Threads};
use trommel_tuple::Kind;

use super::custom;
use super::filter;
use super::paths;
use super::place::{limits, place};
use super::processes::{self, Row};
use super::queries;
use super::samples;
use super::view::View;
use super::windows;
use crate::callers;
use crate::json::Json;
use crate::load::About;

/// The schema's name. Fields may be added to it; none is removed or changed.
const SCHEMA: &str = "trommel.report/1";

/// Writes the report; `top` limits each list.
pub(super) fn write(
    out: &mut impl Write,
    view: &mut View<'_>,
    rows: &[Row],
    database: Option<&About>,
    top: usize,
) -> io::Result<()> {
    let mut json = Json::new(out);
    json.object()?;
    json.text("schema", SCHEMA)?;
    if let Some(about) = database {
        super::database::json(&mut json, about)?;
    }
    head(&mut json, view)?;
    processes::json(&mut json, rows)?;
    for (kind, name) in [(Kind::Edge, "edges"), (Kind::Call, "calls")] {
        transfers(&mut json, view, kind, name, top)?;
    }
    values(&mut json, view, Kind::Value, "values", top)?;
    for (kind, name) in [
        (Kind::Type, "types"),
        (Kind::Result, "results"),
        (Kind::Address, "addresses"),
        (Kind::Latency, "latencies"),
    ] {
        if view.profile.kinds.contains_key(&kind) {
            values(&mut json, view, kind, name, top)?;
        }
    }
    paths::json(&mut json, view, top)?;
    custom::json(&mut json, view, top, place)?;
    queries::json(&mut json, view, top, place)?;
    samples::json(&mut json, view, top, place)?;
    json.end_object()?;
    json.finish()
}

fn head<W: Write>(json: &mut Json<W>, view: &View<'_>) -> io::Result<()> {
    let profile = view.profile;
    json.texts(
        "command",
        profile
            .command
            .iter()
            .map(|argument| String::from_utf8_lossy(argument)),
    )?;
    json.text("compressor", &profile.compressor)?;
    let counted = match profile.counted {
        Counted::Service => "service",
        Counted::Code => "code",
    };
    json.text("counted", counted)?;
    json.member_object("limits")?;
    json.text("basis", view.basis().name())?;
    json.real("level", LEVEL)?;
    json.text("assumes", view.basis().assumes())?;
    json.end_object()?;
    run(json, &profile.run)?;
    if let Some(data) = &profile.windows {
        windows::json(json, data)?;
    }
    if let Some(data) = &profile.filter {
        filter::json(json, data)?;
    }
    threads(json, &profile.threads)?;
    json.member_array("modules")?;
    for module in &profile.modules {
        json.object()?;
        json.number("id", module.id.0)?;
        json.text("path", &String::from_utf8_lossy(&module.path))?;
        let hex: String = module.build_id.iter().map(|b| format!("{b:02x}")).collect();
        json.optional_text("build_id", Some(&*hex).filter(|h| !h.is_empty()))?;
        json.end_object()?;
    }
    json.end_array()?;
    json.member_object("events")?;
    for (kind, data) in &profile.kinds {
        json.member_object(kind.name())?;
        json.number("seen", data.seen)?;
        json.number("messages", data.messages)?;
        json.end_object()?;
    }
    json.end_object()
}

fn threads<W: Write>(json: &mut Json<W>, threads: &Threads) -> io::Result<()> {
    json.member_object("threads")?;
    json.number("started", threads.started.max(1))?;
    json.member_array("each")?;
    for thread in &threads.each {
        json.object()?;
        json.number("number", thread.number)?;
        json.number("tid", thread.tid)?;
        json.member_object("events")?;
        for (kind, seen) in &thread.seen {
            json.number(kind.name(), *seen)?;
        }
        json.end_object()?;
        json.end_object()?;
    }
    json.end_array()?;
    json.end_object()
}

fn run<W: Write>(json: &mut Json<W>, run: &Run) -> io::Result<()> {
    json.member_object("run")?;
    json.number("started_ns", run.started)?;
    json.number("wall_ns", run.wall)?;
    json.number("target_cpu_ns", run.target_cpu)?;
    json.number("host_cpu_ns", run.host_cpu)?;
    match run.status {
        Some(status) if status >= 0 => json.number("status", status)?,
        _ => json.null("status")?,
    }
    match run.status {
        Some(status) if status < 0 => json.number("signal", -i64::from(status))?,
        _ => json.null("signal")?,
    }
    json.number("dropped", run.dropped)?;
    json.number("undercount", run.undercount)?;
    json.number("waits", run.waits)?;
    json.number("wait_ns", run.wait_time)?;
    json.texts("let_go", &run.detach)?;
    json.end_object()
}

fn transfers<W: Write>(
    json: &mut Json<W>,
    view: &mut View<'_>,
    kind: Kind,
    name: &str,
    top: usize,
) -> io::Result<()> {
    json.member_array(name)?;
    for transfer in view.transfers(kind).into_iter().take(top) {
        json.object()?;
        place(json, view, "from", transfer.from)?;
        place(json, view, "to", transfer.to)?;
        json.text("kind", transfer.how)?;
        json.number("count", transfer.count)?;
        if let Some(sampled) = view.sampled(kind, transfer.from) {
            json.number("samples_of_site", sampled.samples)?;
            json.real("draws_of_site", sampled.draws())?;
        }
        limits(json, view.limits(&transfer))?;
        json.end_object()?;
    }
    json.end_array()
}

fn values<W: Write>(
    json: &mut Json<W>,
    view: &mut View<'_>,
    kind: Kind,
    name: &str,
    top: usize,
) -> io::Result<()> {
    json.member_array(name)?;
    for values in view.values(kind).into_iter().take(top) {
        json.object()?;
        place(json, view, "at", values.at)?;
        json.number("executions", values.executions)?;
        if let Some(filtered) = &values.filtered {
            filter::members(json, filtered, values.profiled)?;
        }
        if let Some(sampled) = view.sampled(kind, values.at) {
            json.number("samples", sampled.samples)?;
            json.real("draws", sampled.draws())?;
            json.real("kept", sampled.probability)?;
        }
        let executions = view.executions(&values);
        if let Some(executions) = &executions {
            json.number("executions_low", executions.all.low.floor() as u64)?;
            json.number("executions_high", executions.all.high.ceil() as u64)?;
        }
        json.number("distinct", values.distinct() as u64)?;
        json.member_array("top")?;
        for (value, count) in values.top(top) {
            json.object()?;
            json.number("value", value)?;
            json.number("count", count)?;
            if kind == Kind::Type {
                json.optional_text("class", view.name_of_address(value).as_deref())?;
            }
            json.real("share", count as f64 / values.profiled as f64)?;
            if let Some(executions) = &executions {
                let position = values.position(value);
                limits(json, executions.parts.get(position).copied())?;
                let share = executions.share(position, count);
                json.real("share_low", share.low)?;
                json.real("share_high", share.high)?;
            }
            json.end_object()?;
        }
        json.end_array()?;
        let of = callers::of(view, kind, values.at);
        if !of.is_empty() {
            callers::json(json, view, &of, top, |_, _| None)?;
        }
        json.end_object()?;
    }
    json.end_array()
}
