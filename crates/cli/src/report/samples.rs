//! Report on samples of the whole machine: the processes and functions that take its time, and the values in registers there.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use trommel_code::Use;
use trommel_profile::Profile;
use trommel_profile::limits::Limits;
use trommel_profile::sampled::Sampled;
use trommel_profile::samples::{At, Held, Machine, Operand, Samples};
use trommel_symbol::KERNEL;
use trommel_tuple::{ModuleId, Place};

use super::nameless;
use super::processes::{Row, cut};
use super::stacks::{self, Inclusive, Key};
use super::table::{Style, Table, more};
use super::view::View;
use super::waits;
use crate::json::Json;
use crate::output::{command_line, duration, grouped, percent, printable, times};
use crate::shown::{short, shown};

/// Operands shown of one instruction.
const OPERANDS: usize = 3;
/// Values shown of one operand.
const VALUES: usize = 2;

/// Name of functions of a module whose functions are not known.
const NAMELESS: &str = "(no name)";

/// Use of a general register: no floating-point number.
pub(crate) const REGISTER: Use = Use::Unknown {
    bytes: 8,
    general: true,
};

/// A function with its time.
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) module: ModuleId,
    at: Place,
    kernel: bool,
    pub(crate) sampled: Sampled,
    /// Its time with that of all that it called, where call paths are known.
    inclusive: Option<u64>,
}

impl Function {
    /// It stands for all functions of its module, whose names are not known.
    fn is_nameless(&self) -> bool {
        self.name == NAMELESS
    }
}

/// Returns true if a module is of the kernel's: its own name or that of a loaded one, in brackets.
fn is_kernel(profile: &Profile, module: ModuleId) -> bool {
    let found = profile.module(module);
    let path = found.map_or(&b""[..], |module| &module.path);
    let machine = profile.samples.as_ref().and_then(|s| s.machine.as_ref());
    let mut functions = machine.iter().flat_map(|machine| &machine.functions);
    path == KERNEL.as_bytes() || functions.any(|function| function.module == path)
}

/// Functions, most time first; those without time of their own by their inclusive time.
pub(crate) fn functions(view: &mut View<'_>, samples: &Samples) -> Vec<Function> {
    let inclusive = stacks::sampled(view.profile).map(|tree| stacks::inclusive(view, tree));
    functions_by(view, samples, stacks::key, inclusive)
}

/// Time in code generated at run time that has no names.
pub(super) fn nameless(view: &mut View<'_>, samples: &Samples) -> f64 {
    let all = functions(view, samples).into_iter();
    let some = all.filter(|f| f.is_nameless() && f.module == ModuleId::ANON);
    some.map(|f| f.sampled.executions).sum()
}

/// The same with functions that were inlined by themselves.
fn inlined(view: &mut View<'_>, samples: &Samples) -> Vec<Function> {
    let has_paths = stacks::sampled(view.profile).is_some();
    let inclusive = has_paths.then(|| stacks::inclusive_of_inlined(view));
    functions_by(view, samples, stacks::innermost, inclusive)
}

/// Functions by what names the one of a place.
fn functions_by(
    view: &mut View<'_>,
    samples: &Samples,
    mut key: impl FnMut(&mut View<'_>, Place) -> Key,
    inclusive: Option<HashMap<Key, Inclusive>>,
) -> Vec<Function> {
    let kernel: BTreeMap<ModuleId, bool> = (view.profile.modules.iter())
        .map(|module| (module.id, is_kernel(view.profile, module.id)))
        .collect();
    let mut all: BTreeMap<Key, Function> = BTreeMap::new();
    let new = |key: &Key, at: Place| Function {
        name: key.1.clone().unwrap_or_else(|| NAMELESS.into()),
        module: key.0,
        at,
        kernel: kernel.get(&key.0).copied().unwrap_or(false),
        sampled: Sampled::default(),
        inclusive: inclusive.is_some().then_some(0),
    };
    for (&at, found) in &samples.places {
        let key = key(view, at);
        let function = all.entry(key.clone()).or_insert_with(|| new(&key, at));
        function.sampled.add(&found.sampled);
    }
    for (key, Inclusive { at, time }) in inclusive.iter().flatten() {
        let function = all.entry(key.clone()).or_insert_with(|| new(key, *at));
        function.inclusive = Some(*time);
    }
    let mut all: Vec<Function> = all.into_values().collect();
    all.sort_by(|a, b| {
        let by_time = b.sampled.executions.total_cmp(&a.sampled.executions);
        by_time.then(b.inclusive.cmp(&a.inclusive))
    });
    all
}

/// Instructions, most time first.
pub(crate) fn instructions(samples: &Samples) -> Vec<(Place, &At)> {
    let mut all: Vec<(Place, &At)> = samples.places.iter().map(|(p, at)| (*p, at)).collect();
    all.sort_by(|a, b| {
        let by_time = b.1.sampled.executions.total_cmp(&a.1.sampled.executions);
        by_time.then(a.0.cmp(&b.0))
    });
    all
}

/// The part of the whole that this is, with its limits.
pub(crate) fn share(part: &Sampled, total: &Sampled) -> (f64, Limits) {
    let share = (part.executions / total.executions.max(1.0)).min(1.0);
    (share, total.share(share))
}

/// Limits of a share, in percent.
pub(crate) fn range(limits: Limits) -> String {
    format!("{:.2}–{:.2}%", 100.0 * limits.low, 100.0 * limits.high)
}

fn time(sampled: &Sampled) -> String {
    duration(sampled.executions.round() as u64)
}

/// The first cells of a row: time, its part of the whole in percent, and the limits of that.
fn parts(sampled: &Sampled, total: &Sampled) -> [String; 3] {
    let (part, limits) = share(sampled, total);
    [
        time(sampled),
        format!("{:.2}%", 100.0 * part),
        range(limits),
    ]
}

/// The lines of a header, each with what it is about.
pub(crate) fn lines(machine: &Machine) -> Vec<(&'static str, String)> {
    if machine.of_processes {
        return lines_of_processes(machine);
    }
    let busy: f64 = machine.processors.values().map(|p| p.executions).sum();
    let mut lines = vec![
        (
            "machine",
            format!(
                "{} wall, {} processors, {} of their time not idle ({:.1} %)",
                duration(machine.wall),
                machine.processors.len(),
                duration(busy as u64),
                100.0 * busy / machine.capacity().max(1) as f64,
            ),
        ),
        (
            "budget",
            match machine.budget > 0.0 {
                true => format!("{} % of all processors' time", machine.budget),
                false => "none: a rate was given".to_owned(),
            },
        ),
        (
            "paid",
            format!(
                "{:.2} %: {:.2} % by samples ({} each), {:.2} % by trommel ({})",
                machine.cost(),
                machine.cost_of_samples(),
                duration(machine.toll),
                machine.cost_of_host(),
                duration(machine.host),
            ),
        ),
        (
            "samples",
            format!(
                "{}, in the end {:.0} a second of each processor; {:.1} % in the kernel{}; operands of {:.1} %",
                grouped(machine.taken),
                machine.rate,
                percent(machine.kernel, machine.taken),
                match machine.functions.is_empty() {
                    // Without names it is not known.
                    true => String::new(),
                    false => format!(
                        ", {:.1} % of these where it lets interrupts come that have waited",
                        percent(machine.deferred, machine.kernel)
                    ),
                },
                percent(machine.decoded, machine.taken),
            ),
        ),
        (
            "lost",
            match (machine.lost, machine.throttled) {
                (0, 0) => "none".to_owned(),
                (lost, throttled) => format!(
                    "{} RECORDS FOR WANT OF ROOM; the kernel stopped a clock {}",
                    grouped(lost),
                    times(throttled)
                ),
            },
        ),
    ];
    if machine.unknown > 0 {
        let unknown = grouped(machine.unknown);
        let text = format!(
            "{unknown} samples of processes that were gone before it was known what they have there"
        );
        lines.push(("unknown", text));
    }
    let missing = machine.missing.iter();
    lines.extend(missing.map(|what| ("missing", what.clone())));
    lines
}

/// The same of a program or process.
fn lines_of_processes(machine: &Machine) -> Vec<(&'static str, String)> {
    let busy: f64 = machine.processors.values().map(|p| p.executions).sum();
    let paid = machine.taken.saturating_mul(machine.toll);
    let mut lines = vec![
        (
            "samples",
            format!(
                "{}, {:.0} a second of CPU time; {} CPU in {} wall",
                grouped(machine.taken),
                machine.rate,
                duration(busy as u64),
                duration(machine.wall),
            ),
        ),
        (
            "paid",
            format!(
                "{:.2} % by samples ({} each), and {} CPU of trommel",
                100.0 * paid as f64 / busy.max(1.0),
                duration(machine.toll),
                duration(machine.host),
            ),
        ),
    ];
    if machine.taken == 0 {
        let text = "the program used hardly any CPU time; --rate 9973 takes ten times as many";
        lines[0] = ("samples", format!("NONE: {text}"));
        lines.truncate(1);
    }
    if machine.lost > 0 || machine.throttled > 0 {
        lines.push((
            "lost",
            format!(
                "{} RECORDS FOR WANT OF ROOM; the kernel stopped a clock {}",
                grouped(machine.lost),
                times(machine.throttled)
            ),
        ));
    }
    let missing = machine.missing.iter();
    lines.extend(missing.map(|what| ("missing", what.clone())));
    lines
}

/// The same before a table.
pub(crate) fn heading(out: &mut impl Write, samples: &Samples) -> io::Result<()> {
    let lines = samples.machine.iter().flat_map(lines);
    for (name, text) in lines {
        writeln!(out, "# {name:<11} {}", printable(&text))?;
    }
    Ok(())
}

/// Writes the report's header.
pub(crate) fn header(
    out: &mut impl Write,
    view: &View<'_>,
    samples: &Samples,
    style: Style,
) -> io::Result<()> {
    let profile = view.profile;
    let during = match profile.command.is_empty() {
        true => String::new(),
        false => format!(", during {}", printable(&command_line(&profile.command))),
    };
    let of_processes = samples.machine.as_ref().is_some_and(|m| m.of_processes);
    match of_processes {
        true => writeln!(
            out,
            "# {}: {}",
            style.strong("Samples"),
            match profile.command.is_empty() {
                true => "of running processes".to_owned(),
                false => printable(&command_line(&profile.command)),
            }
        )?,
        false => writeln!(out, "# {}{during}", style.strong("The whole machine"))?,
    }
    heading(out, samples)?;
    if let Some(tree) = stacks::sampled(profile) {
        writeln!(out, "# {:<11} {}", "stacks", stacks::line(tree))?;
    }
    if let Some(tree) = waits::waited(profile) {
        writeln!(out, "# {:<11} {}", "off-cpu", waits::line(tree))?;
    }
    writeln!(out, "# limits      {}", view.about_limits())
}

/// Writes the table of waits, if there were some.
fn of_waits(out: &mut impl Write, view: &mut View<'_>, top: usize, style: Style) -> io::Result<()> {
    let all = waits::table(out, view, top, style)?;
    more(out, all, top)
}

/// Writes all tables, each with `top` rows; gives the place that has most time in a program's function.
pub(super) fn tables(
    out: &mut impl Write,
    view: &mut View<'_>,
    samples: &Samples,
    rows: &[Row],
    top: usize,
    style: Style,
) -> io::Result<Vec<Place>> {
    let total = samples.total();
    let of_processes = samples.machine.as_ref().is_some_and(|m| m.of_processes);
    if !of_processes {
        processes(out, rows, &total, top, style)?;
    }
    let all = match view.expands {
        true => inlined(view, samples),
        false => functions(view, samples),
    };
    if total.samples == 0 {
        of_waits(out, view, top, style)?;
        return Ok(Vec::new());
    }
    for (kernel, heading) in [
        (false, "Functions of programs"),
        (true, "Functions of the kernel"),
    ] {
        let some: Vec<&Function> = all.iter().filter(|f| f.kernel == kernel).collect();
        if !some.is_empty() {
            table_of_functions(out, view, (heading, &some), &total, top, style)?;
            more(out, some.len(), top)?;
        }
        if !kernel {
            of_waits(out, view, top, style)?;
        }
    }
    if of_processes && rows.iter().filter(|row| row.time.is_some()).count() > 1 {
        processes(out, rows, &total, top, style)?;
    }
    entries(out, view, samples, top, style)?;
    let hot = instructions(samples);
    let has_values = hot.iter().any(|(_, at)| !at.operands.is_empty());
    writeln!(
        out,
        "\n# {}: {}{}",
        style.strong("Instructions"),
        grouped(hot.len() as u64),
        match has_values {
            true => "; values are those that they are about to read",
            false => "",
        }
    )?;
    let mut table = Table::new([
        "time",
        "%",
        "95 % limits",
        "instruction",
        if has_values { "values" } else { "" },
        "source",
        "module",
    ]);
    for &(at, found) in hot.iter().take(top) {
        let [time, part, limits] = parts(&found.sampled, &total);
        table.row([
            time,
            part,
            limits,
            view.name(at),
            operands(view, found),
            view.source(at),
            view.module(at),
        ]);
    }
    table.write(out, style)?;
    more(out, hot.len(), top)?;
    Ok(all.iter().filter(|f| !f.kernel).map(|f| f.at).collect())
}

/// Writes one table for the end of a recording: the functions of programs, most time first.
pub(super) fn summary(
    out: &mut impl Write,
    view: &mut View<'_>,
    samples: &Samples,
    top: usize,
    style: Style,
) -> io::Result<()> {
    let total = samples.total();
    let all = functions(view, samples);
    let of_programs: Vec<&Function> = all.iter().filter(|f| !f.kernel).collect();
    if total.samples == 0 || of_programs.is_empty() {
        return Ok(());
    }
    let heading = ("Functions of programs", &of_programs[..]);
    table_of_functions(out, view, heading, &total, top, style)
}

fn table_of_functions(
    out: &mut impl Write,
    view: &mut View<'_>,
    (heading, some): (&str, &[&Function]),
    total: &Sampled,
    top: usize,
    style: Style,
) -> io::Result<()> {
    let sum = trommel_profile::samples::sum(some.iter().map(|f| &f.sampled));
    writeln!(
        out,
        "\n# {}: {}, {} samples, {:.1} % of the time",
        style.strong(heading),
        grouped(some.len() as u64),
        grouped(sum.samples),
        100.0 * share(&sum, total).0,
    )?;
    let has_paths = some.iter().any(|function| function.inclusive.is_some());
    // Columns without titles are not there.
    let titled = |title| if has_paths { title } else { "" };
    let mut table = Table::new([
        if has_paths { "self" } else { "time" },
        "%",
        "95 % limits",
        titled("inclusive"),
        titled("%"),
        "samples",
        "function",
        "module",
    ]);
    for function in some.iter().take(top) {
        let [time, part, limits] = parts(&function.sampled, total);
        let [inclusive, of_all] = match function.inclusive {
            None => [String::new(), String::new()],
            Some(time) => {
                let part = time as f64 / total.executions.max(1.0);
                [duration(time), format!("{:.2}%", 100.0 * part.min(1.0))]
            }
        };
        table.row([
            time,
            part,
            limits,
            inclusive,
            of_all,
            grouped(function.sampled.samples),
            match function.is_nameless() && function.module == ModuleId::ANON {
                true => nameless::JIT.to_owned(),
                false => view.shortened(&function.name),
            },
            view.module(function.at),
        ]);
    }
    table.write(out, style)
}

/// Returns where programs enter the kernel, most time first.
fn entered(samples: &Samples) -> Vec<(Place, &Sampled)> {
    let mut all: Vec<(Place, &Sampled)> = samples.entered.iter().map(|(p, s)| (*p, s)).collect();
    all.sort_by(|a, b| {
        b.1.executions
            .total_cmp(&a.1.executions)
            .then(a.0.cmp(&b.0))
    });
    all
}

fn entries(
    out: &mut impl Write,
    view: &mut View<'_>,
    samples: &Samples,
    top: usize,
    style: Style,
) -> io::Result<()> {
    let all = entered(samples);
    if all.is_empty() {
        return Ok(());
    }
    let total = samples.total();
    writeln!(
        out,
        "\n# {}, by the instruction after the call: {} places",
        style.strong("Ways into the kernel"),
        grouped(all.len() as u64)
    )?;
    let mut table = Table::new([
        "time",
        "%",
        "95 % limits",
        "instruction",
        "source",
        "module",
    ]);
    for &(at, sampled) in all.iter().take(top) {
        let [time, part, limits] = parts(sampled, &total);
        table.row([
            time,
            part,
            limits,
            view.name(at),
            view.source(at),
            view.module(at),
        ]);
    }
    table.write(out, style)?;
    more(out, all.len(), top)
}

/// Writes the table of processes with their time.
pub(super) fn processes(
    out: &mut impl Write,
    rows: &[Row],
    total: &Sampled,
    top: usize,
    style: Style,
) -> io::Result<()> {
    let mut rows: Vec<(&Row, &Sampled)> = (rows.iter())
        .filter_map(|row| Some((row, row.time.as_ref()?)))
        .collect();
    rows.sort_by(|a, b| b.1.executions.total_cmp(&a.1.executions));
    writeln!(
        out,
        "\n# {}: {} were met",
        style.strong("Processes"),
        grouped(rows.len() as u64)
    )?;
    let mut table = Table::new([
        "time",
        "%",
        "95 % limits",
        "samples",
        "pid",
        "parent",
        "command",
    ]);
    for (row, sampled) in rows.iter().take(top) {
        let [time, part, limits] = parts(sampled, total);
        let number = |n: u32| match n {
            0 => "-".to_owned(),
            n => n.to_string(),
        };
        table.row([
            time,
            part,
            limits,
            grouped(sampled.samples),
            number(row.pid),
            number(row.parent),
            match row.command.is_empty() {
                true => "(not known)".to_owned(),
                false => cut(&command_line(&row.command)),
            },
        ]);
    }
    table.write(out, style)?;
    more(out, rows.len(), top)
}

/// A register's or address's value with its share.
pub(crate) fn value(view: &mut View<'_>, held: &Held, value: u64, count: u64) -> String {
    let (share, limits) = held.share(count);
    let off = (limits.high - share).max(share - limits.low);
    let words = short(&shown(view, value, Some(REGISTER)));
    format!("{words} {:.1}%±{:.1}", 100.0 * share, 100.0 * off)
}

/// Operands by how much the most frequent value is of them.
pub(crate) fn ordered(found: &At) -> Vec<(Operand, &Held)> {
    let most = |held: &Held| held.top().first().map_or(0, |(_, count)| *count);
    let mut all: Vec<(Operand, &Held)> = found.operands.iter().map(|(o, h)| (*o, h)).collect();
    all.sort_by_key(|(operand, held)| (Reverse(most(held)), operand.is_address(), *operand));
    all
}

/// The operands of an instruction, those first that hold most often the same.
pub(crate) fn operands(view: &mut View<'_>, found: &At) -> String {
    let mut texts = Vec::new();
    for (operand, held) in ordered(found).into_iter().take(OPERANDS) {
        let top = held.top();
        let values: Vec<String> = (top.iter().take(VALUES))
            .map(|&(v, count)| value(view, held, v, count))
            .collect();
        texts.push(format!("{}={}", operand.name(), values.join("|")));
    }
    texts.join(", ")
}

/// The members of an object that say how much time something takes, of `total`.
pub(crate) fn json_time<W: Write>(
    json: &mut Json<W>,
    sampled: &Sampled,
    total: &Sampled,
) -> io::Result<()> {
    let (part, limits) = share(sampled, total);
    json.number("samples", sampled.samples)?;
    json.number("time_ns", sampled.executions.round() as u64)?;
    json.real("share", part)?;
    json.real("share_low", limits.low)?;
    json.real("share_high", limits.high)
}

/// The member `operands` of an object.
pub(crate) fn json_operands<W: Write>(
    json: &mut Json<W>,
    found: &At,
    top: usize,
) -> io::Result<()> {
    json.member_array("operands")?;
    for (operand, held) in ordered(found) {
        json.object()?;
        json.text("operand", operand.name())?;
        json.number("samples", held.sampled.samples)?;
        json.real("kept", held.sampled.probability)?;
        json.member_array("top")?;
        for (value, count) in held.top().into_iter().take(top) {
            let (share, limits) = held.share(count);
            json.object()?;
            json.number("value", value)?;
            json.number("count", count)?;
            json.real("share", share)?;
            json.real("share_low", limits.low)?;
            json.real("share_high", limits.high)?;
            json.end_object()?;
        }
        json.end_array()?;
        json.end_object()?;
    }
    json.end_array()
}

/// The member `samples` of a report.
pub(super) fn json<W: Write>(
    json: &mut Json<W>,
    view: &mut View<'_>,
    top: usize,
    mut place: impl FnMut(&mut Json<W>, &mut View<'_>, &str, Place) -> io::Result<()>,
) -> io::Result<()> {
    let profile = view.profile;
    let Some(samples) = &profile.samples else {
        return Ok(());
    };
    json.member_object("samples")?;
    if let Some(machine) = &samples.machine {
        of_machine(json, machine)?;
    }
    let total = samples.total();
    json.member_array("threads")?;
    for (tid, thread) in &samples.threads {
        json.object()?;
        json.number("tid", *tid)?;
        json.text("name", &String::from_utf8_lossy(&thread.name))?;
        json_time(json, &thread.sampled, &total)?;
        json.end_object()?;
    }
    json.end_array()?;
    json.member_array("functions")?;
    for function in functions(view, samples).iter().take(top) {
        json.object()?;
        json.text("function", &function.name)?;
        json.number("module", function.module.0)?;
        json.text("of", if function.kernel { "kernel" } else { "program" })?;
        json_time(json, &function.sampled, &total)?;
        if let Some(inclusive) = function.inclusive {
            json.number("inclusive_ns", inclusive)?;
        }
        json.end_object()?;
    }
    json.end_array()?;
    json.member_array("entered")?;
    for (at, sampled) in entered(samples).into_iter().take(top) {
        json.object()?;
        place(json, view, "at", at)?;
        json_time(json, sampled, &total)?;
        json.end_object()?;
    }
    json.end_array()?;
    json.member_array("instructions")?;
    for (at, found) in instructions(samples).into_iter().take(top) {
        json.object()?;
        place(json, view, "at", at)?;
        json_time(json, &found.sampled, &total)?;
        json_operands(json, found, top)?;
        json.end_object()?;
    }
    json.end_array()?;
    json.end_object()
}

fn of_machine<W: Write>(json: &mut Json<W>, machine: &Machine) -> io::Result<()> {
    json.text(
        "of",
        if machine.of_processes {
            "processes"
        } else {
            "machine"
        },
    )?;
    json.real("budget_percent", machine.budget)?;
    json.real("paid_percent", machine.cost())?;
    json.real("paid_samples_percent", machine.cost_of_samples())?;
    json.real("paid_host_percent", machine.cost_of_host())?;
    json.real("rate", machine.rate)?;
    for (name, number) in [
        ("taken", machine.taken),
        ("lost_records", machine.lost),
        ("throttled", machine.throttled),
        ("in_kernel", machine.kernel),
        ("deferred", machine.deferred),
        ("decoded", machine.decoded),
        ("unknown", machine.unknown),
        ("sample_ns", machine.toll),
        ("wall_ns", machine.wall),
        ("host_ns", machine.host),
    ] {
        json.number(name, number)?;
    }
    json.texts("missing", &machine.missing)?;
    json.member_array("processors")?;
    for (number, sampled) in &machine.processors {
        json.object()?;
        json.number("number", *number)?;
        json.number("samples", sampled.samples)?;
        json.number("time_ns", sampled.executions.round() as u64)?;
        json.end_object()?;
    }
    json.end_array()
}
