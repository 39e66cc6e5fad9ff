//! `trommel.stats/1`: what `run --stats` and `record --stats` write. See `docs/json.md`.

use std::borrow::Cow;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;
use trommel_host::serve::engine::Engine;
use trommel_host::serve::progress;
use trommel_host::serve::recording::Recording;
use trommel_host::serve::series::{Figures, Sample};
use trommel_host::serve::turns::{Moment, WhyAttached};
use trommel_profile::Profile;

use crate::json::{Json, Named};
use crate::output;
use crate::pipes;
use crate::prefetches;

/// Parts of the runtime, as `trommel_queue::work::Part` numbers them.
const PARTS: [&str; 4] = ["translate_ns", "trace_ns", "flush_ns", "dispatch_ns"];
/// Causes of flushes, as `trommel_queue::work::Flush` numbers them.
const FLUSHES: [&str; 3] = ["flushes_full", "flushes_phase", "flushes_asked"];

/// Returns where statistics go; `-` is the standard output.
pub(crate) fn open(path: &Path) -> Result<Box<dyn Write>> {
    if path == Path::new("-") {
        output::check_open()?;
        return Ok(Box::new(io::stdout()));
    }
    let file = pipes::create(path)
        .with_context(|| format!("{}: cannot write the statistics", path.display()))?;
    Ok(Box::new(file))
}

/// Returns what statistics need of a profile.
pub(crate) fn part_of(profile: &Profile) -> Profile {
    Profile {
        origin: profile.origin,
        command: profile.command.clone(),
        modules: profile.modules.clone(),
        run: profile.run.clone(),
        ..Profile::default()
    }
}

/// Writes the statistics of a run to what was [`open`]ed.
pub(crate) fn write(
    out: Box<dyn Write>,
    path: &Path,
    recording: &Recording,
    others: &[(Profile, Engine)],
) -> Result<()> {
    let written = write_to(BufWriter::new(out), recording, others);
    written.with_context(|| format!("{}: cannot write the statistics", path.display()))
}

fn write_to(
    out: impl Write,
    recording: &Recording,
    others: &[(Profile, Engine)],
) -> io::Result<()> {
    let run = &recording.profile.run;
    let mut json = Json::new(out);
    json.object()?;
    json.members(&Head {
        schema: "trommel.stats/1",
        command: words(&recording.profile.command),
        status: run.status,
        wall_ns: run.wall,
        cpu_ns: run.target_cpu,
        host_cpu_ns: run.host_cpu,
    })?;
    json.member_array("processes")?;
    process(&mut json, &recording.profile, &recording.engine)?;
    for (profile, engine) in others {
        process(&mut json, profile, engine)?;
    }
    json.end_array()?;
    json.end_object()?;
    json.finish()
}

/// Members of the run before those of its processes.
#[derive(Serialize)]
struct Head<'a> {
    schema: &'static str,
    command: Vec<Cow<'a, str>>,
    status: Option<i32>,
    wall_ns: u64,
    cpu_ns: u64,
    host_cpu_ns: u64,
}

/// Members of a process up to its prefetches.
#[derive(Serialize)]
struct Totals<'a> {
    pid: u32,
    parent: u32,
    command: Vec<Cow<'a, str>>,
    fragments: u64,
    fragment_instructions: u64,
    kept_fragments: u64,
    fragment_app_bytes: u64,
    fragment_bytes: u64,
    traces: u64,
    trace_instructions: u64,
    trace_app_bytes: u64,
    trace_bytes: u64,
    traces_abandoned: u64,
    cache_bytes: u64,
    links: u64,
    dispatches: u64,
    indirect_misses: u64,
    turns_missed: u64,
    fickle_branches: u64,
    syscalls: u64,
    signals: u64,
    requests: u64,
    invalidations: u64,
    #[serde(flatten)]
    counts: Named<'static, u64>,
    #[serde(flatten)]
    samples: Option<SharesOf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<Named<'static, RateOf>>,
}

#[derive(Serialize)]
struct SharesOf {
    samples_app: u64,
    samples_added: u64,
    samples_runtime: u64,
}

#[derive(Serialize)]
struct RateOf {
    bytes_per_second: u64,
    error: u64,
}

/// Members of a process after its prefetches.
#[derive(Serialize)]
struct Course<'a> {
    trace_lengths: Vec<Lengths>,
    taken: Option<Turn>,
    #[serde(rename = "let_go")]
    detached: &'a [String],
    #[serde(rename = "let_go_at")]
    detached_at: Option<Turn>,
    series: Vec<SampleOf>,
}

/// Number of traces of a class of lengths.
#[derive(Serialize)]
struct Lengths {
    from: u32,
    traces: u64,
}

/// Beginning or end of control, and why.
#[derive(Serialize)]
struct Turn {
    why: String,
    wall_ns: u64,
    cpu_ns: Option<u64>,
}

#[derive(Serialize)]
struct SampleOf {
    wall_ns: u64,
    cpu_ns: u64,
    fragments: u64,
    traces: u64,
    dispatches: u64,
    indirect_misses: u64,
    links: u64,
    cache_bytes: u64,
    #[serde(flatten)]
    counts: Named<'static, u64>,
}

fn words(list: &[Vec<u8>]) -> Vec<Cow<'_, str>> {
    let words = list.iter();
    words.map(|word| String::from_utf8_lossy(word)).collect()
}

fn process<W: Write>(json: &mut Json<W>, profile: &Profile, engine: &Engine) -> io::Result<()> {
    let rate = Rate::of(&engine.series);
    json.object()?;
    json.members(&totals(profile, engine, &rate))?;
    if let Some(report) = &engine.prefetch {
        prefetches::json(json, profile, report)?;
    }
    json.members(&course(profile, engine, &rate))?;
    json.end_object()
}

fn totals<'a>(profile: &'a Profile, engine: &Engine, rate: &Rate) -> Totals<'a> {
    let figures = &engine.figures;
    let progress = engine.progress.as_ref().map(|progress| {
        let rates = [
            ("native", Some(progress.native)),
            ("under_control", progress.under_control),
        ];
        let rate = |rate: progress::Rate| RateOf {
            bytes_per_second: rate.mean as u64,
            error: rate.error as u64,
        };
        let known = rates.into_iter().filter_map(|(n, r)| Some((n, rate(r?))));
        Named(known.collect())
    });
    Totals {
        pid: profile.origin.pid,
        parent: profile.origin.parent,
        command: words(&profile.command),
        fragments: engine.fragments,
        fragment_instructions: engine.instructions,
        kept_fragments: engine.kept_fragments,
        fragment_app_bytes: figures.fragment_app_bytes,
        fragment_bytes: figures.fragment_bytes,
        traces: engine.traces,
        trace_instructions: engine.trace_instructions,
        trace_app_bytes: figures.trace_app_bytes,
        trace_bytes: engine.trace_bytes,
        traces_abandoned: engine.traces_abandoned,
        cache_bytes: engine.cache_bytes,
        links: figures.links,
        dispatches: engine.dispatches,
        indirect_misses: engine.indirect_misses,
        turns_missed: figures.turns_missed,
        fickle_branches: figures.fickle,
        syscalls: engine.syscalls,
        signals: engine.signals,
        requests: figures.requests,
        invalidations: engine.invalidations,
        counts: counts(figures, rate),
        samples: engine.shares.as_ref().map(|shares| SharesOf {
            samples_app: shares.app,
            samples_added: shares.added,
            samples_runtime: shares.runtime,
        }),
        progress,
    }
}

fn course<'a>(profile: &'a Profile, engine: &Engine, rate: &Rate) -> Course<'a> {
    let lengths = engine.figures.lengths.iter().enumerate();
    let lengths = lengths.filter(|(_, n)| **n != 0);
    let taken = engine.turns.taken;
    let why = profile.run.detach.first().cloned().unwrap_or_default();
    Course {
        trace_lengths: lengths
            .map(|(class, count)| Lengths {
                from: 1 << class,
                traces: *count,
            })
            .collect(),
        taken: taken.map(|(why, at)| turn(why_controlled(why), at)),
        detached: &profile.run.detach,
        detached_at: engine.turns.detach.map(|at| turn(why, at)),
        series: engine.series.iter().map(|s| sample(s, rate)).collect(),
    }
}

fn turn(why: String, at: Moment) -> Turn {
    Turn {
        why,
        wall_ns: nanos(at.wall),
        cpu_ns: at.cpu.map(nanos),
    }
}

fn sample(sample: &Sample, rate: &Rate) -> SampleOf {
    let figures = &sample.figures;
    SampleOf {
        wall_ns: nanos(sample.wall),
        cpu_ns: nanos(sample.cpu),
        fragments: figures.fragments,
        traces: figures.traces,
        dispatches: figures.dispatches,
        indirect_misses: figures.indirect_misses,
        links: figures.links,
        cache_bytes: figures.cache_bytes,
        counts: counts(figures, rate),
    }
}

/// Flushes by cause, and times by part.
fn counts(figures: &Figures, rate: &Rate) -> Named<'static, u64> {
    let flushes = FLUSHES.into_iter().zip(figures.flushes);
    Named(
        flushes
            .chain(PARTS.into_iter().zip(figures.nanos(rate.0)))
            .collect(),
    )
}

/// Returns the reason why a process was attached.
fn why_controlled(why: WhyAttached) -> String {
    match why {
        WhyAttached::Start => "it was started under control".to_owned(),
        WhyAttached::Fork => "it was forked by a process under control".to_owned(),
        WhyAttached::Exec => "it was executed by a process under control".to_owned(),
        WhyAttached::Late => "it had run natively for as long as programs do at first".to_owned(),
        WhyAttached::Back(percent) => {
            format!("{percent} % of its time was in code that was not hot when it was detached")
        }
        WhyAttached::Faster(percent) => {
            format!("it got on {percent} % faster under control than it did natively")
        }
    }
}

fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}

/// Nanoseconds of a cycle of the time stamp counter, from the first sample to the last.
struct Rate(f64);

impl Rate {
    fn of(samples: &[Sample]) -> Self {
        let last = samples.last();
        let nanos = last.map_or(0.0, |s| nanos(s.wall) as f64);
        let cycles = last.map_or(0.0, |s| s.stamp as f64);
        Self(if cycles > 0.0 { nanos / cycles } else { 0.0 })
    }
}
