//! The arguments of `run`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::parse;

/// Assumptions of the optimiser of traces.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Opt {
    /// Change nothing that any thread could observe
    Conservative,
    /// Assume that only its own thread writes a stack frame
    Aggressive,
}

/// Arguments of `stat`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trommel stat -- ./app                      instructions, branches, calls, …
  trommel stat --json -o base.json -- ./app  keep the counts for later
  trommel stat --baseline base.json --fail-above 1 -- ./app  exits 3 above +1 %

Counts are exact, without hardware counters, at about 1.5 times the CPU time.
Before the counted run, the program runs once natively with its output thrown
away. The exit status is that of the program. Counts go to standard error.")]
pub(crate) struct StatArgs {
    /// Count so many runs, and show the median
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeat: u32,

    /// Write JSON (`trommel help json`)
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,

    /// Write a line of CSV for each count of each run
    #[arg(long)]
    pub(crate) csv: bool,

    /// Write to FILE in place of standard error
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Compare instructions with those that `stat --json` wrote to FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) baseline: Option<PathBuf>,

    /// End with exit status 3 if there are PCT percent more instructions than in the baseline
    #[arg(long, value_name = "PCT", requires = "baseline", value_parser = parse::share)]
    pub(crate) fail_above: Option<f64>,

    /// Turn address-space randomisation off, so that runs are alike
    #[arg(long)]
    pub(crate) deterministic: bool,

    /// Leave out the native run
    #[arg(long)]
    pub(crate) no_native: bool,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_names = ["PROGRAM", "ARGS"])]
    pub(crate) program: Vec<OsString>,
}

/// Arguments of `run`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trommel run -- ./app its arguments          run faster; nothing is recorded
  trommel run --stats stats.json -- ./app     also write what the engine did
  trommel run --prefetch -- ./app             also prefetch strided loads

Programs that run faster natively are detached, and reattached when their
behaviour changes.
Input, output, exit status and terminating signal are the program's own.")]
pub(crate) struct RunArgs {
    /// Write what the engine did to FILE as JSON; `-` is standard output
    ///
    /// See `trommel help json`.
    #[arg(long, value_name = "FILE")]
    pub(crate) stats: Option<PathBuf>,

    /// Prefetch for loads and stores that miss at a regular distance
    ///
    /// Ends with a table of them. Implies --no-bail-out. See `trommel help prefetch`.
    #[arg(long)]
    pub(crate) prefetch: bool,

    /// Attach after this many seconds of CPU time; 0 attaches at the first instruction
    ///
    /// The default is 0.25. It is 0 with --stats, --prefetch or --no-bail-out, and for programs that
    /// make requests to Trommel (`trommel help aware`).
    #[arg(long, value_name = "SECONDS", value_parser = parse::after)]
    pub(crate) after: Option<Duration>,

    /// Stay attached even where the program would run faster natively
    ///
    /// Without this option such a program is detached. It is reattached when it has spent seconds in
    /// other code.
    #[arg(long)]
    pub(crate) no_bail_out: bool,

    /// Do not reattach a detached program when its behaviour changes
    #[arg(long)]
    pub(crate) no_retake: bool,

    /// Keep no translated code for the next run, and use none
    #[arg(long)]
    pub(crate) no_persist: bool,

    /// Size limit of translated code, such as 512k or 4M
    ///
    /// All translated code is dropped when the limit is reached. The default is as much as there is
    /// room for.
    #[arg(long, value_name = "BYTES", value_parser = parse::size)]
    pub(crate) cache: Option<u64>,

    /// Assumptions of the optimiser of traces
    #[arg(long, value_enum, default_value = "conservative", value_name = "HOW")]
    pub(crate) opt: Opt,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_names = ["PROGRAM", "ARGS"])]
    pub(crate) program: Vec<OsString>,
}
