//! Tables of documents, in a terminal.
//!
//! # Strategy
//! Columns stand side by side, as wide as their text. Where that is too wide, the widest are narrowed, and their text is wrapped. A table
//! whose rows would become tall so has a paragraph for each row instead, with a line for each column.

use unicode_width::UnicodeWidthStr;

use crate::output::wrapped;

/// Between two columns.
const GAP: usize = 2;
/// Lines of a row, at most: what is taller is read as a paragraph.
const TALL: usize = 6;

/// The cells of a row as a document has it.
pub(super) fn cells(line: &str) -> Vec<String> {
    let line = line.trim().trim_start_matches('|');
    let mut all = Vec::new();
    let mut cell = String::new();
    let mut before = ' ';
    for c in line.chars() {
        match c {
            '|' if before != '\\' => {
                all.push(cell.trim().to_owned());
                cell = String::new();
            }
            _ => cell.push(c),
        }
        before = c;
    }
    if !cell.trim().is_empty() {
        all.push(cell.trim().to_owned());
    }
    all
}

/// A table in lines of at most `width` columns; the second row is the rule below the titles.
pub(super) fn shown(rows: &[Vec<String>], width: usize) -> String {
    let is_rule = |row: &&Vec<String>| {
        let mut cells = row.iter();
        !row.is_empty() && cells.all(|cell| cell.bytes().all(|b| b"-: ".contains(&b)))
    };
    let rows: Vec<&Vec<String>> = rows.iter().filter(|row| !is_rule(row)).collect();
    let columns = rows.iter().map(|row| row.len()).max().unwrap_or_default();
    match narrowed(&rows, columns, width) {
        Some(widths) => side_by_side(&rows, &widths),
        None => paragraphs(&rows, width),
    }
}

/// Widths of all columns with which the table fits; `None` if its rows are too tall then.
fn narrowed(rows: &[&Vec<String>], columns: usize, width: usize) -> Option<Vec<usize>> {
    let most = |of: &dyn Fn(&str) -> usize, column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| of(cell)).max().unwrap_or_default()
    };
    let longest_word = |cell: &str| cell.split(' ').map(UnicodeWidthStr::width).max();
    let mut widths: Vec<usize> = (0..columns)
        .map(|n| most(&|cell| UnicodeWidthStr::width(cell), n))
        .collect();
    let least: Vec<usize> = (0..columns)
        .map(|n| most(&|cell| longest_word(cell).unwrap_or_default(), n))
        .collect();
    let room = width.saturating_sub(GAP * columns.saturating_sub(1));
    while widths.iter().sum::<usize>() > room {
        let shrinks = (0..columns).filter(|n| widths[*n] > least[*n]);
        let widest = shrinks.max_by_key(|n| widths[*n])?;
        widths[widest] -= 1;
    }
    let is_tall = |row: &&Vec<String>| {
        let mut cells = row.iter().zip(&widths);
        cells.any(|(cell, width)| wrapped(cell, 0, 0, *width).lines().count() > TALL)
    };
    (!rows.iter().any(is_tall)).then_some(widths)
}

fn side_by_side(rows: &[&Vec<String>], widths: &[usize]) -> String {
    let mut out = String::new();
    for (number, row) in rows.iter().enumerate() {
        let cells: Vec<String> = (row.iter().zip(widths))
            .map(|(cell, width)| wrapped(cell, 0, 0, *width))
            .collect();
        let lines = cells.iter().map(|cell| cell.lines().count()).max();
        for n in 0..lines.unwrap_or_default() {
            let mut line = String::new();
            for (cell, width) in cells.iter().zip(widths) {
                let part = cell.lines().nth(n).unwrap_or_default();
                let fill = (width + GAP).saturating_sub(UnicodeWidthStr::width(part));
                line.push_str(part);
                line.push_str(&" ".repeat(fill));
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        if number == 0 {
            let rules: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
            out.push_str(&rules.join(&" ".repeat(GAP)));
            out.push('\n');
        }
    }
    out
}

/// A paragraph for each row: its first cell, then the others below it, each after the title of its column.
fn paragraphs(rows: &[&Vec<String>], width: usize) -> String {
    const INDENT: usize = 4;
    let Some((titles, rows)) = rows.split_first() else {
        return String::new();
    };
    let mut out = String::new();
    for (number, row) in rows.iter().enumerate() {
        if number > 0 {
            out.push('\n');
        }
        for (n, cell) in row.iter().enumerate().filter(|(_, cell)| !cell.is_empty()) {
            let title = titles.get(n).filter(|title| n > 0 && !title.is_empty());
            let cell = title.map_or_else(|| cell.clone(), |title| format!("{title}: {cell}"));
            let indent = if n > 0 { INDENT } else { 0 };
            out.push_str(&" ".repeat(indent));
            out.push_str(&wrapped(&cell, indent, INDENT, width));
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(lines: &[&str], width: usize) -> String {
        let rows: Vec<Vec<String>> = lines.iter().map(|line| cells(line)).collect();
        shown(&rows, width)
    }

    #[test]
    fn columns_stand_side_by_side_and_are_narrowed() {
        let lines = [
            "| a | some words |",
            "|---|---|",
            "| `x\\|y` | one two three |",
        ];
        let wide = "a       some words\n------  -------------\n`x\\|y`  one two three\n";
        assert_eq!(table(&lines, 40), wide);
        let narrow =
            "a       some\n        words\n------  -------\n`x\\|y`  one two\n        three\n";
        assert_eq!(table(&lines, 15), narrow);
    }

    #[test]
    fn rows_that_would_be_tall_are_paragraphs() {
        let long = "word ".repeat(30);
        let lines = [
            "| a | b | |",
            "|---|---|---|",
            &format!("| x | {long} | y |"),
        ];
        let shown = table(&lines, 20);
        assert!(
            shown.starts_with("x\n    b: word word\n    word word word\n"),
            "{shown}"
        );
        assert!(shown.ends_with("\n    y\n"), "{shown}");
        assert!(shown.lines().all(|line| line.len() <= 20), "{shown}");
    }

    #[test]
    fn tables_without_rows_and_with_more_cells_than_titles_are_shown() {
        assert_eq!(table(&["| a |", "|---|"], 9), "a\n-\n");
        assert_eq!(table(&["|", "| b | c |"], 9), "-  -\nb  c\n");
    }
}
