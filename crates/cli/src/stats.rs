//! `trommel.stats/1`: what `run --stats` and `record --stats` write. See `docs/json.md`.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use trommel_host::serve::engine::Engine;
use trommel_host::serve::recording::Recording;
use trommel_host::serve::series::{Figures, Sample};
use trommel_host::serve::turns::{Moment, Taken};
use trommel_profile::Profile;

use crate::json::Json;
use crate::prefetches;

/// Parts of the runtime, as `trommel_queue::work::Part` numbers them.
const PARTS: [&str; 4] = ["translate_ns", "trace_ns", "flush_ns", "dispatch_ns"];
/// Causes of flushes, as `trommel_queue::work::Flush` numbers them.
const FLUSHES: [&str; 3] = ["flushes_full", "flushes_phase", "flushes_asked"];

/// Returns where statistics go; `-` is the standard output.
pub(crate) fn open(path: &Path) -> Result<Box<dyn Write>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdout()));
    }
    let file = File::create(path)
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
    json.text("schema", "trommel.stats/1")?;
    words(&mut json, "command", &recording.profile.command)?;
    match run.status {
        Some(status) => json.number("status", status)?,
        None => json.null("status")?,
    }
    json.number("wall_ns", run.wall)?;
    json.number("cpu_ns", run.target_cpu)?;
    json.number("host_cpu_ns", run.host_cpu)?;
    json.member_array("processes")?;
    process(&mut json, &recording.profile, &recording.engine)?;
    for (profile, engine) in others {
        process(&mut json, profile, engine)?;
    }
    json.end_array()?;
    json.end_object()?;
    json.finish()
}

fn words<W: Write>(json: &mut Json<W>, name: &str, list: &[Vec<u8>]) -> io::Result<()> {
    json.texts(name, list.iter().map(|word| String::from_utf8_lossy(word)))
}

fn process<W: Write>(json: &mut Json<W>, profile: &Profile, engine: &Engine) -> io::Result<()> {
    let figures = &engine.figures;
    let rate = Rate::of(&engine.series);
    json.object()?;
    json.number("pid", profile.origin.pid)?;
    json.number("parent", profile.origin.parent)?;
    words(json, "command", &profile.command)?;
    for (name, value) in [
        ("fragments", engine.fragments),
        ("fragment_instructions", engine.instructions),
        ("kept_fragments", engine.kept_fragments),
        ("fragment_app_bytes", figures.fragment_app_bytes),
        ("fragment_bytes", figures.fragment_bytes),
        ("traces", engine.traces),
        ("trace_instructions", engine.trace_instructions),
        ("trace_app_bytes", figures.trace_app_bytes),
        ("trace_bytes", engine.trace_bytes),
        ("traces_abandoned", engine.traces_abandoned),
        ("cache_bytes", engine.cache_bytes),
        ("links", figures.links),
        ("dispatches", engine.dispatches),
        ("indirect_misses", engine.indirect_misses),
        ("turns_missed", figures.turns_missed),
        ("fickle_branches", figures.fickle),
        ("syscalls", engine.syscalls),
        ("signals", engine.signals),
        ("requests", figures.requests),
        ("invalidations", engine.invalidations),
    ] {
        json.number(name, value)?;
    }
    counts(json, figures, &rate)?;
    if let Some(shares) = &engine.shares {
        json.number("samples_app", shares.app)?;
        json.number("samples_added", shares.added)?;
        json.number("samples_runtime", shares.runtime)?;
    }
    if let Some(progress) = &engine.progress {
        json.member_object("progress")?;
        let rates = [
            ("native", Some(progress.native)),
            ("under_control", progress.under_control),
        ];
        for (name, rate) in rates.into_iter().filter_map(|(n, r)| Some((n, r?))) {
            json.member_object(name)?;
            json.number("bytes_per_second", rate.mean as u64)?;
            json.number("error", rate.error as u64)?;
            json.end_object()?;
        }
        json.end_object()?;
    }
    if let Some(report) = &engine.prefetch {
        prefetches::json(json, profile, report)?;
    }
    json.member_array("trace_lengths")?;
    for (class, count) in figures.lengths.iter().enumerate().filter(|(_, n)| **n != 0) {
        json.object()?;
        json.number("from", 1_u32 << class)?;
        json.number("traces", *count)?;
        json.end_object()?;
    }
    json.end_array()?;
    let taken = engine.turns.taken;
    moment(
        json,
        "taken",
        taken.map(|(why, at)| (why_controlled(why), at)),
    )?;
    json.texts(
        "let_go",
        profile.run.detach.iter().map(|words| words.as_str()),
    )?;
    let why = profile.run.detach.first().cloned().unwrap_or_default();
    moment(json, "let_go_at", engine.turns.detach.map(|at| (why, at)))?;
    json.member_array("series")?;
    for sample in &engine.series {
        json.object()?;
        json.number("wall_ns", nanos(sample.wall))?;
        json.number("cpu_ns", nanos(sample.cpu))?;
        for (name, value) in [
            ("fragments", sample.figures.fragments),
            ("traces", sample.figures.traces),
            ("dispatches", sample.figures.dispatches),
            ("indirect_misses", sample.figures.indirect_misses),
            ("links", sample.figures.links),
            ("cache_bytes", sample.figures.cache_bytes),
        ] {
            json.number(name, value)?;
        }
        counts(json, &sample.figures, &rate)?;
        json.end_object()?;
    }
    json.end_array()?;
    json.end_object()
}

/// Writes when control began or ended, and why.
fn moment<W: Write>(
    json: &mut Json<W>,
    name: &str,
    turn: Option<(String, Moment)>,
) -> io::Result<()> {
    let Some((why, at)) = turn else {
        return json.null(name);
    };
    json.member_object(name)?;
    json.text("why", &why)?;
    json.number("wall_ns", nanos(at.wall))?;
    match at.cpu {
        Some(cpu) => json.number("cpu_ns", nanos(cpu))?,
        None => json.null("cpu_ns")?,
    }
    json.end_object()
}

/// Flushes by cause, and times by part.
fn counts<W: Write>(json: &mut Json<W>, figures: &Figures, rate: &Rate) -> io::Result<()> {
    for (name, count) in FLUSHES.iter().zip(figures.flushes) {
        json.number(name, count)?;
    }
    for (name, spent) in PARTS.iter().zip(figures.nanos(rate.0)) {
        json.number(name, spent)?;
    }
    Ok(())
}

/// Returns the reason why a process was attached.
fn why_controlled(why: Taken) -> String {
    match why {
        Taken::Start => "it was started under control".to_owned(),
        Taken::Fork => "it was forked by a process under control".to_owned(),
        Taken::Exec => "it was executed by a process under control".to_owned(),
        Taken::Late => "it had run natively for as long as programs do at first".to_owned(),
        Taken::Back(percent) => {
            format!("{percent} % of its time was in code that was not hot when it was detached")
        }
        Taken::Faster(percent) => {
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
