//! The project's chores, so that people and CI run the same ones.

mod accuracy;
mod bench;
mod beside;
mod budget;
mod changes;
mod conform;
mod corpus;
mod counts;
mod filters;
mod gc;
mod instructions;
mod known;
mod latency;
mod long;
mod parquet;
mod queries;
mod real;
mod retake;
mod returns;
mod served;
mod startup;
mod tidy;
mod unoptimised;
mod ways;
mod windows;

use std::process::{Command, ExitCode};

/// The chores there are.
const USAGE: &str = "\
cargo xtask ci                     format, clippy, tests, tidy
cargo xtask tidy                   architecture rules that can be checked mechanically
cargo xtask corpus [NAME…]         full-size workloads: same output, files and exit status
cargo xtask callgrind PROG ARGS…   exact edge and call counts against callgrind
cargo xtask stepper PROG ARGS…     the same, and loaded values, against single-stepping
cargo xtask bench [--rounds N] [--configuration C]… [--ablation] [--csv FILE] [NAME…]   the cost table
cargo xtask latency [SAMPLES]      how long signals take to their handlers
cargo xtask retake [--rounds N]    what it is worth that `run` takes programs back
cargo xtask long [SECONDS [SPEC]]  a busy program for ten minutes: memory bounded, nothing lost
cargo xtask windows                what a window of N instructions costs
cargo xtask budget [--rounds N] [--configuration OPTIONS] [NAME…]   what `record --budget` costs, on long runs of the corpus
cargo xtask accuracy [--budget PCT] [NAME…]   what such profiles know, against exact ones
cargo xtask known [NAME…]                     how far shares are off that `record --converge` has found
cargo xtask served [--rounds N]     what `record --budget -p` costs redis-server
cargo xtask changes                what it costs when code changes
cargo xtask queries                what queries cost, by what they ask
cargo xtask gc [--rounds N]        what a store barrier by query costs, beside one that is compiled in
cargo xtask gc stress [STORES]     such a collector checked against one that stops the program
cargo xtask returns                what calls and returns cost, in each way of treating them
cargo xtask instructions           instructions a tuple of each compressor, under valgrind
cargo xtask real [--run] [NAME…]   servers, build systems, JITs, debuggers: same behaviour
cargo xtask conform gcc|ltp|posix [--run] [--from DIR] [NAME…]   public conformance suites: same results
cargo xtask parquet                builds and tests the export of databases to Parquet (extra/parquet)
cargo xtask startup [ROUNDS]       how long programs take to start
cargo xtask filters [--rounds N] [--configuration OPTIONS] [NAME…]   what `run` makes of programs that call shared libraries often
cargo xtask unoptimised [--rounds N] [--kernels | [--stdin FILE] [PROG ARGS…]]   what `run` makes of unoptimised code";

type Outcome = Result<(), String>;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let task = args.next().unwrap_or_default();
    let rest: Vec<String> = args.collect();
    if task == "--help" || rest.first().is_some_and(|a| a == "--help") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let done = match task.as_str() {
        "ci" => ci(),
        "tidy" => tidy::Options::of(&rest).and_then(|o| tidy::run(&o)),
        "corpus" => corpus::run(&rest),
        "callgrind" => counts::callgrind(&rest),
        "stepper" => counts::stepper(&rest),
        "bench" => bench::run(&rest),
        "latency" => latency::run(&rest),
        "retake" => retake::run(&rest),
        "long" => long::run(&rest),
        "windows" => windows::run(),
        "budget" => budget::run(&rest),
        "accuracy" => accuracy::run(&rest),
        "known" => known::run(&rest),
        "served" => served::run(&rest),
        "changes" => changes::run(),
        "queries" => queries::run(),
        "gc" => gc::run(&rest),
        "returns" => returns::run(),
        "instructions" => instructions::run(),
        "real" => real::run(&rest),
        "conform" => conform::run(&rest),
        "parquet" => parquet::run(),
        "startup" => startup::run(&rest),
        "filters" => filters::run(&rest),
        "unoptimised" => unoptimised::run(&rest),
        _ => Err(format!("{task:?} is not a chore:\n{USAGE}")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("xtask: {what}");
            ExitCode::FAILURE
        }
    }
}

fn ci() -> Outcome {
    for line in [
        "fmt --all --check",
        "clippy --workspace --all-targets -- -D warnings",
        "test --workspace",
        // The README's first command, as a newcomer types it.
        "run --release -- record -o target/readme.data -- ls -l",
    ] {
        eprintln!("$ cargo {line}");
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new(cargo)
            .args(line.split(' '))
            .status()
            .map_err(|e| e.to_string())?;
        if !status.success() {
            return Err(format!("cargo {line} failed"));
        }
    }
    tidy::run(&tidy::Options::default())
}

fn trommel() -> Result<&'static std::path::Path, String> {
    trommel_conformance::exec::trommel().ok_or_else(|| "no crates/cli yet: set TROMMEL_BIN".into())
}
