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

use std::path::PathBuf;
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
    /// Rounds of the CPU times
    #[arg(long, default_value = "7")]
    rounds: usize,
    /// Directory of LLVM's tools
    #[arg(long, default_value = "/usr/lib/llvm-16/bin")]
    llvm: PathBuf,
}

/// Profiles of our own, by the options of `record`; their names as sampled, and made consistent with `--infer`.
const PROFILES: [(&str, &str, &[&str]); 7] = [
    ("exact", "", &[]),
    ("R257", "R257, inferred", &["-c", "R257"]),
    ("budget 5", "budget 5, inferred", &["--budget", "5"]),
    ("budget 3", "budget 3, inferred", &["--budget", "3"]),
    ("budget 1", "budget 1, inferred", &["--budget", "1"]),
    (
        "bursts 5",
        "bursts 5, inferred",
        &["--budget", "5", "--bursts"],
    ),
    (
        "bursts 2",
        "bursts 2, inferred",
        &["--budget", "2", "--bursts"],
    ),
];
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
    let exact = bench.record(&base, "exact", &[])?;
    for (profile, inferred, options) in PROFILES {
        let data = match profile {
            "exact" => exact.clone(),
            _ => bench.record(&base, profile, options)?,
        };
        match bench.export(&data, "bolt", &[]) {
            Ok(fdata) => all.push(bench.bolt(&base, profile, &fdata)?),
            // A budget may be too small for the run: that is a result, and no row.
            Err(why) if options.contains(&"--budget") => {
                eprintln!("{}: {profile}: {why}", subject.name);
                continue;
            }
            Err(why) => return Err(why),
        }
        if !inferred.is_empty() {
            let fdata = bench.export(&data, "bolt", &["--infer"])?;
            all.push(bench.bolt(&base, inferred, &fdata)?);
        }
    }
    match bench.by_clock(&base) {
        Ok(fdata) => all.push(bench.bolt(&base, "perf cpu-clock", &fdata)?),
        Err(why) => eprintln!("{}: without perf's clock: {why}", subject.name),
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
