//! Completions and manual pages, generated from the description of the arguments.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::CommandFactory;

use crate::args::Arguments;
use crate::output;

/// Prints the completion script for `shell`.
pub(crate) fn completions(shell: clap_complete::Shell) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "trommel", &mut script);
    print(&script)
}

/// Prints the manual page of `command`, or of trommel itself.
pub(crate) fn man(command: Option<&str>) -> Result<ExitCode> {
    let mut root = Arguments::command();
    root.build();
    let described = match command {
        None => root,
        Some(name) => {
            let found = root.find_subcommand(name).cloned();
            let found = found.with_context(|| {
                format!("{name}: no such command, so it has no manual page; see `trommel help`")
            })?;
            // Otherwise the page would say only `record`.
            let name: &'static str = Box::leak(format!("trommel-{name}").into_boxed_str());
            found.name(name)
        }
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(described).render(&mut page)?;
    print(&page)
}

fn print(bytes: &[u8]) -> Result<ExitCode> {
    let mut out = output::verbatim();
    out.write_all(bytes)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
