//! The annotated function for people: source lines with the instructions that came of them, no wider than the terminal.

use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use trommel_code::Count;
use trommel_profile::confidence::Basis;
use trommel_profile::limits::{LEVEL, Limits};
use trommel_symbol::Location;

use super::annotated::{Annotated, InTheWay, Line, Part, conflict_in_words};
use super::source::Sources;
use crate::callers;
use crate::output::{duration, grouped, printable};
use crate::report::samples;
use crate::report::table::{Style, short};
use crate::report::view::View;
use crate::report::windows;

/// Instructions with this part of the function's executions stand out.
const HOT: f64 = 0.05;
/// Callers named: of a function, and of a load.
const CALLERS: usize = 3;

/// A line of output.
enum Row {
    /// Executions, their share, address, instruction, what is known of it; whether it stands out.
    Instruction([String; 5], bool),
    /// A line of the source.
    Source(String),
    /// Between parts of a function.
    Gap,
}

pub(super) fn write(
    out: &mut impl Write,
    view: &mut View<'_>,
    function: &Annotated<'_>,
    style: Style,
    width: usize,
) -> io::Result<()> {
    let mut out = Cut { out, width };
    heading(&mut out, view, function, style)?;
    let mut sources = Sources::new(Path::new(std::ffi::OsStr::from_bytes(
        &function.module.path,
    )));
    let mut rows = Vec::new();
    let exact = view.basis() == Basis::Exact;
    let mut position = None;
    let mut end = None;
    for line in &function.lines {
        if end.is_some_and(|end| end < line.at.vaddr().0) {
            rows.push(Row::Gap);
            position = None;
        }
        end = Some(
            end.unwrap_or(0)
                .max(line.at.vaddr().0 + line.instruction.len().max(1) as u64),
        );
        let location = view.locate(line.at);
        let here = (
            location.file.clone(),
            location.line,
            location.inlined.clone(),
        );
        if location.file.is_some() && position.as_ref() != Some(&here) {
            rows.push(Row::Source(source(&mut sources, &location)));
        }
        position = Some(here);
        let cells = [
            match &line.sampled {
                Some(found) => duration(found.sampled.executions.round() as u64),
                None => executions(line.count.as_ref(), exact),
            },
            share(line),
            format!("{:x}", line.at.vaddr().0),
            line.text.clone(),
            notes(view, line),
        ];
        rows.push(Row::Instruction(cells, line.share >= HOT));
    }
    let first = if function.time.is_some() {
        "time"
    } else {
        "executions"
    };
    table(&mut out, first, &rows, style)?;
    for file in sources.newer() {
        out.line(&format!(
            "# newer than the program, so lines may be others: {}",
            printable(file)
        ))?;
    }
    out.out.flush()
}

/// Writes lines up to a width.
struct Cut<W> {
    out: W,
    width: usize,
}

impl<W: Write> Cut<W> {
    fn line(&mut self, text: &str) -> io::Result<()> {
        self.styled(text, Style::new(false), 0)
    }

    /// A line of which the first `strong` characters stand out.
    fn styled(&mut self, text: &str, style: Style, strong: usize) -> io::Result<()> {
        let text = text.trim_end();
        let text = match text.chars().count() > self.width {
            true => {
                let start: String = text.chars().take(self.width.saturating_sub(1)).collect();
                format!("{start}…")
            }
            false => text.to_owned(),
        };
        if strong == 0 {
            return writeln!(self.out, "{text}");
        }
        let start: String = text.chars().take(strong).collect();
        let rest: String = text.chars().skip(strong).collect();
        writeln!(self.out, "{}{rest}", style.strong(&start))
    }
}

fn heading<W: Write>(
    out: &mut Cut<W>,
    view: &mut View<'_>,
    function: &Annotated<'_>,
    style: Style,
) -> io::Result<()> {
    let ranges = function.ranges.iter();
    let ranges = ranges.map(|Range { start, end }| format!("{start:#x}-{end:#x}"));
    let ranges = ranges.collect::<Vec<_>>().join(", ");
    let path = String::from_utf8_lossy(&function.module.path);
    let name = printable(&function.found.name);
    let title = format!("# {name}  {} {ranges}", printable(&path));
    out.styled(&title, style, 2 + name.chars().count())?;
    if let Some(data) = &view.profile.windows {
        for (name, text) in windows::lines(data) {
            out.line(&format!("# {name:<11} {text}"))?;
        }
    }
    let machine = view
        .profile
        .samples
        .as_ref()
        .and_then(|s| s.machine.as_ref());
    for (name, text) in machine.into_iter().flat_map(samples::lines) {
        out.line(&printable(&format!("# {name:<11} {text}")))?;
    }
    if view.has_limits() {
        out.line(&format!(
            "# limits      hold in {:.0} of 100 entries, assuming {}",
            100.0 * LEVEL,
            view.basis().assumes()
        ))?;
    } else {
        out.line(&format!("# counts      {}", view.basis().name()))?;
    }
    if let (Some(time), Some(all)) = (&function.time, &view.profile.samples) {
        let (share, limits) = samples::share(time, &all.total());
        out.line(&format!(
            "# time        {} in {} samples, {:.2} % of all ({})",
            duration(time.executions.round() as u64),
            grouped(time.samples),
            100.0 * share,
            samples::range(limits),
        ))?;
        return no_build_id(out, function);
    }
    let some = |line: &&Line| line.count.is_some_and(|count| count.times > 0.0);
    let exact = view.basis() == Basis::Exact;
    let entered = match &executions(function.entered.as_ref(), exact)[..] {
        "" => String::new(),
        "1" => "entered once, ".to_owned(),
        times => format!("entered {times} times, "),
    };
    out.line(&format!(
        "# executed    {entered}{} instructions; {} of {} at least once",
        grouped(function.executed.round() as u64),
        grouped(function.lines.iter().filter(some).count() as u64),
        grouped(function.lines.len() as u64),
    ))?;
    let callers = function.callers.iter().take(CALLERS);
    let callers: Vec<String> = callers
        .map(|(from, count)| format!("{} {}", short(&view.name(*from)), grouped(*count)))
        .collect();
    if !callers.is_empty() {
        let more = match function.callers.len().saturating_sub(CALLERS) {
            0 => String::new(),
            n => format!(", and {n} more places"),
        };
        out.line(&printable(&format!(
            "# from        {}{more}",
            callers.join(", ")
        )))?;
    }
    no_build_id(out, function)
}

fn no_build_id<W: Write>(out: &mut Cut<W>, function: &Annotated<'_>) -> io::Result<()> {
    if function.module.build_id.is_empty() {
        out.line("# no build id: whether this is the file that was recorded is not known")?;
    }
    Ok(())
}

fn table<W: Write>(out: &mut Cut<W>, first: &str, rows: &[Row], style: Style) -> io::Result<()> {
    let titles = [first, "%", "address", "instruction", ""];
    let mut widths = titles.map(|title| title.chars().count());
    for row in rows {
        if let Row::Instruction(cells, _) = row {
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = (*width).max(cell.chars().count());
            }
        }
    }
    // A long instruction need not move what is known of all others.
    const MOST: usize = 44;
    widths[3] = widths[3].min(MOST);
    let joined = |cells: [&str; 5]| {
        let [count, share, address, text, notes] = cells;
        let [a, b, c, d, _] = widths;
        format!(" {count:>a$}  {share:>b$}  {address:>c$}  {text:<d$}  {notes}")
    };
    let head = joined(titles);
    out.styled(&format!("#{}", &head[1..]), style, head.chars().count())?;
    let indent = widths[0] + widths[1] + 5;
    for row in rows {
        match row {
            Row::Instruction(cells, hot) => {
                let line = joined([&cells[0], &cells[1], &cells[2], &cells[3], &cells[4]]);
                out.styled(&printable(&line), style, if *hot { indent } else { 0 })?;
            }
            Row::Source(text) => out.line(&format!("{:indent$}{}", "", printable(text)))?,
            Row::Gap => out.line(&format!("{:indent$}⋮", ""))?,
        }
    }
    Ok(())
}

/// `file.c:12 inlined ← into  text`.
fn source(sources: &mut Sources, location: &Location) -> String {
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
                .map(|n| short(n))
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

/// Returns how often something was executed: nothing where that is not known, or was not seen among the few that were looked at.
fn executions(count: Option<&Count>, exact: bool) -> String {
    let Some(count) = count.filter(|count| exact || count.times >= 0.5) else {
        return String::new();
    };
    let times = grouped(count.times.round() as u64);
    match count.limits {
        Some(Limits { low, high }) if count.times > 0.0 => {
            let doubt = 100.0 * (high - count.times).max(count.times - low) / count.times;
            format!("{times}±{:.0}%", doubt.min(999.0))
        }
        _ => times,
    }
}

fn share(line: &Line<'_>) -> String {
    if line.sampled.is_some() {
        return format!("{:.2}%", 100.0 * line.share);
    }
    match line.count {
        Some(count) if count.times > 0.0 => format!("{:.2}%", 100.0 * line.share),
        _ => String::new(),
    }
}

/// Returns what is known of an instruction.
fn notes(view: &mut View<'_>, line: &Line<'_>) -> String {
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
            .map(|(to, part)| format!("{} {}", short(&view.name(*to)), percent(part)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let written = |width, style, strong| {
            let mut out = Cut {
                out: Vec::new(),
                width,
            };
            out.styled("0123456789 ä  ", style, strong).expect("memory");
            String::from_utf8(out.out).expect("UTF-8")
        };
        let plain = Style::new(false);
        assert_eq!(written(usize::MAX, plain, 0), "0123456789 ä\n");
        assert_eq!(written(12, plain, 0), "0123456789 ä\n");
        assert_eq!(written(5, plain, 3), "0123…\n");
        let coloured = written(5, Style::new(true), 9);
        assert!(coloured.contains("0123…") && coloured.ends_with('\n'));
    }
}
