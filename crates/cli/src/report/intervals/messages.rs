//! Intervals of the messages of queries: those of each queue, in the form that intervals of events have.
//!
//! The candidates of a queue are rows of its table. Here each different one has a number, which is the value of a tuple: so phases, pictures and
//! tables are made of them as of events.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::rc::Rc;

use serde_json::{Value, json};
use trommel_profile::Profile;
use trommel_profile::accuracy::phases::Phases;
use trommel_profile::intervals::{Intervals, Row};
use trommel_profile::queries::Served;
use trommel_query::pair::Word;
use trommel_symbol::Location;
use trommel_tuple::{Kind, Message, Place, Tuple};

use super::super::queries::{fields_of, number};
use super::super::table::Style;
use super::super::view::View;
use super::{entry, extent};
use crate::intervals::csv::quoted;
use crate::intervals::json::place as named;
use crate::intervals::text::Lines;
use crate::intervals::{self, Entry, Names};
use crate::json::Json;
use crate::output::{grouped, printable};

/// Intervals of the messages of a queue.
pub(super) struct Queue<'a> {
    served: &'a Served,
    found: &'a Intervals<Row>,
    /// Words of the candidates, by number.
    rows: Vec<&'a [u64]>,
    /// Candidates of each interval that is kept.
    candidates: Vec<Vec<Message>>,
}

/// Those of all queues, in the order of the tables.
pub(super) fn queues(profile: &Profile) -> Vec<Queue<'_>> {
    let services = profile.queries.iter().flat_map(|asked| &asked.services);
    let of = |served| Some(Queue::new(served, served.intervals.as_ref()?));
    services.filter_map(of).collect()
}

impl<'a> Queue<'a> {
    fn new(served: &'a Served, found: &'a Intervals<Row>) -> Self {
        let mut numbers: BTreeMap<&[u64], u64> = BTreeMap::new();
        let mut rows: Vec<&[u64]> = Vec::new();
        let mut message = |row: &'a Row| {
            let number = *numbers.entry(&row.words).or_insert_with(|| {
                rows.push(&row.words);
                rows.len() as u64 - 1
            });
            Message {
                kind: Kind::Value,
                tuple: Tuple::new(Place::from_word(0), number),
                count: row.count,
                samples: 1,
            }
        };
        let candidates = (found.each())
            .map(|(_, interval)| interval.candidates.iter().map(&mut message).collect())
            .collect();
        Self {
            served,
            found,
            rows,
            candidates,
        }
    }

    /// Its intervals, with their phases.
    fn entries(&self) -> Vec<Entry<'_>> {
        let mut phases = Phases::default();
        let candidates = self.candidates.iter().map(Vec::as_slice);
        let each = self.found.each().zip(candidates);
        each.map(|((sequence, interval), candidates)| {
            entry(sequence, interval, candidates, &mut phases)
        })
        .collect()
    }

    /// Messages of intervals that had not ended when their processes did.
    fn unfinished(&self) -> u64 {
        self.served.messages.saturating_sub(self.found.events())
    }

    /// Its number.
    fn number(&self) -> Option<u8> {
        self.served.name.rsplit(' ').next()?.parse().ok()
    }

    /// The words of a candidate; none where they are not known any more.
    fn words(&self, m: &Message) -> &'a [u64] {
        self.rows[m.tuple.value as usize]
    }

    const fn is_place(&self, word: usize) -> bool {
        self.served.places >> word & 1 != 0
    }
}

/// Names of the words of a queue.
struct Words<'v, 'p, 'a> {
    view: &'v mut View<'p>,
    queue: &'v Queue<'a>,
    /// Meanings of its words.
    fields: Vec<Option<Word>>,
}

impl<'v, 'p, 'a> Words<'v, 'p, 'a> {
    fn new(view: &'v mut View<'p>, queue: &'v Queue<'a>) -> Self {
        let fields = fields_of(&view.profile.compressor, queue.served);
        Self {
            view,
            queue,
            fields,
        }
    }
}

impl Names for Words<'_, '_, '_> {
    const FUNCTIONS: bool = true;

    fn place(&mut self, place: Place) -> String {
        self.view.name(place)
    }

    fn value(&mut self, _: Place, value: u64) -> String {
        format!("{value:#x}")
    }

    fn candidate(&mut self, m: &Message) -> String {
        let words = self.queue.words(m).iter().enumerate();
        let words: Vec<String> = words
            .map(|(n, word)| match self.queue.is_place(n) {
                true => printable(&self.view.name(Place::from_word(*word))),
                false => number(self.fields.get(n).copied().flatten(), *word),
            })
            .collect();
        match words.is_empty() {
            true => "words are not known".to_owned(),
            false => words.join(" "),
        }
    }

    fn json(&mut self, m: &Message) -> Value {
        let words = self.queue.words(m).iter().enumerate();
        let words: Vec<Value> = words
            .map(|(n, word)| match self.queue.is_place(n) {
                true => named(Place::from_word(*word), self),
                false => json!(word),
            })
            .collect();
        let words = (!words.is_empty()).then_some(words);
        json!({"count": m.count, "words": words})
    }

    fn location(&mut self, place: Place) -> Option<Rc<Location>> {
        Some(self.view.locate(place))
    }
}

/// Writes the intervals of a queue as text.
pub(super) fn text(
    out: &mut impl Write,
    view: &mut View<'_>,
    queue: &Queue<'_>,
    (style, lines): (Style, Lines),
) -> io::Result<()> {
    let entries = queue.entries();
    let messages = grouped(queue.served.messages);
    let columns = queue.served.columns.iter();
    let columns: Vec<String> = columns.map(|title| printable(title)).collect();
    writeln!(out, "#")?;
    writeln!(
        out,
        "# messages    {messages}, each an event of {}",
        columns.join(" ")
    )?;
    let kept = (queue.found.ended(), entries.len() as u64);
    extent(
        out,
        view.profile,
        kept,
        Some(queue.unfinished()),
        "messages",
    )?;
    let name = printable(&queue.served.name);
    let mut words = Words::new(view, queue);
    intervals::text::write(out, style, (&name, &entries), &mut words, lines)
}

/// Writes the intervals of a queue as an object.
pub(super) fn json<W: Write>(
    json: &mut Json<W>,
    view: &mut View<'_>,
    queue: &Queue<'_>,
) -> io::Result<()> {
    let entries = queue.entries();
    json.object()?;
    match queue.number() {
        Some(number) => json.number("queue", number)?,
        None => json.null("queue")?,
    }
    json.texts("columns", queue.served.columns.iter())?;
    json.number("messages", queue.served.messages)?;
    json.number("ended", queue.found.ended())?;
    json.number("kept", entries.len() as u64)?;
    json.number("unfinished", queue.unfinished())?;
    json.member_array("phases")?;
    for phase in intervals::phases(&entries).iter().enumerate() {
        json.object()?;
        json.members(&intervals::json::phase(phase))?;
        json.end_object()?;
    }
    json.end_array()?;
    json.member_array("per_interval")?;
    let mut words = Words::new(view, queue);
    for entry in &entries {
        json.object()?;
        json.members(&intervals::json::interval(entry, &mut words))?;
        json.end_object()?;
    }
    json.end_array()?;
    json.end_object()
}

/// Writes the intervals of all queues: a row for each candidate, and one for an interval without any.
pub(super) fn csv(
    out: &mut impl Write,
    view: &mut View<'_>,
    queues: &[Queue<'_>],
) -> io::Result<()> {
    let columns = queues.iter().map(|queue| queue.served.columns.len());
    let columns = columns.max().unwrap_or(0);
    write!(out, "spec,queue,process,interval,start,events,phase,count")?;
    for n in 1..=columns {
        write!(out, ",field{n},value{n},module{n},function{n}")?;
    }
    writeln!(out)?;
    for queue in queues {
        let number = queue.number().map_or_else(String::new, |n| n.to_string());
        for e in queue.entries() {
            let front = format!(
                "{},{number},{},{},{},{},{}",
                quoted(&view.profile.compressor),
                e.of.map_or(0, |of| of.process),
                e.number,
                e.start,
                e.events,
                e.phase
            );
            if e.candidates.is_empty() {
                writeln!(out, "{front},{}", ",".repeat(4 * columns))?;
            }
            for m in e.candidates {
                write!(out, "{front},{}", m.count)?;
                for n in 0..columns {
                    let word = queue.words(m).get(n).copied();
                    write!(out, "{}", cells(view, queue, n, word))?;
                }
                writeln!(out)?;
            }
        }
    }
    Ok(())
}

/// Cells of a word of a candidate, if it has that word.
fn cells(view: &mut View<'_>, queue: &Queue<'_>, n: usize, word: Option<u64>) -> String {
    let Some(title) = queue.served.columns.get(n) else {
        return ",,,,".to_owned();
    };
    let title = quoted(title);
    match word {
        None => format!(",{title},,,"),
        Some(word) if queue.is_place(n) => {
            let place = Place::from_word(word);
            let location = view.locate(place);
            let function = location.function.as_deref().map(quoted).unwrap_or_default();
            let (module, vaddr) = (place.module().0, place.vaddr().0);
            format!(",{title},{vaddr},{module},{function}")
        }
        Some(word) => format!(",{title},{word},,"),
    }
}
