//! Tables of what was given messages: services in libraries, and the run's own compressor.

use std::cmp::Reverse;
use std::io::{self, Write};

use trommel_compress::Spec;
use trommel_profile::intervals::Intervals;
use trommel_profile::queries::Served;
use trommel_query::pair::Word;
use trommel_tuple::Place;

use super::super::table::{Shape, Style, columns};
use super::super::view::View;
use super::messages::number;
use crate::output::{grouped, number_of, percent, printable};

/// Failures of a service, and rows that it could not keep.
pub(super) fn faults_of_service(served: &Served) -> Vec<String> {
    let failures = served.failures.iter().map(|why| format!("FAILED {why}"));
    let lost = (served.lost > 0).then(|| {
        let lost = grouped(served.lost);
        format!("ROWS WERE NOT KEPT, of a count of {lost}: there were too many")
    });
    failures.chain(lost).collect()
}

/// Rows of a service, largest counts first.
pub(super) fn sorted(served: &Served) -> Vec<(&Vec<u64>, u64)> {
    let mut rows: Vec<(&Vec<u64>, u64)> = served.rows.iter().map(|(row, n)| (row, *n)).collect();
    rows.sort_by_key(|(row, n)| (Reverse(*n), *row));
    rows
}

/// Returns true if a table is that of the run's own compressor: those of libraries have an `=` in their name, after the queue.
fn is_compressor(compressor: &str, served: &Served) -> bool {
    let after = served.name.strip_prefix(compressor);
    after.is_some_and(|rest| rest.starts_with(" of queue ") && !rest.contains('='))
}

/// Name of what was given messages, with its sort.
pub(super) fn title(compressor: &str, served: &Served) -> String {
    let of = match is_compressor(compressor, served) {
        true => "compressor",
        false => "service",
    };
    format!("{of} {}", printable(&served.name))
}

pub(super) fn service(
    out: &mut impl Write,
    view: &mut View<'_>,
    (served, what): (&Served, &str),
    top: usize,
    style: Style,
) -> io::Result<()> {
    let compressor = &view.profile.compressor;
    let title = title(compressor, served);
    let given = grouped(served.messages);
    writeln!(out, "# {}", style.strong(&title))?;
    let spec: Option<Spec> = compressor.parse().ok();
    let length = spec.as_ref().and_then(Spec::interval);
    let length = length.map(|interval| u64::from(interval.interval));
    let length = length.filter(|_| is_compressor(compressor, served));
    let all = served.rows.values().copied().fold(0, u64::saturating_add);
    // The tables of messages have parts of all messages.
    let of = match length.filter(|_| all > 0) {
        None => String::new(),
        Some(_) => format!(
            "; candidates stand for {:.1} % of them, and percents are parts of that",
            percent(all, served.messages)
        ),
    };
    match served.intervals.as_ref().map(Intervals::ended) {
        Some(ended) if ended > 0 => writeln!(
            out,
            "#   was given {given} {what}, in {} (--per-interval shows them){of}",
            number_of(ended, "interval")
        )?,
        _ => writeln!(out, "#   was given {given} {what}{of}")?,
    }
    for fault in faults_of_service(served) {
        writeln!(out, "#   {}", printable(&fault))?;
    }
    if served.rows.is_empty() {
        return match length {
            Some(length) if served.messages < length => {
                writeln!(
                    out,
                    "#   no interval of {} messages has ended",
                    grouped(length)
                )
            }
            Some(_) => writeln!(out, "#   no interval had a candidate"),
            None => Ok(()),
        };
    }
    let titles = ["count", "%"].map(str::to_owned);
    let own = served.columns.iter().map(|title| printable(title));
    let mut table: Vec<Vec<String>> = vec![titles.iter().cloned().chain(own).collect()];
    let fields = fields_of(compressor, served);
    for (row, count) in sorted(served).into_iter().take(top) {
        let first = [grouped(count), format!("{:.1}", percent(count, all))];
        let words = row.iter().enumerate();
        let words = words.map(|(n, word)| match served.places >> n & 1 {
            0 => number(fields.get(n).copied().flatten(), *word),
            _ => printable(&view.name(Place::from_word(*word))),
        });
        table.push(first.into_iter().chain(words).collect());
    }
    let shape = Shape {
        numbers: titles.len(),
        together: 1,
    };
    columns(out, &table, shape, style)?;
    match served.rows.len().saturating_sub(top) {
        0 => Ok(()),
        n => writeln!(out, "# and {} more rows", grouped(n as u64)),
    }
}

/// Meaning of the columns of the run's own compressor. A library has titles of its own.
pub(in crate::report) fn fields_of(compressor: &str, served: &Served) -> Vec<Option<Word>> {
    let word = |title: &String| match is_compressor(compressor, served) {
        true => Word::from_name(title),
        false => None,
    };
    served.columns.iter().map(word).collect()
}
