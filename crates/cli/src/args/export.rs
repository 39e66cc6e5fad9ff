//! The arguments of `export`.

use std::path::PathBuf;

use clap::Args;

use super::parse;

/// Arguments of `export`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trommel export --list                          the formats
  trommel export --format callgrind              trommel.data for KCachegrind
  trommel export --format bolt -o app.fdata      branches, for llvm-bolt
  trommel export --format csv --module libc.so.6 other.data
  trommel export --format firefox contexts.data  for profiler.firefox.com

Most formats need branches and calls, as `trommel record` counts by default.
Formats of call paths need a recording with `-e context` or `-e stack`.
See `trommel help export`.")]
pub(crate) struct ExportArgs {
    /// A profile, or the directory of a database (`trommel help database`)
    #[arg(value_name = "FILE", default_value = trommel_store::DEFAULT_FILE)]
    pub(crate) file: PathBuf,

    /// The format; --list shows all
    #[arg(short, long, value_name = "NAME", required_unless_present = "list")]
    pub(crate) format: Option<String>,

    /// Write this file; - is standard output. An earlier file becomes FILE.old [default: the program's name and the format's ending]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Only code of this module, by path or file name; can be repeated [default: the program that is meant, or all]
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) module: Vec<String>,

    /// Only code of modules with this build id, or its beginning; can be repeated
    ///
    /// With --module, a module has both.
    #[arg(long, value_name = "HEX")]
    pub(crate) build_id: Vec<String>,

    /// Only this process; can be repeated [default: the sum of all]
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Vec<u32>,

    /// Only epochs of a database from this time on, such as 2h (ago)
    #[arg(long, value_name = "TIME", value_parser = parse::moment)]
    pub(crate) since: Option<u64>,

    /// Only epochs of a database up to this time; written as --since
    #[arg(long, value_name = "TIME", value_parser = parse::moment)]
    pub(crate) until: Option<u64>,

    /// Write estimates, or a run that was observed in part, where the format says what was not executed
    #[arg(long)]
    pub(crate) estimates: bool,

    /// Make estimates consistent, for an optimiser: what enters a block leaves it
    ///
    /// For bolt, bolt-preagg, profgen and the formats of AutoFDO. Exact counts are consistent.
    #[arg(long)]
    pub(crate) infer: bool,

    /// Write waits, not CPU time; for formats of call paths, and a recording with --off-cpu
    #[arg(long)]
    pub(crate) off_cpu: bool,

    /// List the formats
    #[arg(long)]
    pub(crate) list: bool,
}
