//! A picture of a sequence of intervals: when each phase was, in 80 columns.

use std::io::{self, Write};

use super::Entry;
use crate::output::{grouped, percent};
use crate::report::table::Style;

/// Columns of time at most.
const COLUMNS: u64 = 60;
/// Phases with a row of their own; all others share one.
const ROWS: usize = 8;
/// Cells by the share that a phase has of a column: none, below a third, below two thirds, and more.
const CELLS: [char; 4] = [' ', '░', '▒', '█'];

/// Draws the intervals of one sequence, in order. `name`: the sequence's, empty of the only one.
pub(super) fn write(
    out: &mut impl Write,
    style: Style,
    name: &str,
    entries: &[Entry<'_>],
) -> io::Result<()> {
    let Some(last) = entries.last() else {
        return Ok(());
    };
    let all = last.start.saturating_add(last.events);
    let columns = last.number.clamp(1, COLUMNS);
    let (title, colon) = match name {
        "" => (style.strong("Time"), ":"),
        name => (style.strong("Time"), &*format!(" of {name}:")),
    };
    let (events, each) = (grouped(all), grouped(all.div_ceil(columns)));
    writeln!(out, "#\n# {title}{colon} {events} events, {each} a column")?;
    let rows = rows(entries);
    let mut sums = vec![vec![0_u64; columns as usize]; rows.len()];
    let mut total = vec![0; rows.len()];
    for entry in entries {
        let row = rows.iter().position(|r| r.is_none_or(|p| p == entry.phase));
        let Some(row) = row else { continue };
        total[row] += entry.events;
        spread(&mut sums[row], entry, all);
    }
    let of_column: Vec<u64> = (0..columns as usize)
        .map(|c| sums.iter().map(|row| row[c]).sum())
        .collect();
    let kept = total.iter().sum();
    for ((row, cells), total) in rows.iter().zip(&sums).zip(&total) {
        let name = row.map_or_else(|| "others".to_owned(), |phase| phase.to_string());
        let share = percent(*total, kept);
        let cells = cells.iter().zip(&of_column);
        let line: String = cells.map(|(part, all)| cell(*part, *all)).collect();
        writeln!(out, "# {name:>6} {share:>5.1}%  {}", line.trim_end())?;
    }
    Ok(())
}

/// Phases with a row, in the order of their numbers; `None` stands for all others.
fn rows(entries: &[Entry<'_>]) -> Vec<Option<usize>> {
    let phases = super::phases(entries);
    let mut found: Vec<usize> = (1..=phases.len())
        .filter(|n| phases[n - 1].intervals > 0)
        .collect();
    let has_others = found.len() > ROWS + 1;
    if has_others {
        found.sort_by_key(|n| (std::cmp::Reverse(phases[n - 1].events), *n));
        found.truncate(ROWS);
        found.sort_unstable();
    }
    let rows = found.into_iter().map(Some);
    rows.chain(has_others.then_some(None)).collect()
}

/// Adds the events of an interval to the columns that it is in.
fn spread(columns: &mut [u64], entry: &Entry<'_>, all: u64) {
    let number = columns.len() as u128;
    let all = u128::from(all.max(1));
    let (mut at, end) = (
        u128::from(entry.start),
        u128::from(entry.start) + u128::from(entry.events),
    );
    while at < end {
        let column = (at * number / all).min(number - 1);
        // The first event that is in the next column.
        let next = ((column + 1) * all).div_ceil(number).max(at + 1).min(end);
        columns[column as usize] += (next - at) as u64;
        at = next;
    }
}

/// The cell of a phase that has `part` of a column's events.
fn cell(part: u64, all: u64) -> char {
    let thirds = 3 * u128::from(part) / u128::from(all.max(1));
    match (part, thirds) {
        (0, _) => CELLS[0],
        (_, 0) => CELLS[1],
        (_, 1) => CELLS[2],
        _ => CELLS[3],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unicode_width::UnicodeWidthStr;

    fn drawn(phases: impl IntoIterator<Item = usize>, events: u64) -> String {
        let entries: Vec<Entry<'_>> = (phases.into_iter().zip(0_u64..))
            .map(|(phase, n)| Entry {
                of: None,
                number: n + 1,
                start: n * events,
                events,
                phase,
                error: None,
                candidates: &[],
            })
            .collect();
        let mut out = Vec::new();
        write(&mut out, Style::new(false), "", &entries).expect("memory");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn each_phase_is_where_it_was() {
        let text = drawn([1, 1, 2, 2, 1, 3], 1000);
        assert_eq!(
            text,
            "#\n# Time: 6 000 events, 1 000 a column\n\
             #      1  50.0%  ██  █\n#      2  33.3%    ██\n#      3  16.7%       █\n"
        );
    }

    /// Whatever the number of intervals and phases, a picture fits, and no event is lost or in two columns.
    #[test]
    fn pictures_fit_and_have_all_events() {
        for (intervals, phases, events) in [
            (1, 1, 1),
            (61, 2, 7),
            (6000, 300, 10_000),
            (200, 9, 1 << 40),
        ] {
            let text = drawn((0..intervals).map(|n| n % phases + 1), events);
            assert!(text.lines().all(|line| line.width() <= 80), "{text}");
            assert!(text.lines().count() <= 3 + ROWS, "{text}");
            let shares = text.lines().skip(2).filter_map(|line| line.split_once('%'));
            let sum: f64 = shares
                .filter_map(|(front, _)| front.rsplit(' ').next()?.parse::<f64>().ok())
                .sum();
            assert!((sum - 100.0).abs() < 1.0, "{text}");
        }
        let entry = Entry {
            of: None,
            number: 3,
            start: 10,
            events: 25,
            phase: 1,
            error: None,
            candidates: &[],
        };
        let mut columns = [0; 7];
        spread(&mut columns, &entry, 35);
        assert_eq!(columns, [0, 0, 5, 5, 5, 5, 5]);
    }

    #[test]
    fn a_column_of_two_phases_says_who_has_more_of_it() {
        let of = |part, all| cell(part, all);
        let found = [of(0, 9), of(1, 9), of(3, 9), of(5, 9), of(6, 9), of(9, 9)];
        assert_eq!(found, [' ', '░', '▒', '▒', '█', '█']);
        assert_eq!(of(0, 0), ' ');
    }
}
