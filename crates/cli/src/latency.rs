//! `trommel latency`: how long loads take, and what of that better placed data could save.
//!
//! Each load has its executions, the levels that they found their bytes in, by limits that were measured on the machine of the
//! recording, and the cycles that are lost: those beyond what a load takes that hits the first cache, of all executions
//! together. A processor executes other instructions while a load waits, where it finds any; so cycles lost are an upper limit
//! of what can be won.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Result, bail};
use trommel_profile::confidence::Confidence;
use trommel_profile::limits::Limits;
use trommel_profile::memory::{Level, Levels};
use trommel_symbol::{Files, Symbols};
use trommel_tuple::Kind;

use crate::args::MemoryArgs;
use crate::json::Json;
use crate::load;
use crate::output::{self, grouped};
use crate::report::place::{modules, place};
use crate::report::table::{Style, Table, more};
use crate::report::view::{Values, View};
use crate::report::windows;
use crate::values::cycles;

/// Places that people are shown unless they ask for more.
const DEFAULT_TOP: usize = 20;
/// The schema's name. Fields may be added to it; none is removed or changed.
const SCHEMA: &str = "trommel.latency/1";

/// A load, and how long it takes.
pub(crate) struct Load<'p> {
    values: Values<'p>,
    /// Shares of the executions, by level, with limits.
    pub(crate) shares: Vec<(f64, Limits)>,
    pub(crate) median: u64,
    mean: f64,
    /// Cycles.
    lost: f64,
}

/// The command that makes its recordings.
const RECORD: &str = "trommel record -e latency --budget 1 -- PROGRAM";

/// Runs the command.
pub(crate) fn run(args: &MemoryArgs) -> Result<ExitCode> {
    let (profile, rows, _) =
        load::made_by(&args.source.file, &args.source.select, RECORD)?.merge()?;
    let levels = profile.windows.as_ref().and_then(|w| w.levels.as_ref());
    let Some(levels) = levels.filter(|_| profile.kinds.contains_key(&Kind::Latency)) else {
        bail!(
            "{}: holds no latencies; record them with `{RECORD}`",
            args.source.file.display()
        );
    };
    let confidence = Confidence::of_processes(&profile, rows.len());
    let files = Files::new();
    let symbols = Symbols::new(&files, &profile.modules);
    let mut view = View::new(&profile, symbols, confidence);
    let all = view.values(Kind::Latency).into_iter();
    let mut loads: Vec<Load<'_>> = all.map(|values| load(&view, values, levels)).collect();
    loads.sort_by(|a, b| b.lost.total_cmp(&a.lost));
    let mut out = output::stdout();
    let top = args.top(DEFAULT_TOP);
    if args.json {
        json(&mut out, &mut view, &loads, levels, top)?;
    } else {
        let style = Style::of(&io::stdout());
        text(&mut out, &mut view, &loads, levels, top, style)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns how long an instruction's loads took, by the levels that were measured.
pub(crate) fn load<'p>(view: &View<'_>, values: Values<'p>, levels: &Levels) -> Load<'p> {
    let all = values.counts();
    let total: u64 = all.iter().map(|(_, count)| *count).sum();
    let mut of_level = vec![0_u64; levels.levels.len().max(1)];
    let (mut sum, mut lost) = (0.0, 0.0);
    for &(cycles, count) in all {
        of_level[levels.of(cycles)] += count;
        sum += cycles as f64 * count as f64;
        lost += cycles.saturating_sub(levels.least()) as f64 * count as f64;
    }
    let shares = of_level.into_iter().map(|count| {
        let share = count as f64 / total.max(1) as f64;
        let known = view.sampled(Kind::Latency, values.at);
        let limits = known.map(|sampled| sampled.share(share));
        let exact = Limits {
            low: share,
            high: share,
        };
        (share, limits.unwrap_or(exact))
    });
    Load {
        shares: shares.collect(),
        median: median(all, total),
        mean: sum / total.max(1) as f64,
        lost,
        values,
    }
}

/// Returns the median of values in order, with counts.
fn median(counts: &[(u64, u64)], total: u64) -> u64 {
    let mut seen = 0;
    let middle = counts.iter().find(|(_, count)| {
        seen += count;
        2 * seen >= total
    });
    middle.map_or(0, |(cycles, _)| *cycles)
}

fn text(
    out: &mut impl Write,
    view: &mut View<'_>,
    loads: &[Load<'_>],
    levels: &Levels,
    top: usize,
    style: Style,
) -> io::Result<()> {
    if let Some(data) = &view.profile.windows {
        windows::heading(out, data)?;
    }
    writeln!(out, "# {:<11} {}", "levels", limits_in_words(levels))?;
    let sum = loads.iter().fold(0.0, |sum, load| sum + load.lost);
    let executions = loads
        .iter()
        .fold(0, |n: u64, l| n.saturating_add(l.values.executions));
    writeln!(
        out,
        "# Loads that wait: {} of them, {} executed, {} cycles beyond a hit in the first cache",
        grouped(loads.len() as u64),
        grouped(executions),
        cycles(sum),
    )?;
    let mut table = Table::new([
        "lost",
        "% of lost",
        "executions",
        "median",
        levels.levels.first().map_or("", name),
        levels.levels.get(1).map_or("", name),
        levels.levels.get(2).map_or("", name),
        levels.levels.get(3).map_or("", name),
        "load",
        "source",
        "module",
    ]);
    for load in loads.iter().take(top) {
        let at = load.values.at;
        let share = |n: usize| {
            let known = load.shares.get(n);
            known.map_or_else(String::new, |(share, limits)| {
                let doubt = (limits.high - share).max(share - limits.low);
                format!("{:.1}%±{:.1}", 100.0 * share, 100.0 * doubt)
            })
        };
        table.row([
            cycles(load.lost),
            format!("{:.2}%", 100.0 * load.lost / sum.max(1.0)),
            grouped(load.values.executions),
            grouped(load.median),
            share(0),
            share(1),
            share(2),
            share(3),
            view.name(at),
            view.source(at),
            view.module(at),
        ]);
    }
    table.write(out, style)?;
    more(out, loads.len(), top)?;
    out.flush()
}

fn name(level: &Level) -> &'static str {
    level.cache.name()
}

/// Returns what the levels were told apart by.
fn limits_in_words(levels: &Levels) -> String {
    let mut words: Vec<String> = Vec::new();
    for level in &levels.levels {
        let limit = match level.below {
            u64::MAX => String::new(),
            below => format!(" below {below}"),
        };
        let nanos = level.typical as f64 * levels.cycle;
        words.push(format!(
            "{}{limit} (typically {}, {nanos:.1} ns; {:.1} % mistaken)",
            level.cache.name(),
            level.typical,
            100.0 * level.mistaken,
        ));
    }
    format!(
        "{} cycles of the time stamp counter, without the {} of looking",
        words.join(", "),
        levels.own
    )
}

fn json(
    out: &mut impl Write,
    view: &mut View<'_>,
    loads: &[Load<'_>],
    levels: &Levels,
    top: usize,
) -> io::Result<()> {
    let mut json = Json::new(out);
    json.object()?;
    json.text("schema", SCHEMA)?;
    json.text("basis", view.basis().name())?;
    json.real("cycle_ns", levels.cycle)?;
    json.number("own_cycles", levels.own)?;
    json.member_array("levels")?;
    for level in &levels.levels {
        json.object()?;
        json.text("name", level.cache.name())?;
        json.number("typical_cycles", level.typical)?;
        match level.below {
            u64::MAX => json.null("below_cycles")?,
            below => json.number("below_cycles", below)?,
        }
        json.real("mistaken", level.mistaken)?;
        json.end_object()?;
    }
    json.end_array()?;
    modules(&mut json, view.profile)?;
    json.member_array("loads")?;
    for load in loads.iter().take(top) {
        let sampled = view.sampled(Kind::Latency, load.values.at);
        let (samples, limits) = sampled.map_or((0, None), |s| (s.samples, Some(s.limits())));
        json.object()?;
        place(&mut json, view, "at", load.values.at)?;
        json.number("executions", load.values.executions)?;
        if let Some(Limits { low, high }) = limits {
            json.number("executions_low", low.floor() as u64)?;
            json.number("executions_high", high.ceil() as u64)?;
        }
        json.number("samples", samples)?;
        json.number("median_cycles", load.median)?;
        json.real("mean_cycles", load.mean)?;
        json.real("lost_cycles", load.lost)?;
        json.member_array("levels")?;
        for (level, (share, limits)) in levels.levels.iter().zip(&load.shares) {
            json.object()?;
            json.text("name", level.cache.name())?;
            json.real("share", *share)?;
            json.real("share_low", limits.low)?;
            json.real("share_high", limits.high)?;
            json.end_object()?;
        }
        json.end_array()?;
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
    fn the_median_is_of_counts() {
        assert_eq!(median(&[(4, 3), (12, 2), (200, 2)], 7), 12);
        assert_eq!(median(&[(4, 9), (200, 2)], 11), 4);
        assert_eq!(median(&[], 0), 0);
    }
}
