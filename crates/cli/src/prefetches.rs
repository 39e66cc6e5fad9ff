//! Findings of `run --prefetch`, as a table for people and as JSON.

use std::io::{self, Write};

use trommel_host::ask::prefetch::{Missing, PrefetchDecision, Report};
use trommel_profile::Profile;
use trommel_profile::confidence::Confidence;
use trommel_symbol::{Files, Symbols};

use crate::json::Json;
use crate::output::{grouped, percent};
use crate::report::table::{Style, Table};
use crate::report::view::View;

/// Instructions shown of a process.
const ROWS: usize = 12;
/// Opening this much debug information takes a millisecond or two.
const DEBUG_LIMIT: u64 = 512 << 10;

/// Writes the table of a process that was asked.
pub(crate) fn table(
    out: &mut impl Write,
    profile: &Profile,
    report: &Report,
    style: Style,
) -> io::Result<()> {
    let name = profile
        .command
        .first()
        .map(|n| String::from_utf8_lossy(n).into_owned());
    let name = crate::output::printable(&name.unwrap_or_default());
    let origin = match report.geometry.known {
        true => "as this machine's",
        false => "assumed",
    };
    writeln!(
        out,
        "# prefetches in {name} (process {}): {} rounds, {} accesses seen, {} missed a cache of {} KiB ({origin}); {} put into code",
        profile.origin.pid,
        report.rounds,
        grouped(report.accesses),
        grouped(report.misses),
        report.geometry.bytes() >> 10,
        grouped(report.put),
    )?;
    if report.found.is_empty() {
        return writeln!(out, "# no instruction misses often");
    }
    let files = Files::new();
    let symbols = Symbols::new(&files, &profile.modules).with_debug_limit(DEBUG_LIMIT);
    let mut view = View::new(profile, symbols, Confidence::of_processes(profile, 1));
    let mut table = Table::new(["misses", "%", "what", "stride", "prefetch", "place"]);
    for found in report.found.iter().take(ROWS) {
        let stride = found.stride.map(|(by, share)| {
            let share = (share * 100.0).round();
            format!("{by} {share}%")
        });
        table.row([
            grouped(found.misses),
            format!("{:.0}", percent(found.misses, found.executions)),
            kind(found).to_owned(),
            stride.unwrap_or_default(),
            words(found.verdict),
            view.name(found.place),
        ]);
    }
    table.write(out, style)?;
    match report.found.len().saturating_sub(ROWS) {
        0 => Ok(()),
        more => writeln!(out, "# {more} more: --stats has all"),
    }
}

const fn kind(found: &Missing) -> &'static str {
    match found.store {
        false => "load",
        true => "store",
    }
}

fn words(verdict: PrefetchDecision) -> String {
    match verdict {
        PrefetchDecision::Placed { ahead, by } => format!("{ahead} ahead ({by:+})"),
        PrefetchDecision::Irregular => "no: irregular".to_owned(),
        PrefetchDecision::Near => "no: near".to_owned(),
        PrefetchDecision::Overflowing => "no: too many".to_owned(),
    }
}

/// Writes the member `prefetch` of a process.
pub(crate) fn json<W: Write>(
    json: &mut Json<W>,
    profile: &Profile,
    report: &Report,
) -> io::Result<()> {
    let files = Files::new();
    let symbols = Symbols::new(&files, &profile.modules).with_debug_limit(DEBUG_LIMIT);
    let mut view = View::new(profile, symbols, Confidence::of_processes(profile, 1));
    json.member_object("prefetch")?;
    json.number("cache_bytes", report.geometry.bytes())?;
    let origin = match report.geometry.known {
        true => "machine",
        false => "assumed",
    };
    json.text("cache", origin)?;
    json.number("rounds", report.rounds)?;
    json.number("accesses", report.accesses)?;
    json.number("misses", report.misses)?;
    json.number("put", report.put)?;
    json.number("probes_dropped", report.dropped)?;
    json.member_array("places")?;
    view.full_names = true;
    for found in &report.found {
        json.object()?;
        json.text("name", &view.name(found.place))?;
        json.text("module", &view.module(found.place))?;
        json.number("vaddr", found.place.vaddr().0)?;
        json.text("what", kind(found))?;
        json.number("executions", found.executions)?;
        json.number("misses", found.misses)?;
        match found.stride {
            Some((by, share)) => {
                json.number("stride", by)?;
                json.real("stride_share", share)?;
            }
            None => {
                json.null("stride")?;
                json.null("stride_share")?;
            }
        }
        let (verdict, placed) = match found.verdict {
            PrefetchDecision::Placed { ahead, by } => ("placed", Some((ahead, by))),
            PrefetchDecision::Irregular => ("irregular", None),
            PrefetchDecision::Near => ("near", None),
            PrefetchDecision::Overflowing => ("crowded", None),
        };
        json.text("verdict", verdict)?;
        match placed {
            Some((ahead, by)) => {
                json.number("ahead", ahead)?;
                json.number("by", by)?;
            }
            None => {
                json.null("ahead")?;
                json.null("by")?;
            }
        }
        json.end_object()?;
    }
    json.end_array()?;
    json.end_object()
}
