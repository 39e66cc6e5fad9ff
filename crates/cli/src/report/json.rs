//! `report --json`: schema `trommel.report/1`, described in `docs/json.md`.

use std::borrow::Cow;
use std::io::{self, Write};

use serde::Serialize;
use trommel_profile::limits::LEVEL;
use trommel_profile::{Counted, KindProfile, Module, Run, Scope, Threads};
use trommel_tuple::{Kind, Place};

use super::Shown;
use super::contexts;
use super::coverage;
use super::custom;
use super::filter;
use super::functions;
use super::misses;
use super::paths;
use super::place::{limits, place, tables};
use super::processes;
use super::queries;
use super::samples;
use super::stacks;
use super::view::View;
use super::waits;
use super::windows;
use crate::callers;
use crate::json::{Json, Named};
use crate::load::About;
use crate::simulate;

/// The schemas' names. Fields may be added to them; none is removed or changed. The second has places in one table.
const SCHEMAS: [&str; 2] = ["trommel.report/1", "trommel.report/2"];

/// Writes the report; `top` limits each list.
pub(super) fn write(
    out: &mut impl Write,
    view: &mut View<'_>,
    shown: &Shown<'_>,
    database: Option<&About>,
) -> io::Result<()> {
    let top = shown.top;
    let mut json = Json::new(out);
    json.object()?;
    json.text("schema", SCHEMAS[usize::from(view.places.is_some())])?;
    if let Some(about) = database {
        super::database::json(&mut json, about)?;
    }
    head(&mut json, view)?;
    processes::json(&mut json, shown.rows)?;
    if shown.program.is_some() {
        functions::json(&mut json, view, shown)?;
    }
    for (kind, name) in [(Kind::Edge, "edges"), (Kind::Call, "calls")] {
        transfers(&mut json, view, kind, name, top)?;
    }
    values(&mut json, view, Kind::Value, "values", top)?;
    for (kind, name) in [
        (Kind::Type, "types"),
        (Kind::Result, "results"),
        (Kind::Address, "addresses"),
        (Kind::Latency, "latencies"),
        (Kind::Miss, "misses"),
        (Kind::LastMiss, "last_misses"),
    ] {
        if view.profile.kinds.contains_key(&kind) {
            values(&mut json, view, kind, name, top)?;
        }
    }
    if view.profile.kinds.contains_key(&Kind::Mispredict) {
        transfers(&mut json, view, Kind::Mispredict, "mispredictions", top)?;
    }
    if let Some(simulated) = &view.profile.simulated {
        simulate::json(&mut json, simulated)?;
    }
    paths::json(&mut json, view, top)?;
    custom::json(&mut json, view, top, place)?;
    queries::json(&mut json, view, top, place)?;
    samples::json(&mut json, view, top, place)?;
    stacks::json(&mut json, view, place)?;
    waits::json(&mut json, view, place)?;
    contexts::json(&mut json, view)?;
    tables(&mut json, view)?;
    json.end_object()?;
    json.finish()
}

/// Members of the profile as a whole.
#[derive(Serialize)]
struct Whole<'a> {
    command: Vec<Cow<'a, str>>,
    compressor: &'a str,
    counted: &'a str,
    unit: &'a str,
    limits: Limits<'a>,
    run: RunOf<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<ScopeOf<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sum: Option<SumOf>,
}

/// Part of the run that was to be observed, where it was not all.
#[derive(Serialize)]
struct ScopeOf<'a> {
    late: bool,
    only: &'a [String],
}

/// Recordings that were added up by `merge`.
#[derive(Serialize)]
struct SumOf {
    recordings: u64,
    processes: u64,
}

#[derive(Serialize)]
struct Limits<'a> {
    basis: &'a str,
    level: f64,
    assumes: &'a str,
}

#[derive(Serialize)]
struct RunOf<'a> {
    started_ns: u64,
    wall_ns: u64,
    target_cpu_ns: u64,
    host_cpu_ns: u64,
    status: Option<i32>,
    signal: Option<i64>,
    dropped: u64,
    undercount: u64,
    waits: u64,
    wait_ns: u64,
    #[serde(rename = "let_go")]
    detached: &'a [String],
}

/// Members of its parts: threads, modules and kinds of events.
#[derive(Serialize)]
struct Parts<'a> {
    threads: ThreadsOf<'a>,
    modules: Vec<ModuleOf<'a>>,
    events: Named<'a, Seen>,
}

#[derive(Serialize)]
struct ThreadsOf<'a> {
    started: u64,
    each: Vec<ThreadOf<'a>>,
}

#[derive(Serialize)]
struct ThreadOf<'a> {
    number: u32,
    tid: u32,
    events: Named<'a, u64>,
}

#[derive(Serialize)]
struct ModuleOf<'a> {
    id: u16,
    path: Cow<'a, str>,
    build_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
}

#[derive(Serialize)]
struct Seen {
    seen: u64,
    messages: u64,
}

fn head<W: Write>(json: &mut Json<W>, view: &mut View<'_>) -> io::Result<()> {
    let profile = view.profile;
    json.members(&Whole {
        command: texts(&profile.command),
        compressor: &profile.compressor,
        counted: match profile.counted {
            Counted::Service => "service",
            Counted::Code => "code",
        },
        unit: profile.unit().name(),
        limits: Limits {
            basis: view.basis().name(),
            level: LEVEL,
            assumes: view.basis().assumes(),
        },
        run: run(&profile.run),
        scope: scope(&profile.scope),
        sum: profile.sum.map(|sum| SumOf {
            recordings: sum.recordings,
            processes: sum.processes,
        }),
    })?;
    coverage::json(json, &view.extent())?;
    if let Some(data) = &profile.windows {
        windows::json(json, data)?;
    }
    if let Some(data) = &profile.filter {
        filter::json(json, data)?;
    }
    json.members(&Parts {
        threads: threads(&profile.threads),
        modules: profile.modules.iter().map(module).collect(),
        events: Named(profile.kinds.iter().map(seen).collect()),
    })
}

fn texts(all: &[Vec<u8>]) -> Vec<Cow<'_, str>> {
    let all = all.iter();
    all.map(|text| String::from_utf8_lossy(text)).collect()
}

fn run(run: &Run) -> RunOf<'_> {
    RunOf {
        started_ns: run.started,
        wall_ns: run.wall,
        target_cpu_ns: run.target_cpu,
        host_cpu_ns: run.host_cpu,
        status: run.status.filter(|status| *status >= 0),
        signal: (run.status.filter(|status| *status < 0)).map(|status| -i64::from(status)),
        dropped: run.dropped,
        undercount: run.undercount,
        waits: run.waits,
        wait_ns: run.wait_time,
        detached: &run.detach,
    }
}

fn scope(scope: &Scope) -> Option<ScopeOf<'_>> {
    (*scope != Scope::default()).then_some(ScopeOf {
        late: scope.late,
        only: &scope.only,
    })
}

fn threads(threads: &Threads) -> ThreadsOf<'_> {
    let each = threads.each.iter().map(|thread| {
        let events = thread.seen.iter().map(|(kind, seen)| (kind.name(), *seen));
        ThreadOf {
            number: thread.number,
            tid: thread.tid,
            events: Named(events.collect()),
        }
    });
    ThreadsOf {
        started: threads.started.max(1),
        each: each.collect(),
    }
}

fn module(module: &Module) -> ModuleOf<'_> {
    let name = Some(module.build_name()).filter(|name| !name.is_empty());
    let (build_id, code) = match module.build_id.is_empty() {
        true => (None, name),
        false => (name, None),
    };
    ModuleOf {
        id: module.id.0,
        path: String::from_utf8_lossy(&module.path),
        build_id,
        code,
    }
}

fn seen((kind, data): (&Kind, &KindProfile)) -> (&'static str, Seen) {
    let (seen, messages) = (data.seen, data.messages);
    (kind.name(), Seen { seen, messages })
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
        simulated(json, view, kind, "branches_of_site", transfer.from)?;
        if let Some(sampled) = view.sampled(kind, transfer.from) {
            json.number("samples_of_site", sampled.samples)?;
            json.real("draws_of_site", sampled.draws())?;
        }
        limits(json, view.limits(&transfer))?;
        json.end_object()?;
    }
    json.end_array()
}

/// Writes what an instruction executed of what can miss, if that was simulated.
fn simulated<W: Write>(
    json: &mut Json<W>,
    view: &View<'_>,
    kind: Kind,
    name: &str,
    at: Place,
) -> io::Result<()> {
    match &view.profile.simulated {
        Some(simulated) if kind.is_simulated() => match misses::executed(simulated, kind, at) {
            Some(executed) => json.number(name, executed),
            None => json.null(name),
        },
        _ => Ok(()),
    }
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
        simulated(json, view, kind, "accesses", values.at)?;
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
