//! The arguments of `run`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::parse;

/// How far the optimiser of traces goes.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Opt {
    /// Nothing changes that anybody could see
    Conservative,
    /// Variables of a stack frame are taken to be written by its own thread alone, also where there are several
    Aggressive,
}

/// Arguments of `run`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trommel run -- ./app its arguments          nothing is observed
  trommel run --stats stats.json -- ./app     what the engine did (docs/json.md)
  trommel run --after 0 -- ./app              under control from its first instruction on
  trommel run --no-retake -- ./app            once it is detached, as control does not pay, it stays native
  trommel run --prefetch -- ./app             what misses by a regular distance is prefetched (docs/prefetch.md)

The program's input, output, exit status and terminating signal are its own.")]
pub(crate) struct RunArgs {
    /// Write what the engine did, as JSON, when the program has ended; `-` is the standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) stats: Option<PathBuf>,

    /// Find loads and stores that miss by a regular distance, and prefetch what they come to; ends with a table of
    /// them. The program is kept under control as with --no-bail-out (docs/prefetch.md)
    #[arg(long, conflicts_with = "no_traces")]
    pub(crate) prefetch: bool,

    /// Make no traces: what is executed is translated as it is reach
    #[arg(long)]
    pub(crate) no_traces: bool,

    /// Make all fragments anew, and keep none for the next run
    #[arg(long)]
    pub(crate) no_persist: bool,

    /// Lay traces out, and do not optimise them
    #[arg(long)]
    pub(crate) no_opt: bool,

    /// Link no exit of a fragment to the next: each goes through the dispatcher
    #[arg(long)]
    pub(crate) no_link: bool,

    /// End traces at returns: none is predicted
    #[arg(long)]
    pub(crate) no_returns: bool,

    /// Bytes of translated code, such as 512k or 4M: with more, all of it is dropped [default: as much as there is room for]
    #[arg(long, value_name = "BYTES", value_parser = parse::size)]
    pub(crate) cache: Option<u64>,
    /// How far to go in optimising traces
    #[arg(
        long,
        value_enum,
        default_value = "conservative",
        value_name = "HOW",
        conflicts_with = "no_opt"
    )]
    pub(crate) opt: Opt,

    /// Keep control also of a program that would be faster without. Otherwise it is detached, and taken back when it has
    /// spent seconds in other code than it was detached for
    #[arg(long)]
    pub(crate) no_bail_out: bool,

    /// Leave alone what was detached, also when it turns to other work
    #[arg(long)]
    pub(crate) no_retake: bool,

    /// Take a process under control when it has used so many seconds of CPU time; 0: from its first instruction on
    /// [default: 0.25, and 0 with --stats, --prefetch or --no-bail-out, and for programs that make requests to Trommel]
    #[arg(long, value_name = "SECONDS", value_parser = parse::after)]
    pub(crate) after: Option<Duration>,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_names = ["PROGRAM", "ARGS"])]
    pub(crate) program: Vec<OsString>,
}
