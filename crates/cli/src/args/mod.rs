//! The arguments: one description for parsing, help, completions and manual pages.
//!
//! A file for each sort of command ([`record`], [`run`], [`show`], [`tools`]); what the values of arguments mean is in
//! [`parse`]. The order of fields is that of the help.

mod parse;
mod record;
mod run;
mod show;
mod tools;

use clap::{Parser, Subcommand};

pub(crate) use parse::{ModuleSpec, Only, ServiceSpec};
pub(crate) use record::{DaemonArgs, RecordArgs, SKIP};
pub(crate) use run::{Opt, RunArgs};
pub(crate) use show::{AnnotateArgs, MemoryArgs, ReplayArgs, ReportArgs, SelectArgs, ValuesArgs};
pub(crate) use tools::{
    CompressArgs, DoctorArgs, LabArgs, QueryArgs, QueryCommand, StreamArgs, StreamCommand,
};

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
    /// Show stores that are in the way of loads after them.
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_description_is_consistent() {
        Arguments::command().debug_assert();
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
