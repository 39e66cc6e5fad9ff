//! Gains of other tools by Trommel's profiles: BOLT and AutoFDO, trained on one input and measured on another.
//!
//! # Problem
//! A profile can be accepted by a tool and still be worth little. Only the rewritten program tells what a profile is worth.
//!
//! # Strategy
//! Programs are built with clang, with relocations for BOLT. Profiles are exact, sampled, of budgets, of perf's clock, and of BOLT's own
//! instrumentation. Of each rewritten program callgrind counts taken branches, instructions and misses of the instruction cache in
//! the reference run. CPU times are medians of interleaved rounds, as ratios to the program as it was built.
//!
//! # What must hold
//! The exact profile is worth what BOLT's instrumentation is, within 0.1 % of the taken branches. `autofdo` and `profgen` are worth the same within 1 %
//! of the instructions. The command fails where that is not so.

mod build;
mod counts;
mod sources;

use std::path::{Path, PathBuf};
use std::process::Command;

use trommel_conformance::exec::{Scratch, output};
use trommel_conformance::wait::children_cpu;

use crate::common::median;
use build::{Bench, Variant};
use counts::Counts;
use sources::{SUBJECTS, Subject};

/// Measures what BOLT and AutoFDO gain by profiles.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  cargo xtask measure payoff words")]
pub(crate) struct Args {
    /// Programs: sqlite, sqlite-pie, sqlite-so, lua, shapes, words [default: all]
    names: Vec<String>,
    /// Only profiles whose names begin so, beside the exact one and BOLT's [default: all]
    #[arg(long = "profile", value_name = "NAME")]
    profiles: Vec<String>,
    /// Rounds of the CPU times
    #[arg(long, default_value = "7")]
    rounds: usize,
    /// Directory of LLVM's tools
    #[arg(long, default_value = "/usr/lib/llvm-16/bin")]
    llvm: PathBuf,
}

/// A profile of our own.
struct Profile {
    name: &'static str,
    /// The name when it is made consistent with `--infer`; empty: it is not tried.
    inferred: &'static str,
    /// Options of `record`.
    options: &'static [&'static str],
    /// Seconds that a training run takes natively. `None`: as it is.
    seconds: Option<f64>,
    /// Training runs, which are added up.
    runs: usize,
}

const fn profile(
    name: &'static str,
    inferred: &'static str,
    options: &'static [&'static str],
) -> Profile {
    Profile {
        name,
        inferred,
        options,
        seconds: None,
        runs: 1,
    }
}

const EXACT: Profile = profile("exact", "", &[]);
const PROFILES: [Profile; 9] = [
    profile("R257", "R257, inferred", &["-c", "R257"]),
    profile("budget 5", "budget 5, inferred", BUDGET_5),
    profile("budget 3", "budget 3, inferred", &["--budget", "3"]),
    profile("budget 2", "budget 2, inferred", BUDGET_2),
    profile("budget 1", "budget 1, inferred", BUDGET_1),
    Profile {
        seconds: Some(10.0),
        ..profile("budget 5, 10 s", "budget 5, 10 s, inferred", BUDGET_5)
    },
    Profile {
        seconds: Some(60.0),
        ..profile("budget 2, 60 s", "budget 2, 60 s, inferred", BUDGET_2)
    },
    Profile {
        seconds: Some(10.0),
        runs: 10,
        ..profile(
            "budget 1, ten times 10 s",
            "budget 1, ten times 10 s, inferred",
            BUDGET_1,
        )
    },
    profile(
        "windows 5",
        "windows 5, inferred",
        &["--budget", "5", "--windows"],
    ),
];
const BUDGET_5: &[&str] = &["--budget", "5"];
const BUDGET_2: &[&str] = &["--budget", "2"];
const BUDGET_1: &[&str] = &["--budget", "1"];
const INSTRUMENTED: &str = "BOLT -instrument";

pub(super) fn run(args: &Args) -> Result<(), String> {
    let wanted = |s: &&Subject| args.names.is_empty() || args.names.iter().any(|n| s.is_called(n));
    println!("| program | profile | tool | taken branches | instructions | I1 misses | CPU |");
    println!("|---|---|---|---|---|---|---|");
    let mut missed = Vec::new();
    for subject in SUBJECTS.iter().filter(wanted) {
        let rows = measure(subject, args)?;
        missed.extend(held(subject, &rows));
    }
    match missed.is_empty() {
        true => Ok(()),
        false => Err(missed.join("\n")),
    }
}

/// A variant and what was counted of it.
type Row = (&'static str, &'static str, Counts);

fn measure(subject: &Subject, args: &Args) -> Result<Vec<Row>, String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let bench = Bench::new(subject, &args.llvm, &scratch);
    let base = bench.dir("base")?;
    bench.build(&base, &[])?;
    let mut all = vec![Variant {
        profile: "none",
        tool: "",
        dir: base.clone(),
    }];
    let exact = bench.record(&base, &EXACT)?;
    all.push(bench.bolt(&base, EXACT.name, &bench.export(&exact, "bolt", &[])?)?);
    let wanted =
        |name: &str| args.profiles.is_empty() || args.profiles.iter().any(|p| name.starts_with(p));
    for profile in PROFILES.iter().filter(|p| wanted(p.name)) {
        all.extend(bolted(&bench, &base, profile)?);
    }
    if wanted("perf") {
        match bench.by_clock(&base) {
            Ok(fdata) => all.push(bench.bolt(&base, "perf cpu-clock", &fdata)?),
            Err(why) => eprintln!("{}: without perf's clock: {why}", subject.name),
        }
    }
    let instrumented = bench.instrument(&base)?;
    all.push(bench.bolt(&base, INSTRUMENTED, &instrumented)?);
    for tool in ["AutoFDO autofdo", "AutoFDO profgen"] {
        let file = match tool {
            "AutoFDO autofdo" => bench.export(&exact, "autofdo", &[])?,
            _ => bench.profgen(&base, &bench.export(&exact, "profgen", &[])?)?,
        };
        let dir = bench.dir(tool)?;
        bench.build(&dir, &[&format!("-fprofile-sample-use={}", file.display())])?;
        all.push(Variant {
            profile: "exact",
            tool,
            dir,
        });
    }
    table(&bench, &all, args.rounds)
}

/// The program as BOLT makes it of a profile, as it is and made consistent.
fn bolted(bench: &Bench<'_>, base: &Path, profile: &Profile) -> Result<Vec<Variant>, String> {
    let data = bench.record(base, profile)?;
    let fdata = match bench.export(&data, "bolt", &[]) {
        Ok(fdata) => fdata,
        // A budget may be too small for the run: that is a result, and no row.
        Err(why) if profile.options.contains(&"--budget") => {
            eprintln!("{}: {}: {why}", bench.subject.name, profile.name);
            return Ok(Vec::new());
        }
        Err(why) => return Err(why),
    };
    let mut made = vec![bench.bolt(base, profile.name, &fdata)?];
    if !profile.inferred.is_empty() {
        let fdata = bench.export(&data, "bolt", &["--infer"])?;
        made.push(bench.bolt(base, profile.inferred, &fdata)?);
    }
    Ok(made)
}

/// Runs all variants, and prints a row of each.
fn table(bench: &Bench<'_>, all: &[Variant], rounds: usize) -> Result<Vec<Row>, String> {
    let subject = bench.subject;
    let mut times = vec![Vec::new(); all.len()];
    let cpu = || children_cpu().map_err(|e| e.to_string());
    for _ in 0..rounds {
        for (variant, times) in all.iter().zip(&mut times) {
            let before = cpu()?;
            output(Command::new(variant.dir.join("app")).args(subject.reference()))?;
            times.push(cpu()? - before);
        }
    }
    let medians: Vec<f64> = times.iter_mut().map(|times| median(times)).collect();
    let mut rows = Vec::new();
    for (variant, time) in all.iter().zip(&medians) {
        let file = bench.file(&variant.dir);
        let counts = counts::of(&variant.dir.join("app"), &subject.reference(), &file)?;
        println!(
            "| {} | {} | {} | {} | {} | {} | {:.2} |",
            subject.name,
            variant.profile,
            variant.tool,
            counts.taken,
            counts.instructions,
            counts.misses,
            time / medians[0]
        );
        rows.push((variant.profile, variant.tool, counts));
    }
    Ok(rows)
}

/// Sentences about what does not hold.
fn held(subject: &Subject, rows: &[Row]) -> Vec<String> {
    let of = |profile: &str, tool: &str| {
        let row = rows.iter().find(|(p, t, _)| *p == profile && *t == tool);
        row.map(|(_, _, counts)| *counts).unwrap_or_default()
    };
    let mut missed = Vec::new();
    let mut check = |what: &str, ours: u64, theirs: u64, most: f64| {
        let apart = ours as f64 / theirs.max(1) as f64 - 1.0;
        if apart.abs() > most {
            missed.push(format!(
                "{}: {what}: {ours} and {theirs} are {:.3} % apart",
                subject.name,
                apart * 100.0
            ));
        }
    };
    let (ours, theirs) = (of("exact", "BOLT"), of(INSTRUMENTED, "BOLT"));
    check(
        "taken branches of exact and of BOLT's instrumentation",
        ours.taken,
        theirs.taken,
        0.001,
    );
    let (text, profgen) = (
        of("exact", "AutoFDO autofdo"),
        of("exact", "AutoFDO profgen"),
    );
    check(
        "instructions of autofdo and of profgen",
        text.instructions,
        profgen.instructions,
        0.01,
    );
    missed
}
