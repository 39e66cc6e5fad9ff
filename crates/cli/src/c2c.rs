//! `trommel c2c`: lines that one thread writes and another touches.
//!
//! A line is named by the object that begins in it or before it, where its memory belongs to a file. Below it are the parts that
//! threads touch, each with the instruction that does. No cost is given: a handoff costs what the machine makes of it.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Result, bail};
use trommel_profile::confidence::Confidence;
use trommel_profile::simulated::{SharedLine, Simulated, Toucher, Way};
use trommel_symbol::{Files, Symbols};

use crate::args::C2cArgs;
use crate::json::Json;
use crate::load;
use crate::output::{self, grouped};
use crate::report::place::{modules, place};
use crate::report::table::{Style, Table, ended, more};
use crate::report::view::View;

/// Lines that people are shown unless they ask for more.
const DEFAULT_TOP: usize = 20;
/// Parts of a line that people are shown.
const PARTS: usize = 8;
/// The schema's name. Fields may be added to it; none is removed or changed.
const SCHEMA: &str = "trommel.c2c/1";

/// The command that makes its recordings.
const RECORD: &str = "trommel record -e sharing -- PROGRAM";

/// Runs the command.
pub(crate) fn run(args: &C2cArgs) -> Result<ExitCode> {
    let source = &args.common.source;
    let (profile, rows, _) = load::made_by(&source.file, &source.select, RECORD)?.merge()?;
    let simulated = profile.simulated.as_ref();
    let Some((simulated, sharing)) = simulated.and_then(|s| Some((s, s.sharing.as_ref()?))) else {
        bail!(
            "{}: says nothing of lines that threads share; record them with `{RECORD}`",
            source.file.display()
        );
    };
    let wanted = |line: &&SharedLine| {
        line.possible() >= args.least && (!args.false_only || line.way() != Way::True)
    };
    let lines: Vec<&SharedLine> = sharing.lines.iter().filter(wanted).collect();
    let confidence = Confidence::of_processes(&profile, rows.len());
    let files = Files::new();
    let symbols = Symbols::new(&files, &profile.modules);
    let mut view = View::new(&profile, symbols, confidence);
    let mut out = output::stdout();
    let top = args.common.top(DEFAULT_TOP);
    if args.common.json {
        json(
            &mut out,
            &mut view,
            (simulated, sharing.untracked, rows.len()),
            &lines,
            top,
        )?;
    } else {
        let style = Style::of(&io::stdout());
        let rest = sharing.lines.len() - lines.len();
        text(
            &mut out,
            &mut view,
            (&lines, rest, sharing.untracked, rows.len()),
            top,
            style,
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The parts of a line that are touched, those touched most often first.
fn parts(line: &SharedLine) -> Vec<Toucher> {
    let mut parts = line.touchers.clone();
    parts.sort_by_key(|t| (std::cmp::Reverse(t.loads.saturating_add(t.stores)), *t));
    parts
}

/// The name of the memory that a line is in.
fn object(view: &mut View<'_>, line: &SharedLine) -> Option<String> {
    let at = line.object?;
    let location = view.locate(at);
    let offset = match location.offset {
        0 => String::new(),
        n => format!("+{n:#x}"),
    };
    let function = location.function.as_ref()?;
    Some(format!("{}{offset}", view.shortened(function)))
}

fn text(
    out: &mut impl Write,
    view: &mut View<'_>,
    (lines, rest, untracked, processes): (&[&SharedLine], usize, u64, usize),
    top: usize,
    style: Style,
) -> io::Result<()> {
    let of = |way| lines.iter().filter(|line| line.way() == way).count();
    writeln!(
        out,
        "# Shared lines: {} by false sharing, {} by true, {} by both",
        grouped(of(Way::False) as u64),
        grouped(of(Way::True) as u64),
        grouped(of(Way::Both) as u64),
    )?;
    if rest != 0 {
        writeln!(
            out,
            "# not shown: {} lines with few handoffs or as asked",
            grouped(rest as u64)
        )?;
    }
    if untracked != 0 {
        writeln!(
            out,
            "# not looked at: {} accesses, as memory was short",
            grouped(untracked)
        )?;
    }
    if processes > 1 {
        writeln!(
            out,
            "# not looked for: lines that only processes share, and there are {processes}"
        )?;
    }
    for line in lines.iter().take(top) {
        let name = object(view, line);
        let name = match (&name, line.object) {
            (Some(name), _) => name.clone(),
            (None, Some(at)) => format!("{} {:#x}", view.module(at), at.vaddr().0),
            (None, None) => "memory of no file".to_owned(),
        };
        writeln!(out)?;
        let heading = format!(
            "{} sharing: {} ({:#x}), {} to {} handoffs, threads {}",
            line.way().name(),
            output::printable(&name),
            line.address,
            grouped(line.handoffs),
            grouped(line.possible()),
            some(&line.threads()),
        );
        writeln!(out, "{}", ended(&heading, style.width))?;
        let all = parts(line);
        let titles = [
            "loads",
            "stores",
            "bytes",
            "thread",
            "instruction",
            "source",
        ];
        let mut table = Table::new(titles).numbers(4);
        for part in all.iter().take(PARTS) {
            table.row([
                grouped(part.loads),
                grouped(part.stores),
                format!("{}-{}", part.offset, part.offset + part.size - 1),
                part.thread.to_string(),
                view.name(part.at),
                view.source(part.at),
            ]);
        }
        table.write(out, style)?;
        if all.len() > PARTS {
            let rest = grouped((all.len() - PARTS) as u64);
            writeln!(out, "  … and {rest} more: --json has all")?;
        }
    }
    more(out, lines.len(), top)?;
    out.flush()
}

/// Numbers of threads, of which there may be thousands.
fn some(threads: &[u32]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<String> = threads.iter().take(SHOWN).map(u32::to_string).collect();
    let shown = shown.join(" ");
    match threads.len().saturating_sub(SHOWN) {
        0 => shown,
        rest => format!("{shown} and {} more", grouped(rest as u64)),
    }
}

fn json(
    out: &mut impl Write,
    view: &mut View<'_>,
    (simulated, untracked, processes): (&Simulated, u64, usize),
    lines: &[&SharedLine],
    top: usize,
) -> io::Result<()> {
    let mut json = Json::new(out);
    json.object()?;
    json.text("schema", SCHEMA)?;
    json.number("line_bytes", simulated.caches.line)?;
    json.number("untracked", untracked)?;
    json.number("processes", processes as u64)?;
    modules(&mut json, view.profile)?;
    json.member_array("lines")?;
    for line in lines.iter().take(top) {
        json.object()?;
        json.number("process", line.process)?;
        json.number("address", line.address)?;
        json.optional_text("object", object(view, line).as_deref())?;
        json.text("sharing", line.way().name())?;
        json.number("handoffs", line.handoffs)?;
        json.number("possible", line.possible())?;
        let threads: Vec<u64> = line.threads().into_iter().map(u64::from).collect();
        json.numbers("threads", &threads)?;
        json.member_array("parts")?;
        for part in parts(line) {
            json.object()?;
            place(&mut json, view, "at", part.at)?;
            json.number("thread", part.thread)?;
            json.number("offset", part.offset)?;
            json.number("size", part.size)?;
            json.number("loads", part.loads)?;
            json.number("stores", part.stores)?;
            json.end_object()?;
        }
        json.end_array()?;
        json.end_object()?;
    }
    json.end_array()?;
    json.end_object()?;
    json.finish()
}
