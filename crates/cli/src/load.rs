//! Input of commands that show profiles: a profile file, or a database of profiles.
//!
//! One function serves all commands, so each works on both. A database has a profile for each process, and these were made *apart*
//! (`profile/src/merge.rs`). Those of a file were made together.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use trommel_profile::Profile;
use trommel_profile::{KindProfile, Module};
use trommel_store::StoreError;
use trommel_store::database::{Database, Dropped, EpochFilter, Reading, Span};
use trommel_symbol::{Files, Placed, Symbols};
use trommel_tuple::{ModuleId, Place};

use crate::args::SelectArgs;
use crate::output;
use crate::report::processes::{self, Row};

/// Profiles, and where they are from.
pub(crate) struct Loaded {
    path: PathBuf,
    pub(crate) profiles: Vec<Profile>,
    /// The same with all modules, where only some are wanted: what comes to these from others.
    pub(crate) whole: Option<Vec<Profile>>,
    /// The database, where it is one.
    pub(crate) database: Option<About>,
}

/// Contents of a database beside profiles.
#[derive(Debug)]
pub(crate) struct About {
    pub(crate) path: PathBuf,
    pub(crate) files: u64,
    pub(crate) span: Span,
    pub(crate) hosts: Vec<String>,
    /// Programs and their build ids.
    pub(crate) programs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Files that were left out: why.
    pub(crate) skipped: Vec<String>,
    pub(crate) dropped: Vec<Dropped>,
}

/// Reads what the arguments say, for a command that needs a recording of its own sort. Where there is none the error has the command that makes one.
pub(crate) fn made_by(path: &Path, args: &SelectArgs, command: &str) -> Result<Loaded> {
    profiles(path, args).map_err(|error| match error.downcast_ref() {
        Some(StoreError::Missing { path }) => anyhow!(
            "{}: no such file; make one with `{command}`, or name another",
            path.display()
        ),
        _ => error,
    })
}

/// Reads what the arguments say. Files of a database that cannot be read are left out, and named on stderr.
pub(crate) fn profiles(path: &Path, args: &SelectArgs) -> Result<Loaded> {
    let mut loaded = match path.is_dir() {
        true => of_database(path, args)?,
        false => {
            if path.exists() && (args.since.is_some() || args.until.is_some()) {
                bail!(
                    "{}: --since and --until are for databases, and this is a profile file: leave them out",
                    path.display()
                );
            }
            Loaded {
                path: path.to_owned(),
                profiles: trommel_store::read(path)?,
                whole: None,
                database: None,
            }
        }
    };
    if !args.module.is_empty() || !args.build_id.is_empty() {
        let mut found = false;
        loaded.whole = Some(loaded.profiles.clone());
        for profile in &mut loaded.profiles {
            found |= narrow(profile, args);
        }
        if !found {
            let between = match args.module.is_empty() || args.build_id.is_empty() {
                true => "",
                false => " and has build id ",
            };
            bail!(
                "{}: no module is called {}{between}{}; `trommel report --json` lists all of them under `modules`",
                path.display(),
                args.module.join(" or "),
                args.build_id.join(" or ")
            );
        }
    }
    Ok(loaded)
}

impl Loaded {
    /// Leaves only these processes; all, where none is named.
    ///
    /// # Errors
    /// There is no such process.
    pub(crate) fn only(&mut self, file: &Path, pids: &[u32]) -> Result<()> {
        if pids.is_empty() {
            return Ok(());
        }
        let there: BTreeSet<u32> = self.profiles.iter().map(|p| p.origin.pid).collect();
        if let Some(missing) = pids.iter().find(|pid| !there.contains(pid)) {
            bail!(
                "{}: holds no process {missing}, only: {}",
                file.display(),
                some(&there)
            );
        }
        self.profiles.retain_mut(|p| {
            let is_wanted = pids.contains(&p.origin.pid);
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
        if let Some(whole) = &mut self.whole {
            whole.retain(|p| pids.contains(&p.origin.pid));
        }
        Ok(())
    }

    /// All in one, with a row for each process, and what the database held.
    ///
    /// # Errors
    /// There is no process.
    pub(crate) fn merge(self) -> Result<(Profile, Vec<Row>, Option<About>)> {
        let apart = self.database.is_some();
        match processes::merge(self.profiles, apart) {
            Some((profile, rows)) => Ok((profile, rows, self.database)),
            None => bail!("{}: holds no process", self.path.display()),
        }
    }
}

fn of_database(path: &Path, args: &SelectArgs) -> Result<Loaded> {
    let time = (args.since.is_some() || args.until.is_some()).then(|| Span {
        from: args.since.unwrap_or(0),
        to: args.until.unwrap_or(u64::MAX),
    });
    let Reading {
        processes,
        files,
        span,
        hosts,
        programs,
        skipped,
        dropped,
    } = Database::at(path).read(&EpochFilter { time })?;
    for error in &skipped {
        output::complain(&format!("left out: {error}"));
    }
    let Some(span) = span else {
        let of_time = if time.is_some() { " of that time" } else { "" };
        let read = if skipped.is_empty() {
            ""
        } else {
            " that can be read"
        };
        bail!(
            "{}: the directory holds no epochs{of_time}{read}; `trommel daemon --db {0}` writes them",
            path.display()
        );
    };
    let database = Some(About {
        path: path.to_owned(),
        files,
        span,
        hosts: hosts.into_iter().collect(),
        programs: programs.into_iter().collect(),
        skipped: skipped.iter().map(ToString::to_string).collect(),
        dropped,
    });
    Ok(Loaded {
        path: path.to_owned(),
        profiles: processes,
        whole: None,
        database,
    })
}

/// Names alone, for screens: they show no lines, and debug information would be read anew for each, which costs more than what is watched.
pub(crate) fn names<'f>(files: &'f Files, profile: &Profile) -> Symbols<'f> {
    symbols(files, profile).with_debug_limit(0)
}

/// The symbols of a profile's modules: of files, and of functions that the profile has: the kernel's, and those of JIT-compiled code.
pub(crate) fn symbols<'f>(files: &'f Files, profile: &Profile) -> Symbols<'f> {
    let mut symbols = Symbols::new(files, &profile.modules).with_complaints(output::complain);
    let machine = profile.samples.as_ref().and_then(|s| s.machine.as_ref());
    for module in &profile.modules {
        let functions = machine.iter().flat_map(|machine| &machine.functions);
        let functions = functions.chain(&profile.compiled);
        let functions = functions.filter(|function| function.module == module.path);
        let placed: Vec<Placed<'_>> = functions
            .map(|function| Placed {
                start: function.start,
                size: function.size,
                name: &function.name,
                code: &function.code,
            })
            .collect();
        if !placed.is_empty() {
            symbols.set_image(module.id, trommel_symbol::image(&placed, &module.build_id));
        }
    }
    symbols
}

/// The modules that are wanted.
pub(crate) fn wanted(profile: &Profile, args: &SelectArgs) -> Vec<ModuleId> {
    let wanted = profile
        .modules
        .iter()
        .filter(|module| is_wanted(module, &args.module, &args.build_id));
    wanted.map(|module| module.id).collect()
}

/// Leaves only what instructions of the modules did that are wanted. Returns true if there is such a module.
fn narrow(profile: &mut Profile, args: &SelectArgs) -> bool {
    let wanted = wanted(profile, args);
    let is_in = |place: &Place| wanted.contains(&place.module());
    for KindProfile { seen, counts, .. } in profile.kinds.values_mut() {
        counts.retain(|place, _| is_in(place));
        let all = counts.values().flatten().map(|(_, count)| *count);
        *seen = all.fold(0, u64::saturating_add);
    }
    profile.sites.retain(|place, _| is_in(place));
    if let Some(windows) = &mut profile.windows {
        for (kind, sites) in &mut windows.sites {
            sites.retain(|place, _| is_in(place));
            // Not all values of an instruction are listed.
            if let Some(data) = profile.kinds.get_mut(kind) {
                let executions = sites.values().map(|sampled| sampled.executions);
                data.seen = executions.sum::<f64>().round() as u64;
                data.messages = sites.values().map(|sampled| sampled.samples).sum();
            }
        }
        // Draws of a part are not known.
        windows.rare = None;
        windows.pairs.retain(|pair, _| is_in(&pair.load));
    }
    if let Some(samples) = &mut profile.samples {
        samples.places.retain(|place, _| is_in(place));
        samples.entered.retain(|place, _| is_in(place));
    }
    if let Some(intervals) = &mut profile.intervals {
        intervals.retain(|candidate| is_in(&candidate.tuple.pc));
    }
    !wanted.is_empty()
}

/// Returns true if a module has one of these names, and one of these build ids; without any names, or any build ids, all have one.
pub(crate) fn is_wanted(module: &Module, names: &[String], build_ids: &[String]) -> bool {
    let path = String::from_utf8_lossy(&module.path);
    let named = |name: &String| path == name.as_str() || path.rsplit('/').next() == Some(name);
    let build = module.build_name();
    let built = |id: &String| !id.is_empty() && build.starts_with(&id.to_ascii_lowercase());
    (names.is_empty() || names.iter().any(named))
        && (build_ids.is_empty() || build_ids.iter().any(built))
}

/// The first of many numbers.
fn some(numbers: &BTreeSet<u32>) -> String {
    const SHOWN: usize = 20;
    let shown: Vec<String> = numbers.iter().take(SHOWN).map(u32::to_string).collect();
    let more = if numbers.len() > SHOWN { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}
