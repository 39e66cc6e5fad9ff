//! Intervals as text: phases, a picture of them, and a table.

use std::collections::BTreeMap;
use std::io::{self, Write};

use trommel_tuple::Message;

use super::{Entry, Names, Thread, picture};
use crate::output::{grouped, percent};
use crate::report::table::{Style, Table, ended, more};

/// Sequences that are drawn at most: those with most events.
const PICTURES: usize = 4;

/// Numbers of lines.
#[derive(Clone, Copy)]
pub(crate) struct Lines {
    /// Phases, and intervals of the table.
    pub(crate) top: usize,
    /// Candidates of each interval.
    pub(crate) candidates: usize,
}

/// Writes phases, the picture and the table of a compressor's intervals.
pub(crate) fn write<N: Names>(
    out: &mut impl Write,
    style: Style,
    (spec, entries): (&str, &[Entry<'_>]),
    names: &mut N,
    lines: Lines,
) -> io::Result<()> {
    if entries.is_empty() {
        return writeln!(out, "# {spec}: no intervals");
    }
    let phases = super::phases(entries);
    let (n, found) = (grouped(entries.len() as u64), phases.len());
    writeln!(out, "# {spec}: intervals: {n}, phases: {found}")?;
    let total: u64 = phases.iter().map(|phase| phase.events).sum();
    let hottest = hottest(entries, phases.len());
    for (number, phase) in phases.iter().enumerate().take(lines.top) {
        let share = percent(phase.events, total);
        let hottest = match &hottest[number] {
            Some(m) => format!(", hottest {}", candidate(m, phase.events, names)),
            None => String::new(),
        };
        let (number, intervals) = (number + 1, grouped(phase.intervals));
        let word = match phase.intervals {
            1 => "interval",
            _ => "intervals",
        };
        let line =
            format!("# phase {number}: {intervals} {word}, {share:.1}% of their events{hottest}");
        writeln!(out, "{}", ended(&line, style.width.saturating_sub(1)))?;
    }
    more(out, phases.len(), lines.top)?;
    let sequences = sequences(entries);
    let is_one = sequences.len() < 2;
    for sequence in sequences.iter().take(PICTURES) {
        let of = sequence.first().and_then(|entry| entry.of);
        let name = of.filter(|_| !is_one).map(in_words);
        picture::write(out, style, name.as_deref().unwrap_or_default(), sequence)?;
    }
    if sequences.len() > PICTURES {
        let (shown, all) = (PICTURES, grouped(sequences.len() as u64));
        writeln!(out, "# {shown} threads with most events of {all} are drawn")?;
    }
    writeln!(out, "#")?;
    table(entries, is_one, names, lines).write(out, style)?;
    more(out, entries.len(), lines.top)
}

fn in_words(of: Thread) -> String {
    match of.thread {
        0 => format!("process {}", of.process),
        thread => format!("process {}, thread {thread}", of.process),
    }
}

/// Entries of each sequence, the one with most events first. Entries of a sequence follow each other.
fn sequences<'e, 'a>(entries: &'e [Entry<'a>]) -> Vec<&'e [Entry<'a>]> {
    let mut all: Vec<_> = (entries.chunk_by(|a, b| a.of == b.of && a.number < b.number)).collect();
    let end = |s: &[Entry<'_>]| s.last().map_or(0, |e| e.start.saturating_add(e.events));
    all.sort_by_key(|sequence| std::cmp::Reverse(end(sequence)));
    all
}

fn table<N: Names>(entries: &[Entry<'_>], is_one: bool, names: &mut N, lines: Lines) -> Table<8> {
    let mut table = Table::new([
        "process",
        "thread",
        "interval",
        "start",
        "phase",
        "error",
        "candidates",
        "hottest",
    ])
    .numbers(7);
    for e in entries.iter().take(lines.top) {
        let of = e.of.filter(|_| !is_one);
        let number = |n: u32| if n == 0 { String::new() } else { n.to_string() };
        let mut front = [
            of.map_or_else(String::new, |of| number(of.process)),
            of.map_or_else(String::new, |of| number(of.thread)),
            e.number.to_string(),
            grouped(e.start),
            e.phase.to_string(),
            e.error.map_or_else(String::new, |e| format!("{e:.2}%")),
            e.candidates.len().to_string(),
        ];
        let mut shown: Vec<String> = (e.candidates.iter().take(lines.candidates))
            .map(|m| candidate(m, e.events, names))
            .collect();
        match e.candidates.len().saturating_sub(shown.len()) {
            _ if lines.candidates == 1 => {}
            0 => {}
            rest => shown.push(format!("… and {} more", grouped(rest as u64))),
        }
        if shown.is_empty() {
            shown.push("-".into());
        }
        for cell in shown {
            let [process, thread, number, start, phase, error, candidates] =
                std::mem::take(&mut front);
            table.row([
                process, thread, number, start, phase, error, candidates, cell,
            ]);
        }
    }
    table
}

/// A candidate in words, with its share of so many events.
fn candidate(m: &Message, events: u64, names: &mut impl Names) -> String {
    let share = percent(m.count, events);
    format!("{share:.1}% {}", names.candidate(m))
}

/// The most frequent candidate of each phase, with the sum of its counts there.
fn hottest(entries: &[Entry<'_>], phases: usize) -> Vec<Option<Message>> {
    let mut sums = vec![BTreeMap::new(); phases];
    for entry in entries {
        let sums = &mut sums[entry.phase - 1];
        for m in entry.candidates {
            *sums.entry((m.kind, m.tuple)).or_insert(0_u64) += m.count;
        }
    }
    let most = |sums: BTreeMap<_, u64>| {
        let most = sums.into_iter().rev().max_by_key(|(_, count)| *count);
        most.map(|((kind, tuple), count)| Message {
            kind,
            tuple,
            count,
            samples: 1,
        })
    };
    sums.into_iter().map(most).collect()
}
