//! `trommel record --all`, `--samples` and `-e stack`: samples of the whole machine, or of a program. That of the machine its owner alone may read.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus};

use anyhow::{Result, bail};
use trommel_host::kernel::interrupt;
use trommel_host::machine::{Options, Subject, record};
use trommel_symbol::launch;

use crate::args::RecordArgs;
use crate::exit::{self, ProgramEnd};
use crate::host;
use crate::inherited;
use crate::next::next_steps;
use crate::output;
use crate::page;
use crate::pipes;
use crate::report::summary::{self, Focus};

/// Percent of all processors' time, where nothing is said.
const BUDGET: f64 = 1.0;
/// Samples in a second of CPU time of a program, where nothing is said: a prime, so that loops do not alias with it.
const RATE: f64 = 997.0;

/// Runs the command.
pub(crate) fn run(args: RecordArgs) -> Result<ExitCode> {
    let stacks = args.off_cpu || args.events.is_some_and(|events| events.stacks);
    check(&args, stacks)?;
    trommel_store::check_destination(&args.output)?;
    if let Some(page) = &args.html {
        page::check(page)?;
    }
    let outputs = [Some(&args.output), args.html.as_ref()];
    let _outputs = pipes::wait_for_all(outputs.into_iter().flatten().map(PathBuf::as_path))?;
    let subject = match (args.all, args.pid) {
        (true, _) => Subject::Machine,
        (false, Some(pid)) => Subject::Process(pid),
        (false, None) => Subject::Program,
    };
    let of_machine = subject == Subject::Machine;
    let mut words = args.program;
    let program = match words.is_empty() {
        true => None,
        false => {
            let path = std::env::var_os("PATH");
            let program = launch::find_command(&mut words, path.as_deref())?;
            Some((program, words))
        }
    };
    let options = Options {
        subject,
        stacks,
        waits: args.off_cpu,
        budget: args.budget.unwrap_or(BUDGET),
        rate: args.rate.or((!of_machine).then_some(RATE)),
        pages: host::stress()?.ring as usize,
        duration: args.duration,
        program,
        inherited: inherited::inherited(),
    };
    let guard = interrupt::guard();
    let recording = record(&options, &guard)?;
    let written = match of_machine {
        true => trommel_store::write_private(&args.output, &recording.profiles)?,
        false => trommel_store::write_each(
            &args.output,
            recording.profiles.iter().map(std::borrow::Cow::Borrowed),
        )?,
    };
    drop(guard);
    if !args.quiet {
        let mut text = Vec::new();
        // A page that is written needs no command.
        let focus = match stacks && !of_machine && args.html.is_none() {
            true => Focus::Contexts,
            false => Focus::Functions,
        };
        summary::of_machine(&mut text, &recording.profiles, summary::LINES - 2)?;
        next_steps(&mut text, &args.output, &written, None, &focus.command())?;
        // In one piece, so that it does not mix with what else is written there.
        let _ = std::io::stderr().write_all(&text);
    }
    if let Some(page) = &args.html {
        page::of_file(&args.output, page)?;
    }
    Ok(match recording.ended {
        None => ExitCode::SUCCESS,
        Some(status) => exit::like(outcome(status)),
    })
}

/// Checks that what is asked for can be told by samples.
fn check(args: &RecordArgs, stacks: bool) -> Result<()> {
    let way = match (args.all, stacks) {
        (true, _) => "--all",
        (false, true) if args.off_cpu => "--off-cpu",
        (false, true) => "-e stack",
        (false, false) => "--samples",
    };
    if args.events.is_some_and(|events| !events.stacks) {
        bail!("{way} counts no events: leave out -e, or say -e stack");
    }
    if args.all {
        return Ok(());
    }
    for (given, option) in [
        (
            args.budget.is_some(),
            "--budget: say --rate instead, which decides the cost",
        ),
        (args.window.is_some(), "--window"),
        (args.query.is_some(), "--query"),
        (args.module_lib.is_some(), "--module-lib"),
        (args.stream.is_some(), "--stream"),
        (args.converge.is_some(), "--converge"),
        (args.compressor.is_some(), "-c"),
        (args.exact_values, "--exact-values"),
        (!args.only.is_empty(), "--only"),
        (args.by_caller, "--by-caller"),
        (args.no_follow, "--no-follow"),
        (args.stats.is_some(), "--stats"),
    ] {
        if given {
            bail!("{way} samples the program natively, and does not go with {option}");
        }
    }
    Ok(())
}

fn outcome(status: ExitStatus) -> ProgramEnd {
    match (status.code(), status.signal()) {
        (Some(code), _) => ProgramEnd::Exited(code as u8),
        (None, Some(signal)) => ProgramEnd::Signaled(signal),
        (None, None) => {
            output::complain("the program's end was not seen");
            ProgramEnd::Exited(1)
        }
    }
}
