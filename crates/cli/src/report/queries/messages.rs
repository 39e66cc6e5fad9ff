//! The table of a query's messages, and the limits of what they stand for.

use std::io::{self, Write};

use trommel_profile::confidence::Confidence;
use trommel_profile::limits::Limits;
use trommel_profile::queries::{Count, Queries, Sent};
use trommel_profile::sampled::Sampled;
use trommel_query::class::Subject;
use trommel_query::pair::Word;
use trommel_query::{Entry, Field, Rate, Sampling};
use trommel_tuple::{Place, Tuple};

use super::super::table::{LIMITS, SECOND_SOURCE, SOURCE, Shape, Style, columns, range};
use super::super::view::View;
use super::Answer;
use crate::output::{grouped, percent, printable};

pub(super) fn messages(
    out: &mut impl Write,
    view: &mut View<'_>,
    queries: &Queries,
    answer: &Answer<'_>,
    top: usize,
    style: Style,
) -> io::Result<()> {
    if answer.messages.is_empty() {
        return Ok(());
    }
    let sum = |n: fn(&Count) -> u64| {
        let all = answer.messages.iter().map(|(_, count)| n(count));
        all.fold(0, u64::saturating_add)
    };
    let windowed = queries.windowed.as_ref();
    let limits = |told: &Sent, count: &Count| match windowed {
        Some(windowed) => windowed.sent.get(told).and_then(limits_of),
        None => limits(answer.query.sampling, count.executions),
    };
    // Where messages stand for executions, it is those that say how frequent each is.
    let sampled = answer.query.sampling != Sampling::ALWAYS || windowed.is_some();
    let all = sum(|count| count.executions);
    let titles = ["messages", "%", "queue"].map(str::to_owned).into_iter();
    let stands_for = sampled.then(|| "stand for".to_owned());
    let has_limits = (answer.messages.iter()).any(|(told, count)| limits(told, count).is_some());
    let stands_for = stands_for
        .into_iter()
        .chain(has_limits.then(|| LIMITS.to_owned()));
    let fields = answer.query.names().map(str::to_owned);
    let titles: Vec<String> = titles.chain(stands_for).collect();
    let numbers = titles.len();
    let mut rows: Vec<Vec<String>> = vec![titles.into_iter().chain(fields).collect()];
    for (told, count) in answer.messages.iter().take(top) {
        let first = [
            grouped(count.messages),
            format!("{:.1}", percent(count.executions, all)),
            told.queue.to_string(),
        ];
        let limits = limits(told, count);
        let stands_for = sampled.then(|| grouped(count.executions)).into_iter();
        // Where a message has limits, all have the column.
        let limits = has_limits.then(|| limits.map(range).unwrap_or_default());
        let stands_for = stands_for.chain(limits);
        let places = places(queries, told);
        let names = answer.query.layout().words();
        let words = told.words.iter().enumerate().zip(names);
        let words = words.map(|((n, word), name)| match places >> n & 1 {
            0 => number(Some(name), *word),
            _ => printable(&view.name(Place::from_word(*word))),
        });
        rows.push(first.into_iter().chain(stands_for).chain(words).collect());
    }
    sources(view, queries, answer, &mut rows);
    let shape = Shape {
        numbers,
        // The first's word and the second's.
        together: 1 + usize::from(answer.query.pair.is_some()),
    };
    columns(out, &rows, shape, style)?;
    if has_pushes(answer, top) {
        writeln!(out, "#   res2 0x0: the push of a call's return address")?;
    }
    let more = answer.messages.len().saturating_sub(top);
    match more {
        0 => Ok(()),
        n => writeln!(out, "# and {} more kinds of messages", grouped(n as u64)),
    }
}

/// A word that is no place: counts as such, parts of a rate apart, and addresses, operands and sets of bits in hexadecimal digits.
pub(in crate::report) fn number(word: Option<Word>, value: u64) -> String {
    match word {
        Some(Word::Distance) => grouped(value),
        Some(Word::Field(field) | Word::Second(field)) if field.is_count() => grouped(value),
        Some(Word::Field(field) | Word::Second(field)) if field.is_rate() => {
            let [instructions, reason] = [value & 0xffff, value >> 16 & 0xffff];
            format!("{instructions}/{reason}/{}", value >> 32)
        }
        _ => format!("{value:#x}"),
    }
}

/// Adds source lines to the rows of a table of messages: those of their instruction, of a pair also of the second one.
fn sources(view: &mut View<'_>, queries: &Queries, answer: &Answer<'_>, rows: &mut [Vec<String>]) {
    for (of, title) in [
        (Word::Field(Field::Pc), SOURCE),
        (Word::Second(Field::Pc), SECOND_SOURCE),
    ] {
        let at = answer.query.layout().words().position(|word| word == of);
        let Some(at) = at else { continue };
        let found = answer
            .messages
            .iter()
            .take(rows.len() - 1)
            .map(|(told, _)| {
                let word = told
                    .words
                    .get(at)
                    .filter(|_| places(queries, told) >> at & 1 != 0);
                word.map_or_else(String::new, |word| view.source(Place::from_word(*word)))
            });
        let found: Vec<String> = found.collect();
        if found.iter().all(String::is_empty) {
            continue;
        }
        for (row, cell) in rows
            .iter_mut()
            .zip(std::iter::once(title.to_owned()).chain(found))
        {
            row.push(printable(&cell));
        }
    }
}

pub(super) fn places(queries: &Queries, told: &Sent) -> u8 {
    let places = queries.places.get(usize::from(told.at));
    places.copied().unwrap_or(0)
}

/// The limits of a number of executions that messages stand for; `None` where all were profiled, or nothing is known.
pub(super) fn limits(sampling: Sampling, executions: u64) -> Option<Limits> {
    let rate = sampling.rate().filter(|rate| *rate != Rate::ALWAYS)?;
    let any = Tuple::new(Place::default(), 0);
    Confidence::of_rate(rate.one_in().into()).count(any, executions)
}

/// The limits of an estimate; `None` where no window has seen it.
pub(super) fn limits_of(sampled: &Sampled) -> Option<Limits> {
    (sampled.samples != 0).then(|| sampled.limits())
}

/// Returns true if a row that is shown is of an event whose access has no address: that of a call.
fn has_pushes(answer: &Answer<'_>, top: usize) -> bool {
    let is_event = |entry: Entry| matches!(entry.subject(), Subject::Event(_));
    let mut words = answer.query.layout().words();
    let at = words.position(|word| word == Word::Field(Field::Res2));
    let is_zero = |(told, _): &(&Sent, Count)| at.and_then(|at| told.words.get(at)) == Some(&0);
    answer.query.entries.iter().any(is_event) && answer.messages.iter().take(top).any(is_zero)
}
