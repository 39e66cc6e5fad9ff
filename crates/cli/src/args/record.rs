//! The arguments of the commands that collect: `record` and `daemon`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use trommel_profile::simulated::Caches;
use trommel_query::pair::Word;
use trommel_tuple::KindSet;

use super::parse::{self, Events, ModuleSpec, Only, ServiceSpec};

/// Windows begin after fewer instructions than this, chosen at random, unless the user says otherwise.
pub(crate) const SKIP: u32 = 256;

/// Arguments of `record`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trommel record -- ./app             branches and calls: 1.5 to 1.8 x native
  trommel record -e value -- ./app    loaded values, until their shares settle
  trommel record -e stack -- ./app    sampled call paths, for 1 to 2 % overhead
  trommel record --off-cpu -- ./app   where threads wait, and for how long
  trommel record -e context -- ./app  exact call paths, for `report --tree`
  trommel record --budget 1 -- ./app  exact, in bursts of 20 ms: 1 % overhead
  trommel record -e value --only libz.so.1 -- ./app  values of one library

Input, output, exit status and terminating signal are the program's own.
`trommel help topics` lists the manual, such as events, specs and values.")]
#[command(group = clap::ArgGroup::new("unbounded").args(["pid", "all"]))]
pub(crate) struct RecordArgs {
    /// Events: edge (branches), call, value (loads), type, path, stack, context, …
    ///
    /// Separate several by commas. `none` counts nothing: it shows what the code cache alone costs. The default is edge,call. With
    /// --converge, --exact-values, --windows, --rate, --window, --stream or a compressor other than exact it is
    /// edge,call,value. With --query or --module-lib it is none.
    /// A load is profiled until the shares of its values settle (--converge); --exact-values counts all executions.
    /// `address` and `latency` need --budget, --rate or --window. `stack` samples call paths while the program runs
    /// natively, 997 times a second of CPU time unless --rate says otherwise. `context` counts calls and instructions
    /// by call path; it goes with edge and call. `miss`, `llmiss` and `mispredict` are of simulated caches and a
    /// simulated branch predictor. `sharing` finds cache lines that threads take from each other (`trommel c2c`).
    /// See `trommel help events`, `trommel help stacks`, `trommel help memory` and `trommel help simulate`.
    #[arg(short, long, value_name = "KINDS", value_parser = parse::events)]
    pub(crate) events: Option<Events>,

    /// With -e context: times that a function may be on a path, from 1 to 1000
    ///
    /// A deeper recursive call counts for the last occurrence. A greater N shows more of a recursion, and takes more memory.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), default_value_t = 1)]
    pub(crate) context_depth: u32,

    /// Caches to simulate for miss, llmiss and sharing: sizes, ways, bytes of a line
    ///
    /// Each thread has a first-level cache (l1), and all threads of a process share the last level (ll). What is not given
    /// is as in l1=32k/8,ll=8M/16,line=64. See `trommel help simulate`.
    #[arg(long, value_name = "l1=SIZE/WAYS,ll=SIZE/WAYS", value_parser = parse::caches)]
    pub(crate) cache: Option<Caches>,

    /// Observe only this module, symbol or address range
    ///
    /// WHERE is a file name, a path, a symbol, or LO-HI in hex. Other code carries no probes. Can be
    /// repeated.
    #[arg(long, value_name = "WHERE", value_parser = parse::only)]
    pub(crate) only: Vec<Only>,

    /// Profile to write; an earlier one becomes FILE.old
    #[arg(short, long, value_name = "FILE", default_value = trommel_store::DEFAULT_FILE, help_heading = "Output")]
    pub(crate) output: PathBuf,

    /// Also write a page for a browser, as `trommel report --html` does
    ///
    /// It has a flame graph with -e stack, or with -e edge,call,context.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "all",
        help_heading = "Output"
    )]
    pub(crate) html: Option<PathBuf>,

    /// Also write every event, in order, to the stream FILE
    ///
    /// Events of child processes go to FILE.PID. See `trommel stream`.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) stream: Option<PathBuf>,

    /// Kill the program once the stream has N events; the exit status is 0
    #[arg(long, value_name = "N", requires = "stream", conflicts_with = "pid", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Output")]
    pub(crate) stream_limit: Option<u64>,

    /// Write what the engine did to FILE as JSON; `-` is standard output
    ///
    /// The same as `trommel run --stats`. See `trommel help json`.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) stats: Option<PathBuf>,

    /// Do not print the summary
    #[arg(long, help_heading = "Output")]
    pub(crate) quiet: bool,

    /// Attach to the running process PID, and detach at Ctrl-C
    ///
    /// See `trommel help attach`.
    #[arg(short, long, value_name = "PID", conflicts_with = "program", value_parser = clap::value_parser!(i32).range(1..), help_heading = "Processes")]
    pub(crate) pid: Option<i32>,

    /// Sample the whole machine, the kernel included; needs CAP_PERFMON
    ///
    /// Shows where time goes and what registers hold there, until Ctrl-C or while a program runs
    /// natively. The cost is that of --budget (default 1), or of --rate on each processor. Root has
    /// CAP_PERFMON. With -e stack it has call paths too. See `trommel help machine`.
    #[arg(short, long, conflicts_with_all = ["pid", "query", "module_lib", "compressor", "converge", "stream", "only", "memory", "window", "no_follow", "no_persist", "stats"], help_heading = "Processes")]
    pub(crate) all: bool,

    /// Detach from the process, or end --all, after this time
    #[arg(long, value_name = "SECONDS", requires = "unbounded", value_parser = parse::seconds, help_heading = "Processes")]
    pub(crate) duration: Option<Duration>,

    /// Let child processes and exec'ed programs run natively
    #[arg(long, help_heading = "Processes")]
    pub(crate) no_follow: bool,

    /// Keep no translated code for the next run, and use none
    ///
    /// Translated code is otherwise kept when the code itself counts events, and with `-e none`.
    #[arg(long, help_heading = "Processes")]
    pub(crate) no_persist: bool,

    /// Count by a compressor, such as P257: every 257th event
    ///
    /// With --query it compresses the messages of each queue, too.
    /// 257 is prime, so that loops do not alias with it. Other compressors are R256, CR256 and H[P256]2048, each also with +A16 after it. For edges and
    /// calls, H and M cost more than exact counts and say less: they are there for the lab. See `trommel help specs`.
    /// The default counts exactly, as -c exact does.
    #[arg(short, long = "compress", value_name = "SPEC", help_heading = "Cost")]
    pub(crate) compressor: Option<String>,

    /// Sample within a budget: at most PCT percent overhead
    ///
    /// The program runs natively, but for bursts in which branches and calls are counted exactly (--bursts), or for
    /// short windows (--windows), in which all other events can be seen. Counts are estimates with limits. See `trommel
    /// help budget`.
    #[arg(long, value_name = "PCT", value_parser = parse::budget, conflicts_with_all = ["compressor", "stream", "memory"], help_heading = "Cost")]
    pub(crate) budget: Option<f64>,

    /// Spend the budget on bursts of 20 ms, or refuse where that is not possible
    ///
    /// It is the default for edges and calls. All threads of a process are stopped for a moment at the start and the
    /// end of each burst. See `trommel help budget`.
    #[arg(long, requires = "budget", conflicts_with_all = ["windows", "rate", "window", "by_caller", "query", "module_lib"], help_heading = "Cost")]
    pub(crate) bursts: bool,

    /// Spend the budget on short windows, which stop no thread
    ///
    /// A window begins in the thread itself. All windows together see a thousandth of what bursts see.
    /// It is the default for events other than edges and calls. See `trommel help budget`.
    #[arg(
        long,
        requires = "budget",
        conflicts_with = "all",
        help_heading = "Cost"
    )]
    pub(crate) windows: bool,

    /// Take this many windows in a second of each thread's CPU time
    ///
    /// From 1 to 20000, instead of what the budget allows. With --all: samples in a second of each
    /// processor. With -e stack and --samples: samples in a second of CPU time.
    #[arg(long, value_name = "HZ", value_parser = parse::rate, conflicts_with_all = ["compressor", "stream", "memory"], help_heading = "Cost")]
    pub(crate) rate: Option<f64>,

    /// Sample where time goes, without call paths; the program runs natively
    ///
    /// As -e stack does, 997 times a second of CPU time unless --rate says otherwise. It needs no root for processes of your own.
    /// See `trommel help stacks`.
    #[arg(long, conflicts_with = "all", help_heading = "Cost")]
    pub(crate) samples: bool,

    /// Record waits too: where threads stop to run, and for how long
    ///
    /// With -e stack, which it implies. Needs CAP_PERFMON, or kernel.perf_event_paranoid at 1 or less. Each wait costs some
    /// microseconds. See `trommel help stacks`.
    #[arg(long, conflicts_with = "samples", help_heading = "Cost")]
    pub(crate) off_cpu: bool,

    /// Instructions of a window, from 1 to 60000
    ///
    /// The default suits the budget.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=60_000), conflicts_with_all = ["compressor", "stream", "memory"], help_heading = "Cost")]
    pub(crate) window: Option<u32>,

    /// Skip a random number of instructions (< N) before a window
    ///
    /// This removes skid bias: without it, slow instructions are seen too often. From 1 (skip none)
    /// to 256.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256), default_value_t = SKIP, help_heading = "Cost")]
    pub(crate) skip: u32,

    /// Stop profiling an instruction once its value shares have settled
    ///
    /// Shares have settled when they differ by less than PCT (default 2) from one interval to the
    /// next. The probe is then removed, and put back from time to time. Counts of values are of the
    /// executions that were profiled. It is the default for -e value where none of -c, --stream, --query, --budget,
    /// --rate, --window and -p is given. See `trommel help values`.
    #[arg(long, value_name = "PCT", num_args = 0..=1, require_equals = true, default_missing_value = "2", value_parser = parse::limit,
        conflicts_with_all = ["pid", "stream", "budget", "rate", "window", "query", "module_lib"], help_heading = "Cost")]
    pub(crate) converge: Option<f64>,

    /// Count every loaded value: 9 times the CPU time, and more where values do not repeat
    ///
    /// Otherwise -e value profiles each load until its values are known, as --converge does.
    #[arg(long, conflicts_with_all = ["converge", "compressor", "budget", "rate", "window", "query", "module_lib", "all", "samples"], help_heading = "Cost")]
    pub(crate) exact_values: bool,

    /// Memory for value counts, with k, M or G
    ///
    /// When the table is full, rare values are dropped, and the report says so. The default is a
    /// quarter of what is available, at most 2G.
    #[arg(long, value_name = "BYTES", value_parser = parse::bytes, help_heading = "Cost")]
    pub(crate) memory: Option<u64>,

    /// Separate values by the caller of their function; needs windows
    ///
    /// See `trommel help values`.
    #[arg(long, conflicts_with_all = ["query", "module_lib", "compressor", "stream", "memory", "all"], help_heading = "Windows")]
    pub(crate) by_caller: bool,

    /// Let a plug-in choose what windows capture and profile
    ///
    /// The library LIB makes pairs of an instruction and a value from each window. Its instances
    /// receive ARGUMENT unchanged. See `trommel help modules`.
    #[arg(long, value_name = "LIB[:ARGUMENT]", conflicts_with_all = ["query", "only"], value_parser = parse::module, help_heading = "Windows")]
    pub(crate) module_lib: Option<ModuleSpec>,

    /// Ask the relational queries in FILE, as text or assembled
    ///
    /// See `trommel help query`.
    #[arg(short, long, value_name = "FILE", help_heading = "Queries")]
    pub(crate) query: Option<PathBuf>,

    /// Percent of each thread's time that all queries with `every auto` may take together
    ///
    /// Queries that are loaded later have their part of it, too. A query never takes more than the budget of its own line. See `trommel help query`.
    #[arg(long, value_name = "PCT", requires = "query", conflicts_with_all = ["budget", "rate", "window"], value_parser = parse::budget, help_heading = "Queries")]
    pub(crate) query_budget: Option<f64>,

    /// Fields of messages that the compressor of -c counts: one to seven words
    ///
    /// The compressor of each queue gets them as a tuple. The default is the first two words. See `trommel help query`.
    #[arg(long, value_name = "FIELD[,FIELD]…", requires_all = ["query", "compressor"], value_delimiter = ',', value_parser = parse::word, help_heading = "Queries")]
    pub(crate) tuple: Vec<Word>,

    /// Write messages of the queries to FILE, one line of JSON each
    ///
    /// Messages of a thread keep their order.
    #[arg(
        long,
        value_name = "FILE",
        requires = "query",
        help_heading = "Queries"
    )]
    pub(crate) messages: Option<PathBuf>,

    /// Give the messages of a queue, or intervals of -c, to the service in a library
    ///
    /// Without QUEUE= the service gets each interval of an interval profiler when the interval has ended, with its
    /// candidates. It receives ARGUMENT unchanged. Can be repeated. See `trommel help query`.
    #[arg(long, value_name = "[QUEUE=]LIB[:ARGUMENT]", value_parser = parse::service, help_heading = "Queries")]
    pub(crate) service: Vec<ServiceSpec>,

    /// The program and its arguments
    #[arg(required_unless_present_any = ["pid", "all"], trailing_var_arg = true, allow_hyphen_values = true, value_names = ["PROGRAM", "ARGS"])]
    pub(crate) program: Vec<OsString>,
}

/// Arguments of `daemon`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trommel daemon --db p --name redis-server  every redis-server, later ones too
  trommel daemon --db p --budget 0.5 --epoch 5m --user  all your processes
  trommel daemon --db p --name redis-server -q stores.rpa  with queries
  trommel report --since 2h p                the last two hours

Processes run natively but for short windows. Ctrl-C detaches from all of them.
The database can be read at any time. See `trommel help database`.")]
#[command(group = clap::ArgGroup::new("which").required(true).args(["pid", "name", "user"]))]
pub(crate) struct DaemonArgs {
    /// Directory of the database; it is created if it is missing
    ///
    /// Several daemons may write into one database.
    #[arg(long, value_name = "DIR")]
    pub(crate) db: PathBuf,

    /// Cost at most PCT percent of each process's CPU time and lifetime
    #[arg(long, value_name = "PCT", value_parser = parse::budget, default_value = "1")]
    pub(crate) budget: f64,

    /// Events to collect: edge, call, value, type, address, latency
    ///
    /// Separate several by commas. The default is edge,call,value. See `trommel help events`.
    #[arg(short, long, value_name = "KINDS", value_parser = parse::kinds)]
    pub(crate) events: Option<KindSet>,

    /// Ask the relational queries in FILE of each process, in its windows
    ///
    /// Nothing else is collected then, unless -e names edge or call. `trommel query load`, `remove` and `list` change
    /// the queries of a process, or of all with the daemon's own number. See `trommel help query`.
    #[arg(short, long, value_name = "FILE", conflicts_with = "by_caller")]
    pub(crate) query: Option<PathBuf>,

    /// Separate values by the caller of their function
    ///
    /// See `trommel help values`.
    #[arg(long)]
    pub(crate) by_caller: bool,

    /// Write a profile of each process this often, such as 1s, 5m or 1h
    ///
    /// What was collected since the last profile is lost if everything is killed.
    #[arg(long, value_name = "DURATION", value_parser = parse::epoch, default_value = "60s")]
    pub(crate) epoch: Duration,

    /// Size limit of this machine's files in the database, with k, M or G
    ///
    /// Old files are merged first. The oldest are dropped when that is not enough.
    #[arg(long, value_name = "SIZE", value_parser = parse::size, default_value = "1G")]
    pub(crate) keep: u64,

    /// Profile this process until it ends; can be repeated
    #[arg(short, long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) pid: Vec<i32>,

    /// Profile all processes whose program has this name or path; can be repeated
    ///
    /// A pattern with a `/` is compared with the path, others with the file name. `*` and `?` stand
    /// for any characters.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) name: Vec<String>,

    /// Profile all your processes that can be attached to
    #[arg(long)]
    pub(crate) user: bool,
}
