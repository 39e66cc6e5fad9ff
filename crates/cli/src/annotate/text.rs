//! The annotated function for people: what is hot first, then source lines with the instructions that came of them.
//!
//! No line is wider than the terminal. A long function begins with its hottest lines and its hottest block.

use std::collections::HashMap;
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

use trommel_code::Count;
use trommel_profile::confidence::Basis;
use trommel_profile::limits::Limits;
use trommel_profile::unit::Unit;
use trommel_symbol::Location;

use super::annotated::{Annotated, Line};
use super::notes::{notes, source};
use super::order::{self, Piece};
use super::paint::{Canvas, Paint};
use super::source::Sources;
use crate::output::{duration, grouped, printable};
use crate::report::samples;
use crate::report::table::Style;
use crate::report::view::View;
use crate::report::windows;

/// Instructions with this part of the function's executions stand out.
const WARM: f64 = 0.05;
/// Those with this part of the hottest one's stand out most, if they are warm.
const HOT: f64 = 0.5;
/// Callers named of a function.
const CALLERS: usize = 3;
/// Source lines named before the instructions, and the least share of one.
const LINES: usize = 5;
const LEAST_LINE: f64 = 0.01;
/// A longer listing begins with the hottest block.
const LONG: usize = 30;
/// Columns of a bar.
const BAR: usize = 5;

/// A line of output.
enum Row {
    /// Executions, their share, a bar, address, instruction, what is known of it.
    Instruction([String; 6], Paint),
    /// A line of the source.
    Source(String),
    /// Between parts of a function, or in place of instructions.
    Gap(String),
}

/// Writes a function; with `cold` those instructions too that were not executed.
pub(super) fn write(
    out: &mut impl Write,
    view: &mut View<'_>,
    function: &Annotated<'_>,
    style: Style,
    cold: bool,
) -> io::Result<()> {
    let mut out = Canvas::new(out, style);
    let path = Path::new(std::ffi::OsStr::from_bytes(&function.module.path));
    let mut sources = Sources::new(path);
    heading(&mut out, view, function)?;
    hot_lines(&mut out, view, function, &mut sources)?;
    let pieces = order::pieces(function, cold);
    let listed = pieces.iter().map(|piece| match piece {
        Piece::Lines(lines) => lines.len(),
        Piece::Cold(_) | Piece::Gap => 1,
    });
    let listed: usize = listed.sum();
    let hottest = order::hottest(function).filter(|block| listed > LONG && block.len() < listed);
    let mut rows = Vec::new();
    let unit = view.profile.unit();
    let mut listing = Listing {
        view,
        function,
        sources: &mut sources,
        most: (function.lines.iter()).map(|l| l.share).fold(0.0, f64::max),
    };
    for piece in hottest.iter().cloned().map(Piece::Lines).chain(pieces) {
        listing.add(&mut rows, &piece);
    }
    let first = match function.time {
        Some(_) => "time",
        None => match unit {
            Unit::Instructions => "executions",
            Unit::Cycles => "cycles",
        },
    };
    // The hottest block is a table of its own, with the columns of the other.
    let of_block = hottest.clone().map(Piece::Lines).map(|piece| {
        let mut rows = Vec::new();
        listing.add(&mut rows, &piece);
        rows.len()
    });
    let widths = widths(first, &rows);
    let mut rest = &rows[..];
    if let (Some(block), Some(number)) = (&hottest, of_block) {
        let share = 100.0 * order::share(&function.lines[block.clone()]);
        let title = format!("# hottest block: {share:.1} % of the function");
        out.painted(&[(Paint::Strong, &title)])?;
        let (hot, all) = rows.split_at(number);
        table(&mut out, first, widths, hot)?;
        out.line("")?;
        out.painted(&[(Paint::Strong, "# all of it, the hottest part first")])?;
        rest = all;
    }
    table(&mut out, first, widths, rest)?;
    for file in sources.newer() {
        out.line(&format!(
            "# newer than the program, so lines may be others: {}",
            printable(file)
        ))?;
    }
    out.out.flush()
}

/// Rows of a listing as they are made.
struct Listing<'l, 'v, 'p> {
    view: &'l mut View<'v>,
    function: &'l Annotated<'p>,
    sources: &'l mut Sources,
    /// The greatest share of an instruction.
    most: f64,
}

impl Listing<'_, '_, '_> {
    fn add(&mut self, rows: &mut Vec<Row>, piece: &Piece) {
        let lines = match piece {
            Piece::Lines(lines) => lines.clone(),
            Piece::Cold(lines) => {
                let number = lines.len();
                rows.push(Row::Gap(format!("⋮ {number} instructions, not executed")));
                return;
            }
            Piece::Gap => return rows.push(Row::Gap("⋮".to_owned())),
        };
        let mut position = None;
        for line in &self.function.lines[lines] {
            let location = self.view.locate(line.at);
            let here = (
                location.file.clone(),
                location.line,
                location.inlined.clone(),
            );
            if location.file.is_some() && position.as_ref() != Some(&here) {
                rows.push(Row::Source(source(self.sources, &location)));
            }
            position = Some(here);
            rows.push(self.instruction(line));
        }
    }

    fn instruction(&mut self, line: &Line<'_>) -> Row {
        let exact = self.view.basis() == Basis::Exact;
        let cells = [
            match &line.sampled {
                Some(found) => duration(found.sampled.executions.round() as u64),
                None => executions(line.count.as_ref(), exact),
            },
            share(line),
            bar(line.share, self.most),
            format!("{:x}", line.at.vaddr().0),
            line.text.clone(),
            notes(self.view, line),
        ];
        let paint = match line.share {
            share if share >= WARM && share >= HOT * self.most => Paint::Hot,
            share if share >= WARM => Paint::Warm,
            _ if line.count.is_some_and(|count| count.times < 0.5) => Paint::Faint,
            _ => Paint::Plain,
        };
        Row::Instruction(cells, paint)
    }
}

/// A bar for a share, as long as the column for the greatest one.
fn bar(share: f64, most: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    if most <= 0.0 {
        return String::new();
    }
    let eighths = (share / most * (8 * BAR) as f64).round() as usize;
    let eighths = eighths.min(8 * BAR);
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

/// Writes the source lines that executed most of the function.
fn hot_lines<W: Write>(
    out: &mut Canvas<W>,
    view: &mut View<'_>,
    function: &Annotated<'_>,
    sources: &mut Sources,
) -> io::Result<()> {
    let mut sums: HashMap<(Rc<str>, u32), (f64, Rc<Location>)> = HashMap::new();
    for line in function.lines.iter().filter(|line| line.share > 0.0) {
        let location = view.locate(line.at);
        let (Some(file), Some(number)) = (location.file.clone(), location.line) else {
            continue;
        };
        let sum = sums.entry((file, number)).or_insert((0.0, location));
        sum.0 += line.share;
    }
    let mut all: Vec<_> = sums.into_iter().collect();
    all.sort_by(|(a, (x, _)), (b, (y, _))| y.total_cmp(x).then_with(|| a.cmp(b)));
    if all.len() < 2 {
        return Ok(());
    }
    let shown = all.iter().filter(|(_, (share, _))| *share >= LEAST_LINE);
    for (n, (_, (share, location))) in shown.take(LINES).enumerate() {
        let title = if n == 0 { "lines" } else { "" };
        let text = printable(&source(sources, location));
        let share = format!("# {title:<11} {:>5.1} %  ", 100.0 * share);
        out.painted(&[(Paint::Plain, &share), (Paint::Source, &text)])?;
    }
    Ok(())
}

fn heading<W: Write>(
    out: &mut Canvas<W>,
    view: &mut View<'_>,
    function: &Annotated<'_>,
) -> io::Result<()> {
    let ranges = function.ranges.iter();
    let ranges = ranges.map(|Range { start, end }| format!("{start:#x}-{end:#x}"));
    let ranges = ranges.collect::<Vec<_>>().join(", ");
    let path = String::from_utf8_lossy(&function.module.path);
    let name = printable(&function.found.name);
    let rest = format!("  {} {ranges}", printable(&path));
    out.painted(&[
        (Paint::Plain, "# "),
        (Paint::Strong, &name),
        (Paint::Plain, &rest),
    ])?;
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
        out.line(&format!("# limits      {}", view.about_limits()))?;
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
    let unit = view.profile.unit();
    let of = match unit {
        Unit::Instructions => "",
        Unit::Cycles => " instructions",
    };
    out.line(&format!(
        "# executed    {entered}{}; {} of {}{of} at least once",
        format_args!(
            "{} {}",
            grouped(function.executed.round() as u64),
            unit.in_words()
        ),
        grouped(function.lines.iter().filter(some).count() as u64),
        grouped(function.lines.len() as u64),
    ))?;
    let callers = function.callers.iter().take(CALLERS);
    let named = |(from, count): &(_, _)| format!("{} {}", view.name(*from), grouped(*count));
    let mut callers: Vec<String> = callers.map(named).collect();
    if let Some(signals @ 1..) = function.signals {
        callers.insert(0, format!("signals {}", grouped(signals)));
    }
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

fn no_build_id<W: Write>(out: &mut Canvas<W>, function: &Annotated<'_>) -> io::Result<()> {
    if function.module.build_id.is_empty() {
        out.line("# no build id: whether this is the file that was recorded is not known")?;
    }
    Ok(())
}

/// The widths of columns, the last one excepted.
fn widths(first: &str, rows: &[Row]) -> [usize; 5] {
    // A long instruction need not move what is known of all others.
    const MOST: usize = 44;
    let mut widths = [first, "%", "", "address", "instruction"].map(|t| t.chars().count());
    widths[2] = BAR;
    for row in rows {
        if let Row::Instruction(cells, _) = row {
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = (*width).max(cell.chars().count());
            }
        }
    }
    widths[4] = widths[4].min(MOST);
    widths
}

fn table<W: Write>(
    out: &mut Canvas<W>,
    first: &str,
    widths: [usize; 5],
    rows: &[Row],
) -> io::Result<()> {
    let [a, b, c, d, e] = widths;
    let counts = |[count, share, bar]: [&str; 3]| format!(" {count:>a$}  {share:>b$} {bar:<c$}");
    let code = |[at, text, notes]: [&str; 3]| format!("  {at:>d$}  {text:<e$}  {notes}");
    let head = counts([first, "%", ""]) + &code(["address", "instruction", ""]);
    out.painted(&[(Paint::Strong, &format!("#{}", &head[1..]))])?;
    let indent = a + b + c + 6;
    for row in rows {
        match row {
            Row::Instruction([count, share, bar, at, text, notes], paint) => {
                let (counts, code) = (counts([count, share, bar]), code([at, text, notes]));
                let of_code = match paint {
                    Paint::Faint => Paint::Faint,
                    _ => Paint::Plain,
                };
                out.painted(&[(*paint, &printable(&counts)), (of_code, &printable(&code))])?;
            }
            Row::Source(text) => {
                let text = printable(text);
                out.painted(&[(Paint::Plain, &" ".repeat(indent)), (Paint::Source, &text)])?;
            }
            Row::Gap(text) => out.line(&format!("{:indent$}{text}", ""))?,
        }
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_shares() {
        assert_eq!(bar(0.5, 0.5), "█████");
        assert_eq!(bar(0.25, 0.5), "██▌");
        assert_eq!(bar(0.0, 0.5), "");
        assert_eq!(bar(0.0, 0.0), "");
    }
}
