//! `trommel replay`: pairs of a store and a load after it that are in each other's way.
//!
//! What a pair costs depends on the processor, and nobody counts it here. So pairs are in the order of how often they
//! were in each other's way, beside the part of the load's executions that this is. Pairs that are so in a few of their
//! executions only, as addresses that look alike are by chance, are left out.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Result, bail};
use trommel_profile::confidence::Confidence;
use trommel_profile::limits::Limits;
use trommel_profile::memory::{Conflict, Pair};
use trommel_profile::sampled::Sampled;
use trommel_profile::windows::Windows;
use trommel_symbol::{Files, Symbols};
use trommel_tuple::Kind;

use crate::args::ReplayArgs;
use crate::json::Json;
use crate::load;
use crate::output::{self, grouped};
use crate::report::place::{modules, place};
use crate::report::table::{Style, Table, more};
use crate::report::view::View;
use crate::report::windows;

/// Pairs that people are shown unless they ask for more.
const DEFAULT_TOP: usize = 20;
/// The schema's name. Fields may be added to it; none is removed or changed.
const SCHEMA: &str = "trommel.replay/1";

/// A pair, and how often it was met.
struct ConflictRow {
    pair: Pair,
    sampled: Sampled,
    /// The part of the load's executions.
    share: f64,
    limits: Limits,
}

impl ConflictRow {
    fn of(windows: &Windows, (pair, sampled): (&Pair, &Sampled)) -> Self {
        let load = windows.at(Kind::Address, pair.load);
        let executions = load.map_or(sampled.executions, |load| load.executions);
        let share = (sampled.executions / executions.max(1.0)).min(1.0);
        Self {
            pair: *pair,
            sampled: *sampled,
            share,
            limits: load.unwrap_or(sampled).share(share),
        }
    }
}

/// The command that makes its recordings.
const RECORD: &str = "trommel record -e address --budget 1 -- PROGRAM";

/// Runs the command.
pub(crate) fn run(args: &ReplayArgs) -> Result<ExitCode> {
    output::last_words("interrupted before all was reported");
    let source = &args.common.source;
    let (profile, rows, _) = load::made_by(&source.file, &source.select, RECORD)?.merge()?;
    let windows = profile.windows.as_ref();
    let Some(windows) = windows.filter(|_| profile.kinds.contains_key(&Kind::Address)) else {
        bail!(
            "{}: holds no addresses; record them with `{RECORD}`",
            source.file.display()
        );
    };
    let confidence = Confidence::of_processes(&profile, rows.len());
    let files = Files::new();
    let symbols = Symbols::new(&files, &profile.modules);
    let mut view = View::new(&profile, symbols, confidence);
    let all = windows
        .pairs
        .iter()
        .map(|pair| ConflictRow::of(windows, pair));
    let wanted = |found: &ConflictRow| found.share >= args.share / 100.0;
    let mut pairs: Vec<ConflictRow> = all.filter(wanted).collect();
    pairs.sort_by(|a, b| b.sampled.executions.total_cmp(&a.sampled.executions));
    let mut out = output::stdout();
    let top = args.common.top(DEFAULT_TOP);
    if args.common.json {
        json(&mut out, &mut view, &pairs, top)?;
    } else {
        let style = Style::of(&io::stdout());
        text(&mut out, &mut view, &pairs, top, style)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn text(
    out: &mut impl Write,
    view: &mut View<'_>,
    pairs: &[ConflictRow],
    top: usize,
    style: Style,
) -> io::Result<()> {
    if let Some(data) = &view.profile.windows {
        windows::heading(out, data)?;
    }
    let of = |conflict| {
        let count = pairs.iter().filter(|f| f.pair.conflict == conflict).count();
        grouped(count as u64)
    };
    writeln!(
        out,
        "# Stores in the way of loads: {} by size, {} by order, {} synonyms",
        of(Conflict::Size),
        of(Conflict::Order),
        of(Conflict::Synonym),
    )?;
    let mut table = Table::new([
        "count", "of load", "kind", "store", "source", "load", "source", "module",
    ]);
    for found in pairs.iter().take(top) {
        let Limits { low, high } = found.sampled.limits();
        let count = found.sampled.executions;
        let doubt = (high - count).max(count - low) / count.max(1.0);
        let of_share = (found.limits.high - found.share).max(found.share - found.limits.low);
        let Pair { store, load, .. } = found.pair;
        table.row([
            format!("{}±{:.0}%", grouped(count.round() as u64), 100.0 * doubt),
            format!("{:.1}%±{:.1}", 100.0 * found.share, 100.0 * of_share),
            found.pair.conflict.name().to_owned(),
            view.name(store),
            view.source(store),
            view.name(load),
            view.source(load),
            view.module(load),
        ]);
    }
    table.write(out, style)?;
    more(out, pairs.len(), top)?;
    out.flush()
}

fn json(
    out: &mut impl Write,
    view: &mut View<'_>,
    pairs: &[ConflictRow],
    top: usize,
) -> io::Result<()> {
    let mut json = Json::new(out);
    json.object()?;
    json.text("schema", SCHEMA)?;
    json.text("basis", view.basis().name())?;
    modules(&mut json, view.profile)?;
    json.member_array("pairs")?;
    for found in pairs.iter().take(top) {
        let Limits { low, high } = found.sampled.limits();
        json.object()?;
        json.text("kind", found.pair.conflict.name())?;
        place(&mut json, view, "store", found.pair.store)?;
        place(&mut json, view, "load", found.pair.load)?;
        json.number("count", found.sampled.executions.round() as u64)?;
        json.number("low", low.floor() as u64)?;
        json.number("high", high.ceil() as u64)?;
        json.number("samples", found.sampled.samples)?;
        json.real("share", found.share)?;
        json.real("share_low", found.limits.low)?;
        json.real("share_high", found.limits.high)?;
        json.end_object()?;
    }
    json.end_array()?;
    json.end_object()?;
    json.finish()
}
