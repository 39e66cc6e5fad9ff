//! Same behaviour: each program of `tests/programs`, in each of its builds, natively, under
//! every event mix, and with traces.

use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use trommel_conformance::exec::{Job, Scratch, trommel};
use trommel_conformance::program::{Variant, all};

fn main() {
    trommel_conformance::signals::of_a_terminal();
    let args = Arguments::from_args();
    let trials = all()
        .into_iter()
        .flat_map(|variant| {
            variant.runs.clone().into_iter().flat_map(move |run| {
                let ways = ["", "breakpoints"].into_iter();
                let ways = ways.filter(|way| way.is_empty() || has_traps(&variant));
                let trial = |way: &'static str| {
                    let (variant, run) = (variant.clone(), run.clone());
                    let name = [&[variant.name.clone()][..], &run].concat().join(" ");
                    let name = match way {
                        "" => name,
                        way => format!("{name} with {way}"),
                    };
                    Trial::test(name, move || Ok(check(&variant, &run, way)?))
                };
                ways.map(trial).collect::<Vec<_>>()
            })
        })
        .collect();
    libtest_mimic::run(&args, trials).exit();
}

/// Returns true if signals find a program in the cache, where steps lead to the next boundary.
fn has_traps(variant: &Variant) -> bool {
    variant.name.starts_with("signal_") || variant.name.starts_with("threads_signals")
}

fn check(variant: &Variant, run: &[String], stress: &str) -> Result<(), String> {
    let missing = variant.missing();
    if !missing.is_empty() {
        eprintln!(
            "skipped {}: this processor has no {missing:?}",
            variant.name
        );
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
    match trommel() {
        Some(bin) => {
            job.check(bin, limit)?;
            job.check_traced(bin, limit)?;
            job.check_kept(bin, &scratch.path("caches"), limit)
        }
        None => {
            eprintln!("skipped under trommel: this workspace has no crates/cli yet");
            let outcome = job.native(limit).map_err(|e| e.to_string())?;
            (!outcome.timed_out)
                .then_some(())
                .ok_or("native run hangs".into())
        }
    }
}
