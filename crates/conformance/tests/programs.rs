//! Same behaviour: each program of `tests/programs`, in each of its builds, natively, under
//! every event mix, and with traces.
//!
//! CI tries the first build of each program: under `record` with all kinds of events, and under plain `run`. It tries some in all
//! ways, of each kind of program ([`IN_ALL_WAYS`]). The rest is the nightly tier (ignored trials): all ways of all programs, their
//! other builds, which are other code for the same behaviour, and programs with signals with breakpoints in the cache.

use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use trommel_conformance::exec::{COUNTED, Job, MIXES, Run, Scratch, trommel};
use trommel_conformance::not_tested::not_tested;
use trommel_conformance::program::{Variant, all};

/// Programs that CI tries in all ways.
const IN_ALL_WAYS: [&str; 20] = [
    "alloca_recursion",
    "call_forms",
    "code_changes",
    "contexts_same",
    "decode_oddities",
    "dlopen_loop",
    "exceptions_deep",
    "flags_adc_chain",
    "jump_tables",
    "longjmp_deep",
    "machine_state",
    "processes_forms",
    "return_tricks",
    "signal_frames",
    "signal_handler_vectors",
    "signal_x87_record",
    "stack_overflow_altstack",
    "threads_basic",
    "threads_patch_code",
    "ucontext_swap",
];

fn main() {
    trommel_conformance::signals::of_a_terminal();
    let args = Arguments::from_args();
    let mut trials = Vec::new();
    for variant in all() {
        let of = variant.name.split('@').next().unwrap_or_default();
        let ways = match variant.first && !IN_ALL_WAYS.contains(&of) {
            true => Ways::Few,
            false => Ways::Usual,
        };
        for run in &variant.runs {
            let name = [&[variant.name.clone()][..], run].concat().join(" ");
            trials.push(trial(&variant, run, &name, ways));
            if ways == Ways::Few {
                trials.push(trial(&variant, run, &name, Ways::All));
            }
            if has_traps(&variant) {
                trials.push(trial(&variant, run, &name, Ways::Breakpoints));
            }
        }
    }
    libtest_mimic::run(&args, trials).exit();
}

/// Ways that a trial goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ways {
    /// All, of a build that goes no fewer.
    Usual,
    /// Those that have most in them.
    Few,
    /// All of a program that goes [`Self::Few`] in CI.
    All,
    /// The usual ones, with breakpoints in the cache.
    Breakpoints,
}

impl Ways {
    fn name(self) -> &'static str {
        match self {
            Self::Usual | Self::Few => "",
            Self::All => " in all ways",
            Self::Breakpoints => " with breakpoints",
        }
    }
}

fn trial(variant: &Variant, run: &[String], name: &str, ways: Ways) -> Trial {
    let nightly = !variant.first || matches!(ways, Ways::All | Ways::Breakpoints);
    let (variant, run) = (variant.clone(), run.to_vec());
    let trial = Trial::test(format!("{name}{}", ways.name()), move || {
        Ok(check(&variant, &run, ways)?)
    });
    trial.with_ignored_flag(nightly)
}

/// Returns true if signals find a program in the cache, where steps lead to the next boundary.
fn has_traps(variant: &Variant) -> bool {
    variant.name.starts_with("signal_") || variant.name.starts_with("threads_signals")
}

/// Returns true if a program attaches to others. Where plain `run` has detached it, nobody detaches those (docs/limits.md).
fn traces_others(variant: &Variant) -> bool {
    variant.name.starts_with("processes_attached")
}

fn check(variant: &Variant, run: &[String], ways: Ways) -> Result<(), String> {
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
    if ways == Ways::Breakpoints {
        job.env
            .push(("TROMMEL_STRESS".into(), "breakpoints".into()));
    }
    let limit = Duration::from_secs(20);
    let bin = trommel();
    let caches = scratch.path("caches");
    if ways == Ways::Few {
        job.check_recorded(bin, [("edge,call,value,type", "exact")], limit)?;
        if traces_others(variant) {
            return job.check_run(bin, &[Run::Traced], limit);
        }
        return job.check_run(bin, &[Run::Plain], limit);
    }
    // `record -e none` and plain `run` are among the ways with kept fragments.
    let mixes = MIXES.into_iter().filter(|mix| *mix != "none");
    let exact = mixes.map(|mix| (mix, "exact"));
    job.check_recorded(bin, exact.chain(COUNTED), limit)?;
    job.check_run(bin, &[Run::Traced], limit)?;
    if traces_others(variant) {
        return Ok(());
    }
    job.check_kept(bin, &caches, limit)
}
