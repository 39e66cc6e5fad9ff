//! Same state: generated loops over variables of a stack frame, natively and with traces. Whatever a fault's handler sees counts.
//!
//! Same counts: branches and calls of such loops, counted in traces, exactly and by a sampler that tells each event, against a record of each;
//! the state is the same then but for flags that a handler alone looks at.
//!
//! `TROMMEL_SEQUENCE_SEED` adds a seed of your own; a failure names the seed and the loop.

use std::path::Path;
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use trommel_conformance::counts::{Counts, compare_transfers};
use trommel_conformance::exec::{Job, Run, Scratch, trommel};
use trommel_conformance::generate::{build, loops, seeds};

const LIMIT: Duration = Duration::from_secs(60);
const EACH: u64 = 100;

fn main() {
    let args = Arguments::from_args();
    let mut trials: Vec<Trial> = seeds()
        .map(|seed| Trial::test(format!("seed {seed}"), move || Ok(check(seed)?)))
        .collect();
    for (n, seed) in seeds().enumerate() {
        const NIGHTLY: std::ops::Range<usize> = 1..8;
        let trial = Trial::test(format!("counted {seed}"), move || Ok(counted(seed)?));
        trials.push(trial.with_ignored_flag(NIGHTLY.contains(&n)));
    }
    libtest_mimic::run(&args, trials).exit();
}

/// The loops of a seed.
fn built(seed: u64) -> Result<String, String> {
    let text = loops(seed, EACH);
    let binary = build("loops", seed, &text, include_str!("../src/loops.c"))?;
    Ok(binary.to_string_lossy().into_owned())
}

fn counted(seed: u64) -> Result<(), String> {
    let bin = trommel();
    let program = built(seed)?;
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let mut job = Job::new([program.clone(), seed.to_string()], scratch.dir());
    job.env.push(("FLAGS".into(), "no".into()));
    let native = job.native(LIMIT).map_err(|e| e.to_string())?;
    let run_all = |kinds: &str, stress: &str, spec: &str| {
        let mut job = job.clone();
        job.env.push(("TROMMEL_STRESS".into(), stress.into()));
        let data = scratch.path("data");
        let seen = job.record_by(bin, (kinds, spec), &data, LIMIT * 10);
        let seen = seen.map_err(|e| format!("{}: {e}", bin.display()))?;
        native.compare(&seen)?;
        Counts::reported(bin, &data, Path::new(&program))
    };
    let run = |stress: &str, spec: &str| run_all("edge,call", stress, spec);
    // Values, too, by which register the app's may be where.
    for (stress, spec) in [
        ("trace", "exact"),
        ("trace", "H:crc[P2]64"),
        ("trace,flush=7", "H:mul[P1]64"),
    ] {
        let done = run_all("edge,call,value,type", stress, spec);
        done.map_err(|e| format!("{program} {seed}, `{stress}`, {spec}: {e}"))?;
    }
    let events = run("events", "exact")?;
    if events.branches.is_empty() {
        return Err("nothing was recorded".into());
    }
    for (stress, spec) in [
        ("", "exact"),
        ("trace", "exact"),
        ("trace,flush=7", "exact"),
        ("", "H[P1]64"),
        ("trace", "H[P1]64"),
        ("trace,flush=7", "H[P1]64"),
    ] {
        let what = |e: String| format!("{program} {seed}, `{stress}`, {spec}: {e}");
        let seen = run(stress, spec).map_err(what)?;
        let branches = compare_transfers("branches", &events.branches, &seen.branches);
        eprintln!("{}", branches.map_err(what)?);
        let calls = compare_transfers("calls", &events.calls, &seen.calls);
        eprintln!("{}", calls.map_err(what)?);
    }
    Ok(())
}

fn check(seed: u64) -> Result<(), String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let program = built(seed)?;
    let job = Job::new([program.clone(), seed.to_string()], scratch.dir());
    let native = job.native(LIMIT).map_err(|e| e.to_string())?;
    if native.code != Some(0) {
        return Err(format!("natively: {:?} {:?}", native.code, native.signal));
    }
    job.check_run(trommel(), &[Run::Plain, Run::Traced], LIMIT)
        .map_err(|e| format!("{program} {seed}: {e}"))
}
