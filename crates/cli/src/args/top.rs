//! The arguments of `top`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::parse;
use super::parse::Events;

/// Arguments of `top`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trommel top -p PID                        a running process, at 1 % overhead
  trommel top --budget 3 -- ./app           start a program and watch it
  trommel top --once -p PID                 one screen, without a terminal
  trommel top -c 'M4[10k,1%]2048' -- ./app  frequent in the last interval
  trommel top --json --count 3 -- ./app     three lines of JSON

Keys: q quits, arrows move, s sorts, h shows all others.
A program that `top` has started ends with it. A process that it attached to
goes on. See `trommel help top`.")]
#[command(group = clap::ArgGroup::new("watched").args(["pid", "all"]))]
pub(crate) struct TopArgs {
    /// Attach to the running process PID, and detach at the end
    #[arg(short, long, value_name = "PID", conflicts_with = "program", value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) pid: Option<i32>,

    /// Sample the whole machine, the kernel included; needs CAP_PERFMON
    #[arg(short, long, conflicts_with_all = ["pid", "program"])]
    pub(crate) all: bool,

    /// Show the candidates of the last interval of a profiler such as 'M4[10k,1%]2048'
    ///
    /// It counts all events of the process, in place of sampling it. See `trommel help specs`.
    #[arg(short, long = "compress", value_name = "SPEC", conflicts_with_all = ["all", "budget"])]
    pub(crate) compressor: Option<String>,

    /// With -c: events, such as edge, call, value; the default is edge,call
    #[arg(short, long, value_name = "KINDS", value_parser = parse::events, requires = "compressor")]
    pub(crate) events: Option<Events>,

    /// Spend at most PCT percent on it
    #[arg(long, value_name = "PCT", value_parser = parse::budget, default_value_t = 1.0)]
    pub(crate) budget: f64,

    /// Show new counts every SECONDS
    #[arg(short, long, value_name = "SECONDS", value_parser = parse::delay, default_value = "1")]
    pub(crate) delay: Duration,

    /// Write one screen as text, and end
    #[arg(long, conflicts_with = "json")]
    pub(crate) once: bool,

    /// Write a line of JSON each time (`trommel help json`)
    #[arg(long)]
    pub(crate) json: bool,

    /// With --json: end after N lines
    #[arg(short = 'n', long, value_name = "N", requires = "json", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,

    /// Write what the program prints to FILE; it is thrown away otherwise
    #[arg(short, long, value_name = "FILE", requires = "program")]
    pub(crate) output: Option<PathBuf>,

    /// The program and its arguments
    #[arg(required_unless_present_any = ["pid", "all"], trailing_var_arg = true, allow_hyphen_values = true, value_names = ["PROGRAM", "ARGS"])]
    pub(crate) program: Vec<OsString>,
}
