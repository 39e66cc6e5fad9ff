//! The arguments of the commands that show a profile: `report`, `values`, `annotate`, `latency` and `replay`; which
//! profiles, and which part of them.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use trommel_tuple::Kind;

use super::parse;

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
    #[arg(long, value_name = "TIME", value_parser = parse::moment)]
    pub(crate) since: Option<u64>,

    /// Of a database, only epochs up to this time, as in --since
    #[arg(long, value_name = "TIME", value_parser = parse::moment)]
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
    #[arg(short, long, value_name = "KIND", value_parser = parse::kind)]
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
    #[arg(long, value_name = "PCT", default_value = "0", value_parser = parse::share)]
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
    #[arg(long, value_name = "PCT", default_value = "5", value_parser = parse::share)]
    pub(crate) share: f64,
}
