//! The arguments of the commands that collect: `record` and `daemon`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use trommel_tuple::KindSet;

use super::parse::{self, ModuleSpec, Only, ServiceSpec};

/// Windows begin after fewer instructions than this, chosen at random, unless the user says otherwise.
pub(crate) const SKIP: u32 = 256;

/// Arguments of `record`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trommel record -- gzip -k big.tar              branches, calls and loaded values, every one
  trommel record -e value -- ./app               only loaded values
  trommel record -e path -- ./app                which ways through the code are hot (docs/events.md)
  trommel record -c P257 -- ./app                every 257th event of all: a fraction of the cost
  trommel record -e edge,call -c 'H[P256]2048+A16' -- ./app   stratified sampling
  trommel record --converge -- ./app             values only until they are known: shares at less cost
  trommel record --stream s.tstream -- ./app     also keep every event, in order
  trommel record --only libz.so.1 -- ./app       only code of one library
  trommel record -q stores.rpa -- ./app          what a relational query asks (docs/query.md)
  trommel record -q edges.rpa --service 1=./edges.so -- ./app   its messages for queue 1 to a library
  trommel record -- sh -c './app; ./app'         a script, with every process that it starts
  trommel record --budget 3 -e latency -- ./app   how long loads take, for `trommel latency`
  trommel record --budget 3 -e address -- ./app   what is accessed, for `trommel replay`
  trommel record --budget 3 --by-caller -- ./app   values by who called the function that loads them
  trommel record --budget 3 --module-lib ./strides.so -- ./app   what a library makes of what windows see
  trommel record --budget 1 -- ./app             short looks, for 1 % of the run: estimates
  trommel record --all -o m.data --duration 5    samples of the whole machine, the kernel included
  trommel record --all -o m.data -- ./app        the same, while a program runs

`trommel record -p PID` takes a process that runs already, and detaches it again.
The program's input, output, exit status and terminating signal are its own.")]
#[command(group = clap::ArgGroup::new("unbounded").args(["pid", "all"]))]
pub(crate) struct RecordArgs {
    /// Events to collect: edge, call, value, type, path, separated by commas; `none` for the engine alone; in
    /// windows also address and latency (docs/memory.md)
    /// [default: edge,call,value, and with --query or --module-lib none]
    #[arg(short, long, value_name = "KINDS", value_parser = parse::kinds)]
    pub(crate) events: Option<KindSet>,

    /// Put the relational queries in FILE to the program, a text or assembled (docs/query.md)
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["pid", "budget", "rate", "window"])]
    pub(crate) query: Option<PathBuf>,

    /// Also write each message of the queries to FILE, a line of JSON each, in the order of each thread
    #[arg(long, value_name = "FILE", requires = "query")]
    pub(crate) messages: Option<PathBuf>,

    /// Also give the messages for queue QUEUE to the service in the library LIB, which gets ARGUMENT as it is
    /// (docs/query.md); can be repeated
    #[arg(long, value_name = "QUEUE=LIB[:ARGUMENT]", requires = "query", value_parser = parse::service)]
    pub(crate) service: Vec<ServiceSpec>,

    /// Give windows to the customisation module in the library LIB, which says what is captured and makes pairs of
    /// an instruction and a value of it; its instances get ARGUMENT as it is (docs/modules.md)
    #[arg(long, value_name = "LIB[:ARGUMENT]", conflicts_with_all = ["query", "only"], value_parser = parse::module)]
    pub(crate) module_lib: Option<ModuleSpec>,

    /// Compressor: exact, P256, R256, CR256, H[P256]2048, each with +A16 after it if wanted
    #[arg(short, long = "compress", value_name = "SPEC", default_value = "exact")]
    pub(crate) compressor: String,

    /// Do not profile on where values are known: once their shares at a load, or at a call with a method table, differ by less than PCT
    /// (2, if not given) from one interval to the next, its probe is taken out of the code, and put back from time to time. Counts of values
    /// are then of the executions that were profiled (docs/values.md)
    #[arg(long, value_name = "PCT", num_args = 0..=1, require_equals = true, default_missing_value = "2", value_parser = parse::limit,
        conflicts_with_all = ["pid", "stream", "budget", "rate", "window", "query", "module_lib"])]
    pub(crate) converge: Option<f64>,

    /// Also write every event, in order, to the stream FILE; those of children to FILE.PID
    #[arg(long, value_name = "FILE")]
    pub(crate) stream: Option<PathBuf>,

    /// End the program (by SIGKILL) once the stream has N events; the exit status is then 0
    #[arg(long, value_name = "N", requires = "stream", conflicts_with = "pid", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) stream_limit: Option<u64>,

    /// Observe only this module, symbol or range of addresses (LO-HI in hex); can be repeated. Other code carries no probes
    #[arg(long, value_name = "WHERE", value_parser = parse::only)]
    pub(crate) only: Vec<Only>,

    /// Memory for the counts of values, with k, M or G; where it is too small rare values are
    /// dropped, and the report says so [default: a quarter of what is available, at most 2G]
    #[arg(long, value_name = "BYTES", value_parser = parse::bytes)]
    pub(crate) memory: Option<u64>,

    /// Let the program run natively but for short windows, and pay at most this many percent of the
    /// run for them; counts are estimates with limits then (docs/values.md)
    #[arg(long, value_name = "PCT", value_parser = parse::budget, conflicts_with_all = ["compressor", "stream", "memory"])]
    pub(crate) budget: Option<f64>,

    /// Windows in a second of each thread's CPU time, from 1 to 20000, in place of what the budget allows; with --all
    /// samples in a second of each processor
    #[arg(long, value_name = "HZ", value_parser = parse::rate, conflicts_with_all = ["compressor", "stream", "memory"])]
    pub(crate) rate: Option<f64>,

    /// Instructions of a window, from 1 to 60000, in place of what suits the budget
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=60_000), conflicts_with_all = ["compressor", "stream", "memory"])]
    pub(crate) window: Option<u32>,

    /// Before a window pass a random number of instructions below this, so that slow ones are not
    /// seen more often; from 1 (pass none) to 256
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256), default_value_t = SKIP)]
    pub(crate) skip: u32,

    /// In windows, tell values apart by who called the function that they are seen in (docs/values.md)
    #[arg(long, conflicts_with_all = ["query", "module_lib", "compressor", "stream", "memory", "all"])]
    pub(crate) by_caller: bool,

    /// Observe this process alone: children, and the program that it may become, run natively
    #[arg(long)]
    pub(crate) no_follow: bool,

    /// Make all fragments anew, and keep none for the next run; without it they are kept where events are counted in the code, or none are wanted
    #[arg(long)]
    pub(crate) no_persist: bool,

    /// File for the profile; an earlier one becomes FILE.old
    #[arg(short, long, value_name = "FILE", default_value = trommel_store::DEFAULT_FILE)]
    pub(crate) output: PathBuf,

    /// Write what the engine did, as JSON, when the program has ended, as `trommel run --stats` does; `-` is the standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) stats: Option<PathBuf>,

    /// Do not print the summary
    #[arg(long)]
    pub(crate) quiet: bool,

    /// Record the running process PID: until Ctrl-C, which detaches it, or until it ends
    #[arg(short, long, value_name = "PID", conflicts_with = "program", value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) pid: Option<i32>,

    /// Sample the whole machine, the kernel included, until Ctrl-C or while a program runs, natively: where time goes, and
    /// what registers hold there; within --budget (1), or --rate times a second of each processor. Needs CAP_PERFMON, as
    /// root has it (docs/machine.md)
    #[arg(short, long, conflicts_with_all = ["pid", "events", "query", "module_lib", "compressor", "converge", "stream", "only", "memory", "window", "no_follow", "no_persist", "stats"])]
    pub(crate) all: bool,

    /// Let the process go, or end --all, after this time
    #[arg(long, value_name = "SECONDS", requires = "unbounded", value_parser = parse::seconds)]
    pub(crate) duration: Option<Duration>,

    /// The program and its arguments
    #[arg(required_unless_present_any = ["pid", "all"], trailing_var_arg = true, allow_hyphen_values = true, value_names = ["PROGRAM", "ARGS"])]
    pub(crate) program: Vec<OsString>,
}

/// Arguments of `daemon`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trommel daemon --db /var/tmp/profiles --name redis-server    every redis-server, also those that come later
  trommel daemon --db p --budget 0.5 --epoch 5m --user         all of your processes that may be attached to
  trommel daemon --db p -e value -p 1234 -p 1240               two processes, until they end
  trommel report --since 2h p                                  what they all did in the last two hours
  trommel values --module libc.so.6 p                          the same works for values, latency and replay

Processes run natively but for short windows, each within its budget (docs/values.md). Ctrl-C lets all go. The database
can be read at any time, and nothing that was flushed is lost if the daemon is killed (docs/database.md).")]
#[command(group = clap::ArgGroup::new("which").required(true).args(["pid", "name", "user"]))]
pub(crate) struct DaemonArgs {
    /// Directory of the database; it is made if it is not there, and others may write into it too
    #[arg(long, value_name = "DIR")]
    pub(crate) db: PathBuf,

    /// Pay at most this many percent for each process, of its CPU time and of the time that it lives
    #[arg(long, value_name = "PCT", value_parser = parse::budget, default_value = "1")]
    pub(crate) budget: f64,

    /// Events to collect: edge, call, value, type, address, latency, separated by commas
    /// [default: edge,call,value]
    #[arg(short, long, value_name = "KINDS", value_parser = parse::kinds)]
    pub(crate) events: Option<KindSet>,

    /// Tell values apart by who called the function that they are seen in (docs/values.md)
    #[arg(long)]
    pub(crate) by_caller: bool,

    /// How often a profile of each process is written, such as 1s, 5m or 1h; what was collected since is lost if
    /// everything is killed
    #[arg(long, value_name = "DURATION", value_parser = parse::epoch, default_value = "60s")]
    pub(crate) epoch: Duration,

    /// Bytes that this machine's files in the database may take, with k, M or G: the oldest are merged, then dropped
    #[arg(long, value_name = "SIZE", value_parser = parse::size, default_value = "1G")]
    pub(crate) keep: u64,

    /// Profile this process, until it ends; can be repeated
    #[arg(short, long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) pid: Vec<i32>,

    /// Profile all processes whose program's file has this name, or this path if there is a `/` in it; `*` and `?`
    /// stand for any characters; can be repeated
    #[arg(long, value_name = "PATTERN")]
    pub(crate) name: Vec<String>,

    /// Profile all processes of your own that may be attached to
    #[arg(long)]
    pub(crate) user: bool,
}
