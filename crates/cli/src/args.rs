//! The arguments: one description for parsing, help, completions and manual pages.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use trommel_tuple::{Kind, KindSet};

/// Finds the hot branches, calls and values of unmodified Linux programs.
#[derive(Parser, Debug)]
#[command(
    name = "trommel",
    version,
    max_term_width = 100,
    after_help = "\
Two commands to the first result:
  trommel record -- ./app --its --arguments
  trommel report

Everything after `--` belongs to the program. `trommel help COMMAND` has examples for each command."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Run a program and collect its events into a profile.
    Record(Box<RecordArgs>),
    /// Run a program faster: its hot paths are found and laid out anew while it runs.
    Run(RunArgs),
    /// Profile chosen processes as long as they live, into a database.
    Daemon(DaemonArgs),
    /// Show a profile: the hottest branches, calls and values.
    Report(ReportArgs),
    /// Show the loads that nearly always load the same, by what specialising them could save.
    Values(ValuesArgs),
    /// Show a function instruction by instruction: how often each was executed, where branches went, what loads loaded.
    Annotate(AnnotateArgs),
    /// Show how long loads take, and which caches they find their bytes in.
    Latency(MemoryArgs),
    /// Show stores that are in the way of loads behind them.
    Replay(ReplayArgs),
    /// Look at streams of events and convert them.
    Stream(StreamArgs),
    /// Put a stream through compressors and tell how good their profiles are.
    Compress(CompressArgs),
    /// Check, assemble and format relational queries.
    Query(QueryArgs),
    /// Repeat the papers' experiments on compressors with real programs.
    Lab(LabArgs),
    /// Tell what this machine and user can and cannot do, and how to fix it.
    Doctor(DoctorArgs),
    /// Print a completion script for a shell.
    #[command(hide = true)]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page of trommel or of one of its commands.
    #[command(hide = true)]
    Man {
        /// The command, such as `record`.
        command: Option<String>,
    },
}

/// Arguments of `record`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trommel record -- gzip -k big.tar              branches, calls and loaded values, every one
  trommel record -e value -- ./app               only loaded values
  trommel record -c 'H[P256]2048+A16' -- ./app   stratified sampling: a fraction of the cost
  trommel record --stream s.tstream -- ./app     also keep every event, in order
  trommel record --only libz.so.1 -- ./app       only code of one library
  trommel record -q stores.rpa -- ./app          what a relational query asks (docs/query.md)
  trommel record -q edges.rpa --service 1=./edges.so -- ./app   its messages for queue 1 to a library
  trommel record -- sh -c './app; ./app'         a script, with every process that it starts
  trommel record --budget 3 -e latency -- ./app   how long loads take, for `trommel latency`
  trommel record --budget 3 -e address -- ./app   what is accessed, for `trommel replay`
  trommel record --budget 3 --module-lib ./strides.so -- ./app   what a library makes of what windows see
  trommel record --budget 1 -- ./app             short looks, for 1 % of the run: estimates
  trommel record --all -o m.data --duration 5    samples of the whole machine, the kernel included
  trommel record --all -o m.data -- ./app        the same, while a program runs

`trommel record -p PID` takes a process that runs already, and lets it go again.
The program's input, output, exit status and terminating signal are its own.")]
#[command(group = clap::ArgGroup::new("unbounded").args(["pid", "all"]))]
pub(crate) struct RecordArgs {
    /// Events to collect: edge, call, value, type, separated by commas; `none` for the engine alone; in
    /// windows also address and latency (docs/memory.md)
    /// [default: edge,call,value, and with --query or --module-lib none]
    #[arg(short, long, value_name = "KINDS", value_parser = parse_kinds)]
    pub(crate) events: Option<KindSet>,

    /// Put the relational queries in FILE to the program, a text or assembled (docs/query.md)
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["pid", "budget", "rate", "window"])]
    pub(crate) query: Option<PathBuf>,

    /// Also write each message of the queries to FILE, a line of JSON each, in the order of each thread
    #[arg(long, value_name = "FILE", requires = "query")]
    pub(crate) messages: Option<PathBuf>,

    /// Also give the messages for queue QUEUE to the service in the library LIB, which gets ARGUMENT as it is
    /// (docs/query.md); can be repeated
    #[arg(long, value_name = "QUEUE=LIB[:ARGUMENT]", requires = "query", value_parser = parse_service)]
    pub(crate) service: Vec<ServiceSpec>,

    /// Give windows to the customisation module in the library LIB, which says what is captured and makes pairs of
    /// an instruction and a value of it; its instances get ARGUMENT as it is (docs/modules.md)
    #[arg(long, value_name = "LIB[:ARGUMENT]", conflicts_with_all = ["query", "only"], value_parser = parse_module)]
    pub(crate) module_lib: Option<ModuleSpec>,

    /// Compressor: exact, P256, R256, CR256, H[P256]2048, each with +A16 behind it if wanted
    #[arg(short, long = "compress", value_name = "SPEC", default_value = "exact")]
    pub(crate) compressor: String,

    /// Also write every event, in order, to the stream FILE; those of children to FILE.PID
    #[arg(long, value_name = "FILE")]
    pub(crate) stream: Option<PathBuf>,

    /// End the program (by SIGKILL) once the stream has N events; the exit status is then 0
    #[arg(long, value_name = "N", requires = "stream", conflicts_with = "pid", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) stream_limit: Option<u64>,

    /// Observe only this module, symbol or range of addresses (LO-HI in hex); can be repeated
    #[arg(long, value_name = "WHERE", value_parser = parse_only)]
    pub(crate) only: Vec<Only>,

    /// Memory for the counts of values, with k, M or G; where it is too small seldom values are
    /// dropped, and the report says so [default: a quarter of what is available, at most 2G]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub(crate) memory: Option<u64>,

    /// Let the program run natively but for short windows, and pay at most this many percent of the
    /// run for them; counts are estimates with limits then (docs/values.md)
    #[arg(long, value_name = "PCT", value_parser = parse_budget, conflicts_with_all = ["compressor", "stream", "memory"])]
    pub(crate) budget: Option<f64>,

    /// Windows in a second of each thread's CPU time, from 1 to 20000, in place of what the budget allows; with --all
    /// samples in a second of each processor
    #[arg(long, value_name = "HZ", value_parser = parse_rate, conflicts_with_all = ["compressor", "stream", "memory"])]
    pub(crate) rate: Option<f64>,

    /// Instructions of a window, from 1 to 60000, in place of what suits the budget
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=60_000), conflicts_with_all = ["compressor", "stream", "memory"])]
    pub(crate) window: Option<u32>,

    /// In front of a window pass a random number of instructions below this, so that slow ones are not
    /// seen more often; from 1 (pass none) to 256
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256), default_value_t = crate::record::SKIP)]
    pub(crate) skip: u32,

    /// Observe this process alone: children, and the program that it may become, run natively
    #[arg(long)]
    pub(crate) no_follow: bool,

    /// With `-e none`: make all fragments anew, and keep none for the next run
    #[arg(long)]
    pub(crate) no_persist: bool,

    /// File for the profile; an earlier one becomes FILE.old
    #[arg(short, long, value_name = "FILE", default_value = trommel_store::DEFAULT_FILE)]
    pub(crate) output: PathBuf,

    /// Do not print the summary
    #[arg(long)]
    pub(crate) quiet: bool,

    /// Record the running process PID: until Ctrl-C, which lets it go, or until it ends
    #[arg(short, long, value_name = "PID", conflicts_with = "program", value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) pid: Option<i32>,

    /// Sample the whole machine, the kernel included, until Ctrl-C or while a program runs, natively: where time goes, and
    /// what registers hold there; within --budget (1), or --rate times a second of each processor. Needs CAP_PERFMON, as
    /// root has it (docs/machine.md)
    #[arg(short, long, conflicts_with_all = ["pid", "events", "query", "module_lib", "compressor", "stream", "only", "memory", "window", "no_follow", "no_persist"])]
    pub(crate) all: bool,

    /// Let the process go, or end --all, after this time
    #[arg(long, value_name = "SECONDS", requires = "unbounded", value_parser = parse_seconds)]
    pub(crate) duration: Option<Duration>,

    /// The program and its arguments
    #[arg(required_unless_present_any = ["pid", "all"], trailing_var_arg = true, allow_hyphen_values = true, value_names = ["PROGRAM", "ARGS"])]
    pub(crate) program: Vec<OsString>,
}

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

    /// Make no traces: what is executed is translated as it is come by
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
    #[arg(long, value_name = "BYTES", value_parser = parse_cache)]
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

    /// Keep control also of a program that would be faster without
    #[arg(long)]
    pub(crate) no_bail_out: bool,

    /// Take a process under control when it has used so many seconds of CPU time; 0: from its first instruction on
    /// [default: 0.25, and 0 with --stats, --prefetch or --no-bail-out, and for programs that make requests to Trommel]
    #[arg(long, value_name = "SECONDS", value_parser = parse_after)]
    pub(crate) after: Option<Duration>,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_names = ["PROGRAM", "ARGS"])]
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
    #[arg(long, value_name = "PCT", value_parser = parse_budget, default_value = "1")]
    pub(crate) budget: f64,

    /// Events to collect: edge, call, value, type, address, latency, separated by commas
    /// [default: edge,call,value]
    #[arg(short, long, value_name = "KINDS", value_parser = parse_kinds)]
    pub(crate) events: Option<KindSet>,

    /// How often a profile of each process is written, such as 1s, 5m or 1h; what was collected since is lost if
    /// everything is killed
    #[arg(long, value_name = "DURATION", value_parser = parse_epoch, default_value = "60s")]
    pub(crate) epoch: Duration,

    /// Bytes that this machine's files in the database may take, with k, M or G: the oldest are merged, then dropped
    #[arg(long, value_name = "SIZE", value_parser = parse_cache, default_value = "1G")]
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

/// What to show profiles of.
#[derive(Args, Debug)]
pub(crate) struct SourceArgs {
    /// The profile, or a database of profiles (docs/database.md)
    #[arg(value_name = "FILE", default_value = trommel_store::DEFAULT_FILE)]
    pub(crate) file: PathBuf,

    #[command(flatten)]
    pub(crate) select: SelectArgs,
}

/// Which part of it.
#[derive(Args, Debug)]
pub(crate) struct SelectArgs {
    /// Of a database, only epochs from this time on: a length of time ago, such as 2h, or 2026-11-22T18:00 (UTC)
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    pub(crate) since: Option<u64>,

    /// Of a database, only epochs up to this time, as in --since
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    pub(crate) until: Option<u64>,

    /// Only code of the module with this path or file name; can be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) module: Vec<String>,

    /// Only code of modules whose build id begins so; can be repeated
    #[arg(long, value_name = "HEX")]
    pub(crate) build_id: Vec<String>,
}

/// Arguments of `report`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trommel report                        the 20 hottest of each kind in trommel.data
  trommel report -e value --top 100     the loads that are executed most, and what they load
  trommel report --json other.data      everything, for scripts (docs/json.md)
  trommel report --since 2h DIR         what processes did that `trommel daemon` profiled, of the last two hours")]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,

    /// Only events of this kind
    #[arg(short, long, value_name = "KIND", value_parser = parse_kind)]
    pub(crate) event: Option<Kind>,

    /// Only this process; can be repeated [default: all of them, added up]
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Vec<u32>,

    /// Entries of each kind [default: 20, with --json all]; 0 means all
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,

    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `values`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trommel record --budget 1 -- ./app              estimates, for 1 % of the run: of arguments too
  trommel record -- ./app                         exact values of loads
  trommel values                                  the 20 that could save most
  trommel values --all --top 0                    every load and argument
  trommel values --share 99 --json other.data     nearly constant ones, for scripts (docs/json.md)
  trommel values --all                            also loads of the stack protector, and those that restore registers

What is saved is a load, or the passing and the use of an argument, for each execution that has the value, less
a comparison for each and a wrong prediction where there is another value: an order, not a promise
(docs/values.md). Arguments need a profile of windows with both values and calls; which registers a function
takes is told by its code.")]
pub(crate) struct ValuesArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,

    /// Only loads and arguments of which one value has at least this share, in percent
    #[arg(long, value_name = "PCT", default_value = "0", value_parser = parse_share)]
    pub(crate) share: f64,

    /// Also what would save nothing, and loads that only keep a function's frame in order: the stack protector's, and those that
    /// restore registers
    #[arg(long)]
    pub(crate) all: bool,

    /// Places [default: 20, with --json all]; 0 means all
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,

    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `annotate`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trommel annotate main                             of the profile trommel.data
  trommel annotate other.data main                  of another
  trommel annotate app:main                         the function of one module
  trommel annotate --json --top 4 main              for scripts (docs/json.md)

The last parts of a name are enough (Stack::push), and 0x4010-40a0 are addresses as objdump prints them.
Executions of instructions between branches, calls and loads follow from those of these (docs/annotate.md).")]
pub(crate) struct AnnotateArgs {
    /// The profile or database, if it is not trommel.data, and the function: its name, MODULE:NAME, LO-HI or MODULE:LO-HI
    #[arg(value_names = ["FILE", "FUNCTION"], num_args = 1..=2, required = true)]
    pub(crate) what: Vec<OsString>,

    #[command(flatten)]
    pub(crate) select: SelectArgs,

    /// Values, targets and conflicts of each instruction [default: 3, with --json all]; 0 means all
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,

    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `latency`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trommel record --budget 3 -e latency -- ./app   estimates, for 3 % of the run
  trommel latency                                 the 20 loads that lose most cycles
  trommel latency --json                          all of them, for scripts (docs/json.md)

Cycles lost are those beyond a hit in the first cache, as if nothing else were done meanwhile: an upper
limit of what can be won (docs/memory.md).")]
pub(crate) struct MemoryArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,

    /// Entries [default: 20, with --json all]; 0 means all
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,

    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl MemoryArgs {
    /// How many entries are wanted; people want so many.
    pub(crate) fn top(&self, people: usize) -> usize {
        match (self.top, self.json) {
            (Some(0), _) | (None, true) => usize::MAX,
            (Some(n), _) => n,
            (None, false) => people,
        }
    }
}

/// Arguments of `replay`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trommel record --budget 3 -e address -- ./app   estimates, for 3 % of the run
  trommel replay                                  the 20 pairs that are met most
  trommel replay --share 50 --json                what most executions of a load meet, for scripts

What is in a load's way: a store of a part of its bytes (size), one whose address is known late (order),
one of other bytes 4 KiB, or a multiple of that, away (synonym). See docs/memory.md.")]
pub(crate) struct ReplayArgs {
    #[command(flatten)]
    pub(crate) common: MemoryArgs,

    /// Only pairs that at least this part of the load's executions meet, in percent
    #[arg(long, value_name = "PCT", default_value = "5", value_parser = parse_share)]
    pub(crate) share: f64,
}

/// Arguments of `stream`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trommel record --stream app.tstream -- ./app
  trommel stream info app.tstream
  trommel stream dump -n 100 app.tstream
  trommel stream convert -e value app.tstream app.raw16.zst")]
pub(crate) struct StreamArgs {
    #[command(subcommand)]
    pub(crate) command: StreamCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum StreamCommand {
    /// Count the events of a stream and name its modules.
    Info {
        /// The stream: .tstream, .raw16 or .raw16.zst
        file: PathBuf,
        /// Write JSON
        #[arg(long)]
        json: bool,
    },
    /// Print events, one a line: kind, module:address, value.
    Dump {
        /// The stream: .tstream, .raw16 or .raw16.zst
        file: PathBuf,
        /// Stop after N events
        #[arg(short = 'n', long, value_name = "N")]
        count: Option<u64>,
        /// Only events of this kind; for raw16: the kind that they are
        #[arg(short, long, value_name = "KIND", value_parser = parse_kind)]
        event: Option<Kind>,
    },
    /// Write a stream in another format, told by the name: .tstream, .raw16, .raw16.zst.
    Convert {
        /// The stream: .tstream, .raw16 or .raw16.zst
        file: PathBuf,
        /// The new file
        out: PathBuf,
        /// Only events of this kind; from raw16: the kind that they are
        #[arg(short, long, value_name = "KIND", value_parser = parse_kind)]
        event: Option<Kind>,
    },
}

/// Arguments of `compress`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trommel compress -c P256 -c 'H[P256]2048+A16' app.tstream
  trommel compress -c 'M4[10k,1%]2048:C1R0P1' --json gcc.value.raw16.zst")]
pub(crate) struct CompressArgs {
    /// A compressor, such as P256, H[P256]2048+A16, T[256]2048/2way/2bit; can be repeated
    #[arg(short = 'c', long = "compress", value_name = "SPEC", required = true)]
    pub(crate) specs: Vec<String>,

    /// Judge by tuples of instructions that often have the same value
    /// [default: executions=1000,tuple=10%,load=40%]
    #[arg(long, value_name = "FILTER")]
    pub(crate) filter: Option<String>,

    /// Seed of hash functions and random samplers
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// The stream: .tstream, .raw16 or .raw16.zst
    pub(crate) stream: PathBuf,
}

/// Arguments of `query`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trommel query check stores.rpa          what is wrong with it, where, and how to put it right
  trommel query asm stores.rpa            the profile control registers and query instructions
  trommel query asm -o stores.bin stores.rpa
  trommel query disasm stores.bin
  trommel query fmt --write *.rpa

A query that sends every store of a value other than 0, of instructions with profile tag 1:
  tag 1 symbol \"store_reference\";
  for opSTORE 1 always collect op1 op2 op3;
      if op1 <> 0 then send 3 stop else stop;

The language is described in docs/query.md. FILE may be `-`, standard input.")]
pub(crate) struct QueryArgs {
    #[command(subcommand)]
    pub(crate) command: QueryCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum QueryCommand {
    /// Say what is wrong with queries, or what they ask for.
    #[command(after_help = "\
Examples:
  trommel query check stores.rpa
  trommel query check --json *.rpa

The exit status is 1 when a file has an error.")]
    Check {
        /// The queries
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Write JSON (docs/json.md)
        #[arg(long)]
        json: bool,
    },
    /// Assemble queries: show the program, or write it to a file.
    #[command(after_help = "\
Examples:
  trommel query asm stores.rpa
  trommel query asm -o stores.bin stores.rpa")]
    Asm {
        /// The queries
        file: PathBuf,
        /// Write the program to this file
        #[arg(short, long, value_name = "OUT", conflicts_with = "json")]
        output: Option<PathBuf>,
        /// Write JSON (docs/json.md)
        #[arg(long)]
        json: bool,
    },
    /// Print the queries of an assembled program.
    #[command(after_help = "\
Examples:
  trommel query disasm stores.bin")]
    Disasm {
        /// The program, as `asm -o` writes it
        file: PathBuf,
    },
    /// Print queries in normal form.
    #[command(after_help = "\
Examples:
  trommel query fmt stores.rpa
  trommel query fmt --write *.rpa
  trommel query fmt --check *.rpa         exit status 1 when a file is not in normal form")]
    Fmt {
        /// The queries
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Put the files themselves into normal form
        #[arg(short, long, conflicts_with = "check")]
        write: bool,
        /// Name the files that are not in normal form, and change nothing
        #[arg(long)]
        check: bool,
    },
}

/// Arguments of `lab`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trommel lab list                       the experiments
  trommel lab all                        all of them, and one page with everything: trommel-lab/index.html
  trommel lab stratified-8 multihash-12  some of them
  trommel lab multihash-9 --out figures

Programs are recorded when they are first needed (about 280 MB in $XDG_CACHE_HOME/trommel/lab, else
~/.cache/trommel/lab; delete it at will). Those that are not installed are left out, and named.")]
pub(crate) struct LabArgs {
    /// Experiments, `all`, or `list`
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<String>,

    /// Directory for the results
    #[arg(long, value_name = "DIR", default_value = "trommel-lab")]
    pub(crate) out: PathBuf,

    /// Events of each stream: fewer are faster, and less telling [default: 20M]
    #[arg(long, value_name = "N", value_parser = parse_number)]
    pub(crate) events: Option<u64>,
}

/// Arguments of `doctor`.
#[derive(Args, Debug)]
pub(crate) struct DoctorArgs {
    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Part of a program to observe.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Only {
    /// A module (file name or path) or a symbol.
    Name(String),
    /// Addresses as `objdump -d` prints them, the last one excluded.
    Range(u64, u64),
}

/// A time above 0.
fn parse_budget(text: &str) -> Result<f64, String> {
    let percent: Option<f64> = text.trim_end_matches('%').parse().ok();
    let percent = percent.filter(|p| (0.1..=50.0).contains(p));
    percent.ok_or_else(|| "give percent, from 0.1 to 50".to_owned())
}

fn parse_share(text: &str) -> Result<f64, String> {
    let percent: Option<f64> = text.trim_end_matches('%').parse().ok();
    let percent = percent.filter(|p| (0.0..=100.0).contains(p));
    percent.ok_or_else(|| "give percent, from 0 to 100".to_owned())
}

fn parse_rate(text: &str) -> Result<f64, String> {
    let rate: Option<f64> = text.parse().ok();
    let rate = rate.filter(|r| (1.0..=20_000.0).contains(r));
    rate.ok_or_else(|| "give a number from 1 to 20000".to_owned())
}

fn parse_epoch(text: &str) -> Result<Duration, String> {
    const LEAST: Duration = Duration::from_secs(1);
    const MOST: Duration = Duration::from_secs(86_400);
    crate::time::parse_length(text)
        .filter(|length| (LEAST..=MOST).contains(length))
        .ok_or_else(|| "give a length of time from 1s to 1d, such as 60s, 5m or 1h".to_owned())
}

fn parse_moment(text: &str) -> Result<u64, String> {
    crate::time::parse_moment(text).ok_or_else(|| {
        "give a length of time ago, such as 30s, 5m, 2h or 7d, or a time in UTC, such as 2026-11-22T18:05".to_owned()
    })
}

/// Seconds, or none.
fn parse_after(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(0.0) => Ok(Duration::ZERO),
        _ => parse_seconds(text),
    }
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|s| *s > 0.0);
    seconds
        .and_then(|s| Duration::try_from_secs_f64(s).ok())
        .ok_or_else(|| "give a number of seconds, such as 0.5".to_owned())
}

/// A whole number with one of these letters behind it, or none.
fn scaled(text: &str, units: &[(char, u64)]) -> Option<u64> {
    let unit = units.iter().find(|(letter, _)| text.ends_with(*letter));
    let (digits, unit) = unit.map_or((text, 1), |(_, unit)| (&text[..text.len() - 1], *unit));
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// A number of bytes, at least a megabyte, with k, M or G behind it for powers of 1024.
fn parse_bytes(text: &str) -> Result<u64, String> {
    const LEAST: u64 = 1 << 20;
    scaled(text, &[('k', 1 << 10), ('M', 1 << 20), ('G', 1 << 30)])
        .filter(|bytes| *bytes >= LEAST)
        .ok_or_else(|| "give a number of bytes, such as 512M or 4G, at least 1M".to_owned())
}

/// Bytes of a code cache, or of a database.
fn parse_cache(text: &str) -> Result<u64, String> {
    const LEAST: u64 = 64 << 10;
    scaled(text, &[('k', 1 << 10), ('M', 1 << 20), ('G', 1 << 30)])
        .filter(|bytes| *bytes >= LEAST)
        .ok_or_else(|| "give a number of bytes, such as 512k or 4M, at least 64k".to_owned())
}

/// A number above 0, with k or M behind it for thousands and millions.
fn parse_number(text: &str) -> Result<u64, String> {
    scaled(text, &[('k', 1000), ('M', 1_000_000)])
        .filter(|n| *n > 0)
        .ok_or_else(|| format!("`{text}` is no number above 0, such as 500k or 20M"))
}

fn parse_kind(text: &str) -> Result<Kind, String> {
    text.parse::<Kind>().map_err(|e| e.to_string())
}

/// A service named on the command line.
#[derive(Clone, Debug)]
pub(crate) struct ServiceSpec {
    /// As it was written.
    pub(crate) name: String,
    pub(crate) queue: u8,
    pub(crate) library: PathBuf,
    pub(crate) argument: String,
}

fn parse_service(text: &str) -> Result<ServiceSpec, String> {
    let form = "write QUEUE=LIB or QUEUE=LIB:ARGUMENT, such as 1=./edges.so";
    let Some((queue, rest)) = text.split_once('=') else {
        return Err(form.into());
    };
    let queue = queue
        .parse()
        .map_err(|_| format!("`{queue}` is not the number of a queue, 0 to 255: {form}"))?;
    let (library, argument) = rest.split_once(':').unwrap_or((rest, ""));
    match library {
        "" => Err(format!("no library is named: {form}")),
        _ => Ok(ServiceSpec {
            name: text.to_owned(),
            queue,
            library: library.into(),
            argument: argument.to_owned(),
        }),
    }
}

/// A customisation module named on the command line.
#[derive(Clone, Debug)]
pub(crate) struct ModuleSpec {
    /// As it was written.
    pub(crate) name: String,
    pub(crate) library: PathBuf,
    pub(crate) argument: String,
}

fn parse_module(text: &str) -> Result<ModuleSpec, String> {
    let (library, argument) = text.split_once(':').unwrap_or((text, ""));
    match library {
        "" => Err("no library is named: write LIB or LIB:ARGUMENT, such as ./strides.so".into()),
        _ => Ok(ModuleSpec {
            name: text.to_owned(),
            library: library.into(),
            argument: argument.to_owned(),
        }),
    }
}

fn parse_kinds(text: &str) -> Result<KindSet, String> {
    if text == "none" {
        return Ok(KindSet::NONE);
    }
    let mut set = KindSet::NONE;
    for name in text.split(',') {
        match name.parse() {
            Ok(Kind::Result) => {
                return Err(
                    "`result` cannot be recorded without a query; use edge, call, value, type, none, or in \
                     windows address and latency"
                        .into(),
                );
            }
            Ok(kind) => set = set.with(kind),
            Err(_) if name == "none" => {
                return Err("`none` cannot be combined with other events".into());
            }
            Err(_) => {
                return Err(format!(
                    "`{name}` is no event; use edge, call, value, type or none, in windows also address and latency, \
                     separated by commas"
                ));
            }
        }
    }
    Ok(set)
}

fn parse_only(text: &str) -> Result<Only, String> {
    let hex = |s: &str| {
        let digits = s.strip_prefix("0x").unwrap_or(s);
        u64::from_str_radix(digits, 16).ok()
    };
    if text.is_empty() {
        return Err("name a module, a symbol or a range LO-HI".into());
    }
    if let Some((low, high)) = text.split_once('-')
        && let (Some(low), Some(high)) = (hex(low), hex(high))
    {
        if low >= high {
            return Err(format!(
                "the range is empty: {low:#x} is not below {high:#x}"
            ));
        }
        return Ok(Only::Range(low, high));
    }
    Ok(Only::Name(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_description_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn kinds_are_sets() {
        assert_eq!(parse_kinds("none"), Ok(KindSet::NONE));
        assert_eq!(
            parse_kinds("call,edge"),
            Ok(KindSet::NONE.with(Kind::Edge).with(Kind::Call))
        );
        for wrong in ["", "edges", "edge,", "edge,none", "result"] {
            assert!(parse_kinds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn ranges_are_hex_and_the_rest_are_names() {
        assert_eq!(parse_only("0x10-20"), Ok(Only::Range(0x10, 0x20)));
        assert_eq!(
            parse_only("libfoo-1.so"),
            Ok(Only::Name("libfoo-1.so".into()))
        );
        assert!(parse_only("20-10").is_err() && parse_only("").is_err());
    }

    #[test]
    fn options_behind_the_program_are_its_own() {
        let parsed =
            Arguments::try_parse_from(["trommel", "record", "-e", "none", "ls", "-l", "--", "-e"]);
        let Command::Record(args) = parsed.expect("valid").command else {
            panic!("not record");
        };
        assert_eq!(args.program, ["ls", "-l", "--", "-e"]);
    }
}
