//! `trommel values` of samples of the whole machine: registers that nearly always hold the same where time goes.
//!
//! How often an instruction is executed is not known, nor what it would take with a constant in place of the register. So places are
//! in the order of their time, times the share of the value, of which the lower limit is taken: what is not known
//! well comes later. Addresses are left out: that one is accessed often is no reason to make it a constant.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use trommel_profile::Profile;
use trommel_profile::confidence::Confidence;
use trommel_profile::limits::Limits;
use trommel_profile::sampled::Sampled;
use trommel_profile::samples::{At, Operand, Samples};
use trommel_symbol::Files;
use trommel_tuple::Place;

use super::shape::{DEFAULT_TOP, SCHEMA};
use crate::args::ValuesArgs;
use crate::json::Json;
use crate::load;
use crate::output::{self, duration, grouped};
use crate::report::place::{modules, place};
use crate::report::samples::{self, REGISTER, heading, instructions};
use crate::report::table::{Style, Table, more};
use crate::report::view::View;
use crate::shown::{short, shown};

/// A register with the value that it mostly holds at an instruction.
struct Candidate<'p> {
    at: Place,
    found: &'p At,
    operand: Operand,
    value: u64,
    share: f64,
    limits: Limits,
}

impl Candidate<'_> {
    fn weight(&self) -> f64 {
        self.found.sampled.executions * self.limits.low
    }
}

pub(super) fn run(
    args: &ValuesArgs,
    profile: &Profile,
    all: &Samples,
    processes: usize,
) -> Result<ExitCode> {
    let files = Files::new();
    let symbols = load::symbols(&files, profile);
    let confidence = Confidence::of_processes(profile, processes);
    let mut view = View::new(profile, symbols, confidence);
    let mut found = candidates(all);
    found.retain(|candidate| candidate.share >= args.share / 100.0);
    let top = match (args.top, args.json) {
        (Some(0), _) | (None, true) => usize::MAX,
        (Some(n), _) => n,
        (None, false) => DEFAULT_TOP,
    };
    let total = all.total();
    let mut out = output::stdout();
    if args.json {
        json(&mut out, &mut view, &found, &total, top)?;
    } else {
        heading(&mut out, all)?;
        let style = Style::of(&io::stdout());
        text(&mut out, &mut view, &found, &total, top, style)?;
        let hot = found.iter().map(|candidate| candidate.at);
        if let Some(command) = view.next(&args.source.file, hot) {
            writeln!(out, "# next: {}", output::printable(&command))?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Each register's most frequent value, most of the time first.
fn candidates(all: &Samples) -> Vec<Candidate<'_>> {
    let mut found = Vec::new();
    for (at, here) in instructions(all) {
        for (&operand, held) in here.operands.iter().filter(|(o, _)| !o.is_address()) {
            let Some((value, count)) = held.top().first().copied() else {
                continue;
            };
            let (share, limits) = held.share(count);
            found.push(Candidate {
                at,
                found: here,
                operand,
                value,
                share,
                limits,
            });
        }
    }
    found.sort_by(|a, b| b.weight().total_cmp(&a.weight()));
    found
}

fn text(
    out: &mut impl Write,
    view: &mut View<'_>,
    found: &[Candidate<'_>],
    total: &Sampled,
    top: usize,
    style: Style,
) -> io::Result<()> {
    writeln!(
        out,
        "# {}: {} of them, by time and by how often they hold their most frequent value",
        style.strong("Registers that instructions are about to read"),
        grouped(found.len() as u64)
    )?;
    let mut table = Table::new([
        "time",
        "%",
        "samples",
        "instruction",
        "register",
        "value",
        "share",
        "source",
        "module",
    ]);
    for entry in found.iter().take(top) {
        let (part, _) = samples::share(&entry.found.sampled, total);
        let Limits { low, high } = entry.limits;
        let off = (high - entry.share).max(entry.share - low);
        table.row([
            duration(entry.found.sampled.executions.round() as u64),
            format!("{:.2}%", 100.0 * part),
            grouped(entry.found.sampled.samples),
            view.name(entry.at),
            entry.operand.name().to_owned(),
            short(&shown(view, entry.value, Some(REGISTER))),
            format!("{:.1}%±{:.1}", 100.0 * entry.share, 100.0 * off),
            view.source(entry.at),
            view.module(entry.at),
        ]);
    }
    table.write(out, style)?;
    more(out, found.len(), top)
}

fn json(
    out: &mut impl Write,
    view: &mut View<'_>,
    found: &[Candidate<'_>],
    total: &Sampled,
    top: usize,
) -> io::Result<()> {
    let mut json = Json::new(out);
    json.object()?;
    json.text("schema", SCHEMA)?;
    json.text("basis", view.basis().name())?;
    json.number("executions", 0)?;
    modules(&mut json, view.profile)?;
    json.member_array("loads")?;
    json.end_array()?;
    json.member_array("operands")?;
    for entry in found.iter().take(top) {
        json.object()?;
        place(&mut json, view, "at", entry.at)?;
        json.number("samples", entry.found.sampled.samples)?;
        json.number("time_ns", entry.found.sampled.executions.round() as u64)?;
        json.real("time_share", samples::share(&entry.found.sampled, total).0)?;
        json.text("operand", entry.operand.name())?;
        json.number("value", entry.value)?;
        json.text("shown", &shown(view, entry.value, Some(REGISTER)))?;
        json.real("share", entry.share)?;
        json.real("share_low", entry.limits.low)?;
        json.real("share_high", entry.limits.high)?;
        json.end_object()?;
    }
    json.end_array()?;
    json.end_object()?;
    json.finish()
}
