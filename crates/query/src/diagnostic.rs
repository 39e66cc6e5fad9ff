//! Diagnostics of a query text: the mistake, its place, and the fix.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt::Write;

/// A range of bytes in the text, end exclusive.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// After the last byte.
    pub end: usize,
}

impl Span {
    /// From the start of `self` to the end of `other`.
    #[must_use]
    pub const fn to(self, other: Self) -> Self {
        Self {
            start: self.start,
            end: other.end,
        }
    }
}

/// A line and a column, both from 1; columns count characters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl Position {
    /// The position of a byte of `text`; after its end, the end's.
    pub fn of(text: &str, byte: usize) -> Self {
        let mut byte = byte.min(text.len());
        while !text.is_char_boundary(byte) {
            byte -= 1;
        }
        let before = &text[..byte];
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        Self {
            line: before.matches('\n').count() + 1,
            column: before[start..].chars().count() + 1,
        }
    }
}

/// Says whether it can be assembled in spite of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Severity {
    /// It can: what it means is probably not what was meant.
    Warning,
    /// It cannot.
    Error,
}

impl Severity {
    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// Something wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// Severity of the problem.
    pub severity: Severity,
    /// Position in the text.
    pub span: Span,
    /// The problem.
    pub message: String,
    /// The remedy.
    pub fix: String,
}

impl Diagnostic {
    /// An error.
    pub fn error(span: Span, message: impl ToString, fix: impl ToString) -> Self {
        Self {
            severity: Severity::Error,
            span,
            message: message.to_string(),
            fix: fix.to_string(),
        }
    }

    /// A warning.
    pub fn warning(span: Span, message: impl ToString, fix: impl ToString) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error(span, message, fix)
        }
    }

    /// Returns what is wrong with `text`, which comes from `file`: the place, its line with marks below it, and
    /// the fix. Several lines, each ended.
    pub fn render(&self, file: &str, text: &str) -> String {
        let from = Position::of(text, self.span.start);
        let to = Position::of(text, self.span.end);
        let line = text.split('\n').nth(from.line - 1).unwrap_or("");
        let line = line.strip_suffix('\r').unwrap_or(line);
        let length = line.chars().count();
        let end = if to.line == from.line {
            to.column
        } else {
            length + 1
        };
        let marks = end.saturating_sub(from.column).max(1);
        // What the window cuts off tells nothing; a hostile line may have a million columns.
        let first = from.column.saturating_sub(60).max(1);
        let shown: String = line.chars().skip(first - 1).take(140).collect();
        let number = from.line.to_string();
        let mut out = format!(
            "{file}:{}:{}: {}: {}\n",
            from.line,
            from.column,
            self.severity.name(),
            self.message
        );
        let _ = writeln!(out, "{number} | {}", shown.replace('\t', " "));
        let margin = number.len();
        let before = from.column - first;
        let marks = "^".repeat(marks.min(140_usize.saturating_sub(before)).max(1));
        let _ = writeln!(out, "{:margin$} | {:before$}{marks}", "", "");
        let _ = writeln!(out, "{:margin$} = fix: {}", "", self.fix);
        out
    }
}

/// The one of `names` that `word` was probably meant to be.
pub(crate) fn closest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_ascii_lowercase();
    if word.len() > 32 {
        return None;
    }
    let mut best = None;
    for name in names {
        let distance = distance(&word, &name.to_ascii_lowercase());
        if distance <= 1 + word.len() / 4 && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, name));
        }
    }
    best.map(|(_, name)| name)
}

/// The edits (insertions, deletions, substitutions) from one word to another.
fn distance(from: &str, to: &str) -> usize {
    let mut row: alloc::vec::Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.bytes().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, b) in to.bytes().enumerate() {
            let substituted = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_stand_below_what_is_meant() {
        let text = "for opLOAD *\r\n\talways collect pé op9;\n";
        let at = text.find("op9").expect("there");
        let span = Span {
            start: at,
            end: at + 3,
        };
        let shown = Diagnostic::error(span, "no field", "write op1").render("q.rpa", text);
        assert_eq!(
            shown,
            "q.rpa:2:20: error: no field\n\
             2 |  always collect pé op9;\n\
             \x20 |                    ^^^\n\
             \x20 = fix: write op1\n"
        );
        let end = Span {
            start: text.len(),
            end: text.len(),
        };
        let shown = Diagnostic::error(end, "ends", "go on").render("-", text);
        assert!(
            shown.starts_with("-:3:1: error: ends\n3 | \n  | ^\n"),
            "{shown}"
        );
    }

    #[test]
    fn long_lines_are_cut_around_the_place() {
        let text = "x".repeat(1_000_000);
        let span = Span {
            start: 500_000,
            end: 600_000,
        };
        let shown = Diagnostic::warning(span, "much", "less").render("q", &text);
        assert!(shown.len() < 600, "{}", shown.len());
        assert!(shown.starts_with("q:1:500001: warning: much\n"));
    }

    #[test]
    fn close_names_are_found() {
        let names = ["opLOAD", "opSTORE", "opALU"];
        assert_eq!(closest("oploda", names), Some("opLOAD"));
        assert_eq!(closest("opSTOR", names), Some("opSTORE"));
        assert_eq!(closest("elephant", names), None);
    }
}
