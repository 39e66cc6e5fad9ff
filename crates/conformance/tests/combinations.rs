//! Each pair of event kinds with each compressor: random sequences end in the same state as natively, or the recording is
//! refused in words before the program runs.

use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use trommel_conformance::exec::{Job, Outcome, Scratch, trommel};
use trommel_conformance::generate::{Features, build, program};

const LIMIT: Duration = Duration::from_secs(60);
/// The program's seed, and its sequences.
const SEED: u64 = 77;
const EACH: u64 = 40;

const KINDS: [&str; 7] = [
    "edge", "call", "value", "type", "path", "address", "latency",
];

/// The compressors: those that are counted in generated code, and others.
const SPECS: [&str; 7] = [
    "exact",
    "P5",
    "H:mul[P3]64",
    "H:crc[P16]2048+A16",
    "CR64",
    "T[16]256/2way/2bit",
    "M4:crc[1k,1%]2048:C1R0P1",
];

fn main() {
    let args = Arguments::from_args();
    let mut mixes: Vec<String> = KINDS.map(String::from).into();
    for (n, one) in KINDS.iter().enumerate() {
        mixes.extend(KINDS[n + 1..].iter().map(|other| format!("{one},{other}")));
    }
    let trials = mixes
        .into_iter()
        .map(|mix| Trial::test(mix.replace(',', "_and_"), move || Ok(check(&mix)?)))
        .collect();
    libtest_mimic::run(&args, trials).exit();
}

fn check(mix: &str) -> Result<(), String> {
    let text = program(SEED, EACH, Features::here());
    let binary = build("combinations", SEED, &text, include_str!("../src/driver.c"))?;
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let argv = [binary.to_string_lossy().into_owned(), SEED.to_string()];
    let job = Job::new(argv.to_vec(), scratch.dir());
    let native = job.native(LIMIT).map_err(|e| e.to_string())?;
    if native.code != Some(0) {
        return Err(format!("native run ended with {:?}", native.code));
    }
    let bin = trommel();
    let mut ran = 0;
    for spec in SPECS {
        let data = scratch.path("data");
        let seen = job
            .record_by(bin, (mix, spec), &data, LIMIT)
            .map_err(|e| e.to_string())?;
        if !is_refusal(&seen) {
            ran += 1;
            native
                .compare(&seen)
                .map_err(|what| format!("-e {mix} -c {spec}: {what}"))?;
        }
    }
    // Accesses and latencies need windows, and are refused without.
    let windowed = mix.contains("address") || mix.contains("latency");
    match (windowed, ran) {
        (false, 0) => Err(format!("-e {mix}: refused with every compressor")),
        _ => Ok(()),
    }
}

/// Returns true if a recording was refused: with words, an exit code of its own, and nothing of the program's.
fn is_refusal(seen: &Outcome) -> bool {
    let words = String::from_utf8_lossy(&seen.stderr);
    let refused = seen.code.is_some_and(|code| code != 0) && seen.stdout.is_empty();
    refused && words.contains("trommel: ") && !words.contains("panicked")
}
