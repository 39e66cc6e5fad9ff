//! Same state: generated loops over variables of a stack frame, natively and with traces. Whatever a fault's handler sees counts.
//!
//! `TROMMEL_SEQUENCE_SEED` adds a seed of your own; a failure names the seed and the loop.

use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use trommel_conformance::exec::{Job, Scratch, trommel};
use trommel_conformance::generate::{build, loops, seeds};

const LIMIT: Duration = Duration::from_secs(60);
const EACH: u64 = 400;

fn main() {
    let args = Arguments::from_args();
    let trials = seeds()
        .map(|seed| Trial::test(format!("seed {seed}"), move || Ok(check(seed)?)))
        .collect();
    libtest_mimic::run(&args, trials).exit();
}

fn check(seed: u64) -> Result<(), String> {
    let text = loops(seed, EACH);
    let binary = build("loops", seed, &text, include_str!("../src/loops.c"))?;
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
