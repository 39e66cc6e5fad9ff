//! The arguments of the commands that show a profile: `report`, `values`, `annotate`, `latency` and `replay`.

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
    /// TIME is a length of time ago, such as 30s, 5m, 2h or 7d, or a time in UTC, such as
    /// 2026-11-22T18:00.
    #[arg(long, value_name = "TIME", value_parser = parse::moment)]
    pub(crate) since: Option<u64>,

    /// Only epochs of a database up to this time; written as --since
    #[arg(long, value_name = "TIME", value_parser = parse::moment)]
    pub(crate) until: Option<u64>,

    /// Only code of this module, by path or file name; can be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) module: Vec<String>,

    /// Only code of modules with this build id, or its beginning; can be repeated
    #[arg(long, value_name = "HEX")]
    pub(crate) build_id: Vec<String>,
}

/// Arguments of `report`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trommel report                        the 20 hottest of each kind in trommel.data
  trommel report -e value --top 100     the 100 hottest loads and their values
  trommel report --json other.data      everything, for scripts (`trommel help json`)")]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,

    /// Only events of this kind
    #[arg(short, long, value_name = "KIND", value_parser = parse::kind)]
    pub(crate) event: Option<Kind>,

    /// Only this process; can be repeated [default: the sum of all]
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Vec<u32>,

    /// Entries of each kind; 0 shows all [default: 20, with --json all]
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,

    /// Write JSON (`trommel help json`)
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `values`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trommel values                                  the 20 loads and arguments that could save most
  trommel values --share 99 --json other.data     those that are nearly constant, for scripts
  trommel values --all --top 0                    every load and argument

The order is by cycles that specialising could save: an estimate, not a promise.
Arguments need windows with both values and calls, as `trommel record --budget 1` takes them.
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
  trommel annotate main                             a function of the profile trommel.data
  trommel annotate other.data app:main              a function of one module, of another profile
  trommel annotate --json --top 4 main              for scripts (`trommel help json`)

The last parts of a name are enough (Stack::push). 0x4010-40a0 is a range of addresses as objdump prints them.
Counts of instructions between recorded events are derived from the events. See `trommel help annotate`.")]
pub(crate) struct AnnotateArgs {
    /// The profile or database (trommel.data if left out), and the function
    ///
    /// FUNCTION is a name, MODULE:NAME, LO-HI or MODULE:LO-HI.
    #[arg(value_names = ["FILE", "FUNCTION"], num_args = 1..=2, required = true)]
    pub(crate) what: Vec<OsString>,

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
  trommel record --budget 3 -e latency -- ./app   measure loads, for 3 % overhead
  trommel latency                                 the 20 loads that lose most cycles
  trommel latency --json                          all of them, for scripts (`trommel help json`)

Cycles lost are those beyond a hit in the first cache. They are an upper limit of what can be won.
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
  trommel record --budget 3 -e address -- ./app   collect addresses, for 3 % overhead
  trommel replay                                  the 20 most frequent conflicts
  trommel replay --share 50 --json                conflicts of most executions, for scripts

A store is in a load's way in three cases. It writes a part of the load's bytes (size). Its address is known
late (order). Its bytes are 4 KiB, or a multiple of that, away (synonym). See `trommel help memory`.")]
pub(crate) struct ReplayArgs {
    #[command(flatten)]
    pub(crate) common: MemoryArgs,

    /// Only conflicts that at least PCT percent of the load's executions meet
    #[arg(long, value_name = "PCT", default_value = "5", value_parser = parse::share)]
    pub(crate) share: f64,
}
