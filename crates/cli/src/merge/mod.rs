//! `trommel merge`: recordings added up into one profile.
//!
//! What may be added up, and how, is in `trommel_profile::recordings`. This file reads the recordings one after the other, so that only the
//! sum and one of them are in memory. It writes the sum whole or not at all.

mod builds;
mod write;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use trommel_profile::confidence::{Basis, Confidence};
use trommel_profile::recordings::Recordings;
use trommel_profile::{Profile, Sum};
use trommel_store::Written;
use trommel_symbol::Files;

use crate::args::{MergeArgs, SelectArgs};
use crate::exit;
use crate::load;
use crate::output;
use crate::pipes;

/// A file or database that was added.
struct Input {
    path: PathBuf,
    database: bool,
    /// Extent of what it added.
    sum: Sum,
    /// Files of the database that were left out, with the reason.
    left_out: Vec<String>,
}

/// Result of merging.
struct Merge {
    inputs: Vec<Input>,
    sum: Sum,
    basis: Basis,
    /// The modules that are there in several builds.
    programs: Vec<builds::Program>,
    written: Written,
}

/// Runs the command.
pub(crate) fn run(args: &MergeArgs) -> Result<ExitCode> {
    exit::survive_file_limit();
    trommel_store::check_destination(&args.output)?;
    let _read = pipes::wait(&args.output)?;
    warn_of_twins(&args.inputs);
    output::last_words("interrupted: nothing was written");
    let no_database = !args.inputs.iter().any(|path| path.is_dir());
    if no_database && (args.since.is_some() || args.until.is_some()) {
        bail!(
            "--since and --until are for databases, and all inputs are profile files: leave them out"
        );
    }
    let select = SelectArgs {
        since: args.since,
        until: args.until,
        module: Vec::new(),
        build_id: Vec::new(),
    };
    let mut recordings = Recordings::default();
    let mut inputs = Vec::new();
    for path in &args.inputs {
        inputs.push(add(path, &select, &mut recordings)?);
    }
    let sum = recordings.of();
    let newest = recordings.builds().clone();
    let profile = recordings.profile().context("there is no recording")?;
    let basis = Confidence::new(&profile).basis();
    let files = Files::new();
    let programs = builds::of(&profile, &newest, &load::symbols(&files, &profile));
    let merge = Merge {
        inputs,
        sum,
        basis,
        programs,
        written: trommel_store::write(&args.output, std::slice::from_ref(&profile))?,
    };
    if args.json {
        write::json(&mut output::stdout(), args, &merge, &profile)?;
    } else {
        write::text(args, &merge, &profile);
    }
    Ok(ExitCode::SUCCESS)
}

/// Adds what is at a path.
fn add(path: &Path, select: &SelectArgs, recordings: &mut Recordings) -> Result<Input> {
    let of_file = SelectArgs {
        since: None,
        until: None,
        module: Vec::new(),
        build_id: Vec::new(),
    };
    let select = if path.is_dir() { select } else { &of_file };
    let loaded = load::profiles(path, select)?;
    let before = recordings.of();
    let database = loaded.database;
    recordings
        .add(loaded.profiles, database.is_some())
        .map_err(|unlike| anyhow!("{}: {unlike}", path.display()))?;
    let after = recordings.of();
    Ok(Input {
        path: path.to_owned(),
        sum: Sum {
            recordings: after.recordings - before.recordings,
            processes: after.processes - before.processes,
        },
        left_out: database
            .iter()
            .flat_map(|about| about.skipped.clone())
            .collect(),
        database: database.is_some(),
    })
}

/// Says which inputs were named twice. They count twice, which is rarely meant.
fn warn_of_twins(inputs: &[PathBuf]) {
    let mut seen = BTreeSet::new();
    for path in inputs {
        let whole = std::fs::canonicalize(path).unwrap_or_else(|_| path.clone());
        if !seen.insert(whole) {
            let path = path.display();
            output::complain(&format!("{path}: is named twice, and counts twice"));
        }
    }
}

/// Events of all kinds.
fn events(profile: &Profile) -> u64 {
    let seen = profile.kinds.values().map(|kind| kind.seen);
    seen.fold(0, u64::saturating_add)
}
