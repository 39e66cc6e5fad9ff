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
            variant.runs.clone().into_iter().map(move |run| {
                let variant = variant.clone();
                let name = [&[variant.name.clone()][..], &run].concat().join(" ");
                Trial::test(name, move || Ok(check(&variant, &run)?))
            })
        })
        .collect();
    libtest_mimic::run(&args, trials).exit();
}

fn check(variant: &Variant, run: &[String]) -> Result<(), String> {
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
    let limit = Duration::from_secs(20);
    match trommel() {
        Some(bin) => {
            job.check(bin, limit)?;
            job.check_traced(bin, limit)
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
