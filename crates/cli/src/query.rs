//! `trommel query`: check, assemble, disassemble and format relational queries, and change those of a session that runs.
//!
//! What is wrong goes to stderr with its place and the fix; results go to stdout. A file is written whole
//! or not at all.

pub(crate) mod forecast;
mod json;
mod listing;
mod running;
mod source;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use trommel_host::ask::answerable;
use trommel_query::disassemble::disassemble;
use trommel_query::{Program, assemble, format, image, parse};

use crate::args::QueryCommand;
use crate::output::{self, printable};
use crate::pipes;
use source::{Source, bytes, complain, name, text, text_of};

/// Runs the command.
pub(crate) fn run(command: &QueryCommand) -> Result<ExitCode> {
    match command {
        QueryCommand::Check { files, json } => check(files, *json),
        QueryCommand::Asm { file, output, json } => asm(file, output.as_deref(), *json),
        QueryCommand::Disasm { file } => disasm(file),
        QueryCommand::Fmt {
            files,
            write,
            check,
        } => fmt(files, *write, *check),
        QueryCommand::Load { file, name, pid } => running::load(file, name.as_deref(), *pid),
        QueryCommand::Remove { what, pid } => running::remove(what, *pid),
        QueryCommand::List { pid, json } => running::list(*pid, *json),
    }
}

/// The program in a file that is to be put to a running program, a text or assembled.
pub(crate) fn question(path: &Path) -> Result<Program> {
    let program = assembled(path)?;
    answerable::check(&program).map_err(|why| anyhow!("{}: {why}", name(path)))?;
    Ok(program)
}

/// The text of a machine, which is no longer than one of queries may be.
pub(crate) fn machine_text(path: &Path) -> Result<String> {
    let bytes = bytes(path, trommel_query::MAX_TEXT)?;
    anyhow::ensure!(
        bytes.len() <= trommel_query::MAX_TEXT,
        "{}: no machine: it is longer than {} bytes; `trommel model --show-machine` writes one",
        name(path),
        trommel_query::MAX_TEXT
    );
    text_of(path, bytes)
}

/// The program in a file, a text or assembled, whoever answers it.
pub(crate) fn assembled(path: &Path) -> Result<Program> {
    let bytes = bytes(path, trommel_query::MAX_TEXT)?;
    // What is said of a text is said of an assembled program, too: its lines are those of `disasm`.
    let text = match bytes.starts_with(&image::MAGIC) {
        true => disassemble(
            &image::decode(&bytes)
                .map_err(|error| anyhow!("{}: not an assembled query: {error}", name(path)))?,
        ),
        false => text_of(path, bytes)?,
    };
    let assembled = assemble(&text);
    let found = match &assembled {
        Ok(assembly) => &assembly.warnings,
        Err(found) => found,
    };
    complain(&name(path), &text, found);
    let program = match assembled {
        Ok(assembly) => assembly.program,
        Err(_) => bail!("{}: nothing was run", name(path)),
    };
    Ok(program)
}

fn check(files: &[impl AsRef<Path>], json: bool) -> Result<ExitCode> {
    let sources = files.iter().map(|file| Source::read(file.as_ref()));
    let sources: Vec<Source> = sources.collect::<Result<_>>()?;
    let mut out = output::stdout();
    if json {
        json::write(&mut out, &json::checks(&sources))?;
    } else {
        for source in &sources {
            source.complain();
            if let Ok(assembly) = &source.assembled {
                listing::summary(&mut out, &source.name, &source.text, assembly)?;
            }
        }
    }
    out.flush()?;
    Ok(code(sources.iter().all(|s| s.assembled.is_ok())))
}

fn asm(file: &Path, to: Option<&Path>, json: bool) -> Result<ExitCode> {
    let source = Source::read(file)?;
    if !json {
        source.complain();
    }
    let Ok(assembly) = &source.assembled else {
        if json {
            source.complain();
        }
        return Ok(ExitCode::FAILURE);
    };
    if let Some(to) = to {
        write(to, &image::encode(&assembly.program))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = output::stdout();
    if json {
        json::write(&mut out, &json::program(&source, assembly))?;
    } else {
        listing::program(&mut out, &source.text, assembly)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn disasm(file: &Path) -> Result<ExitCode> {
    let bytes = bytes(file, image::MAX_IMAGE)?;
    let program = image::decode(&bytes)
        .map_err(|error| anyhow!("{}: not an assembled query: {error}", name(file)))?;
    let mut out = output::verbatim();
    out.write_all(disassemble(&program).as_bytes())?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn fmt(files: &[impl AsRef<Path>], in_place: bool, check: bool) -> Result<ExitCode> {
    let mut normal = true;
    let mut out = output::verbatim();
    for path in files.iter().map(AsRef::as_ref) {
        let text = text(path)?;
        let formatted = match parse(&text) {
            Ok(file) => format::format(&file),
            Err(error) => {
                complain(&name(path), &text, &[error]);
                normal = false;
                continue;
            }
        };
        let is_input = path == Path::new("-");
        if check {
            if formatted != text {
                writeln!(out, "{}", printable(&name(path)))?;
                normal = false;
            }
        } else if in_place && !is_input {
            if formatted != text {
                write(path, formatted.as_bytes())?;
            }
        } else {
            out.write_all(formatted.as_bytes())?;
        }
    }
    out.flush()?;
    Ok(code(normal))
}

/// Writes a file under another name first: a write that fails must leave no half of it.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    // What a link points to, and what is no file (a pipe, a device), is written itself.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let is_special = fs::metadata(&path).is_ok_and(|m| !m.is_file());
    let written = if is_special {
        pipes::create(&path).and_then(|mut file| file.write_all(bytes))
    } else {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(format!(".{}.tmp", std::process::id()));
        let done = fs::write(&temporary, bytes)
            .and_then(|()| match fs::metadata(&path) {
                Ok(before) => fs::set_permissions(&temporary, before.permissions()),
                Err(_) => Ok(()),
            })
            .and_then(|()| fs::rename(&temporary, &path));
        if done.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        done
    };
    written.with_context(|| {
        format!(
            "{}: cannot write there; name a file elsewhere",
            path.display()
        )
    })
}

fn code(good: bool) -> ExitCode {
    match good {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
