//! `trommel diff`: what changed between two profiles, function by function.
//!
//! # Problem
//! Two profiles of two builds have the same functions at other addresses. Of estimates it matters whether a change is one.
//!
//! # Strategy
//! Functions are the same where their names in the file and the names of their files are. Those without a name are the same where they have the
//! same address in files of one build id; else they are one entry of their file. The verdict on an entry follows from the limits of both
//! counts: *changed* where these do not meet, *same* where they leave less than a hundredth of the program open, else *unknown*.

mod write;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use trommel_code::{Count, Program};
use trommel_profile::confidence::{Basis, Confidence};
use trommel_profile::limits::Limits;
use trommel_profile::{Module, Profile};
use trommel_symbol::{Files, demangle};
use trommel_tuple::ModuleId;

use crate::args::DiffArgs;
use crate::load;
use crate::output;
use crate::report::table::Style;

/// Exit status when the program got worse than was allowed.
pub(crate) const WORSE: u8 = 3;

/// One of the two profiles.
pub(super) struct Side {
    pub(super) path: String,
    pub(super) profile: Profile,
    basis: Basis,
    pub(super) executed: Count,
    functions: BTreeMap<Key, (Count, Count)>,
}

/// Identity of a function across builds.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Key {
    /// Name of the file, without directories.
    module: String,
    /// The name in the file, or the address in files of one build.
    name: Vec<u8>,
}

/// Knowledge of a difference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Change {
    Changed,
    Same,
    Unknown,
}

impl Change {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Same => "same",
            Self::Unknown => "unknown",
        }
    }
}

/// A function in both profiles.
pub(super) struct Entry {
    pub(super) module: String,
    pub(super) linkage_name: String,
    pub(super) name: String,
    /// Executed code of both, in the unit of the profiles.
    pub(super) own: [Count; 2],
    pub(super) calls: [Count; 2],
    pub(super) verdict: Change,
}

impl Entry {
    pub(super) fn change(&self) -> f64 {
        self.own[1].times - self.own[0].times
    }
}

/// Both profiles, and how they differ.
pub(super) struct Difference {
    pub(super) sides: [Side; 2],
    /// Those that differ most first.
    pub(super) entries: Vec<Entry>,
}

impl Difference {
    /// The change of all executed code, in percent of the first profile's.
    pub(super) fn percent(&self) -> f64 {
        let [a, b] = [0, 1].map(|n: usize| self.sides[n].executed.times);
        100.0 * (b - a) / a.max(1.0)
    }
}

const NOTHING: Count = Count::of_events(0.0, None);

/// Runs the command.
pub(crate) fn run(args: &DiffArgs) -> Result<ExitCode> {
    let files = Files::new();
    let sides = [&args.before, &args.after].map(|path| side(path, &files, args));
    let [before, after] = sides;
    let sides = [before?, after?];
    comparable(&sides)?;
    let difference = compare(sides);
    let mut out = output::stdout();
    if args.json {
        write::json(&mut out, &difference, args.top())?;
    } else if args.markdown {
        write::markdown(&mut out, &difference, args.top(), args.full_names)?;
    } else {
        let style = Style::of(&std::io::stdout());
        write::text(&mut out, &difference, args.top(), style, args.full_names)?;
    }
    Ok(match args.fail_above {
        Some(most) if difference.percent() > most => ExitCode::from(WORSE),
        _ => ExitCode::SUCCESS,
    })
}

/// Refuses instructions against time.
fn comparable(sides: &[Side; 2]) -> Result<()> {
    let [before, after] = sides;
    let [of_before, of_after] = [before, after].map(|side| side.profile.unit());
    if of_before == of_after {
        return Ok(());
    }
    bail!(
        "{} has {}, and {} has {}: record both in windows, or neither",
        before.path,
        of_before.in_words(),
        after.path,
        of_after.in_words(),
    )
}

fn side(path: &Path, files: &Files, args: &DiffArgs) -> Result<Side> {
    let mut loaded = load::profiles(path, &args.select)?;
    if let Some(whole) = loaded.whole.take() {
        loaded.profiles = whole;
    }
    let (profile, rows, _) = loaded.merge()?;
    let symbols = load::symbols(files, &profile);
    let mut confidence = Confidence::of_processes(&profile, rows.len());
    let basis = confidence.basis();
    let Some(program) = Program::new(&profile, &symbols, &mut confidence) else {
        bail!(
            "{}: functions follow from branches and calls, and this profile has not both: record with \
             `trommel record -e edge,call`",
            path.display()
        );
    };
    let wanted = match args.select.module.is_empty() && args.select.build_id.is_empty() {
        true => None,
        false => Some(load::wanted(&profile, &args.select)),
    };
    let mut functions: BTreeMap<Key, (Count, Count)> = BTreeMap::new();
    let mut executed = NOTHING;
    for function in &program.functions {
        if wanted
            .as_ref()
            .is_some_and(|all| !all.contains(&function.module))
        {
            continue;
        }
        let key = key(&profile, function);
        let sum = functions.entry(key).or_insert((NOTHING, NOTHING));
        *sum = (sum.0.plus(function.executed), sum.1.plus(function.calls));
        executed = executed.plus(function.executed);
    }
    Ok(Side {
        path: path.display().to_string(),
        profile,
        basis,
        executed,
        functions,
    })
}

fn key(profile: &Profile, function: &trommel_code::Function) -> Key {
    let module = profile.module(function.module);
    let name = match (&function.name[..], function.start()) {
        (b"", Some(start)) => {
            let build: &[u8] = module.map_or(&[], |m: &Module| &m.build_id);
            let hex: String = build.iter().take(4).map(|b| format!("{b:02x}")).collect();
            format!("\0{hex}+{:#x}", start.vaddr().0).into_bytes()
        }
        (b"", None) => b"\0".to_vec(),
        (name, _) => name.to_vec(),
    };
    Key {
        module: module.map_or_else(String::new, file_name),
        name,
    }
}

fn file_name(module: &Module) -> String {
    if module.id == ModuleId::ANON {
        return "[anon]".to_owned();
    }
    let path = String::from_utf8_lossy(&module.path);
    path.rsplit('/').next().unwrap_or(&path).to_owned()
}

/// Puts both together.
fn compare(mut sides: [Side; 2]) -> Difference {
    fold_unnamed(&mut sides);
    let mut keys: Vec<Key> = sides
        .iter()
        .flat_map(|s| s.functions.keys().cloned())
        .collect();
    keys.sort_unstable();
    keys.dedup();
    let whole = sides[0].executed.times.max(sides[1].executed.times);
    let exact = sides.iter().all(|side| side.basis == Basis::Exact);
    let mut entries: Vec<Entry> = (keys.into_iter())
        .map(|key| {
            let of = |n: usize| sides[n].functions.get(&key).copied();
            let [a, b] = [0, 1].map(|n| of(n).unwrap_or((NOTHING, NOTHING)));
            let linkage_name = match key.name.first() {
                Some(0) => String::new(),
                _ => String::from_utf8_lossy(&key.name).into_owned(),
            };
            Entry {
                name: name(&key),
                module: key.module,
                linkage_name,
                own: [a.0, b.0],
                calls: [a.1, b.1],
                verdict: verdict(&a.0, &b.0, exact, whole),
            }
        })
        .collect();
    entries.sort_by(|a, b| {
        let more = b.change().abs().total_cmp(&a.change().abs());
        more.then_with(|| (&a.module, &a.linkage_name).cmp(&(&b.module, &b.linkage_name)))
    });
    Difference { sides, entries }
}

/// Adds up functions without names in files that differ: their addresses say nothing of each other.
fn fold_unnamed(sides: &mut [Side; 2]) {
    let builds = |side: &Side| -> BTreeMap<String, Vec<u8>> {
        let modules = side.profile.modules.iter();
        modules
            .map(|m| (file_name(m), m.build_id.clone()))
            .collect()
    };
    let all = [builds(&sides[0]), builds(&sides[1])];
    for side in sides {
        let functions = std::mem::take(&mut side.functions);
        for (mut key, counts) in functions {
            let same = all[0].get(&key.module) == all[1].get(&key.module);
            if key.name.first() == Some(&0) && !same {
                key.name = b"\0".to_vec();
            }
            let sum = side.functions.entry(key).or_insert((NOTHING, NOTHING));
            *sum = (sum.0.plus(counts.0), sum.1.plus(counts.1));
        }
    }
}

fn name(key: &Key) -> String {
    match &key.name[..] {
        [0] => "(functions without names)".to_owned(),
        [0, rest @ ..] => {
            let rest = String::from_utf8_lossy(rest);
            let at = rest.find('+').unwrap_or(0);
            format!("{}{}", key.module, &rest[at..])
        }
        name => demangle(name),
    }
}

fn verdict(a: &Count, b: &Count, exact: bool, whole: f64) -> Change {
    /// Part of the program that may be open where nothing changed.
    const OPEN: f64 = 0.01;
    if exact {
        return match a.times == b.times {
            true => Change::Same,
            false => Change::Changed,
        };
    }
    let (Some(a), Some(b)) = (known(a), known(b)) else {
        return Change::Unknown;
    };
    if a.high < b.low || b.high < a.low {
        return Change::Changed;
    }
    let most = (b.high - a.low).max(a.high - b.low);
    match most <= OPEN * whole {
        true => Change::Same,
        false => Change::Unknown,
    }
}

/// The limits of a count. What was never seen has none.
fn known(count: &Count) -> Option<Limits> {
    let nothing = Limits {
        low: 0.0,
        high: 0.0,
    };
    count.limits.or((count.times == 0.0).then_some(nothing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_follow_from_limits() {
        let count = |times: f64, off: f64| {
            let limits = Limits {
                low: times - off,
                high: times + off,
            };
            Count::of_events(times, Some(limits))
        };
        let verdict = |a: &Count, b: &Count| verdict(a, b, false, 1e6);
        assert_eq!(verdict(&count(1e5, 1e3), &count(2e5, 1e3)), Change::Changed);
        assert_eq!(verdict(&count(1e5, 1e3), &count(1.01e5, 1e3)), Change::Same);
        assert_eq!(
            verdict(&count(1e5, 5e4), &count(1.2e5, 5e4)),
            Change::Unknown
        );
        let unknown = Count::of_events(1e5, None);
        assert_eq!(verdict(&unknown, &unknown), Change::Unknown);
        assert_eq!(super::verdict(&unknown, &unknown, true, 1e6), Change::Same);
    }
}
