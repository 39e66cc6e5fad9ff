//! Diagnostics of a query text: the mistake, its place, and the fix.

use alloc::string::{String, ToString};

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
            message: shortened(&message.to_string()),
            fix: shortened(&fix.to_string()),
        }
    }

    /// A warning.
    pub fn warning(span: Span, message: impl ToString, fix: impl ToString) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error(span, message, fix)
        }
    }
}

/// Characters of a quoted word that are shown.
const SHOWN: usize = 64;

/// A sentence whose quoted words are cut where they are long: a word of a text may be a megabyte.
fn shortened(sentence: &str) -> String {
    let mut out = String::new();
    for (n, part) in sentence.split('`').enumerate() {
        let is_quoted = n % 2 == 1;
        if n > 0 {
            out.push('`');
        }
        match part.char_indices().nth(SHOWN) {
            Some((at, _)) if is_quoted => {
                out.push_str(&part[..at]);
                out.push('…');
            }
            _ => out.push_str(part),
        }
    }
    out
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
    use alloc::format;

    use super::*;

    #[test]
    fn quoted_words_are_cut_and_nothing_else() {
        let long = "x".repeat(1_000_000);
        let found = Diagnostic::warning(
            Span::default(),
            format!("`{long}` is no field"),
            format!("write `{long}:` before a clause, or `op1`"),
        );
        let cut = "x".repeat(64);
        assert_eq!(found.message, format!("`{cut}…` is no field"));
        assert_eq!(
            found.fix,
            format!("write `{cut}…` before a clause, or `op1`")
        );
        let fix = "a sentence without quoted words stays as it is, however long it may be, and so do short words";
        assert_eq!(shortened(fix), fix);
    }

    #[test]
    fn close_names_are_found() {
        let names = ["opLOAD", "opSTORE", "opALU"];
        assert_eq!(closest("oploda", names), Some("opLOAD"));
        assert_eq!(closest("opSTOR", names), Some("opSTORE"));
        assert_eq!(closest("elephant", names), None);
    }
}
