//! Same state: thousands of random instruction sequences, natively and under every event mix.
//!
//! `TROMMEL_SEQUENCE_SEED` adds a seed of your own; a failure names the seed and the sequence.

use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use trommel_conformance::exec::{COUNTED, Job, MIXES, Scratch, difference, trommel};
use trommel_conformance::generate::{Features, build, program, seeds};

const LIMIT: Duration = Duration::from_secs(60);
const EACH: u64 = 500;

/// More that is counted in generated code.
const MORE: [(&str, &str); 2] = [("value", "H:mul[P3]64"), ("value,type", "P5")];

fn main() {
    let args = Arguments::from_args();
    // The first ones are tried in CI, the others of the eight in the nightly tier.
    const NIGHTLY: std::ops::Range<usize> = 4..8;
    let trial = |(n, seed)| {
        let trial = Trial::test(format!("seed {seed}"), move || Ok(check(seed)?));
        trial.with_ignored_flag(NIGHTLY.contains(&n))
    };
    let trials = seeds().enumerate().map(trial).collect();
    libtest_mimic::run(&args, trials).exit();
}

fn check(seed: u64) -> Result<(), String> {
    let text = program(seed, EACH, Features::here());
    let binary = build("sequences", seed, &text, include_str!("../src/driver.c"))?
        .to_string_lossy()
        .into_owned();
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
    let bin = trommel();
    let exact = MIXES.map(|mix| (mix, "exact"));
    for mix in exact.into_iter().chain(COUNTED).chain(MORE) {
        let data = scratch.path("data");
        let seen = job(&[])
            .record_by(bin, mix, &data, LIMIT)
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
            .record_by(bin, mix, &data, LIMIT)
            .map_err(|e| e.to_string())?;
        let state = difference("state", &a.stdout, &b.stdout).unwrap_or_default();
        return Err(format!(
            "-e {} -c {}, seq_{n} of {binary}.S:\n{what}\nalone: {state}",
            mix.0, mix.1
        ));
    }
    Ok(())
}
