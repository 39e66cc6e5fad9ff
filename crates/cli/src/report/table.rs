//! Tables for people, and what their cells have in common.

use std::io::{self, Write};

use trommel_profile::limits::Limits;

use super::view::View;
use crate::output::{grouped, printable};

/// Values shown for one instruction.
pub(super) const VALUES_IN_ROW: usize = 3;
/// Longer names are cut in the middle of tables.
const MAX_NAME: usize = 48;

/// Colours, or none.
#[derive(Clone, Copy)]
pub(crate) struct Style {
    pub(super) bold: &'static str,
    pub(super) plain: &'static str,
}

impl Style {
    pub(crate) fn new(colours: bool) -> Self {
        match colours {
            true => Self {
                bold: "\x1b[1m",
                plain: "\x1b[0m",
            },
            false => Self {
                bold: "",
                plain: "",
            },
        }
    }

    /// A heading's name.
    pub(crate) fn strong(self, name: &str) -> String {
        format!("{}{name}{}", self.bold, self.plain)
    }
}

/// The title of the column of limits; none where there are no limits, and then no column.
pub(super) fn limits_title(view: &View<'_>) -> &'static str {
    if view.has_limits() { "95 % limits" } else { "" }
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

/// `name`, cut in its middle where it is too long.
pub(crate) fn short(name: &str) -> String {
    let length = name.chars().count();
    if length <= MAX_NAME {
        return name.to_owned();
    }
    let start: String = name.chars().take(MAX_NAME / 2).collect();
    let end: String = name.chars().skip(length - MAX_NAME / 2 + 1).collect();
    format!("{start}…{end}")
}

/// Columns, as wide as what is in them; the first two are numbers.
pub(crate) struct Table<const N: usize> {
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    pub(crate) fn new(titles: [&str; N]) -> Self {
        Self {
            rows: vec![titles.map(str::to_owned)],
        }
    }

    pub(crate) fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells.map(|cell| printable(&cell)));
    }

    pub(crate) fn write(&self, out: &mut impl Write, style: Style) -> io::Result<()> {
        let width = |i: usize| {
            let widths = self.rows.iter().map(|row| row[i].chars().count());
            widths.max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..N).map(width).collect();
        for (number, row) in self.rows.iter().enumerate() {
            let mut line = String::new();
            for (i, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                if width == 0 {
                    continue;
                }
                line.push_str(if i == 0 { " " } else { "  " });
                line.push_str(&match i < 2 {
                    true => format!("{cell:>width$}"),
                    false => format!("{cell:<width$}"),
                });
            }
            let line = line.trim_end();
            match number {
                0 => writeln!(out, "#{}{line}{}", style.bold, style.plain)?,
                _ => writeln!(out, " {line}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_keep_both_ends() {
        let name = format!("{}{}", "a".repeat(60), "z".repeat(60));
        let cut = short(&name);
        assert!(cut.chars().count() == MAX_NAME && cut.starts_with("aaa") && cut.ends_with("zzz"));
    }
}
