//! The arguments of the commands that need no profile: streams, compressors, queries, the lab and the doctor.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use trommel_tuple::Kind;

use super::parse::{self, LaterLoad};

/// Arguments of `stream`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trommel record --stream app.tstream -- ./app
  trommel stream dump -n 100 app.tstream
  trommel stream convert -e value app.tstream app.raw16.zst")]
pub(crate) struct StreamArgs {
    #[command(subcommand)]
    pub(crate) command: StreamCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum StreamCommand {
    /// Count the events of a stream, and name its modules.
    #[command(after_help = "\
Examples:
  trommel stream info app.tstream          events, by kind, and modules
  trommel stream info --json app.tstream   for scripts (`trommel help json`)
  trommel stream info gcc.value.raw16.zst  a stream of another format")]
    Info {
        /// The stream: .tstream, .raw16 or .raw16.zst
        file: PathBuf,
        /// Write JSON (`trommel help json`)
        #[arg(long)]
        json: bool,
    },
    /// Print events, one a line: kind, module:address, value.
    #[command(after_help = "\
Examples:
  trommel stream dump -n 100 app.tstream          the first 100 events
  trommel stream dump -e call app.tstream         all calls
  trommel stream dump -n 5 gcc.value.raw16.zst    a stream of another format")]
    Dump {
        /// The stream: .tstream, .raw16 or .raw16.zst
        file: PathBuf,
        /// Stop after N events
        #[arg(short = 'n', long, value_name = "N")]
        count: Option<u64>,
        /// Only events of this kind; of raw16, the kind of all its events
        #[arg(short, long, value_name = "KIND", value_parser = parse::kind)]
        event: Option<Kind>,
    },
    /// Write a stream in another format, chosen by the new name.
    #[command(after_help = "\
Examples:
  trommel stream convert -e value app.tstream app.raw16.zst
  trommel stream convert -e call app.tstream app.raw16
  trommel stream convert -e value gcc.value.raw16.zst gcc.tstream")]
    Convert {
        /// The stream: .tstream, .raw16 or .raw16.zst
        file: PathBuf,
        /// The new file: .tstream, .raw16 or .raw16.zst
        out: PathBuf,
        /// Only events of this kind; of raw16, the kind of all its events
        #[arg(short, long, value_name = "KIND", value_parser = parse::kind)]
        event: Option<Kind>,
    },
}

/// Arguments of `compress`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trommel compress -c P256 -c 'H[P256]2048+A16' app.tstream
  trommel compress -c 'M4[10k,1%]2048:C1R0P1' --json gcc.value.raw16.zst
  trommel compress -c 'M4[10k,1%]2048' --per-interval app.tstream
  trommel compress --cost -c 'H[P256]2048' -c 'T[256]2048/2way/2bit'")]
pub(crate) struct CompressArgs {
    /// A compressor, such as P256 or H[P256]2048+A16; can be repeated
    ///
    /// See `trommel help specs`.
    #[arg(short = 'c', long = "compress", value_name = "SPEC", required = true)]
    pub(crate) specs: Vec<String>,

    /// Judge profiles by the tuples that pass this filter
    ///
    /// The default is executions=1000,tuple=10%,load=40%: tuples of instructions that often have the
    /// same value.
    #[arg(long, value_name = "FILTER")]
    pub(crate) filter: Option<String>,

    /// Seed of hash functions and random samplers
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Show each interval with its candidates, and phases of intervals that are alike
    #[arg(long, requires = "stream")]
    pub(crate) per_interval: bool,

    /// Show the bytes that each compressor takes in hardware; needs no stream
    #[arg(long)]
    pub(crate) cost: bool,

    /// Cycles that a message costs, with a buffer of 100 messages [default: 30]
    #[arg(long, value_name = "N", value_parser = parse::cycles)]
    pub(crate) message_cycles: Option<f64>,

    /// Cycles of the program for each event [default: 4]
    #[arg(long, value_name = "N", value_parser = parse::cycles)]
    pub(crate) event_cycles: Option<f64>,

    /// Messages that an interrupt of 214 cycles brings [default: 100]
    #[arg(long, value_name = "N", value_parser = parse::number)]
    pub(crate) buffer: Option<u64>,

    /// Write JSON (`trommel help json`)
    #[arg(long)]
    pub(crate) json: bool,

    /// Write the intervals as CSV, a row for each candidate
    #[arg(long, requires = "per_interval", conflicts_with = "json")]
    pub(crate) csv: bool,

    /// The stream: .tstream, .raw16 or .raw16.zst
    #[arg(required_unless_present = "cost")]
    pub(crate) stream: Option<PathBuf>,
}

/// Arguments of `query`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trommel query check stores.rpa          report errors, and remedies
  trommel query asm -o stores.bin stores.rpa
  trommel record -q stores.rpa -- ./app
  trommel query load edges.rpa -p 1234    into a session that runs

A query that sends stores of values other than 0, by code with profile tag 1:
  tag 1 symbol \"store_reference\";
  for opSTORE 1 always collect op1 op2 op3;
      if op1 <> 0 then send 3 stop else stop;

A query on pairs of accesses at most 16 apart, which sends those to one address:
  for opLOAD * opSTORE * every 1k pair 16 collect pc res2;
      if res2 = second.res2 then send 1 stop else stop;

FILE may be `-`, standard input. See `trommel help query`.")]
pub(crate) struct QueryArgs {
    #[command(subcommand)]
    pub(crate) command: QueryCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum QueryCommand {
    /// Report errors in queries, or what the queries ask for.
    #[command(after_help = "\
Examples:
  trommel query check stores.rpa             one file
  trommel query check stores.rpa edges.rpa   several
  trommel query check near.rpa               a query on pairs
  trommel query check --json *.rpa           for scripts (`trommel help json`)

The exit status is 1 when a file has an error.")]
    Check {
        /// The queries
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Write JSON (`trommel help json`)
        #[arg(long)]
        json: bool,
    },
    /// Assemble queries, and show the program or write it to a file.
    #[command(after_help = "\
Examples:
  trommel query asm stores.rpa                 print registers and instructions
  trommel query asm -o stores.bin stores.rpa   write them, for `record -q`
  trommel query asm edges.rpa                  another query")]
    Asm {
        /// The queries
        file: PathBuf,
        /// Write the program to this file
        #[arg(short, long, value_name = "OUT", conflicts_with = "json")]
        output: Option<PathBuf>,
        /// Write JSON (`trommel help json`)
        #[arg(long)]
        json: bool,
    },
    /// Print the queries of an assembled program.
    #[command(after_help = "\
Examples:
  trommel query disasm stores.bin               print the query
  trommel query disasm - < stores.bin           of standard input
  trommel query disasm stores.bin > again.rpa   write it to a file")]
    Disasm {
        /// The program, as `asm -o` writes it
        file: PathBuf,
    },
    /// Print queries in normal form.
    #[command(after_help = "\
Examples:
  trommel query fmt stores.rpa
  trommel query fmt --write *.rpa
  trommel query fmt --check *.rpa         exits 1 if a file is not normal")]
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
    /// Load queries into a session of `record -q` that runs.
    #[command(after_help = "\
Examples:
  trommel query load stores.rpa -p 1234
  trommel query load stores.rpa -p 1234 --name old
  trommel query list -p 1234

The session's programs go on, and miss nothing of queries that stay.")]
    Load {
        /// The queries
        file: PathBuf,
        /// A process of the session, or the session or daemon itself
        #[arg(short, long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
        pid: i32,
        /// Name of the queries in the session [default: the file's]
        #[arg(long)]
        name: Option<String>,
    },
    /// Remove queries from a session that runs.
    #[command(after_help = "\
Examples:
  trommel query remove stores -p 1234     all queries of a file
  trommel query remove stores:1 -p 1234   the first query of it
  trommel query remove 3 -p 1234          all queries that send to queue 3")]
    Remove {
        /// A name, a name and the number of a query, or a queue
        #[arg(value_name = "NAME|QUEUE")]
        what: String,
        /// A process of the session, or the session or daemon itself
        #[arg(short, long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
        pid: i32,
    },
    /// List the queries of a session that runs, and their counts so far.
    #[command(after_help = "\
Examples:
  trommel query list -p 1234
  trommel query list -p 1234 | tail -n +2   without titles
  trommel query list -p 1234 --json         for scripts (`trommel help json`)")]
    List {
        /// A process of the session, or the session or daemon itself
        #[arg(short, long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
        pid: i32,
        /// Write JSON (`trommel help json`)
        #[arg(long)]
        json: bool,
    },
}

/// Arguments of `model`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trommel model -q misses.rpa -- ./app          the first million instructions
  trommel model -q misses.rpa --every 10 --instructions 80k -- ./server
      two stretches of 40 000 instructions, each after 10 ms of CPU time
  trommel model --show-machine > small.machine  to edit, for --machine
  trommel model -q edges.rpa --load 50k:misses.rpa -- ./app
      other queries from instruction 50 000 on

The program runs to its end. The modelled instructions are single-stepped:
100 000 take some seconds. Events, facts of the pipeline and `every auto` are
the model's. See `trommel help query` and `trommel help lab`.")]
pub(crate) struct ModelArgs {
    /// The relational queries in FILE, a text or assembled
    #[arg(
        short,
        long,
        value_name = "FILE",
        required_unless_present = "show_machine"
    )]
    pub(crate) query: Option<PathBuf>,

    /// Load the queries in FILE in place of those before, after N instructions; can be repeated
    ///
    /// As the paper's SET_PCR instructions do. N can have k or M after it.
    #[arg(long, value_name = "N:FILE", value_parser = parse::load)]
    pub(crate) load: Vec<LaterLoad>,

    /// The machine: lines NAME = VALUE, as --show-machine writes them
    ///
    /// What FILE does not say is as --show-machine shows it.
    #[arg(long, value_name = "FILE")]
    pub(crate) machine: Option<PathBuf>,

    /// Print the machine and run nothing
    #[arg(long, conflicts_with = "program")]
    pub(crate) show_machine: bool,

    /// Instructions to model, with k or M
    #[arg(long, value_name = "N", value_parser = parse::number, default_value = "1M")]
    pub(crate) instructions: u64,

    /// Model stretches of 40 000 instructions, one each MS milliseconds of CPU time
    ///
    /// In place of one stretch from the first instruction on. From 4, the length of the kernel's ticks.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(4..=60_000))]
    pub(crate) every: Option<u64>,

    /// Messages of each query; 0 shows all [default: 20, with --json all]
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,

    /// Write JSON (`trommel help json`)
    #[arg(long)]
    pub(crate) json: bool,

    /// Write the result to FILE in place of standard output, which the program has too
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// The program and its arguments
    #[arg(required_unless_present = "show_machine", trailing_var_arg = true, allow_hyphen_values = true, value_names = ["PROGRAM", "ARGS"])]
    pub(crate) program: Vec<OsString>,
}

/// Arguments of `lab`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trommel lab list                       print the experiments
  trommel lab stratified-8 multihash-12  run two of them
  trommel lab multihash-9 --html         also write trommel-lab/index.html
  trommel lab all --out figures          run all, and write figures/index.html
  trommel lab stratified-8 --program './app 100'  one, of your program

Programs are recorded when they are first needed, into
$XDG_CACHE_HOME/trommel/lab or ~/.cache/trommel/lab. That takes about 280 MB,
and can be deleted. Programs that are not installed are left out and named.
See `trommel help lab`.")]
pub(crate) struct LabArgs {
    /// Experiments, `all`, or `list`
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<String>,

    /// Directory for the results
    #[arg(long, value_name = "DIR", default_value = "trommel-lab")]
    pub(crate) out: PathBuf,

    /// Write index.html, one page of the experiments, as `all` does
    #[arg(long)]
    pub(crate) html: bool,

    /// Study this command of yours in place of the lab's programs
    ///
    /// It is run several times, without input, and its output is not shown. Nothing of its start is left out. Figures that need
    /// programs of their own are refused, and left out of `all`.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) program: Option<String>,

    /// Events of each stream; fewer are faster and less precise [default: 20M]
    #[arg(long, value_name = "N", value_parser = parse::number)]
    pub(crate) events: Option<u64>,
}

/// Arguments of `doctor`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trommel doctor                         what works here, and fixes
  trommel doctor --limits                what Trommel does not support anywhere
  trommel doctor --json                  for scripts (`trommel help json`)

The exit status is 1 when Trommel cannot work here. See `trommel help limits`.")]
pub(crate) struct DoctorArgs {
    /// Show what Trommel does not support anywhere, too
    #[arg(long)]
    pub(crate) limits: bool,

    /// Write JSON (`trommel help json`)
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `help`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trommel help record
  trommel help topics
  trommel help events")]
pub(crate) struct HelpArgs {
    /// A command with its verbs, a topic, or `topics` for a list
    #[arg(value_name = "COMMAND|TOPIC")]
    pub(crate) of: Vec<String>,
}
