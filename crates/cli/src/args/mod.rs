//! The arguments: one description for parsing, help, completions and manual pages.
//!
//! Each sort of command has a file ([`record`], [`run`], [`show`], [`tools`]). [`parse`] reads the values of
//! arguments. The order of fields is that of the help.
#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "help texts name compressors, whose brackets are no links"
)]

mod export;
mod merge;
mod parse;
mod record;
mod run;
mod show;
mod tools;
mod top;

use clap::{Parser, Subcommand};

pub(crate) use export::ExportArgs;
pub(crate) use merge::MergeArgs;
pub(crate) use parse::{Events, LaterLoad, ModuleSpec, Only, ServiceSpec};
pub(crate) use record::{DaemonArgs, RecordArgs, SKIP};
pub(crate) use run::{Opt, RunArgs, StatArgs};
pub(crate) use show::{
    AnnotateArgs, By, C2cArgs, DiffArgs, MemoryArgs, ReplayArgs, ReportArgs, SelectArgs, ValuesArgs,
};
pub(crate) use tools::{
    CompressArgs, DoctorArgs, HelpArgs, LabArgs, ModelArgs, QueryArgs, QueryCommand, StreamArgs,
    StreamCommand,
};
pub(crate) use top::TopArgs;

/// Finds the hot functions, branches, calls and values of unmodified Linux programs.
#[derive(Parser, Debug)]
#[command(
    name = "trommel",
    version,
    max_term_width = 100,
    disable_help_subcommand = true,
    after_help = "\
Two commands to the first result:
  trommel record -- ./app --its --arguments
  trommel report

A server that already runs, for about 1 % of its time:
  trommel record --budget 1 -p PID

Everything after `--` belongs to the program.
`trommel help COMMAND` shows examples. `trommel help topics` lists the manual."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Run a program and write a profile of its functions, branches, calls and values.
    Record(Box<RecordArgs>),
    /// Run a program faster, by optimising its hot paths while it runs.
    Run(RunArgs),
    /// Show hot functions, branches and values while they run.
    Top(TopArgs),
    /// Profile chosen processes as long as they live, into a database.
    Daemon(DaemonArgs),
    /// Count instructions, branches, loads, stores and calls of a program, exactly.
    Stat(StatArgs),
    /// Show a profile: the hottest functions, loops, lines, branches, calls and values.
    Report(ReportArgs),
    /// Show which functions changed between two profiles.
    Diff(DiffArgs),
    /// Add up recordings and databases into one profile.
    Merge(MergeArgs),
    /// Show loads and arguments that are nearly constant, by the cycles they could save.
    Values(ValuesArgs),
    /// Show a function instruction by instruction, with counts and values.
    Annotate(AnnotateArgs),
    /// Write a profile in the format of another tool.
    Export(ExportArgs),
    /// Show how long loads take, and which caches serve them.
    Latency(MemoryArgs),
    /// Show stores that delay later loads.
    Replay(ReplayArgs),
    /// Show cache lines that threads take from each other.
    C2c(C2cArgs),
    /// Print, count and convert streams of events.
    Stream(StreamArgs),
    /// Put a stream through compressors and compare their profiles.
    Compress(CompressArgs),
    /// Check, assemble and format relational queries.
    Query(QueryArgs),
    /// Ask queries about each instruction's way through a modelled processor.
    Model(ModelArgs),
    /// Repeat the experiments of the papers on real programs.
    Lab(LabArgs),
    /// Check what this machine and user can do, and how to fix what they cannot.
    Doctor(DoctorArgs),
    /// Show the help of a command, or a topic of the manual.
    Help(HelpArgs),
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

    /// Every command shows at least three examples. `conformance` runs them.
    #[test]
    fn each_command_has_three_examples() {
        fn walk(command: &clap::Command, name: &str, few: &mut Vec<String>) {
            for inner in command
                .get_subcommands()
                .filter(|inner| !inner.is_hide_set())
            {
                let name = format!("{name} {}", inner.get_name());
                let help = inner.get_after_help().map(ToString::to_string);
                let help = help.unwrap_or_default();
                let examples = help.lines().filter(|line| line.starts_with("  trommel "));
                match examples.count() {
                    3.. => {}
                    n => few.push(format!("{name}: {n}")),
                }
                walk(inner, &name, few);
            }
        }
        let mut few = Vec::new();
        walk(&Arguments::command(), "trommel", &mut few);
        assert_eq!(few, [""; 0], "commands with fewer than three examples");
    }

    /// Longer lines would be broken in the midst of a table, as nothing joins them.
    #[test]
    fn text_after_the_options_fits_80_columns() {
        fn walk(command: &clap::Command, wide: &mut Vec<String>) {
            let help = command.get_after_help().map(ToString::to_string);
            let help = help.unwrap_or_default();
            let lines = help.lines().filter(|line| line.chars().count() > 80);
            wide.extend(lines.map(str::to_owned));
            for inner in command.get_subcommands() {
                walk(inner, wide);
            }
        }
        let mut wide = Vec::new();
        walk(&Arguments::command(), &mut wide);
        assert_eq!(wide, [""; 0], "lines of more than 80 columns");
    }

    #[test]
    fn options_after_the_program_are_its_own() {
        let parsed =
            Arguments::try_parse_from(["trommel", "record", "-e", "none", "ls", "-l", "--", "-e"]);
        let Command::Record(args) = parsed.expect("valid").command else {
            panic!("not record");
        };
        assert_eq!(args.program, ["ls", "-l", "--", "-e"]);
    }
}
