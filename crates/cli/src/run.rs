//! `trommel run`: a program under Dynamo's control, optimised while it runs.
//!
//! Nothing is observed and nothing is written but what `--stats` asks for. All that can be wrong
//! with the arguments is found before the program starts.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use trommel_compress::Spec;
use trommel_host::interrupt;
use trommel_host::record::Optimise;
use trommel_host::record::{Engine, Recording};
use trommel_profile::Profile;
use trommel_symbol::launch;
use trommel_tuple::KindSet;

use crate::args::{Opt, RunArgs};
use crate::compress;
use crate::exit;
use crate::host::{self, Options};
use crate::inherited;
use crate::json::Json;

/// Times that a start of a trace is come by before one is made.
///
/// Counting once takes a few instructions, and making a trace as long as counting thousands of times;
/// so what is counted so often has cost little, and is likely to be worth a trace.
const THRESHOLD: u32 = 1000;

/// Runs the command.
pub(crate) fn run(args: RunArgs) -> Result<ExitCode> {
    let path = std::env::var_os("PATH");
    let program = launch::resolve(&args.program[0], path.as_deref())?;
    let stats = args.stats.as_deref().map(open).transpose()?;
    let options = Options {
        program,
        arguments: args.program,
        inherited: inherited::inherited(),
        kinds: KindSet::NONE,
        compressor: exact()?,
        stream: None,
        stream_limit: None,
        memory: None,
        only: Vec::new(),
        follow: true,
        traces: if args.no_traces { 0 } else { THRESHOLD },
        optimise: match (args.no_opt, args.opt) {
            (true, _) => Optimise::Off,
            (false, Opt::Conservative) => Optimise::Conservative,
            (false, Opt::Aggressive) => Optimise::Aggressive,
        },
        stay: args.no_bail_out,
    };
    let guard = interrupt::guard();
    let mut others = Vec::new();
    let (recording, outcome) = host::run(options, &guard, &mut |profile, engine| {
        if stats.is_some() {
            others.push((profile, engine));
        }
    })?;
    if let Some(out) = stats {
        let name = args.stats.as_deref().unwrap_or(Path::new("-")).display();
        write(BufWriter::new(out), &recording, &others).with_context(|| format!("{name}"))?;
    }
    drop(guard);
    Ok(exit::like(outcome))
}

fn exact() -> Result<Spec> {
    compress::parse("exact")
}

/// Where statistics go; `-` is the standard output.
fn open(path: &Path) -> Result<Box<dyn Write>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdout()));
    }
    let file = File::create(path)
        .with_context(|| format!("{}: cannot write the statistics", path.display()))?;
    Ok(Box::new(file))
}

/// Writes `trommel.stats/1`.
fn write(out: impl Write, recording: &Recording, others: &[(Profile, Engine)]) -> Result<()> {
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
    json.finish()?;
    Ok(())
}

fn words<W: Write>(json: &mut Json<W>, name: &str, list: &[Vec<u8>]) -> io::Result<()> {
    json.member_array(name)?;
    for word in list {
        json.element(&String::from_utf8_lossy(word))?;
    }
    json.end_array()
}

fn process<W: Write>(json: &mut Json<W>, profile: &Profile, engine: &Engine) -> io::Result<()> {
    json.object()?;
    json.number("pid", profile.origin.pid)?;
    json.number("parent", profile.origin.parent)?;
    words(json, "command", &profile.command)?;
    for (name, value) in [
        ("fragments", engine.fragments),
        ("fragment_instructions", engine.instructions),
        ("traces", engine.traces),
        ("trace_instructions", engine.trace_instructions),
        ("trace_bytes", engine.trace_bytes),
        ("traces_abandoned", engine.traces_abandoned),
        ("cache_bytes", engine.cache_bytes),
        ("dispatches", engine.dispatches),
        ("indirect_misses", engine.indirect_misses),
        ("syscalls", engine.syscalls),
        ("signals", engine.signals),
        ("invalidations", engine.invalidations),
    ] {
        json.number(name, value)?;
    }
    json.member_array("let_go")?;
    for words in &profile.run.let_go {
        json.element(words.as_str())?;
    }
    json.end_array()?;
    json.end_object()
}
