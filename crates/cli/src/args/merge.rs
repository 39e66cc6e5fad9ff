//! The arguments of `merge`.

use std::path::PathBuf;

use clap::Args;

use super::parse;

/// Arguments of `merge`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  trommel merge before.data after.data -o sum.data   the sum of two recordings
  trommel merge DIR -o profiles.data                 a database in one file
  trommel merge --json --since 7d DIR -o week.data   its last week; prints JSON

Counts are added up where module and build id are the same. Recordings with
different kinds of events are not added up, nor exact counts with estimates.
See `trommel help merge`.")]
pub(crate) struct MergeArgs {
    /// Profiles, and directories of databases
    #[arg(value_name = "FILE", required = true)]
    pub(crate) inputs: Vec<PathBuf>,

    /// Write this file; an earlier one becomes FILE.old
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,

    /// Only epochs of databases from this time on, such as 2h (ago)
    #[arg(long, value_name = "TIME", value_parser = parse::moment)]
    pub(crate) since: Option<u64>,

    /// Only epochs of databases up to this time
    #[arg(long, value_name = "TIME", value_parser = parse::moment)]
    pub(crate) until: Option<u64>,

    /// Write a summary as JSON (`trommel help json`)
    #[arg(long)]
    pub(crate) json: bool,
}
