//! `trommel report`: a profile for people ([`text`]) and for programs ([`json`]).

mod custom;
mod database;
pub(crate) mod filter;
mod json;
mod paths;
pub(crate) mod place;
pub(crate) mod processes;
mod queries;
pub(crate) mod samples;
pub(crate) mod summary;
pub(crate) mod table;
mod text;
pub(crate) mod view;
pub(crate) mod windows;

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::{Result, bail};
use trommel_profile::confidence::Confidence;
use trommel_symbol::Files;

use crate::args::ReportArgs;
use crate::load;
use crate::output;
use view::View;

/// Entries of each kind that people are shown unless they ask for more.
const DEFAULT_TOP: usize = 20;

/// Runs the command.
pub(crate) fn run(args: &ReportArgs) -> Result<ExitCode> {
    let mut loaded = load::profiles(&args.source.file, &args.source.select)?;
    let file = &args.source.file;
    if !args.pid.is_empty() {
        let there: BTreeSet<u32> = loaded.profiles.iter().map(|p| p.origin.pid).collect();
        if let Some(missing) = args.pid.iter().find(|pid| !there.contains(pid)) {
            bail!(
                "{}: holds no process {missing}, only: {}",
                file.display(),
                some(&there)
            );
        }
        loaded.profiles.retain_mut(|p| {
            let is_wanted = args.pid.contains(&p.origin.pid);
            let machine = p.samples.as_mut().filter(|s| s.machine.is_some());
            // What is reported of the machine is reported of all of it.
            if let Some(samples) = machine {
                samples.places.clear();
                samples.entered.clear();
                samples.threads.clear();
                return true;
            }
            is_wanted
        });
    }
    let (mut profile, rows, database) = loaded.merge()?;
    // Of all kinds together: they went through one compressor, each process through its own.
    let confidence = Confidence::of_processes(&profile, rows.len());
    if let Some(kind) = args.event {
        if !profile.kinds.contains_key(&kind) {
            let there: Vec<_> = profile.kinds.keys().map(|k| k.name()).collect();
            bail!(
                "{}: holds no `{kind}` events, only: {}; record them with `trommel record -e {kind}`",
                file.display(),
                if there.is_empty() {
                    "none".into()
                } else {
                    there.join(", ")
                }
            );
        }
        profile.kinds.retain(|k, _| *k == kind);
    }
    let top = match (args.top, args.json) {
        (Some(0), _) | (None, true) => usize::MAX,
        (Some(n), _) => n,
        (None, false) => DEFAULT_TOP,
    };
    let files = Files::new();
    let symbols = load::symbols(&files, &profile);
    let mut view = View::new(&profile, symbols, confidence);
    let mut out = output::stdout();
    if args.json {
        json::write(&mut out, &mut view, &rows, database.as_ref(), top)?;
    } else {
        let style = table::Style::new(output::colours(&std::io::stdout()));
        if let Some(about) = &database {
            database::write(&mut out, about)?;
        }
        text::write(&mut out, &mut view, &rows, top, style, file)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The first of many numbers.
fn some(numbers: &BTreeSet<u32>) -> String {
    const SHOWN: usize = 20;
    let shown: Vec<String> = numbers.iter().take(SHOWN).map(u32::to_string).collect();
    let more = if numbers.len() > SHOWN { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}
