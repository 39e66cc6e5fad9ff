//! `trommel record --all`: samples of the whole machine, of which a profile is made that its owner alone may read.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

use anyhow::Result;
use trommel_host::kernel::interrupt;
use trommel_host::machine::{Options, record};
use trommel_symbol::launch;

use crate::args::RecordArgs;
use crate::exit::{self, ProgramEnd};
use crate::host;
use crate::inherited;
use crate::next::next_steps;
use crate::output;
use crate::report::summary;

/// Percent of all processors' time, where nothing is said.
const BUDGET: f64 = 1.0;

/// Runs the command.
pub(crate) fn run(args: RecordArgs) -> Result<ExitCode> {
    trommel_store::check_destination(&args.output)?;
    let program = match args.program.first() {
        None => None,
        Some(name) => {
            let path = std::env::var_os("PATH");
            let program = launch::find(name, path.as_deref())?;
            Some((program, args.program))
        }
    };
    let options = Options {
        budget: args.budget.unwrap_or(BUDGET),
        rate: args.rate,
        pages: host::stress()?.ring as usize,
        duration: args.duration,
        program,
        inherited: inherited::inherited(),
    };
    let guard = interrupt::guard();
    let recording = record(&options, &guard)?;
    let written = trommel_store::write_private(&args.output, &recording.profiles)?;
    drop(guard);
    if !args.quiet {
        let mut text = Vec::new();
        summary::of_machine(&mut text, &recording.profiles)?;
        next_steps(&mut text, &args.output, &written, None, "report")?;
        // In one piece, so that it does not mix with what else is written there.
        let _ = std::io::stderr().write_all(&text);
    }
    Ok(match recording.ended {
        None => ExitCode::SUCCESS,
        Some(status) => exit::like(outcome(status)),
    })
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
