//! Counts as text, CSV and JSON.

use std::io::{self, Write};
use std::path::Path;

use trommel_code::Mix;

use super::{Measured, Run};
use crate::json::Json;
use crate::output::{command_line, duration, grouped, printable};
use crate::report::table::{Style, Table};

/// Processes shown.
const PROCESSES: usize = 5;

/// Each count with its name in JSON and CSV, in words, and what it is a part of.
fn counts(mix: &Mix) -> [(&'static str, &'static str, f64, Option<f64>); 11] {
    let all = Some(mix.instructions);
    [
        ("instructions", "instructions", mix.instructions, None),
        ("branches", "conditional branches", mix.branches, all),
        ("branches_taken", "  taken", mix.taken, Some(mix.branches)),
        ("jumps", "direct jumps", mix.jumps, all),
        ("indirect_jumps", "indirect jumps", mix.indirect_jumps, all),
        ("calls", "calls", mix.calls, all),
        (
            "indirect_calls",
            "  indirect",
            mix.indirect_calls,
            Some(mix.calls),
        ),
        ("returns", "returns", mix.returns, all),
        ("loads", "loads", mix.loads, all),
        ("stores", "stores", mix.stores, all),
        ("system_calls", "system calls", mix.system_calls, None),
    ]
}

fn whole(number: f64) -> u64 {
    number.round() as u64
}

pub(super) fn text(
    out: &mut impl Write,
    measured: &Measured,
    compared: Option<(f64, &Path)>,
) -> io::Result<()> {
    let Some(run) = measured.median() else {
        return Ok(());
    };
    let style = Style::of(&io::stderr());
    let words: Vec<Vec<u8>> = measured
        .command
        .iter()
        .map(|w| w.clone().into_bytes())
        .collect();
    writeln!(
        out,
        "\n# {}",
        style.strong(&printable(&command_line(&words)))
    )?;
    let mut table = Table::new(["count", "%", "what"]);
    for (_, words, count, part) in counts(&run.mix) {
        table.row([
            match run.at_least {
                true => format!("≥{}", grouped(whole(count))),
                false => grouped(whole(count)),
            },
            part.map_or_else(String::new, |of| {
                format!("{:.1}", 100.0 * count / of.max(1.0))
            }),
            words.to_owned(),
        ]);
    }
    table.write(out, style)?;
    times(out, measured, run)?;
    if measured.runs.len() > 1 {
        let runs = measured.runs.len();
        match measured.spread() {
            0.0 => writeln!(
                out,
                "# runs       {runs}, with the same number of instructions each"
            )?,
            spread => writeln!(
                out,
                "# runs       {runs}, {spread:.3} % apart; the median is shown"
            )?,
        }
    }
    if let Some((change, path)) = compared {
        let path = printable(&path.display().to_string());
        writeln!(out, "# baseline   {change:+.3} % instructions since {path}")?;
    }
    if run.processes.len() > 1 {
        writeln!(
            out,
            "\n# {}: {}",
            style.strong("Processes"),
            run.processes.len()
        )?;
        let mut table = Table::new(["instructions", "%", "pid", "command"]);
        for process in run.processes.iter().take(PROCESSES) {
            let own = process.mix.instructions;
            table.row([
                grouped(whole(own)),
                format!("{:.2}%", 100.0 * own / run.mix.instructions.max(1.0)),
                process.pid.to_string(),
                command_line(&process.command),
            ]);
        }
        table.write(out, style)?;
    }
    if run.at_least {
        writeln!(
            out,
            "# at least   some code is in no file, as JIT-compiled code is: of it only branches and calls are counted"
        )?;
    }
    for reason in &run.incomplete {
        writeln!(out, "# in part    {}", printable(reason))?;
    }
    Ok(())
}

fn times(out: &mut impl Write, measured: &Measured, run: &Run) -> io::Result<()> {
    match &measured.native {
        Some(native) => writeln!(
            out,
            "# native     {} wall, {} user, {} system",
            duration(native.wall),
            duration(native.user),
            duration(native.system),
        )?,
        None => writeln!(
            out,
            "# native     not measured: no second run, or the input is a pipe"
        )?,
    }
    let slowdown = measured.slowdown().map_or_else(String::new, |times| {
        format!("; {times:.1} times the CPU time of the native run")
    });
    let (wall, cpu) = (duration(run.wall), duration(run.cpu));
    writeln!(out, "# counted    {wall} wall, {cpu} CPU{slowdown}")
}

pub(super) fn csv(out: &mut impl Write, measured: &Measured) -> io::Result<()> {
    writeln!(out, "run,event,count,at_least")?;
    for (n, run) in measured.runs.iter().enumerate() {
        for (name, _, count, _) in counts(&run.mix) {
            writeln!(out, "{},{name},{},{}", n + 1, whole(count), run.at_least)?;
        }
    }
    Ok(())
}

pub(super) fn json(
    out: &mut impl Write,
    measured: &Measured,
    compared: Option<f64>,
) -> io::Result<()> {
    let Some(run) = measured.median() else {
        return Ok(());
    };
    let mut json = Json::new(out);
    json.object()?;
    json.text("schema", "trommel.stat/1")?;
    json.texts("command", &measured.command)?;
    match measured.status {
        Some(status) => json.number("status", status)?,
        None => json.null("status")?,
    }
    json.boolean("deterministic", measured.deterministic)?;
    json.text("known", if run.at_least { "at_least" } else { "exact" })?;
    members(&mut json, "counts", &run.mix)?;
    json.member_array("runs")?;
    for run in &measured.runs {
        json.object()?;
        json.number("instructions", whole(run.mix.instructions))?;
        json.number("wall_ns", run.wall)?;
        json.number("cpu_ns", run.cpu)?;
        json.end_object()?;
    }
    json.end_array()?;
    json.real("spread_percent", measured.spread())?;
    match &measured.native {
        Some(native) => {
            json.member_object("native")?;
            json.number("wall_ns", native.wall)?;
            json.number("user_ns", native.user)?;
            json.number("system_ns", native.system)?;
            json.end_object()?;
        }
        None => json.null("native")?,
    }
    match measured.slowdown() {
        Some(times) => json.real("slowdown", times)?,
        None => json.null("slowdown")?,
    }
    if let Some(change) = compared {
        json.real("baseline_change_percent", change)?;
    }
    json.member_array("processes")?;
    for process in &run.processes {
        json.object()?;
        json.number("pid", process.pid)?;
        json.texts(
            "command",
            process.command.iter().map(|w| String::from_utf8_lossy(w)),
        )?;
        members(&mut json, "counts", &process.mix)?;
        json.end_object()?;
    }
    json.end_array()?;
    json.texts("incomplete", &run.incomplete)?;
    json.end_object()?;
    json.finish()
}

fn members<W: Write>(json: &mut Json<W>, name: &str, mix: &Mix) -> io::Result<()> {
    json.member_object(name)?;
    for (name, _, count, _) in counts(mix) {
        json.number(name, whole(count))?;
    }
    json.end_object()
}
