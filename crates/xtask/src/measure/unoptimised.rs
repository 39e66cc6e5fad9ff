//! Unoptimised code under `trommel run`: programs of the corpus compiled at `-O0` and `-O1`, loops of
//! `tests/unoptimised` at `-O0`, or any command, natively, under `run`, and under `run` with parts of it off.
//!
//! Rounds are interleaved; CPU time of the process tree, ratios of the least and, in brackets, of the medians.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use trommel_conformance::exec::{Scratch, children_cpu, workspace};

use crate::common::{STRESS, cc, median, rounds, stressed, trommel};
use crate::corpus::script;

/// Sources of the corpus's scripts, with their arguments.
const PROGRAMS: [(&str, &str); 6] = [
    ("deltablue.cpp", "300"),
    ("fib.c", "39"),
    ("switch.c", "100000000"),
    ("icpred.c", "100000000"),
    ("ikern.c", "20000000"),
    ("tight.c", "75000000"),
];
/// Loops of `tests/unoptimised/kernels.c`, and how often each is to go.
const KERNELS: [(&str, &str); 7] = [
    ("product", "25"),
    ("product_in_place", "12"),
    ("crc", "400"),
    ("collatz", "70"),
    ("distance", "45"),
    ("picture", "180"),
    ("occurrences", "400"),
];
const WAYS: [&str; 4] = [
    "run",
    "run --no-bail-out",
    "run --no-bail-out --opt aggressive",
    "TROMMEL_STRESS=no-opt run --no-bail-out",
];

/// Ways to run a program that is detached and then reattached; its calls, and millions of turns.
const RETAKE_WAYS: [&str; 2] = ["run --opt aggressive", "run --opt aggressive --no-retake"];
const RETAKE: [&str; 2] = ["80000000", "5000"];

/// Measures what `trommel run` makes of unoptimised code.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  cargo xtask measure unoptimised --rounds 3 --kernels\n  cargo xtask measure unoptimised ./bzip2 -c FILE"
)]
pub(crate) struct Args {
    /// Interleaved rounds.
    #[arg(long, value_name = "N", default_value = "5", value_parser = rounds)]
    rounds: usize,
    /// Measure loops of `tests/unoptimised`.
    #[arg(long)]
    kernels: bool,
    /// Measure a program that is detached at first, and reattached for its loop.
    #[arg(long, conflicts_with = "kernels")]
    retake: bool,
    /// Standard input of the program.
    #[arg(long, value_name = "FILE")]
    stdin: Option<PathBuf>,
    /// Program and its arguments; programs of the corpus if none is named.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROG ARGS"
    )]
    command: Vec<String>,
}

pub(super) fn run(args: &Args) -> Result<(), String> {
    let ways: &[&str] = if args.retake { &RETAKE_WAYS } else { &WAYS };
    println!("| program | native s | {} |", ways.join(" | "));
    println!("|{}", "---|".repeat(ways.len() + 2));
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    if let [name, ..] = args.command.as_slice() {
        row(name, &args.command, args.stdin.as_ref(), ways, args.rounds)
    } else if args.retake {
        let source = workspace().join("crates/xtask/src/measure/retake.c");
        let program = compiled(&source, "-O0", scratch.path("retake"))?;
        let command = [&[program][..], &RETAKE.map(str::to_owned)].concat();
        row(
            "calls at random, then a loop",
            &command,
            None,
            ways,
            args.rounds,
        )
    } else if args.kernels {
        kernels(&scratch, args.rounds)
    } else {
        programs(&scratch, args.rounds)
    }
}

fn kernels(scratch: &Scratch, rounds: usize) -> Result<(), String> {
    let source = workspace().join("tests/unoptimised/kernels.c");
    let out = compiled(&source, "-O0", scratch.path("kernels"))?;
    for (name, times) in KERNELS {
        let command = [&out, name, times].map(str::to_owned);
        row(name, &command, None, &WAYS, rounds)?;
    }
    Ok(())
}

fn programs(scratch: &Scratch, rounds: usize) -> Result<(), String> {
    let sources = script()?.with_file_name("src");
    for level in ["-O0", "-O1"] {
        for (source, argument) in PROGRAMS {
            let name = format!("{source} {level}");
            let out = scratch.path(&format!("{source}{level}"));
            let mut command = vec![compiled(&sources.join(source), level, out)?];
            command.extend(argument.split_whitespace().map(str::to_owned));
            row(&name, &command, None, &WAYS, rounds)?;
        }
    }
    Ok(())
}

/// Compiles a source in C or C++; the program's path.
fn compiled(source: &Path, level: &str, out: PathBuf) -> Result<String, String> {
    cc(&[level], source, &out)?;
    Ok(out.to_string_lossy().into_owned())
}

/// A line of a table: the program natively, and to that each of the ways, interleaved.
fn row(
    name: &str,
    command: &[String],
    input: Option<&PathBuf>,
    ways: &[&str],
    rounds: usize,
) -> Result<(), String> {
    let trommel = trommel().to_string_lossy().into_owned();
    let mut times = vec![Vec::new(); ways.len() + 1];
    for _ in 0..rounds {
        for (n, list) in times.iter_mut().enumerate() {
            let mut argv = Vec::new();
            let mut stress = None;
            if n > 0 {
                let (options, way) = stressed(ways[n - 1]);
                stress = options;
                argv.push(trommel.clone());
                argv.extend(way.split(' ').map(str::to_owned));
                argv.push("--".into());
            }
            argv.extend_from_slice(command);
            let stdin = match input {
                Some(file) => {
                    Stdio::from(File::open(file).map_err(|e| format!("{}: {e}", file.display()))?)
                }
                None => Stdio::null(),
            };
            let before = children_cpu().map_err(|e| e.to_string())?;
            let status = Command::new(&argv[0])
                .args(&argv[1..])
                .envs(stress.map(|stress| (STRESS, stress)))
                .stdin(stdin)
                .stdout(Stdio::null())
                .status()
                .map_err(|e| format!("{}: {e}", argv[0]))?;
            let after = children_cpu().map_err(|e| e.to_string())?;
            if !status.success() {
                return Err(format!("{} ended with {status}", argv.join(" ")));
            }
            list.push(after - before);
        }
    }
    let middle: Vec<f64> = times.iter_mut().map(|list| median(list)).collect();
    // Sorted by the median.
    let least: Vec<f64> = times.iter().map(|list| list[0].max(0.001)).collect();
    let mut line = format!("| {name} | {:.2} |", least[0]);
    for n in 1..times.len() {
        let (least, middle) = (least[n] / least[0], middle[n] / middle[0].max(0.001));
        line.push_str(&format!(" {least:.2} ({middle:.2}) |"));
    }
    println!("{line}");
    Ok(())
}
