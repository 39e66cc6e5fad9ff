//! `trommel record`: run a program, write its profile, say what was found.
//!
//! All that can be wrong with the arguments is found before the program starts: the program
//! itself, the destination, the compressor. Once the program has run, its profile is written
//! first; the summary comes after and cannot lose it.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use trommel_symbol::launch;

use crate::args::RecordArgs;
use crate::compress;
use crate::exit::{self, Outcome};
use crate::host::{self, Options};
use crate::inherited;
use crate::output;
use crate::report::summary;

/// Runs the command.
pub(crate) fn run(args: RecordArgs) -> Result<ExitCode> {
    let compressor = compress::parse(&args.compressor)?;
    let program = launch::resolve(&args.program[0], std::env::var_os("PATH").as_deref())?;
    trommel_store::check_destination(&args.output)?;
    if let Some(stream) = &args.stream {
        trommel_store::check_destination(stream)?;
    }
    let stream = args.stream.clone();
    let options = Options {
        program,
        arguments: args.program,
        inherited: inherited::inherited(),
        kinds: args.events,
        compressor,
        stream: args.stream,
        only: args.only,
    };
    let (recording, outcome) = host::record(options)?;
    let written = trommel_store::write(&args.output, &recording.profile);
    if let Err(error) = &written {
        output::complain(&error.to_string());
    }
    if !args.quiet {
        let mut text = Vec::new();
        summary::write(&mut text, &recording.profile)?;
        if let Ok(written) = &written {
            next_steps(&mut text, &args.output, written, stream.as_deref())?;
        }
        // In one piece, so that it does not mix with what else is written there.
        let _ = std::io::stderr().write_all(&text);
    }
    match outcome {
        // A script must not take a lost profile for a success.
        Outcome::Exited(0) if written.is_err() => Ok(ExitCode::FAILURE),
        outcome => Ok(exit::like(outcome)),
    }
}

fn next_steps(
    out: &mut impl Write,
    path: &Path,
    written: &trommel_store::Written,
    stream: Option<&Path>,
) -> std::io::Result<()> {
    let shown = output::printable(&path.display().to_string());
    let old = written
        .old
        .as_deref()
        .map(|old| format!("; the earlier one is {}", old.display()));
    let old = output::printable(&old.unwrap_or_default());
    writeln!(
        out,
        "trommel: wrote {shown} ({} bytes){old}",
        output::grouped(written.bytes)
    )?;
    if let Some(stream) = stream {
        writeln!(
            out,
            "trommel: wrote {}: trommel stream info {0}",
            output::printable(&stream.display().to_string())
        )?;
    }
    let argument = match path == Path::new(trommel_store::DEFAULT_FILE) {
        true => String::new(),
        false => format!(
            " {}",
            output::command_line(&[path.as_os_str().as_encoded_bytes().to_vec()])
        ),
    };
    writeln!(out, "trommel: next: trommel report{argument}")
}
