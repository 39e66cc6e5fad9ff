//! `trommel`: the command line.
//!
//! This crate alone knows about terminals, exit statuses and wording. Parsing has no side effects;
//! each command turns its arguments into calls of the libraries and their answers into text or
//! JSON. Results go to stdout, everything we say ourselves to stderr.
//!
//! A closed stdout (`trommel report | head`) is no error: the command ends and says nothing.

mod annotate;
mod args;
mod arguments;
mod c2c;
mod caches;
mod callers;
mod compress;
mod daemon;
mod diff;
mod doctor;
mod excerpt;
mod exit;
mod export;
mod find;
mod generate;
mod help;
mod host;
mod inherited;
mod intervals;
mod json;
mod lab;
mod latency;
mod load;
mod machine;
mod merge;
mod model;
mod news;
mod next;
mod others;
mod output;
mod page;
mod pipes;
mod prefetches;
mod query;
mod record;
mod replay;
mod report;
mod run;
mod services;
mod shown;
mod simulate;
mod stat;
mod stats;
mod status;
mod stream;
mod time;
mod top;
mod values;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use args::{Arguments, Command};
use trommel_host::kernel::clocks;

fn main() -> ExitCode {
    clocks::begin();
    let command = Arguments::command().term_width(help::columns());
    let matches = command.try_get_matches();
    let arguments = match matches.and_then(|matches| Arguments::from_arg_matches(&matches)) {
        Ok(arguments) => arguments,
        Err(answer) => return said(&answer),
    };
    let done = match arguments.command {
        Command::Record(args) => record::run(*args),
        Command::Run(args) => run::run(args),
        Command::Top(args) => top::run(&args),
        Command::Daemon(args) => daemon::run(args),
        Command::Stat(args) => stat::run(args),
        Command::Report(args) => match &args.html {
            Some(to) => page::run(&args, to),
            None => report::run(&args),
        },
        Command::Diff(args) => diff::run(&args),
        Command::Merge(args) => merge::run(&args),
        Command::Values(args) => values::run(&args),
        Command::Annotate(args) => annotate::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Latency(args) => latency::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::C2c(args) => c2c::run(&args),
        Command::Stream(args) => stream::run(&args),
        Command::Compress(args) => compress::run(&args),
        Command::Query(args) => query::run(&args.command),
        Command::Model(args) => model::run(&args),
        Command::Lab(args) => lab::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Help(args) => help::run(&args),
        Command::Completions { shell } => generate::completions(shell),
        Command::Man { command } => generate::man(command.as_deref()),
    };
    match done {
        Ok(code) => code,
        Err(error) if output::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain_of(&error);
            exit::code_of(&error)
        }
    }
}

/// Prints what the parser has to say: an error, or the help or version that was asked for.
fn said(answer: &clap::Error) -> ExitCode {
    use std::io::Write;
    let open = match answer.use_stderr() {
        true => Ok(()),
        false => output::check_open(),
    };
    let print = || match answer.use_stderr() {
        true => {
            let stderr = std::io::stderr();
            let text = match output::colours(&stderr) {
                true => answer.render().ansi().to_string(),
                false => answer.render().to_string(),
            };
            let text = output::fitted(&text, output::width(&stderr));
            std::io::stderr().write_all(text.as_bytes())
        }
        false => answer.print(),
    };
    let printed = open
        .and_then(|()| print().map_err(output::of_stdout))
        .and_then(|()| std::io::stdout().flush().map_err(output::of_stdout));
    match printed.map_err(anyhow::Error::from) {
        Err(error) if !answer.use_stderr() && !output::is_closed_pipe(&error) => {
            output::complain_of(&error);
            ExitCode::FAILURE
        }
        _ => u8::try_from(answer.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from),
    }
}
