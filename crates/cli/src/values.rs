//! `trommel values`: loads that are hot and nearly always load the same, by what specialising them could save.
//!
//! # What a specialisation saves
//! A load of a value that is nearly always v becomes a comparison with v and code in which it is a constant (seed 003,
//! section 1). Each execution then pays for the comparison; one that finds v does without the load, whose
//! result everything behind it waits for; one that does not may have been predicted wrongly. With the share s of v:
//!
//! saved = executions · (s · LOAD − COMPARE − min(s, 1 − s) · MISPREDICTED) cycles
//!
//! which is above 0 from about 80 % on. What the constant makes superfluous behind it is not in it, so it orders
//! places and does not promise. Under sampling s is the lower limit of the share: what is not known well comes
//! later.
//!
//! Loads that only keep a function's frame in order (`code/src/upkeep.rs`) are left out, and counted, unless all are asked for.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Result, bail};
use trommel_code::Upkeep;
use trommel_profile::confidence::Confidence;
use trommel_symbol::{Files, Symbols};
use trommel_tuple::Kind;

use crate::args::ValuesArgs;
use crate::json::Json;
use crate::load;
use crate::output::{self, grouped, percent};
use crate::report::modules;
use crate::report::text::{Style, Table, more};
use crate::report::view::{Values, View};
use crate::report::windows;

/// Cycles from a load that hits the first cache to the use of its value, on processors of this decade.
const LOAD: f64 = 5.0;
/// Cycles of a comparison and a branch that is predicted.
const COMPARE: f64 = 1.0;
/// Cycles of a branch that is not.
const MISPREDICTED: f64 = 15.0;
/// Places that people are shown unless they ask for more.
const DEFAULT_TOP: usize = 20;
/// The schema's name. Fields may be added to it; none is removed or changed.
const SCHEMA: &str = "trommel.values/1";

/// A place with the value that it is specialised for.
struct Candidate<'p> {
    values: Values<'p>,
    value: u64,
    share: f64,
    /// Limits of the share; both are the share where it is exact.
    limits: (f64, f64),
    /// Cycles.
    saved: f64,
    /// Why nobody would specialise it.
    upkeep: Option<Upkeep>,
}

/// The loads worth specialising, highest saving first.
struct Ranking<'p> {
    found: Vec<Candidate<'p>>,
    /// How many were left out, by why.
    left_out: BTreeMap<Upkeep, u64>,
    /// Of all loads.
    executions: u64,
}

/// Runs the command.
pub(crate) fn run(args: &ValuesArgs) -> Result<ExitCode> {
    let (profile, rows, _) = load::profiles(&args.source.file, &args.source.select)?.merge()?;
    if !profile.kinds.contains_key(&Kind::Value) {
        bail!(
            "{}: holds no loaded values; record them with `trommel record -e value --budget 1 -- PROGRAM`",
            args.source.file.display()
        );
    }
    let confidence = Confidence::of_processes(&profile, rows.len());
    let files = Files::new();
    let symbols = Symbols::new(&files, &profile.modules);
    let mut view = View::new(&profile, symbols, confidence);
    let all = view.values(Kind::Value);
    let executions = all
        .iter()
        .fold(0_u64, |sum, v| sum.saturating_add(v.executions));
    let mut found: Vec<Candidate<'_>> = all
        .into_iter()
        .filter_map(|values| candidate(&mut view, values))
        .filter(|c| c.share >= args.share / 100.0)
        .collect();
    found.sort_by(|a, b| b.saved.total_cmp(&a.saved));
    let mut left_out = BTreeMap::new();
    if !args.all {
        found.retain(|candidate| match candidate.upkeep {
            Some(why) => {
                *left_out.entry(why).or_default() += 1;
                false
            }
            None => true,
        });
    }
    let ranking = Ranking {
        found,
        left_out,
        executions,
    };
    let top = match (args.top, args.json) {
        (Some(0), _) | (None, true) => usize::MAX,
        (Some(n), _) => n,
        (None, false) => DEFAULT_TOP,
    };
    let mut out = output::stdout();
    if args.json {
        json(&mut out, &mut view, &ranking, top)?;
    } else {
        let style = Style::new(output::colours(&io::stdout()));
        text(&mut out, &mut view, &ranking, top, style)?;
        let hot = ranking.found.iter().map(|candidate| candidate.values.at);
        if let Some(command) = view.next(&args.source.file, hot) {
            writeln!(out, "# next: {}", output::printable(&command))?;
        }
        out.flush()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The place, if it pays.
fn candidate<'p>(view: &mut View<'p>, values: Values<'p>) -> Option<Candidate<'p>> {
    let (value, count) = values.top(1).first().copied()?;
    let share = count as f64 / values.executions.max(1) as f64;
    let share = share.min(1.0);
    let limits = match view.executions(&values) {
        Some(executions) => {
            let limits = executions.share(values.position(value), count);
            (limits.low, limits.high)
        }
        None => (share, share),
    };
    let saved = saved(values.executions, limits.0);
    (saved > 0.0).then(|| Candidate {
        values,
        value,
        share,
        limits,
        saved,
        upkeep: view.upkeep(values.at),
    })
}

/// Cycles that are saved where so many executions have the value in this share of them.
fn saved(executions: u64, share: f64) -> f64 {
    let missed = share.min(1.0 - share);
    executions as f64 * (share * LOAD - COMPARE - missed * MISPREDICTED)
}

fn text(
    out: &mut impl Write,
    view: &mut View<'_>,
    ranking: &Ranking<'_>,
    top: usize,
    style: Style,
) -> io::Result<()> {
    let Ranking {
        found,
        left_out,
        executions,
    } = ranking;
    if let Some(data) = &view.profile.windows {
        windows::heading(out, data)?;
    }
    let sum = found.iter().fold(0.0, |sum, c| sum + c.saved);
    writeln!(
        out,
        "# Loads worth specialising: {} of them, {} cycles to save; {} loads executed",
        grouped(found.len() as u64),
        cycles(sum),
        grouped(*executions),
    )?;
    if let Some(line) = left_out_line(left_out) {
        writeln!(out, "# {line}")?;
    }
    let mut table = Table::new([
        "saves",
        "% of loads",
        "executions",
        "load",
        "value",
        "share",
        "",
        "source",
        "module",
    ]);
    for entry in found.iter().take(top) {
        let at = entry.values.at;
        let (low, high) = entry.limits;
        let doubt = 100.0 * (high - entry.share).max(entry.share - low);
        let doubt = match view.has_limits() {
            true => format!("±{doubt:.1}"),
            false => String::new(),
        };
        let value = view.shown(at, entry.value);
        table.row([
            cycles(entry.saved),
            format!("{:.2}%", percent(entry.values.executions, *executions)),
            grouped(entry.values.executions),
            view.name(at),
            value,
            format!("{:.1}%{doubt}", 100.0 * entry.share),
            entry
                .upkeep
                .map_or_else(String::new, |why| why.name().to_owned()),
            view.source(at),
            view.module(at),
        ]);
    }
    table.write(out, style)?;
    more(out, found.len(), top)
}

/// What was left out, and how to see it.
fn left_out_line(left_out: &BTreeMap<Upkeep, u64>) -> Option<String> {
    let words = |why: &Upkeep| match why {
        Upkeep::Canary => "of the stack protector",
        Upkeep::Restored => "that restore registers",
    };
    let parts = left_out.iter().map(|(why, n)| {
        format!(
            "{} {} {}",
            grouped(*n),
            if *n == 1 { "load" } else { "loads" },
            words(why)
        )
    });
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| format!("left out: {}; --all shows them", parts.join(", ")))
}

/// In three digits.
pub(crate) fn cycles(number: f64) -> String {
    match number {
        n if n >= 1e9 => format!("{:.2}G", n / 1e9),
        n if n >= 1e6 => format!("{:.1}M", n / 1e6),
        n if n >= 1e3 => format!("{:.1}k", n / 1e3),
        n => format!("{n:.0}"),
    }
}

fn json(
    out: &mut impl Write,
    view: &mut View<'_>,
    ranking: &Ranking<'_>,
    top: usize,
) -> io::Result<()> {
    let mut json = Json::new(out);
    json.object()?;
    json.text("schema", SCHEMA)?;
    json.text("basis", view.basis().name())?;
    json.number("executions", ranking.executions)?;
    json.member_object("left_out")?;
    for why in Upkeep::ALL {
        let n = ranking.left_out.get(&why);
        json.number(why.name(), n.copied().unwrap_or(0))?;
    }
    json.end_object()?;
    modules(&mut json, view.profile)?;
    json.member_array("loads")?;
    for entry in ranking.found.iter().take(top) {
        let at = entry.values.at;
        let location = view.locate(at);
        json.object()?;
        json.member_object("at")?;
        json.number("module", at.module().0)?;
        json.number("vaddr", at.vaddr().0)?;
        json.optional_text("function", location.function.as_deref())?;
        json.optional_text("file", location.file.as_deref())?;
        match location.line {
            Some(line) => json.number("line", line)?,
            None => json.null("line")?,
        }
        json.end_object()?;
        json.number("executions", entry.values.executions)?;
        json.number("value", entry.value)?;
        json.text("shown", &view.shown(at, entry.value))?;
        json.real("share", entry.share)?;
        json.real("share_low", entry.limits.0)?;
        json.real("share_high", entry.limits.1)?;
        json.real("saved_cycles", entry.saved)?;
        json.optional_text("upkeep", entry.upkeep.map(Upkeep::name))?;
        json.end_object()?;
    }
    json.end_array()?;
    json.end_object()?;
    json.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_nearly_always_the_same_saves_nothing() {
        assert!(saved(1000, 1.0) > saved(1000, 0.95) && saved(1000, 0.95) > 0.0);
        assert!(saved(1000, 0.7) < 0.0 && saved(1000, 0.0) < 0.0);
        assert!((saved(100, 1.0) - 400.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_left_out_is_said_with_the_option_that_shows_it() {
        assert_eq!(left_out_line(&BTreeMap::new()), None);
        let both = BTreeMap::from([(Upkeep::Restored, 1200), (Upkeep::Canary, 2)]);
        let wanted = "left out: 2 loads of the stack protector, 1 200 loads that restore registers; --all shows them";
        assert_eq!(left_out_line(&both).as_deref(), Some(wanted));
    }
}
