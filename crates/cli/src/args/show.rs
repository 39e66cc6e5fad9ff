//! The arguments of the commands that show a profile: `report`, `values`, `annotate`, `latency`, `replay` and `c2c`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use trommel_tuple::Kind;

use super::parse;

/// The profile that is shown, and the part of it.
#[derive(Args, Debug)]
pub(crate) struct SourceArgs {
    /// A profile, or the directory of a database (`trommel help database`)
    #[arg(value_name = "FILE", default_value = trommel_store::DEFAULT_FILE)]
    pub(crate) file: PathBuf,

    #[command(flatten)]
    pub(crate) select: SelectArgs,
}

/// The part of a profile that is shown.
#[derive(Args, Debug)]
pub(crate) struct SelectArgs {
    /// Only epochs of a database from this time on, such as 2h (ago)
    ///
    /// An epoch is a file of the database, a minute by default. TIME is a length of time ago, such as 30s, 5m, 2h or 7d, or a time in UTC, such as
    /// 2026-11-22T18:00.
    #[arg(long, value_name = "TIME", value_parser = parse::moment)]
    pub(crate) since: Option<u64>,

    /// Only epochs of a database up to this time; written as --since
    #[arg(long, value_name = "TIME", value_parser = parse::moment)]
    pub(crate) until: Option<u64>,

    /// Only code of this module, by path or file name; can be repeated
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) module: Vec<String>,

    /// Only code of modules with this build id, or its beginning; can be repeated
    ///
    /// With --module, a module has both.
    #[arg(long, value_name = "HEX")]
    pub(crate) build_id: Vec<String>,
}

/// Units that a report adds instructions up by.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum By {
    /// Functions.
    Function,
    /// Lines of source.
    Line,
    /// Loops.
    Loop,
    /// Files of code.
    Module,
    /// Threads, by their events.
    Thread,
    /// Processes.
    Process,
    /// No sums: events of each kind.
    Event,
}

/// Arguments of `report`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trommel report                         the hottest functions and loops
  trommel report --by line               the hottest lines of source
  trommel report --tree contexts.data    call paths, recorded with -e context
  trommel report --inlined               inlined functions by themselves
  trommel report -e edge --top 100       the 100 hottest branches
  trommel report --html report.html      one page for a browser
  trommel report --json other.data       everything, for scripts
  trommel report --per-interval m4.data  intervals and phases, recorded with -c")]
#[command(group = clap::ArgGroup::new("shape").args(["tree", "html"]).multiple(true))]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,

    /// Show events of this kind, not functions: edge, call, value, type, path, …
    #[arg(short, long, value_name = "KIND", value_parser = parse::kind)]
    pub(crate) event: Option<Kind>,

    /// Add up instructions by this unit; `event` shows events of each kind
    #[arg(long, value_name = "WHAT", value_enum, conflicts_with_all = ["event", "json"])]
    pub(crate) by: Option<By>,

    /// Show call paths, hottest first; needs a recording with -e context or -e stack
    #[arg(long, conflicts_with_all = ["event", "by", "json"])]
    pub(crate) tree: bool,

    /// With --tree or --html: show waits, not CPU time; needs a recording with --off-cpu
    #[arg(long, requires = "shape")]
    pub(crate) off_cpu: bool,

    /// Show inlined functions on their own, and in call paths below their callers
    ///
    /// Debug information says which instructions are theirs. JSON lists them beside the functions that contain them.
    #[arg(long, conflicts_with_all = ["event", "html", "no_debug_info", "per_interval"])]
    pub(crate) inlined: bool,

    /// Show each interval with its candidates (frequent tuples), and phases of similar intervals
    ///
    /// Needs a recording with an interval profiler, such as `record -c 'M4[10k,1%]2048'`. See `trommel help specs`.
    #[arg(long, conflicts_with_all = ["by", "tree", "html", "schema"])]
    pub(crate) per_interval: bool,

    /// Show names with return types, template arguments and parameters
    #[arg(long)]
    pub(crate) full_names: bool,

    /// Do not read debug information: faster, without source lines and inlined functions
    #[arg(long, conflicts_with = "html")]
    pub(crate) no_debug_info: bool,

    /// Only this process; can be repeated [default: the sum of all]
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Vec<u32>,

    /// Entries of each kind; 0 shows all [default: 20, with --json all]
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,

    /// Write one page for a browser: functions, call paths, the hottest code
    #[arg(long, value_name = "FILE", conflicts_with_all = ["event", "by", "json", "top", "full_names"])]
    pub(crate) html: Option<PathBuf>,

    /// Write JSON (`trommel help json`)
    #[arg(long)]
    pub(crate) json: bool,

    /// Write the intervals as CSV, a row for each candidate
    #[arg(long, requires = "per_interval", conflicts_with = "json")]
    pub(crate) csv: bool,

    /// Schema of the JSON: 1, or 2 with places in one table, which is smaller
    #[arg(long, value_name = "N", requires = "json", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    pub(crate) schema: u8,
}

/// Arguments of `diff`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trommel diff before.data after.data                 functions that changed
  trommel diff --markdown before.data after.data      for a comment on a change
  trommel diff --fail-above 1 before.data after.data  exits 3 above +1 %

Functions with the same name are compared, also of different builds.
In estimates, ? marks a change that may be chance.")]
pub(crate) struct DiffArgs {
    /// The earlier profile or database
    #[arg(value_name = "BEFORE")]
    pub(crate) before: PathBuf,

    /// The later one
    #[arg(value_name = "AFTER")]
    pub(crate) after: PathBuf,

    #[command(flatten)]
    pub(crate) select: SelectArgs,

    /// Entries; 0 shows all [default: 20, with --json all]
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,

    /// Show names with return types, template arguments and parameters
    #[arg(long)]
    pub(crate) full_names: bool,

    /// Write JSON (`trommel help json`)
    #[arg(long, conflicts_with = "markdown")]
    pub(crate) json: bool,

    /// Write a table of Markdown
    #[arg(long)]
    pub(crate) markdown: bool,

    /// End with exit status 3 if there are PCT percent more instructions
    #[arg(long, value_name = "PCT", value_parser = parse::share)]
    pub(crate) fail_above: Option<f64>,
}

impl DiffArgs {
    /// Returns the number of entries to show.
    pub(crate) fn top(&self) -> usize {
        match (self.top, self.json) {
            (Some(0), _) | (None, true) => usize::MAX,
            (Some(n), _) => n,
            (None, false) => 20,
        }
    }
}

/// Arguments of `values`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trommel values                               20 that could save most
  trommel values --share 99 --json other.data  nearly constant ones, as JSON
  trommel values --all --top 0                 every load and argument

The order is by cycles that specialising could save: an estimate, not a promise.
Arguments need windows with values and calls: `trommel record --budget 1`.
See `trommel help values`.")]
pub(crate) struct ValuesArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,

    /// Only where one value has at least this share, in percent
    #[arg(long, value_name = "PCT", default_value = "0", value_parser = parse::share)]
    pub(crate) share: f64,

    /// Also show what would save nothing
    ///
    /// This includes loads of the stack protector, and loads that restore registers.
    #[arg(long)]
    pub(crate) all: bool,

    /// Entries; 0 shows all [default: 20, with --json all]
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,

    /// Write JSON (`trommel help json`)
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `annotate`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trommel annotate main                 a function of trommel.data
  trommel annotate other.data app:main  a function of a module, another profile
  trommel annotate --all --json         all functions, for scripts

The last parts of a name are enough (Stack::push). 0x4010-40a0 is a range of
addresses as objdump prints them. Counts of instructions between recorded
events are derived from the events. See `trommel help annotate`.")]
pub(crate) struct AnnotateArgs {
    /// The profile or database (trommel.data if left out), and the function
    ///
    /// FUNCTION is a name, MODULE:NAME, LO-HI or MODULE:LO-HI.
    #[arg(value_names = ["FILE", "FUNCTION"], num_args = 1..=2, required_unless_present = "all")]
    pub(crate) what: Vec<OsString>,

    /// Show all functions that the profile has something of, hottest first
    #[arg(long)]
    pub(crate) all: bool,

    /// Show instructions that were not executed, too
    #[arg(long, conflicts_with = "json")]
    pub(crate) cold: bool,

    #[command(flatten)]
    pub(crate) select: SelectArgs,

    /// Values, targets and conflicts of each instruction; 0 shows all [default: 3, with --json all]
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,

    /// Write JSON (`trommel help json`)
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `latency`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trommel record --budget 3 -e latency -- ./app  measure, for 3 % overhead
  trommel latency                                20 loads that lose most cycles
  trommel latency --json                         all loads, for scripts

Cycles lost are those beyond a hit in the first-level cache. They are an upper
limit of what can be gained.
See `trommel help memory`.")]
pub(crate) struct MemoryArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,

    /// Entries; 0 shows all [default: 20, with --json all]
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,

    /// Write JSON (`trommel help json`)
    #[arg(long)]
    pub(crate) json: bool,
}

impl MemoryArgs {
    /// Returns the number of entries to show; `people` is the default for text.
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
  trommel record --budget 3 -e address -- ./app  collect, for 3 % overhead
  trommel replay                                 the 20 most frequent conflicts
  trommel replay --share 50 --json               in half of a load's executions

A store delays a load in three cases. It writes a part of the load's bytes
(size). Its address is known late (order). Its bytes are 4 KiB, or a multiple of
that, away (synonym). See `trommel help memory`.")]
pub(crate) struct ReplayArgs {
    #[command(flatten)]
    pub(crate) common: MemoryArgs,

    /// Only conflicts that at least PCT percent of the load's executions meet
    #[arg(long, value_name = "PCT", default_value = "5", value_parser = parse::share)]
    pub(crate) share: f64,
}

/// Arguments of `c2c`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trommel record -e sharing -- ./app            all accesses of all threads
  trommel c2c                                   the 20 lines handed over most
  trommel c2c --false-only --least 1000 --json  false sharing alone, for scripts

A line is handed over when a thread needs a line that another thread has, and
either has written it. Sharing is false when no byte that one thread writes is
touched by another. See `trommel help simulate`.")]
pub(crate) struct C2cArgs {
    #[command(flatten)]
    pub(crate) common: MemoryArgs,

    /// Only lines that may have been handed over at least N times
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) least: u64,

    /// Leave out lines of which every byte is truly shared
    #[arg(long)]
    pub(crate) false_only: bool,
}
