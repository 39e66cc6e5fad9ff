//! A compressor for the messages of each queue.
//!
//! # Problem
//! A query may send more kinds of messages than are worth keeping. The papers put their parts in a row: a query selects,
//! a compressor keeps what is frequent of it.
//!
//! # Strategy
//! One or two words of a message are taken as a tuple ([`Chosen`]): the first as its place, the second as its value. A single word
//! is the value, and the place is 0. More than two get a name ([`super::names`]). Each queue of a process has a compressor of its own. The estimated counts are a table, as
//! that of a service in a library. Of an interval profiler the intervals are kept besides, each with its candidates.
//!
//! # Why it is correct
//! * Messages go in in the order in which they come, so the compressor makes of them what `trommel compress` makes of such a stream.
//! * Addresses of code become places before they go in: code that is unmapped later does not change them.

use std::collections::BTreeMap;

use trommel_compress::{Compressor, Seeds, Sink, Spec};
use trommel_profile::accuracy::{Estimates, PerKind};
use trommel_profile::intervals::{CANDIDATES, Keeper, Row};
use trommel_profile::queries::Served;
use trommel_query::Program;
use trommel_query::instruction::{Action, Queues};
use trommel_query::pair::Word;
use trommel_query::record::RECORD_WORDS;
use trommel_queue::dict::TargetPc;
use trommel_tuple::{Events, Kind, Place, Tuple};

use super::message::{Message, Service};
use super::names::Names;
use crate::channel::modules::Modules;

/// Tuples that go through a compressor together.
const BLOCK: usize = 4096;
/// Rows of a table at most.
const MOST_ROWS: usize = 1 << 20;
/// Kind of the tuples: one for all, which takes no part in compressing.
const KIND: Kind = Kind::Value;
/// Words of a tuple. So many are taken where none are named.
const WORDS: usize = 2;
/// Number of the thread for a compressor of all threads.
const ALL_THREADS: u32 = 0;

/// The reason why words cannot be chosen.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotChosen {
    /// More than a message has.
    #[error("a message has {RECORD_WORDS} words at most, and {0} are named")]
    Many(usize),
    /// The same word again.
    #[error("{0} is named twice: a tuple has each word once")]
    Twice(&'static str),
    /// No query sends anything.
    #[error("no query sends messages")]
    NoMessages,
    /// A query without it.
    #[error("the query of {query} does not collect {field}: add it to `collect`")]
    Missing {
        /// Instructions that the query is about.
        query: String,
        /// Name of the field.
        field: &'static str,
    },
    /// A query has records of single executions.
    #[error("the query of {query} has no {word}: only pairs have, as of `every 10k pair 16`")]
    Unpaired {
        /// Selectors of the query.
        query: String,
        /// The word.
        word: &'static str,
    },
}

/// Words that are taken of the messages of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chosen {
    /// Words of a message that are taken, by query instruction.
    words: Vec<Vec<u8>>,
    /// Tables, by queue.
    tables: BTreeMap<u8, Columns>,
}

/// Columns of the table of a queue.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Columns {
    titles: Vec<String>,
    /// Columns that are places, by bit.
    places: u8,
}

impl Chosen {
    /// Chooses `fields` of the messages of `program`; without any, the first two words.
    ///
    /// # Errors
    /// When a query that sends messages does not collect one of them, or a word is named twice.
    pub fn new(program: &Program, fields: &[Word]) -> Result<Self, NotChosen> {
        if fields.len() > RECORD_WORDS {
            return Err(NotChosen::Many(fields.len()));
        }
        let again = (1..fields.len()).find(|&n| fields[..n].contains(&fields[n]));
        if let Some(again) = again {
            return Err(NotChosen::Twice(fields[again].name()));
        }
        let mut chosen = Self {
            words: vec![Vec::new(); program.code().len()],
            tables: BTreeMap::new(),
        };
        for query in program.queries() {
            let sends = query
                .code
                .clone()
                .filter_map(|at| match program.code()[at].action {
                    Action::Send(queues) => Some(queues),
                    _ => None,
                });
            let sends: Vec<Queues> = sends.collect();
            if sends.is_empty() {
                continue;
            }
            let own: Vec<Word> = match fields {
                [] => query.layout().words().take(WORDS).collect(),
                named => named.to_vec(),
            };
            let word = |field: &Word| {
                query.layout().word_of(*field).ok_or_else(|| {
                    let of = query.entries.selectors().join(" ");
                    match field {
                        Word::Second(_) | Word::Distance if query.pair.is_none() => {
                            NotChosen::Unpaired {
                                query: of,
                                word: field.name(),
                            }
                        }
                        _ => NotChosen::Missing {
                            query: of,
                            field: field.name(),
                        },
                    }
                })
            };
            let words: Vec<u8> = own.iter().map(word).collect::<Result<_, _>>()?;
            let columns = Columns {
                titles: own.iter().map(|field| field.name().to_owned()).collect(),
                places: (words.iter().enumerate()).fold(0, |bits, (n, word)| {
                    bits | (query.code_words() >> word & 1) << n
                }),
            };
            for Queues { first, count, .. } in sends {
                for queue in first..=first.saturating_add(count - 1) {
                    chosen.column(queue, &columns);
                }
            }
            chosen.words[query.code].fill(words);
        }
        match chosen.tables.is_empty() {
            true => Err(NotChosen::NoMessages),
            false => Ok(chosen),
        }
    }

    /// A query with these columns sends to a queue. Where queries differ in that, words have numbers, and are places if all of them are.
    fn column(&mut self, queue: u8, columns: &Columns) {
        let known = self.tables.entry(queue).or_insert_with(|| columns.clone());
        if known == columns {
            return;
        }
        known.places &= columns.places;
        if known.titles != columns.titles {
            let more = known.titles.len().max(columns.titles.len());
            known.titles = (1..=more).map(|n| format!("word {n}")).collect();
        }
    }
}

/// The compressors of a process.
pub struct Compressed {
    spec: Spec,
    chosen: Chosen,
    queues: BTreeMap<u8, Queue>,
}

/// The compressor of a queue.
struct Queue {
    compressor: Compressor,
    tuples: Vec<Tuple>,
    messages: u64,
    told: Told,
}

/// Messages that the compressor sends on.
struct Told {
    estimates: Estimates,
    words: Words,
    /// Intervals that have ended, if the compressor has any.
    keeper: Option<Keeper<Row>>,
    /// Candidates of the interval that is about to end.
    candidates: Vec<Row>,
}

/// Words of tuples.
struct Words {
    /// Words of a tuple.
    width: usize,
    /// Words of tuples, where these have more than two.
    names: Names,
}

impl Words {
    /// The words of a tuple, if they are still known.
    fn of(&self, tuple: Tuple) -> Option<Vec<u64>> {
        match self.width {
            ..=WORDS => Some([tuple.pc.word(), tuple.value][WORDS - self.width..].to_vec()),
            width => (self.names.words(tuple)).map(|words| words[..width].to_vec()),
        }
    }
}

impl Sink for Told {
    fn message(&mut self, message: trommel_tuple::Message) {
        if self.words.width > WORDS {
            self.words.names.sent(message.tuple);
        }
        self.estimates.message(message);
        // With one more the interval is not kept, however many there are.
        if self.keeper.is_some() && self.candidates.len() <= CANDIDATES {
            self.candidates.push(Row {
                words: self.words.of(message.tuple).unwrap_or_default(),
                count: message.count,
            });
        }
    }

    fn interval_end(&mut self, events: u64) {
        if let Some(keeper) = &mut self.keeper {
            let candidates = std::mem::take(&mut self.candidates);
            keeper.add(ALL_THREADS, events, candidates);
        }
    }
}

impl Queue {
    fn new(spec: &Spec, width: usize) -> Self {
        Self {
            compressor: spec.build(Seeds::default()),
            tuples: Vec::with_capacity(BLOCK),
            messages: 0,
            told: Told {
                estimates: Estimates::new(spec, Seeds::default()),
                words: Words {
                    width,
                    names: Names::default(),
                },
                keeper: spec.interval().map(|_| Keeper::default()),
                candidates: Vec::new(),
            },
        }
    }

    fn block(&mut self) {
        let events = Events::of_kind(KIND, &self.tuples);
        self.compressor.events(events, &mut self.told);
        self.messages += self.tuples.len() as u64;
        self.tuples.clear();
    }

    /// The counts of its tuples, largest first, and their words.
    fn finish(mut self) -> (Vec<(Tuple, u64)>, Words) {
        self.compressor.finish(&mut self.told);
        let mut seen = PerKind::default();
        seen[KIND as usize] = self.messages;
        let mut profile = self.told.estimates.profile(&seen);
        let places = profile.remove(&KIND).map(|kind| kind.counts);
        let mut counts: Vec<(Tuple, u64)> = (places.into_iter().flatten())
            .flat_map(|(place, values)| {
                let tuple = move |(value, n)| (Tuple::new(place, value), n);
                values.into_iter().map(tuple)
            })
            .collect();
        counts.sort_unstable_by_key(|(tuple, n)| (std::cmp::Reverse(*n), tuple.pc, tuple.value));
        (counts, self.told.words)
    }
}

impl Compressed {
    /// Begins with the messages of a process.
    pub const fn new(spec: Spec, chosen: Chosen) -> Self {
        Self {
            spec,
            chosen,
            queues: BTreeMap::new(),
        }
    }

    /// Name of the table of a queue in reports.
    fn name(&self, queue: u8) -> String {
        format!("{} of queue {queue}", self.spec)
    }

    /// Returns a table for each queue of the process.
    pub fn finish(mut self, pid: u32) -> Vec<Served> {
        let queues = std::mem::take(&mut self.queues);
        let table = |(queue, mut of): (u8, Queue)| {
            let columns = self.chosen.tables.get(&queue)?;
            of.block();
            let messages = of.messages;
            // What has not ended when the process does is no interval.
            let keeper = of.told.keeper.take();
            let (counts, all_words) = of.finish();
            let (mut rows, mut lost) = (BTreeMap::new(), 0);
            for (tuple, n) in counts {
                match all_words.of(tuple).filter(|_| rows.len() < MOST_ROWS) {
                    Some(words) => _ = rows.insert(words, n),
                    None => lost += n,
                }
            }
            Some(Served {
                name: self.name(queue),
                messages,
                columns: columns.titles.clone(),
                places: columns.places,
                rows,
                lost,
                failures: Vec::new(),
                intervals: keeper.map(|keeper| keeper.finish().of_process(pid)),
            })
        };
        queues.into_iter().filter_map(table).collect()
    }
}

impl Service for Compressed {
    fn message(&mut self, message: &Message<'_>, modules: &Modules) {
        let queue = message.header.queue;
        let words = self.chosen.words.get(usize::from(message.header.at));
        let (Some(words), Some(columns)) = (words, self.chosen.tables.get(&queue)) else {
            return;
        };
        let width = columns.titles.len();
        // A single word is the value.
        let first = WORDS.saturating_sub(width);
        let mut taken = [0; WORDS + RECORD_WORDS];
        for ((n, word), to) in words.iter().enumerate().zip(&mut taken[first..]) {
            let word = message.words.get(usize::from(*word)).copied();
            *to = match columns.places >> n & 1 {
                0 => word.unwrap_or(0),
                _ => modules.place_at(TargetPc(word.unwrap_or(0))).word(),
            };
        }
        let of = (self.queues.entry(queue)).or_insert_with(|| Queue::new(&self.spec, width));
        let tuple = match width > WORDS {
            true => of.told.words.names.met(&taken[..width]),
            false => Tuple::new(Place::from_word(taken[0]), taken[1]),
        };
        of.tuples.push(tuple);
        if of.tuples.len() == BLOCK {
            of.block();
        }
    }

    /// Interrupts belong to no queue.
    fn interrupt(&mut self, _: &Message<'_>, _: bool, _: &Modules) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use trommel_query::{Field, assemble};

    fn chosen(text: &str, fields: &[Field]) -> Result<Chosen, NotChosen> {
        let fields: Vec<Word> = fields.iter().copied().map(Word::Field).collect();
        Chosen::new(&assemble(text).expect(text).program, &fields)
    }

    #[test]
    fn words_of_pairs_can_be_chosen() {
        let text = "for opLOAD * every 20 pair 4 collect pc res2; send 1 stop;";
        let program = assemble(text).expect(text).program;
        let words = [Word::Distance, Word::Second(Field::Pc)];
        let found = Chosen::new(&program, &words).expect("it has both");
        assert_eq!(found.words, [[4, 1]]);
        assert_eq!(found.tables[&1].titles, ["distance", "second.pc"]);
        assert_eq!(found.tables[&1].places, 2);
        let single = "for opLOAD * every 20 collect pc res2; send 1 stop;";
        let program = assemble(single).expect(single).program;
        let why = Chosen::new(&program, &words).expect_err("only pairs have a distance");
        assert_eq!(
            why.to_string(),
            "the query of opLOAD * has no distance: only pairs have, as of `every 10k pair 16`"
        );
    }

    #[test]
    fn words_are_chosen_for_each_query_and_named_for_each_queue() {
        let text = "for opLOAD * always collect pc res1 res2; send 1..2 stop;\n\
                    for opSTORE * always collect op1; if op1 = 0 then count; send 2 stop;\n\
                    for opALU * always collect pc; count stop;";
        let found = chosen(text, &[]).expect("the first two");
        assert_eq!(found.words, [vec![0, 1], vec![0], vec![0], vec![]]);
        assert_eq!(found.tables[&1].titles, ["pc", "res1"]);
        assert_eq!(found.tables[&1].places, 1);
        assert_eq!(found.tables[&2].titles, ["word 1", "word 2"]);
        assert_eq!(found.tables[&2].places, 0);
        let why = chosen(text, &[Field::Res2]).expect_err("the store has none");
        assert_eq!(
            why.to_string(),
            "the query of opSTORE * does not collect res2: add it to `collect`"
        );
        let eight = [Field::Pc; 8];
        assert_eq!(chosen(text, &eight), Err(NotChosen::Many(8)));
        let one = "for opLOAD * always collect pc res1 res2; send 1 stop;";
        let three = chosen(one, &[Field::Res2, Field::Pc, Field::Res1]).expect("all are there");
        assert_eq!(three.words, [[2, 0, 1]]);
        assert_eq!(three.tables[&1].places, 2);
        let silent = "for opALU * always collect pc; count stop;";
        assert_eq!(chosen(silent, &[]), Err(NotChosen::NoMessages));
        let twice = [Field::Pc, Field::Res1, Field::Pc];
        assert_eq!(chosen(text, &twice), Err(NotChosen::Twice("pc")));
    }
}
