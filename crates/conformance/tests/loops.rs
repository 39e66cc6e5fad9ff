//! Same state: generated loops over variables of a stack frame, natively and with traces. Whatever a fault's handler sees counts.
//!
//! `TROMMEL_SEQUENCE_SEED` adds a seed of your own; a failure names the seed and the loop.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use trommel_conformance::exec::{Job, Scratch, cache_dir, trommel};
use trommel_conformance::generate::loops;
use trommel_conformance::program::compile;

const LIMIT: Duration = Duration::from_secs(60);
const EACH: u64 = 400;

fn main() {
    let args = Arguments::from_args();
    let own = std::env::var("TROMMEL_SEQUENCE_SEED").ok();
    let seeds = (1..=8).chain(own.and_then(|s| s.parse().ok()));
    let trials = seeds
        .map(|seed| Trial::test(format!("seed {seed}"), move || Ok(check(seed)?)))
        .collect();
    libtest_mimic::run(&args, trials).exit();
}

fn build(seed: u64) -> Result<PathBuf, String> {
    let dir = cache_dir().join("loops");
    let io = |e: std::io::Error| e.to_string();
    fs::create_dir_all(&dir).map_err(io)?;
    let text = loops(seed, EACH);
    let assembly = dir.join(format!("seed{seed}.S"));
    fs::write(&assembly, &text).map_err(io)?;
    let driver = dir.join(format!("driver{seed}.c"));
    fs::write(&driver, include_str!("../src/loops.c")).map_err(io)?;
    let out = dir.join(format!("seed{seed}"));
    // The stamp of `compile` sees the flags: the text of the assembly goes in by its hash.
    let hash = |h: u64, b: u8| h.wrapping_mul(31).wrapping_add(b.into());
    let sum = text.bytes().fold(0_u64, hash);
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
    let binary = build(seed)?;
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let program = binary.to_string_lossy().into_owned();
    let job = Job::new([program.clone(), seed.to_string()], scratch.dir());
    let native = job.native(LIMIT).map_err(|e| e.to_string())?;
    if native.code != Some(0) {
        return Err(format!("natively: {:?} {:?}", native.code, native.signal));
    }
    match trommel() {
        Some(bin) => job
            .check_traced(bin, LIMIT)
            .map_err(|e| format!("{program} {seed}: {e}")),
        None => {
            eprintln!("skipped seed {seed} under trommel: this workspace has no crates/cli yet");
            Ok(())
        }
    }
}
