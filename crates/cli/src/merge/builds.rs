//! Builds of the same program in one sum.
//!
//! Addresses of one build say nothing about another, so each build is a module of its own. A *stale* profile, one of an older build, may
//! still fit in part: functions of which name and size are the same have mostly the same code. Its share of the older build's
//! branches and calls is how much of the stale profile is worth keeping. It can be told only where the files of both builds are there.

use std::collections::{BTreeMap, BTreeSet};

use trommel_profile::{Build, Module, Profile};
use trommel_symbol::Symbols;
use trommel_tuple::{Kind, ModuleId, Place};

/// A file of which the sum has several builds.
pub(super) struct Program {
    /// Name of the file, without directories.
    pub(super) name: String,
    /// The newest one first.
    pub(super) builds: Vec<OneBuild>,
}

/// A build.
pub(super) struct OneBuild {
    pub(super) path: String,
    /// In hexadecimal; of a file without one `code-` and a checksum; empty where neither is known.
    pub(super) build_id: String,
    /// Branches and calls that it executed.
    pub(super) events: u64,
    /// Share of these in functions that the newest build has too, or why it is not known; `None` of the newest.
    pub(super) fits: Option<Result<f64, String>>,
}

/// Name and size of functions.
type Functions = BTreeSet<(Vec<u8>, u64)>;

/// Finds files with several builds that executed something.
pub(super) fn of(
    profile: &Profile,
    newest: &BTreeMap<Build, u64>,
    symbols: &Symbols<'_>,
) -> Vec<Program> {
    let places = executed(profile);
    let mut by_name: BTreeMap<String, Vec<&Module>> = BTreeMap::new();
    for module in &profile.modules {
        let is_file = module.path.first() == Some(&b'/');
        if is_file && places.contains_key(&module.id) {
            by_name.entry(file_name(module)).or_default().push(module);
        }
    }
    let started = |module: &Module| newest.get(&module.build()).copied().unwrap_or_default();
    let mut programs = Vec::new();
    for (name, mut modules) in by_name {
        modules.sort_by_key(|m| (std::cmp::Reverse(started(m)), m.id));
        let id = |m: &Module| (m.build_id.clone(), m.code);
        let ids: BTreeSet<_> = modules.iter().map(|m| id(m)).collect();
        if ids.len() < 2 {
            continue;
        }
        let builds = modules.iter().map(|module| OneBuild {
            path: String::from_utf8_lossy(&module.path).into_owned(),
            build_id: module.build_name(),
            events: places[&module.id]
                .values()
                .fold(0, |sum, n| u64::saturating_add(sum, *n)),
            fits: (id(module) != id(modules[0]))
                .then(|| fits(symbols, module.id, modules[0].id, &places[&module.id])),
        });
        programs.push(Program {
            builds: builds.collect(),
            name,
        });
    }
    programs
}

fn file_name(module: &Module) -> String {
    let path = String::from_utf8_lossy(&module.path);
    path.rsplit('/').next().unwrap_or(&path).to_owned()
}

/// Branches and calls of each module, by address.
fn executed(profile: &Profile) -> BTreeMap<ModuleId, BTreeMap<Place, u64>> {
    let mut all: BTreeMap<ModuleId, BTreeMap<Place, u64>> = BTreeMap::new();
    for kind in [Kind::Edge, Kind::Call] {
        let places = profile.kinds.get(&kind).into_iter().flat_map(|k| &k.counts);
        for (place, counts) in places {
            let sum = all
                .entry(place.module())
                .or_default()
                .entry(*place)
                .or_default();
            let more = counts.iter().map(|(_, count)| *count);
            *sum = more.fold(*sum, u64::saturating_add);
        }
    }
    all
}

/// The share of events in functions with the same name and size in both builds.
fn fits(
    symbols: &Symbols<'_>,
    stale: ModuleId,
    newest: ModuleId,
    events: &BTreeMap<Place, u64>,
) -> Result<f64, String> {
    let named = |module| {
        let functions = symbols.functions(module);
        match functions.is_empty() {
            false => Ok(functions),
            true => Err(match symbols.problem(module) {
                Some(problem) => problem.to_owned(),
                None => "a build has no function symbols".to_owned(),
            }),
        }
    };
    let stale = named(stale)?;
    let there: Functions = named(newest)?
        .into_iter()
        .map(|f| (f.name, f.range.end - f.range.start))
        .collect();
    let (mut kept, mut all) = (0.0, 0.0);
    for (place, count) in events {
        let at = place.vaddr().0;
        // Functions of one address have several names, of which one is enough.
        let after = stale.partition_point(|f| f.range.start <= at);
        let mut own = stale[..after].iter().rev().take_while(|f| f.range.end > at);
        let same = own.any(|f| there.contains(&(f.name.clone(), f.range.end - f.range.start)));
        all += *count as f64;
        kept += if same { *count as f64 } else { 0.0 };
    }
    match all > 0.0 {
        true => Ok(kept / all),
        false => Err("it executed no branches or calls".to_owned()),
    }
}
