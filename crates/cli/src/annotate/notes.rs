//! Facts about an instruction, in words.

use trommel_profile::limits::Limits;
use trommel_symbol::{Location, readable};

use super::annotated::{InTheWay, Line, Part, conflict_in_words};
use super::source::Sources;
use crate::callers;
use crate::report::samples;
use crate::report::view::View;
use crate::shown::short;

/// Callers named of a load.
const CALLERS: usize = 3;

/// `file.c:12 inlined ← into  text`.
pub(super) fn source(sources: &mut Sources, location: &Location) -> String {
    let Some(file) = &location.file else {
        return String::new();
    };
    let name = file.rsplit('/').next().unwrap_or(file);
    let inlined: Vec<&str> = location.inlined.iter().map(|f| &*f.function).collect();
    let inlined = match &inlined[..] {
        [] => String::new(),
        names => format!(
            " [{}]",
            names
                .iter()
                .map(|n| short(&readable(n)))
                .collect::<Vec<_>>()
                .join(" ← ")
        ),
    };
    let Some(line) = location.line else {
        return format!("{name}{inlined}");
    };
    let text = sources.line(file, line).unwrap_or_default();
    format!("{name}:{line}{inlined}  {text}")
}

/// Returns what is known of an instruction.
pub(super) fn notes(view: &mut View<'_>, line: &Line<'_>) -> String {
    /// Share of the calls below which a value says nothing of a call.
    const OFTEN: f64 = 0.5;
    let mut notes = Vec::new();
    if let Some(taken) = &line.taken {
        notes.push(format!("taken {}", percent(taken)));
    }
    let direct = line.instruction.is_call_near();
    if !line.targets.is_empty() && !direct {
        let targets = line.targets.iter();
        let targets: Vec<String> = targets
            .map(|(to, part)| format!("{} {}", view.name(*to), percent(part)))
            .collect();
        notes.push(format!("→ {}", targets.join(", ")));
    }
    for (what, values) in [("on", &line.types), ("=", &line.values)] {
        if !values.is_empty() {
            let values = values.iter();
            let values: Vec<String> = values
                .map(|(_, words, part)| format!("{} {}", short(words), percent(part)))
                .collect();
            notes.push(format!("{what} {}", values.join(", ")));
        }
    }
    for (from, value, part) in told_by_callers(view, line) {
        notes.push(format!("{from} {} {}", short(&value), percent(&part)));
    }
    // All that is passed, and to others, is in the JSON.
    let hottest = line.arguments.first().map(|passed| passed.to);
    let passed = line.arguments.iter().filter(|p| Some(p.to) == hottest);
    let passed: Vec<String> = passed
        .filter_map(|p| {
            let (_, words, part) = p.values.first().filter(|v| v.2.share >= OFTEN)?;
            Some(format!(
                "{} = {} {}",
                p.register,
                short(words),
                percent(part)
            ))
        })
        .collect();
    if !passed.is_empty() {
        notes.push(passed.join(", "));
    }
    if let Some(latency) = &line.latency {
        let levels = latency.levels.iter().filter(|(_, part)| part.share > 0.0);
        let levels: Vec<String> = levels
            .map(|(name, part)| format!("{name} {}", percent(part)))
            .collect();
        notes.push(format!("{} cycles: {}", latency.median, levels.join(", ")));
    }
    if let Some(found) = &line.sampled
        && !found.operands.is_empty()
    {
        notes.push(samples::operands(view, found));
    }
    for InTheWay { pair, part } in &line.conflicts {
        let is_load = pair.load == line.at;
        let other = if is_load { pair.store } else { pair.load };
        notes.push(format!(
            "{} {} {} ({})",
            percent(part),
            conflict_in_words(pair.conflict, is_load),
            view.name(other),
            pair.conflict.name()
        ));
    }
    notes.join("; ")
}

/// Returns what callers tell of a load that all of them together do not: most of what it loads for them is another value, or one that is rarely
/// otherwise. The caller, the value, and its part.
fn told_by_callers(view: &mut View<'_>, line: &Line<'_>) -> Vec<(String, String, Part)> {
    /// Share of a caller's executions below which a value says nothing.
    const OFTEN: f64 = 0.5;
    let all = line.values.first().map(|v| (v.0, v.2.share));
    let mut told = Vec::new();
    for caller in line.by_caller.iter().filter(|c| c.call.is_some()) {
        let Some((value, count, share, (low, high))) = callers::top(caller.values).first().copied()
        else {
            continue;
        };
        let more = all.is_none_or(|(most, of_all)| most != value || of_all < low);
        if share >= OFTEN && more && told.len() < CALLERS {
            let limits = Some(Limits { low, high });
            let part = Part {
                count,
                share,
                limits,
            };
            let shown = view.shown(line.at, value);
            told.push((format!("{} =", caller.name(view)), shown, part));
        }
    }
    told
}

/// A share with how far it may be off.
fn percent(part: &Part) -> String {
    let share = 100.0 * part.share;
    match part.limits {
        Some(Limits { low, high }) => {
            let doubt = (100.0 * high - share).max(share - 100.0 * low);
            format!("{share:.1}%±{doubt:.1}")
        }
        None => format!("{share:.1}%"),
    }
}
