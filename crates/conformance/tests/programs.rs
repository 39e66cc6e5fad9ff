//! Same behaviour: each program of `tests/programs`, in each of its builds, natively, under
//! every event mix, and with traces.
//!
//! The first build of a program is tried in all ways. Its other builds are other code for the same behaviour: they are tried
//! with the three ways that do most to code, and in the nightly tier (ignored trials) with the rest.

use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use trommel_conformance::exec::{COUNTED, Job, MIXES, Run, Scratch, trommel};
use trommel_conformance::not_tested::not_tested;
use trommel_conformance::program::{Variant, all};

/// Every load and branch, counted by a table of values: with probes at most instructions.
const MOST: (&str, &str) = ("edge,call,value,type", "exact");

/// A part of the ways to run a program.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    All,
    /// Those that do most to code: all events exactly, all events by a sampler in generated code, traces.
    Most,
    /// All but those.
    Rest,
}

impl Part {
    fn recorded(self) -> Vec<(&'static str, &'static str)> {
        let exact = MIXES.map(|mix| (mix, "exact"));
        let all = exact.into_iter().chain(COUNTED);
        let most = |way: &(&str, &str)| *way == MOST || *way == COUNTED[0];
        match self {
            Part::All => all.collect(),
            Part::Most => all.filter(most).collect(),
            Part::Rest => all.filter(|way| !most(way)).collect(),
        }
    }

    fn run(self) -> &'static [Run] {
        match self {
            Part::All => &[Run::Plain, Run::Traced],
            Part::Most => &[Run::Traced],
            Part::Rest => &[Run::Plain],
        }
    }
}

fn main() {
    trommel_conformance::signals::of_a_terminal();
    let args = Arguments::from_args();
    let mut trials = Vec::new();
    for variant in all() {
        for run in &variant.runs {
            let name = [&[variant.name.clone()][..], run].concat().join(" ");
            let parts = match variant.first {
                true => &[Part::All][..],
                false => &[Part::Most, Part::Rest],
            };
            for &part in parts {
                trials.push(trial(&variant, run, &name, part, ""));
            }
            if has_traps(&variant) {
                trials.push(trial(&variant, run, &name, parts[0], "breakpoints"));
            }
        }
    }
    libtest_mimic::run(&args, trials).exit();
}

fn trial(variant: &Variant, run: &[String], name: &str, part: Part, stress: &'static str) -> Trial {
    let mut name = name.to_owned();
    if !stress.is_empty() {
        name += &format!(" with {stress}");
    }
    if part == Part::Rest {
        name += ", in the other ways";
    }
    let (variant, run) = (variant.clone(), run.to_vec());
    let trial = Trial::test(name, move || Ok(check(&variant, &run, part, stress)?));
    trial.with_ignored_flag(part == Part::Rest)
}

/// Returns true if signals find a program in the cache, where steps lead to the next boundary.
fn has_traps(variant: &Variant) -> bool {
    variant.name.starts_with("signal_") || variant.name.starts_with("threads_signals")
}

fn check(variant: &Variant, run: &[String], part: Part, stress: &str) -> Result<(), String> {
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
    job.check_recorded(bin, part.recorded(), limit)?;
    job.check_run(bin, part.run(), limit)?;
    match part {
        Part::Most => Ok(()),
        Part::All | Part::Rest => job.check_kept(bin, &scratch.path("caches"), limit),
    }
}
