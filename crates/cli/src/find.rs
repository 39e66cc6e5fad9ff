//! Search for the function that is meant.
//!
//! A name is looked for in the modules of the profile, from the most to the least exact: as it is in the file or demangled; without the
//! types of its parameters; its last part (`push` of `Vec::push`); its beginning or end. The first of these that there are functions of
//! decides. Where there are several, those that have events are meant; where these are several, the user is asked.
//!
//! What compilers put elsewhere as rarely executed (`f.cold`) is part of its function.

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::{Result, anyhow, bail};
use trommel_profile::{Module, Profile};
use trommel_symbol::{Symbols, demangle, readable, readable_of_engine};
use trommel_tuple::{Kind, ModuleId, Place, Vaddr};

use crate::output::{self, grouped};

/// Candidates that the user is shown.
const SHOWN: usize = 12;

/// A function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FunctionMatch {
    pub(crate) module: ModuleId,
    /// Demangled, or the range where nothing has a name.
    pub(crate) name: String,
    /// Its parts; the first one is where it is entered.
    pub(crate) ranges: Vec<Range<u64>>,
}

impl FunctionMatch {
    /// Returns the address where the function is entered.
    pub(crate) fn entry(&self) -> u64 {
        self.ranges.first().map_or(0, |range| range.start)
    }

    /// Returns the number of events of all kinds the profile has of it; where there are none in it, of those that lead into it.
    pub(crate) fn events(&self, profile: &Profile) -> u64 {
        let place = |at| Place::new(self.module, Vaddr(at));
        let mut sum = 0_u64;
        for range in self.ranges.iter().filter(|r| r.start < r.end) {
            for data in profile.kinds.values() {
                let counts = data.counts.range(place(range.start)..place(range.end));
                let counts = counts.flat_map(|(_, counts)| counts).map(|(_, n)| *n);
                sum = counts.fold(sum, u64::saturating_add);
            }
            if let Some(samples) = &profile.samples {
                let found = samples.places.range(place(range.start)..place(range.end));
                sum = sum.saturating_add(found.map(|(_, at)| at.sampled.samples).sum());
            }
        }
        match sum {
            0 => self.arrivals(profile),
            _ => sum,
        }
    }

    /// Branches, calls and signals that lead into it: a function without any of its own has no other events.
    fn arrivals(&self, profile: &Profile) -> u64 {
        let kinds = [Kind::Edge, Kind::Call].into_iter();
        let data = kinds.filter_map(|kind| profile.kinds.get(&kind));
        let targets = data.flat_map(|data| data.counts.values()).flatten();
        let here = targets.filter(|(to, _)| {
            let to = Place::from_word(*to);
            let inside = |range: &Range<u64>| range.contains(&to.vaddr().0);
            to.module() == self.module && self.ranges.iter().any(inside)
        });
        let sum = here.fold(0_u64, |sum, (_, count)| sum.saturating_add(*count));
        let by_signal = profile
            .deliveries
            .get(&Place::new(self.module, Vaddr(self.entry())));
        by_signal.map_or(sum, |count| count.saturating_add(sum))
    }
}

/// The function that `wanted` names: a symbol, MODULE:SYMBOL, LO-HI or MODULE:LO-HI.
pub(crate) fn find(
    profile: &Profile,
    symbols: &Symbols<'_>,
    wanted: &str,
) -> Result<FunctionMatch> {
    let (modules, name) = of_module(profile, wanted);
    if let Some(range) = range(name)? {
        return by_range(profile, symbols, &modules, range, wanted);
    }
    let all = functions(symbols, &modules);
    // As tools write it: with the version of a symbol, or a part in place of the function.
    let name = name.split("@@").next().unwrap_or(name);
    let name = base(name.as_bytes()).map_or(name, |base| &name[..base.len()]);
    let (mut candidates, exact) = named(&all, name);
    if !exact {
        // Only a beginning or an end of a name: what was never seen is not meant.
        candidates.retain(|found| found.events(profile) > 0);
    }
    match &candidates[..] {
        [one] => Ok((*one).clone()),
        [] => Err(missing(profile, symbols, &modules, &all, wanted)),
        several => {
            let seen: Vec<&FunctionMatch> = (several.iter())
                .filter(|found| found.events(profile) > 0)
                .collect();
            match &seen[..] {
                [one] => Ok((*one).clone()),
                [] => Err(ambiguous(profile, several.iter(), wanted)),
                seen => Err(ambiguous(profile, seen.iter().copied(), wanted)),
            }
        }
    }
}

/// Returns true if `wanted` names the function that is called `name`, and no other.
pub(crate) fn means(profile: &Profile, symbols: &Symbols<'_>, wanted: &str, name: &str) -> bool {
    find(profile, symbols, wanted).is_ok_and(|found| found.name == name)
}

/// The modules that are meant, and what is wanted of them.
fn of_module<'p, 'w>(profile: &'p Profile, wanted: &'w str) -> (Vec<&'p Module>, &'w str) {
    let is_named = |m: &&Module| m.id != ModuleId::ANON || !profile.compiled.is_empty();
    let all = || profile.modules.iter().filter(is_named);
    let colons = wanted.match_indices(':').map(|(at, _)| at);
    for at in colons {
        let (module, rest) = (&wanted[..at], &wanted[at + 1..]);
        if module.ends_with(':') || rest.starts_with(':') {
            continue;
        }
        let is = |m: &&Module| file_name(m) == module || m.path == module.as_bytes();
        let found: Vec<&Module> = all().filter(is).collect();
        if !found.is_empty() {
            return (found, rest);
        }
    }
    (all().collect(), wanted)
}

pub(crate) fn file_name(module: &Module) -> String {
    let path = String::from_utf8_lossy(&module.path);
    path.rsplit('/').next().unwrap_or(&path).to_owned()
}

/// LO-HI in hexadecimal.
fn range(text: &str) -> Result<Option<Range<u64>>> {
    let hex = |s: &str| u64::from_str_radix(s.strip_prefix("0x").unwrap_or(s), 16).ok();
    let ends = text.split_once('-');
    let Some((Some(low), Some(high))) = ends.map(|(low, high)| (hex(low), hex(high))) else {
        return Ok(None);
    };
    if low >= high {
        bail!("{text}: the range is empty: {low:#x} is not below {high:#x}");
    }
    Ok(Some(low..high))
}

fn by_range(
    profile: &Profile,
    symbols: &Symbols<'_>,
    modules: &[&Module],
    range: Range<u64>,
    wanted: &str,
) -> Result<FunctionMatch> {
    let found: Vec<FunctionMatch> = (modules.iter())
        .map(|module| FunctionMatch {
            module: module.id,
            name: format!("{:#x}-{:#x}", range.start, range.end),
            ranges: vec![range.clone()],
        })
        .collect();
    let seen: Vec<&FunctionMatch> = found.iter().filter(|f| f.events(profile) > 0).collect();
    // As in `--only`, addresses are those of the program.
    let program = profile
        .command
        .first()
        .map(|name| String::from_utf8_lossy(name));
    let program = program
        .as_deref()
        .map(|name| name.rsplit('/').next().unwrap_or(name));
    let is_program = |f: &&&FunctionMatch| {
        let module = modules.iter().find(|m| m.id == f.module);
        module.is_some_and(|m| Some(&*file_name(m)) == program)
    };
    if let Some(found) = seen.iter().find(is_program) {
        return Ok((*found).clone());
    }
    match (&seen[..], &found[..]) {
        ([one], _) => Ok((*one).clone()),
        ([], [one]) => Ok(one.clone()),
        ([], _) => found
            .into_iter()
            .find(|f| {
                symbols
                    .code(f.module)
                    .is_ok_and(|c| c.at(range.start).is_some())
            })
            .ok_or_else(|| anyhow!("{wanted}: no module of the profile has code there")),
        _ => Err(ambiguous(profile, seen.into_iter(), wanted)),
    }
}

/// All functions of the modules, each once, with its parts.
fn functions(symbols: &Symbols<'_>, modules: &[&Module]) -> Vec<Named> {
    let mut all = Vec::new();
    for module in modules {
        let mut parts: BTreeMap<Vec<u8>, Vec<Range<u64>>> = BTreeMap::new();
        let first = all.len();
        for function in symbols.functions(module.id) {
            match base(&function.name) {
                Some(base) => parts.entry(base.to_vec()).or_default().push(function.range),
                None => all.push(Named {
                    mangled: function.name,
                    found: FunctionMatch {
                        module: module.id,
                        name: String::new(),
                        ranges: vec![function.range],
                    },
                }),
            }
        }
        let of_module = &mut all[first..];
        let mut times: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
        for named in &*of_module {
            *times.entry(named.mangled.clone()).or_default() += 1;
        }
        for named in of_module {
            // With several functions of one name it is not known whose part it is.
            if times[&named.mangled] == 1
                && let Some(cold) = parts.get(&named.mangled)
            {
                named.found.ranges.extend(cold.iter().cloned());
            }
        }
    }
    all
}

/// A function by one of its names.
struct Named {
    mangled: Vec<u8>,
    found: FunctionMatch,
}

/// The name of the function that a part is of.
fn base(name: &[u8]) -> Option<&[u8]> {
    let at = name.windows(5).rposition(|w| w == b".cold")?;
    let rest = &name[at + 5..];
    let number = rest.strip_prefix(b".").unwrap_or(rest);
    (at > 0 && number.iter().all(u8::is_ascii_digit)).then(|| &name[..at])
}

/// The functions that a name means, each once; and whether it is a whole name, or the last parts of one.
fn named(all: &[Named], name: &str) -> (Vec<FunctionMatch>, bool) {
    // To demangle takes time: a mangled name has the identifiers of the demangled one in it, but for operators and types.
    let identifier = |c: char| c.is_alphanumeric() || c == '_';
    let start = name.split(['(', '<']).next().unwrap_or(name);
    let token = start.rsplit(|c| !identifier(c)).find(|t| !t.is_empty());
    let token = token
        .filter(|_| !start.contains("operator"))
        .unwrap_or_default();
    let has_token = |mangled: &[u8]| {
        token.is_empty() || mangled.windows(token.len()).any(|w| w == token.as_bytes())
    };
    let mut best = usize::MAX;
    let mut found: Vec<FunctionMatch> = Vec::new();
    for candidate in all {
        let mangled = &candidate.mangled;
        if name.is_empty() || !has_token(mangled) {
            continue;
        }
        let plain = demangle(mangled);
        let Some(rank) = rank(&String::from_utf8_lossy(mangled), &plain, name) else {
            continue;
        };
        if rank < best {
            found.clear();
            best = rank;
        }
        let same = |f: &FunctionMatch| {
            f.module == candidate.found.module && f.ranges[0] == candidate.found.ranges[0]
        };
        if rank == best && !found.iter().any(same) {
            found.push(FunctionMatch {
                name: plain,
                ..candidate.found.clone()
            });
        }
    }
    (found, best < PART)
}

/// The rank of a name of which only the beginning or the end is wanted.
const PART: usize = 3;

/// Returns how well a name fits, 0 best.
fn rank(mangled: &str, plain: &str, wanted: &str) -> Option<usize> {
    let path = without_parameters(plain);
    let last = ends_with_parts(path, wanted);
    let letter = |c: char| c.is_ascii_alphanumeric();
    // As tables show it.
    let shown = [readable(plain), readable_of_engine(plain)];
    let whole = |of: fn(&str, &str) -> bool| {
        let clone = |name: &str| {
            name.split_once('.')
                .is_some_and(|(name, _)| of(name, wanted))
        };
        of(&shown[0], wanted) || of(&shown[1], wanted) || clone(&shown[0])
    };
    let fits = [
        mangled == wanted || plain == wanted || mangled.split('@').next() == Some(wanted),
        path == wanted || whole(|name, wanted| name == wanted),
        last || whole(ends_with_parts),
        path.starts_with(wanted)
            || mangled.starts_with(wanted)
            || path
                .strip_suffix(wanted)
                .is_some_and(|rest| !rest.ends_with(letter)),
    ];
    fits.iter().position(|fits| *fits)
}

/// Returns true if `wanted` is the last parts of a path.
fn ends_with_parts(path: &str, wanted: &str) -> bool {
    let rest = path.strip_suffix(wanted);
    rest.is_some_and(|rest| rest.ends_with("::"))
}

/// A demangled name up to its parameters.
fn without_parameters(name: &str) -> &str {
    let parameters = name.match_indices('(').find(|(at, _)| {
        *at > 0
            && !name[*at..].starts_with("(anonymous namespace)")
            && !name[..*at].ends_with("operator")
    });
    parameters.map_or(name, |(at, _)| &name[..at])
}

/// Returns the words that name this function.
fn typed(profile: &Profile, found: &FunctionMatch, several_of_name: bool) -> String {
    let module = profile.module(found.module);
    let module = module.map_or_else(String::new, file_name);
    match several_of_name {
        true => {
            let Range { start, end } = found.ranges[0];
            format!("{module}:{start:#x}-{end:#x}")
        }
        false => format!("{module}:{}", found.name),
    }
}

fn ambiguous<'f>(
    profile: &Profile,
    found: impl Iterator<Item = &'f FunctionMatch>,
    wanted: &str,
) -> anyhow::Error {
    let mut all: Vec<(u64, &FunctionMatch)> = found.map(|f| (f.events(profile), f)).collect();
    all.sort_by_key(|(events, f)| (std::cmp::Reverse(*events), f.module.0, f.ranges[0].start));
    let lines = all.iter().take(SHOWN).map(|(events, f)| {
        let same =
            |other: &&(u64, &FunctionMatch)| other.1.module == f.module && other.1.name == f.name;
        let several = all.iter().filter(same).count() > 1;
        let also = if several {
            format!("  {}", f.name)
        } else {
            String::new()
        };
        format!(
            "  {}{also}  ({} events)",
            typed(profile, f, several),
            grouped(*events)
        )
    });
    let mut lines: Vec<String> = lines.collect();
    if all.len() > SHOWN {
        lines.push(format!("  and {} more", all.len() - SHOWN));
    }
    let what = format!("{wanted}: several functions match; name one of them:");
    output::with_lines(what, lines)
}

fn missing(
    profile: &Profile,
    symbols: &Symbols<'_>,
    modules: &[&Module],
    all: &[Named],
    wanted: &str,
) -> anyhow::Error {
    let mut near: Vec<(usize, bool, String)> = Vec::new();
    for named in all {
        let plain = demangle(&named.mangled);
        let path = without_parameters(&plain);
        let last = path.rsplit("::").next().unwrap_or(path);
        let distance = distance(last, wanted).min(distance(path, wanted));
        if distance <= 1 + wanted.len() / 3 {
            let unseen = named.found.events(profile) == 0;
            near.push((distance, unseen, plain));
        }
    }
    near.sort_by_key(|(distance, unseen, name)| (*unseen, *distance, name.clone()));
    near.dedup();
    let near: Vec<&str> = near.iter().take(5).map(|(_, _, name)| &**name).collect();
    let near = match &near[..] {
        [] => "; `trommel report` names those with events, and LO-HI (addresses in hexadecimal) needs no name".to_owned(),
        near => format!("; near it: {}", near.join(", ")),
    };
    let problems = modules.iter().filter_map(|m| symbols.problem(m.id));
    let problems = problems
        .filter(|p| *p != "no file")
        .map(|p| format!("  no names: {p}"));
    let what = format!("{wanted}: no function of this name in the modules of the profile{near}");
    output::with_lines(what, problems.collect())
}

/// Names that are near to a wrong one, the nearest first.
pub(crate) fn nearest<'n>(wrong: &str, names: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    const SHOWN: usize = 3;
    let most = 1 + wrong.len() / 4;
    let distances = names.map(|name| (distance(name, wrong), name));
    let mut near: Vec<_> = distances.filter(|(far, _)| *far <= most).collect();
    near.sort_unstable();
    // Those that are as near as the nearest.
    let least = near.first().map_or(0, |(far, _)| *far);
    let near = near.into_iter().filter(|(far, _)| *far == least);
    near.take(SHOWN).map(|(_, name)| name).collect()
}

/// Characters to change, add or remove (Levenshtein), of names that are not long.
fn distance(a: &str, b: &str) -> usize {
    const LONG: usize = 64;
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > LONG / 4 || a.len() > LONG || b.len() > LONG {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let least = row[j].min(row[j + 1]) + 1;
            let above = std::mem::replace(&mut row[j + 1], least.min(corner + usize::from(x != y)));
            corner = above;
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(mangled: &str, start: u64) -> Named {
        Named {
            mangled: mangled.into(),
            found: FunctionMatch {
                module: ModuleId(1),
                name: String::new(),
                ranges: std::iter::once(start..start + 1).collect(),
            },
        }
    }

    #[test]
    fn the_most_exact_fit_is_meant() {
        let all = [
            function("push", 1),
            function("_ZN5stack4pushEi", 2),
            function("_ZN5queue4pushEi", 3),
            function("push_back", 4),
            function("__push", 1),
            function("_Znwm", 5),
            function("_ZNSt6vectorIiSaIiEE9push_backEOi", 6),
            function("_ZN5stack4sortIiEEvPT_S2_.isra.0", 7),
            function("int Queue.take(int)", 8),
        ];
        let starts = |name| -> Vec<u64> {
            let (found, _) = named(&all, name);
            found.iter().map(|f| f.ranges[0].start).collect()
        };
        assert_eq!(starts("push"), [1]);
        assert_eq!(starts("stack::push"), [2]);
        assert_eq!(starts("queue::push(int)"), [3]);
        assert_eq!(starts("_ZN5queue4pushEi"), [3]);
        assert_eq!(starts("operator new(unsigned long)"), [5]);
        assert_eq!(
            starts("std::vector<int, std::allocator<int> >::push_back"),
            [6]
        );
        // As tables show them.
        assert_eq!(starts("std::vector::push_back"), [6]);
        assert_eq!(starts("stack::sort.isra.0"), [7]);
        assert_eq!(starts("stack::sort"), [7]);
        assert_eq!(starts("sort"), [7]);
        assert_eq!(starts("Queue.take"), [8]);
        assert_eq!(starts("push_b"), [4]);
        assert_eq!(starts("back"), [4, 6]);
        assert!(starts("ack").is_empty());
        assert!(starts("pop").is_empty());
        let all = &all[1..4];
        assert_eq!(named(all, "push").0.len(), 2);
    }

    #[test]
    fn parts_belong_to_their_function() {
        assert_eq!(base(b"f.cold"), Some(&b"f"[..]));
        assert_eq!(base(b"f.part.0.cold.12"), Some(&b"f.part.0"[..]));
        for other in ["f", ".cold", "f.colder", "f.cold.x"] {
            assert_eq!(base(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn ranges_are_hexadecimal() {
        assert_eq!(range("0x10-20").expect("good"), Some(0x10..0x20));
        assert_eq!(range("main").expect("good"), None);
        assert_eq!(range("big-endian").expect("good"), None);
        assert!(range("20-20").is_err());
    }

    #[test]
    fn distances_count_changes() {
        assert_eq!(distance("main", "main"), 0);
        assert_eq!(distance("lookup", "lokup"), 1);
        assert_eq!(distance("abc", "xbcd"), 2);
        assert_eq!(distance("", "ab"), 2);
    }
}
