//! Tables for people, and what their cells have in common.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

use trommel_profile::limits::Limits;
use trommel_symbol::fit;
use trommel_tuple::Kind;
use unicode_width::UnicodeWidthStr;

use super::view::View;
use crate::output::{self, grouped, printable};

/// Values shown for one instruction.
pub(super) const VALUES_IN_ROW: usize = 3;
/// The title of the column of limits.
pub(super) const LIMITS: &str = "95 % limits";
/// The title of the column of source lines.
pub(super) const SOURCE: &str = "source";
/// The same, of the second instruction of a pair.
pub(super) const SECOND_SOURCE: &str = "second.source";
/// Titles of the columns of accesses, and of the part of them that missed.
pub(super) const OF_ACCESSES: [&str; 2] = ["accesses", "miss rate"];
/// Titles of the columns of a branch's executions, and of the part of them that were mispredicted.
pub(super) const OF_BRANCHES: [&str; 2] = ["executed", "rate"];
/// The title of the column with the part of a function that was inlined into others.
pub(super) const INLINED: &str = "inlined";
/// Columns that a table leaves out where it would be too wide, the first one first.
const LEFT_OUT: [&str; 4] = [LIMITS, "module", SOURCE, "distinct"];
/// Columns that a table leaves out where they are empty.
const OPTIONAL: [&str; 9] = [
    SOURCE,
    "process",
    "thread",
    "error",
    INLINED,
    OF_ACCESSES[0],
    OF_ACCESSES[1],
    OF_BRANCHES[0],
    OF_BRANCHES[1],
];
/// Columns of text are not made narrower than this.
const LEAST_TEXT: usize = 8;

/// Colours, or none, and the width of lines.
#[derive(Clone, Copy)]
pub(crate) struct Style {
    pub(super) bold: &'static str,
    pub(super) plain: &'static str,
    /// Columns of the terminal; without one, no line is too wide.
    pub(crate) width: usize,
}

impl Style {
    pub(crate) fn new(colours: bool) -> Self {
        let (bold, plain) = match colours {
            true => ("\x1b[1m", "\x1b[0m"),
            false => ("", ""),
        };
        Self {
            bold,
            plain,
            width: usize::MAX,
        }
    }

    /// The style of a stream: colours and width of a terminal.
    pub(crate) fn of(stream: &(impl IsTerminal + AsFd)) -> Self {
        Self {
            width: output::width(stream),
            ..Self::new(output::colours(stream))
        }
    }

    /// Returns true if there are colours.
    pub(crate) const fn coloured(self) -> bool {
        !self.bold.is_empty()
    }

    /// A heading's name.
    pub(crate) fn strong(self, name: &str) -> String {
        format!("{}{name}{}", self.bold, self.plain)
    }
}

/// Title of the table of a kind, and the word for one of its rows.
pub(super) fn title(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::Edge => ("Branches", "branch"),
        Kind::Call => ("Calls", "call"),
        Kind::Value => ("Loaded values", "load"),
        Kind::Result => ("Results", "instruction"),
        Kind::Type => ("Receiver types (method tables)", "call"),
        Kind::Address => ("Addresses", "instruction"),
        Kind::Latency => ("Latencies in cycles", "load"),
        Kind::Path => ("Acyclic paths", "begins at"),
        Kind::Miss => ("Misses of the first-level cache", "instruction"),
        Kind::LastMiss => ("Misses of the last-level cache", "instruction"),
        Kind::Mispredict => ("Mispredicted branches", "branch"),
    }
}

/// The title of the column of limits; none where there are no limits, and then no column.
pub(super) fn limits_title(view: &View<'_>) -> &'static str {
    if view.has_limits() { LIMITS } else { "" }
}

/// Limits in three digits.
pub(super) fn range(limits: Limits) -> String {
    format!("{}–{}", rounded(limits.low), rounded(limits.high))
}

fn rounded(number: f64) -> String {
    let (scaled, unit) = match number {
        n if n >= 9.995e8 => (n / 1e9, "G"),
        n if n >= 999_500.0 => (n / 1e6, "M"),
        n if n >= 9_995.0 => (n / 1e3, "k"),
        n => return format!("{n:.0}"),
    };
    let digits = match scaled {
        s if s >= 99.95 => 0,
        s if s >= 9.995 => 1,
        _ => 2,
    };
    format!("{scaled:.digits$}{unit}")
}

/// A number, or a lower limit.
pub(super) fn limited(number: u64, at_least: bool) -> String {
    match at_least {
        true => format!("≥{}", grouped(number)),
        false => grouped(number),
    }
}

/// Writes the number of entries that are not shown.
pub(crate) fn more(out: &mut impl Write, all: usize, top: usize) -> io::Result<()> {
    match all.checked_sub(top).filter(|n| *n > 0) {
        Some(rest) => writeln!(
            out,
            "# … and {} more: --top N shows N, --top 0 all",
            grouped(rest as u64)
        ),
        None => Ok(()),
    }
}

/// A line that ends where the terminal does.
pub(crate) fn ended(line: &str, width: usize) -> String {
    if line.width() <= width {
        return line.to_owned();
    }
    let mut out = String::new();
    for c in line.chars() {
        let mut next = out.clone();
        next.push(c);
        if next.width() >= width {
            break;
        }
        out = next;
    }
    out + "…"
}

/// A cell in at most so many columns.
fn cut(cell: &str, width: usize) -> String {
    let cut = fit(cell, width);
    match cut.width() > width {
        // Of wide characters.
        true => fit(cell, width / 2),
        false => cut,
    }
}

/// Columns, as wide as what is in them; the first ones are numbers.
pub(crate) struct Table<const N: usize> {
    rows: Vec<[String; N]>,
    numbers: usize,
}

impl<const N: usize> Table<N> {
    pub(crate) fn new(titles: [&str; N]) -> Self {
        Self {
            rows: vec![titles.map(str::to_owned)],
            numbers: 2,
        }
    }

    /// Puts the contents of the first columns to the right.
    pub(crate) fn numbers(mut self, columns: usize) -> Self {
        self.numbers = columns;
        self
    }

    pub(crate) fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells.map(|cell| printable(&cell)));
    }

    /// Returns true if there are no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.len() < 2
    }

    pub(crate) fn write(&self, out: &mut impl Write, style: Style) -> io::Result<()> {
        let widths = self.widths(style.width);
        for (number, row) in self.rows.iter().enumerate() {
            let mut line = String::new();
            for (i, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                if width == 0 {
                    continue;
                }
                line.push_str(if line.is_empty() { " " } else { "  " });
                let cell = cut(cell, width);
                let gap = " ".repeat(width.saturating_sub(cell.width()));
                match i < self.numbers {
                    true => line.extend([gap, cell]),
                    false => line.extend([cell, gap]),
                }
            }
            let line = ended(line.trim_end(), style.width.saturating_sub(1));
            match number {
                0 => writeln!(out, "#{}{line}{}", style.bold, style.plain)?,
                _ => writeln!(out, " {line}")?,
            }
        }
        Ok(())
    }

    /// The width of each column so that lines fit; 0 of a column that is left out.
    fn widths(&self, most: usize) -> Vec<usize> {
        let width = |i: usize| {
            let widths = self.rows.iter().map(|row| row[i].width());
            let empty = self.rows.iter().skip(1).all(|row| row[i].is_empty());
            // A column that nothing is in helps nobody.
            match empty && !self.is_empty() && OPTIONAL.contains(&&*self.rows[0][i]) {
                true => 0,
                false => widths.max().unwrap_or(0),
            }
        };
        let widths = (0..N).map(width).collect();
        narrowed(widths, &self.rows[0], self.numbers, most)
    }
}

/// Widths of columns so that lines have at most so many: columns with titles of [`LEFT_OUT`] get 0, the first one first, and then text is cut.
fn narrowed(mut widths: Vec<usize>, titles: &[String], numbers: usize, most: usize) -> Vec<usize> {
    let line = |widths: &[usize]| -> usize {
        let shown = widths.iter().filter(|w| **w > 0);
        shown.map(|w| w + 2).sum()
    };
    for title in &LEFT_OUT {
        // Names are worth more than what is left out, so they are not cut for it.
        if line(&widths) <= most {
            return widths;
        }
        let column = titles.iter().position(|cell| cell == *title);
        if let Some(column) = column {
            widths[column] = 0;
        }
    }
    // The widest text gives way, step by step.
    while line(&widths) > most {
        let text = (numbers.min(widths.len())..widths.len()).max_by_key(|i| widths[*i]);
        match text.filter(|i| widths[*i] > LEAST_TEXT) {
            Some(widest) => widths[widest] -= 1,
            None => break,
        }
    }
    widths
}

/// The shape of a table whose columns are known at run time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    /// Columns at the start that are numbers.
    pub(super) numbers: usize,
    /// Columns of text that stay side by side where a row takes several lines.
    pub(super) together: usize,
}

/// Writes a table whose columns are known at run time: titles, and then rows as long.
///
/// Where it would be too wide, limits are left out, and then source lines. Names are cut then, and numbers never. Where that is not enough, each row takes several
/// lines, with the columns of text below each other, and so do the titles.
pub(super) fn columns(
    out: &mut impl Write,
    rows: &[Vec<String>],
    shape: Shape,
    style: Style,
) -> io::Result<()> {
    let Some(titles) = rows.first() else {
        return Ok(());
    };
    let all = |n: &usize| Column::of(rows, *n);
    let mut shown: Vec<usize> = (0..titles.len()).collect();
    for title in [LIMITS, SECOND_SOURCE, SOURCE] {
        let natural: usize = shown.iter().map(|n| all(n).widest + GAP).sum();
        if natural > style.width {
            shown.retain(|n| titles[*n] != title);
        }
    }
    let numbers = shown.iter().filter(|n| **n < shape.numbers).count();
    let (numbers, texts) = shown.split_at(numbers);
    let before: Vec<Column> = numbers.iter().map(all).collect();
    let taken: usize = before.iter().map(|column| column.widest + GAP).sum();
    let texts: Vec<(usize, Column)> = texts.iter().map(|n| (*n, all(n))).collect();
    let widths = widths_of_texts(&texts, shape.together, style.width.saturating_sub(taken));
    for (number, row) in rows.iter().enumerate() {
        let mut start = String::new();
        for (n, column) in numbers.iter().zip(&before) {
            start.push_str(&format!("  {}", aligned(&row[*n], column.widest, true)));
        }
        for part in texts.chunks(widths.len().max(1)) {
            let mut line = std::mem::replace(&mut start, " ".repeat(taken));
            for ((n, _), width) in part.iter().zip(&widths) {
                line.push_str(&format!("  {}", aligned(&row[*n], *width, false)));
            }
            let line = ended(line.trim_end(), style.width);
            match number {
                0 => writeln!(out, "{}", style.strong(&line))?,
                _ => writeln!(out, "{line}")?,
            }
        }
    }
    Ok(())
}

/// Columns between two others.
const GAP: usize = 2;
/// Names are not cut below this where a row can take several lines.
const LEAST_NAME: usize = 20;

/// The width that a column has, and the one that it needs.
#[derive(Clone, Copy)]
struct Column {
    widest: usize,
    least: usize,
}

impl Column {
    fn of(rows: &[Vec<String>], n: usize) -> Self {
        let cells = rows.iter().filter_map(|row| row.get(n));
        let widest = cells.map(|cell| cell.width()).max().unwrap_or(0);
        let title = rows[0].get(n).map_or(0, |title| title.width());
        let mut cells = rows.iter().skip(1).filter_map(|row| row.get(n));
        let is_number = cells.all(|cell| cell.starts_with(|c: char| c.is_ascii_digit()));
        Self {
            widest,
            // A number without some of its digits is another number.
            least: match is_number {
                true => widest,
                false => widest.min(LEAST_NAME.max(title)),
            },
        }
    }
}

/// Widths of the columns of text in a line: as many as fit, in multiples of `together`.
fn widths_of_texts(texts: &[(usize, Column)], together: usize, room: usize) -> Vec<usize> {
    let together = together.max(1);
    let most = |count: usize, width: fn(&Column) -> usize| -> Vec<usize> {
        let column = |n: usize| texts.iter().skip(n).step_by(count);
        let widest = |n| column(n).map(|(_, column)| width(column)).max();
        (0..count).map(|n| widest(n).unwrap_or(0)).collect()
    };
    let line = |widths: &[usize]| -> usize { widths.iter().map(|width| width + GAP).sum() };
    let multiples = (1..=texts.len().div_ceil(together)).rev();
    let mut counts = multiples.map(|n| (n * together).min(texts.len()));
    let fits = |count: &usize| line(&most(*count, |column| column.least)) <= room;
    let count = counts.find(fits).unwrap_or(together.min(texts.len()));
    let mut widths = most(count, |column| column.widest);
    let least = most(count, |column| column.least);
    // The widest name gives way, step by step.
    while line(&widths) > room {
        let cut = (0..count).filter(|n| widths[*n] > least[*n]);
        match cut.max_by_key(|n| widths[*n]) {
            Some(widest) => widths[widest] -= 1,
            None => break,
        }
    }
    widths
}

/// A cell in its column.
fn aligned(cell: &str, width: usize, right: bool) -> String {
    let cell = cut(cell, width);
    let gap = " ".repeat(width.saturating_sub(cell.width()));
    match right {
        true => gap + &cell,
        false => cell + &gap,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(width: usize) -> String {
        let mut table = Table::new(["count", "%", LIMITS, "branch", "", "to", "source", "module"]);
        for name in [
            "main",
            "library::inner::Type::function_of_some_length+0x123",
        ] {
            table.row([
                grouped(123_456_789_012),
                "12.34%".into(),
                "1.20G–3.40G".into(),
                name.into(),
                "fallthrough".into(),
                "+0x1234".into(),
                "a_source_file.cc:1234".into(),
                "libstdc++.so.6.0.33".into(),
            ]);
        }
        let mut out = Vec::new();
        let style = Style {
            width,
            ..Style::new(false)
        };
        table.write(&mut out, style).expect("memory");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn tables_fit_and_drop_limits_then_modules_first() {
        for width in [40, 60, 80, 120, 200] {
            let text = written(width);
            assert!(text.lines().all(|l| l.width() <= width), "{width}:\n{text}");
            assert!(text.contains("main") && text.contains("123 456 789 012"));
        }
        assert!(written(200).contains(LIMITS) && written(200).contains("module"));
        assert!(!written(150).contains(LIMITS) && written(150).contains("module"));
        assert!(!written(125).contains("module") && written(125).contains("source"));
        assert!(!written(80).contains("source"));
        assert_eq!(written(usize::MAX), written(200));
    }

    /// A table of `columns` whose first two columns are numbers, at a width.
    fn laid_out(rows: &[&[&str]], together: usize, width: usize) -> String {
        let row = |row: &&[&str]| row.iter().map(|cell| (*cell).to_owned()).collect();
        let rows: Vec<Vec<String>> = rows.iter().map(row).collect();
        let style = Style {
            width,
            ..Style::new(false)
        };
        let shape = Shape {
            numbers: 2,
            together,
        };
        let mut out = Vec::new();
        columns(&mut out, &rows, shape, style).expect("memory");
        String::from_utf8(out).expect("UTF-8")
    }

    const NAME: &str = "library::inner::Type::function_of_some_length+0x123";
    const ADDRESS: &str = "0xffffffffffffff08";

    #[test]
    fn columns_known_at_run_time_fit_and_drop_limits_first() {
        let rows: [&[&str]; 2] = [
            &["messages", LIMITS, "pc", "second.pc", "distance"],
            &["123 456", "1.20G–3.40G", NAME, NAME, "7"],
        ];
        for width in [50, 80, 120, 200] {
            let text = laid_out(&rows, 1, width);
            assert!(text.lines().all(|l| l.width() <= width), "{width}:\n{text}");
            assert!(text.contains("123 456") && text.contains("distance"));
        }
        assert!(laid_out(&rows, 1, usize::MAX).contains(LIMITS));
        let narrow = laid_out(&rows, 1, 130);
        assert!(!narrow.contains(LIMITS) && narrow.contains(NAME));
        assert!(!laid_out(&rows, 1, 80).contains(NAME));
    }

    /// Whatever is collected: no number is cut, at a width that has room for two of them.
    #[test]
    fn rows_take_several_lines_where_numbers_would_be_cut() {
        let titles = [
            "messages",
            "%",
            "pc",
            "second.pc",
            "res2",
            "second.res2",
            "distance",
        ];
        let row = ["123 456", "12.3", NAME, NAME, ADDRESS, ADDRESS, "16"];
        for texts in 1..=5 {
            let rows: [&[&str]; 2] = [&titles[..2 + texts], &row[..2 + texts]];
            for together in [1, 2] {
                for width in [60, 80, 100, 120, 200, usize::MAX] {
                    let text = laid_out(&rows, together, width);
                    let all = |wanted: &[&str]| wanted.iter().all(|cell| text.contains(cell));
                    assert!(text.lines().all(|l| l.width() <= width), "{width}:\n{text}");
                    assert!(all(&titles[..2 + texts]), "{width}:\n{text}");
                    let whole = row[..2 + texts].iter().filter(|cell| **cell != NAME);
                    assert!(all(&whole.copied().collect::<Vec<_>>()), "{width}:\n{text}");
                }
            }
        }
        // A row with room for all is one line; parts of a pair stay side by side.
        let rows: [&[&str]; 2] = [&titles, &row];
        assert_eq!(laid_out(&rows, 2, 200).lines().count(), 2);
        let folded = laid_out(&rows, 2, 80);
        assert_eq!(folded.lines().count(), 6, "{folded}");
        assert!(
            folded.lines().any(|l| l.matches(ADDRESS).count() == 2),
            "{folded}"
        );
        let column = |line: usize, what: &str| folded.lines().nth(line).and_then(|l| l.find(what));
        assert_eq!(column(0, "second.pc"), column(1, "second.res2"), "{folded}");
        assert_eq!(column(1, "res2"), column(4, "0x"), "{folded}");
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let mut table = Table::new(["n", "", "name", "source"]);
        for name in ["表計算", "sheet"] {
            table.row(["1".into(), String::new(), name.into(), "s.c:1".into()]);
        }
        let mut out = Vec::new();
        table.write(&mut out, Style::new(false)).expect("memory");
        let text = String::from_utf8(out).expect("UTF-8");
        let columns: Vec<usize> = (text.lines().skip(1))
            .map(|l| l[..l.find("s.c").expect("there")].width())
            .collect();
        assert_eq!(columns[0], columns[1], "{text}");
    }
}
