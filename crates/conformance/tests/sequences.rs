//! Same state: thousands of random instruction sequences, natively and under every event mix.
//!
//! `TROMMEL_SEQUENCE_SEED` adds a seed of your own; a failure names the seed and the sequence.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use trommel_conformance::exec::{Job, MIXES, Scratch, cache_dir, difference, trommel};
use trommel_conformance::generate::{Features, program};
use trommel_conformance::program::compile;

const LIMIT: Duration = Duration::from_secs(60);
const EACH: u64 = 500;

fn main() {
    let args = Arguments::from_args();
    let own = std::env::var("TROMMEL_SEQUENCE_SEED").ok();
    let seeds = (1..=8).chain(own.and_then(|s| s.parse().ok()));
    let trials = seeds
        .map(|seed| Trial::test(format!("seed {seed}"), move || Ok(check(seed)?)))
        .collect();
    libtest_mimic::run(&args, trials).exit();
}

/// Writes, assembles and links the program of a seed.
fn build(seed: u64) -> Result<PathBuf, String> {
    let dir = cache_dir().join("sequences");
    let io = |e: std::io::Error| e.to_string();
    fs::create_dir_all(&dir).map_err(io)?;
    let assembly = dir.join(format!("seed{seed}.S"));
    fs::write(&assembly, program(seed, EACH, Features::here())).map_err(io)?;
    let driver = dir.join(format!("driver{seed}.c"));
    fs::write(&driver, include_str!("../src/driver.c")).map_err(io)?;
    let out = dir.join(format!("seed{seed}"));
    // The stamp of `compile` sees the flags: the text of the assembly goes in by its length and hash.
    let text = fs::read(&assembly).map_err(io)?;
    let sum = text
        .iter()
        .fold(0_u64, |h, &b| h.wrapping_mul(31).wrapping_add(b.into()));
    let flags = [
        assembly.to_string_lossy().into_owned(),
        "-no-pie".into(),
        "-O1".into(),
        format!("-DTEXT={sum}"),
    ];
    compile(&driver, &flags, &out)?;
    Ok(out)
}

fn check(seed: u64) -> Result<(), String> {
    let binary = build(seed)?.to_string_lossy().into_owned();
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let job = |more: &[String]| {
        let argv = [&[binary.clone(), seed.to_string()][..], more].concat();
        Job::new(argv, scratch.dir())
    };
    let native = job(&[]).native(LIMIT).map_err(|e| e.to_string())?;
    if native.code != Some(0) {
        return Err(format!(
            "native run ended with {:?} {:?}",
            native.code, native.signal
        ));
    }
    let Some(bin) = trommel() else {
        eprintln!("skipped seed {seed} under trommel: this workspace has no crates/cli yet");
        return Ok(());
    };
    for mix in MIXES {
        let data = scratch.path("data");
        let seen = job(&[])
            .record(bin, mix, &data, LIMIT)
            .map_err(|e| e.to_string())?;
        let Err(what) = native.compare(&seen) else {
            continue;
        };
        // Run the first that differs alone, for its whole state.
        let lines = native
            .stdout
            .split(|&b| b == b'\n')
            .zip(seen.stdout.split(|&b| b == b'\n'));
        let n = lines.take_while(|(a, b)| a == b).count().to_string();
        let one = job(std::slice::from_ref(&n));
        let a = one.native(LIMIT).map_err(|e| e.to_string())?;
        let b = one
            .record(bin, mix, &data, LIMIT)
            .map_err(|e| e.to_string())?;
        let state = difference("state", &a.stdout, &b.stdout).unwrap_or_default();
        return Err(format!(
            "-e {mix}, seq_{n} of {binary}.S:\n{what}\nalone: {state}"
        ));
    }
    Ok(())
}
