//! Same behaviour: each program of `tests/programs`, in each of its builds, natively, under
//! every event mix, and with traces.
//!
//! The first build of a program is tried in CI. Its other builds are other code for the same behaviour: they are tried in the
//! nightly tier (ignored trials), in the same ways. So are programs with signals with breakpoints in the cache.

use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use trommel_conformance::exec::{Job, Run, Scratch, trommel};
use trommel_conformance::not_tested::not_tested;
use trommel_conformance::program::{Variant, all};

fn main() {
    trommel_conformance::signals::of_a_terminal();
    let args = Arguments::from_args();
    let mut trials = Vec::new();
    for variant in all() {
        for run in &variant.runs {
            let name = [&[variant.name.clone()][..], run].concat().join(" ");
            trials.push(trial(&variant, run, &name, ""));
            if has_traps(&variant) {
                trials.push(trial(&variant, run, &name, "breakpoints"));
            }
        }
    }
    libtest_mimic::run(&args, trials).exit();
}

fn trial(variant: &Variant, run: &[String], name: &str, stress: &'static str) -> Trial {
    let mut name = name.to_owned();
    if !stress.is_empty() {
        name += &format!(" with {stress}");
    }
    let (first, variant, run) = (variant.first, variant.clone(), run.to_vec());
    let trial = Trial::test(name, move || Ok(check(&variant, &run, stress)?));
    trial.with_ignored_flag(!first || !stress.is_empty())
}

/// Returns true if signals find a program in the cache, where steps lead to the next boundary.
fn has_traps(variant: &Variant) -> bool {
    variant.name.starts_with("signal_") || variant.name.starts_with("threads_signals")
}

/// Ways of `trommel run` that a program is compared in. One that reads which signals are handled, while a thread waits in the kernel, sees the runtime's
/// handlers where it has been detached (docs/limits.md). Plain `run` does that when a busy machine makes it slow.
fn ways(variant: &Variant) -> &'static [Run] {
    match variant.name.as_str() {
        "signal_own_status" => &[Run::Traced],
        _ => &[Run::Plain, Run::Traced],
    }
}

fn check(variant: &Variant, run: &[String], stress: &str) -> Result<(), String> {
    let missing = variant.missing();
    if !missing.is_empty() {
        not_tested(format_args!(
            "{}: this processor has no {missing:?}",
            variant.name
        ));
        return Ok(());
    }
    let program = variant.build()?;
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let mut job = Job::new([program], scratch.dir());
    job.argv.extend(run.iter().map(Into::into));
    if !stress.is_empty() {
        job.env.push(("TROMMEL_STRESS".into(), stress.into()));
    }
    let limit = Duration::from_secs(20);
    let bin = trommel();
    job.check(bin, limit)?;
    job.check_run(bin, ways(variant), limit)?;
    job.check_kept(bin, &scratch.path("caches"), limit)
}
