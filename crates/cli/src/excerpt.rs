//! A line of somebody's text with marks below what is meant.
//!
//! The line may be a megabyte long, and hold characters that a terminal obeys, or that are two columns wide. Marks stand below what is shown.

use std::borrow::Cow;

use unicode_width::UnicodeWidthStr;

use crate::output::printable;

/// Columns at most, whatever the terminal has.
const MOST: usize = 140;
/// Columns at least: a terminal of fewer wraps them.
const LEAST: usize = 20;

/// A part of a line, and the marks below it.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Excerpt {
    pub(crate) shown: String,
    pub(crate) marks: String,
}

/// Returns the part of `line` around its character `at`, counted from 1, with marks below so many characters. It fits `columns`.
pub(crate) fn around(line: &str, at: usize, marked: usize, columns: usize) -> Excerpt {
    let columns = columns.clamp(LEAST, MOST);
    let front = columns * 3 / 7;
    // None is narrower than no column, and what has none is of the character before it.
    let at = at.max(1) - 1;
    let skipped = at.saturating_sub(front);
    let before: Vec<char> = line.chars().skip(skipped).take(at - skipped).collect();
    let cells = before.iter().rev().map(|c| cell(*c));
    let before: Vec<Cow<'static, str>> = within(cells, front).collect();
    let mut shown: String = before.iter().rev().map(|cell| &**cell).collect();
    let start = shown.width();
    let mut end = start;
    let rest = line.chars().skip(at).take(columns).map(cell);
    for (n, cell) in within(rest, columns - start).enumerate() {
        shown.push_str(&cell);
        if n < marked {
            end += cell.width();
        }
    }
    let marks = format!("{:start$}{}", "", "^".repeat((end - start).max(1)));
    Excerpt { shown, marks }
}

/// The first of some texts that fit so many columns together.
fn within(
    cells: impl Iterator<Item = Cow<'static, str>>,
    columns: usize,
) -> impl Iterator<Item = Cow<'static, str>> {
    let mut left = columns;
    cells.take_while(move |cell| {
        let width = cell.width();
        let fits = width <= left;
        left = left.saturating_sub(width);
        fits
    })
}

/// A character as it is shown.
fn cell(c: char) -> Cow<'static, str> {
    match c {
        '\t' => Cow::Borrowed(" "),
        c => Cow::Owned(printable(c.encode_utf8(&mut [0; 4]))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(line: &str, at: usize, marked: usize) -> (String, String) {
        let Excerpt { shown, marks } = around(line, at, marked, 40);
        (shown, marks)
    }

    #[test]
    fn marks_stand_below_what_is_meant() {
        for (line, at, marked, shown, marks) in [
            ("\talways op9;", 9, 3, " always op9;", "        ^^^"),
            ("p\u{e9} op9;", 4, 3, "p\u{e9} op9;", "   ^^^"),
            (
                "\u{6f22}\u{5b57} op9;",
                4,
                3,
                "\u{6f22}\u{5b57} op9;",
                "     ^^^",
            ),
            (
                "a\u{202e}b op9;",
                5,
                3,
                r"a\u{202e}b op9;",
                "           ^^^",
            ),
            ("op\0x", 3, 1, r"op\u{0}x", "  ^^^^^"),
            ("", 1, 0, "", "^"),
            ("ends", 5, 1, "ends", "    ^"),
        ] {
            assert_eq!(
                drawn(line, at, marked),
                (shown.into(), marks.into()),
                "{line:?}"
            );
        }
    }

    #[test]
    fn long_lines_are_cut_around_the_place() {
        let line = "x".repeat(500_000) + "HERE" + &"y".repeat(500_000);
        let (shown, marks) = drawn(&line, 500_001, 4);
        assert_eq!(shown, format!("{}HERE{}", "x".repeat(17), "y".repeat(19)));
        assert_eq!(marks, format!("{}^^^^", " ".repeat(17)));
        let (shown, marks) = drawn(&"\0".repeat(1_000_000), 700_000, 300_000);
        assert!(shown.len() <= 40 && marks.len() <= 40, "{shown}\n{marks}");
    }

    #[test]
    fn excerpts_fit() {
        let line = "ab\t \0\u{1b}[31m\u{301}e\u{301}\u{6f22}\u{202e}z".repeat(20);
        let characters = line.chars().count();
        for at in (0..characters + 3).step_by(7) {
            for marked in [0, 1, 5, 50, 500] {
                for columns in [0, 20, 33, 80, 140, usize::MAX] {
                    let found = around(&line, at, marked, columns);
                    let most = columns.clamp(LEAST, MOST);
                    assert!(found.shown.width() <= most, "{found:?}");
                    assert!(found.marks.len() <= most + 1, "{found:?}");
                    assert!(found.marks.ends_with('^'), "{found:?}");
                    assert!(
                        !found.shown.contains(trommel_symbol::is_obeyed),
                        "{found:?}"
                    );
                }
            }
        }
    }
}
