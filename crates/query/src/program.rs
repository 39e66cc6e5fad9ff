//! Programs: a profile control table, query instructions and the rules that give tags.
//!
//! Invariants, which [`Program::new`] checks: the code is divided into queries, each from the query PC of
//! some table entries to that of the next; entries of one query have the same rate, pairs and fields, and those
//! of events collect only what is known of events; pairs are of instructions or of events, at a rate that leaves room for them; within a query branches go forward, words that are
//! compared are collected, and no way leads over the end.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use crate::class::{Entry, EntrySet, Subject};
use crate::control::{Control, Table};
use crate::field::{Field, FieldSet};
use crate::instruction::{Instruction, Next};
use crate::pair::{Layout, Within, Word};
use crate::pc::MAX_INSTRUCTIONS;
use crate::rate::Sampling;
use crate::tag::Rule;

/// One query of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Query {
    /// Instructions or events that the query is about.
    pub entries: EntrySet,
    /// Rate at which they are profiled.
    pub sampling: Sampling,
    /// Largest distance of pairs, if its records are of pairs.
    pub pair: Option<Within>,
    /// Collected fields.
    pub fields: FieldSet,
    /// Its instructions.
    pub code: Range<usize>,
}

impl Query {
    /// Returns which words of its records are addresses of code, by bit: `pc`, and of control transfers the
    /// address executed next.
    pub fn code_words(&self) -> u8 {
        let transfers = self.entries.iter().all(|entry| match entry.subject() {
            Subject::Class(class) => class.operation.is_transfer(),
            Subject::Event(_) => false,
        });
        let is_code = |field| field == Field::Pc || transfers && field == Field::Res1;
        let words = (0..).zip(self.layout().words());
        let words = words.filter(|(_, word)| match *word {
            Word::Field(field) | Word::Second(field) => is_code(field),
            Word::Distance => false,
        });
        words.fold(0, |bits, (n, _): (u8, Word)| bits | 1 << n)
    }

    /// Meanings of the words of its records.
    pub const fn layout(&self) -> Layout {
        Layout {
            fields: self.fields,
            paired: self.pair.is_some(),
        }
    }

    /// The rate, and pairs if there are any, as its header has them.
    pub fn rate(&self) -> String {
        match self.pair {
            None => format!("{}", self.sampling),
            Some(within) => format!("{} {within}", self.sampling),
        }
    }

    /// Names of the words of its records.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.layout().words().map(Word::name)
    }

    /// Its header, without the `;`.
    pub fn header(&self) -> String {
        let fields: Vec<&str> = self.fields.iter().map(Field::name).collect();
        let selectors = self.entries.selectors().join(" ");
        format!(
            "for {selectors} {} collect {}",
            self.rate(),
            fields.join(" ")
        )
    }

    /// Returns the error in its pairs, if there is one.
    fn check_pairs(&self) -> Result<(), &'static str> {
        let Some(within) = self.pair else {
            return Ok(());
        };
        let is_event = |entry: Entry| matches!(entry.subject(), Subject::Event(_));
        let events = self.entries.iter().filter(|entry| is_event(*entry)).count();
        match self.sampling {
            Sampling::Auto(_) => Err("pairs have a rate that does not change"),
            Sampling::Every(rate) if rate.one_in() <= within.most() => {
                Err("the rate of pairs is above their distance")
            }
            Sampling::Every(_) if events != 0 && events != self.entries.iter().count() => {
                Err("pairs are of instructions or of events, not of both")
            }
            Sampling::Every(_) => Ok(()),
        }
    }
}

/// An assembled program.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Program {
    table: Table,
    code: Vec<Instruction>,
    tags: Vec<Rule>,
}

/// An error in a program, and its instruction if it has one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Invalid {
    /// The number of the instruction.
    pub at: Option<usize>,
    /// The error.
    pub what: String,
}

impl Program {
    /// A program of its parts.
    ///
    /// # Errors
    /// When an invariant of the module does not hold.
    pub fn new(table: Table, code: Vec<Instruction>, tags: Vec<Rule>) -> Result<Self, Invalid> {
        let program = Self { table, code, tags };
        let overall = |what: String| Err(Invalid { at: None, what });
        if program.code.len() > MAX_INSTRUCTIONS {
            return overall(format!(
                "it has {} instructions, and {MAX_INSTRUCTIONS} is the limit",
                program.code.len()
            ));
        }
        let beyond_end = |(_, c): &(_, Control)| c.start.number() >= program.code.len();
        let beyond_end = program.table.entries().find(beyond_end);
        if let Some((entry, _)) = beyond_end {
            return overall(format!(
                "the query of {entry} starts after the last instruction"
            ));
        }
        let beyond = |(entry, control): &(Entry, Control)| {
            let is_event = matches!(entry.subject(), Subject::Event(_));
            is_event && !control.fields.iter().all(Field::is_of_events)
        };
        let beyond = program.table.entries().find(beyond);
        if let Some((entry, _)) = beyond {
            return overall(format!("{entry} collects what is not known of an event"));
        }
        let queries = program.queries();
        if queries.first().map_or(0, |q| q.code.start) != 0
            || queries.is_empty() && !program.code.is_empty()
        {
            return overall("no table entry leads to its first instruction".into());
        }
        for (entry, control) in program.table.entries() {
            let same = |q: &&Query| q.code.start == control.start.number();
            let Some(query) = queries.iter().find(same) else {
                continue;
            };
            let own = (control.sampling, control.pair, control.fields);
            if (query.sampling, query.pair, query.fields) != own {
                return overall(format!(
                    "{entry} shares its query with {}, and collects at another rate, other pairs or other fields",
                    query
                        .entries
                        .iter()
                        .next()
                        .map_or_else(String::new, |e| format!("{e}"))
                ));
            }
        }
        for query in &queries {
            if let Err(what) = query.check_pairs() {
                return overall(what.into());
            }
            program.check(query)?;
        }
        Ok(program)
    }

    fn check(&self, query: &Query) -> Result<(), Invalid> {
        let words = query.layout().len();
        for at in query.code.clone() {
            let invalid = |what: String| Err(Invalid { at: Some(at), what });
            let i = &self.code[at];
            let [even, odd] = [i.even, i.odd].map(|c| c.test.against());
            let other = Some(crate::instruction::Against::Other);
            let reads = [
                (even.is_some() || odd == other).then_some(2 * i.even.word),
                (odd.is_some() || even == other).then_some(2 * i.odd.word + 1),
            ];
            for word in reads.into_iter().flatten() {
                if usize::from(word) >= words {
                    return invalid(format!(
                        "it reads word {word}, and its query collects {words}"
                    ));
                }
            }
            let nexts = match i.is_unconditional() {
                true => [i.matched, i.matched],
                false => [i.matched, i.otherwise],
            };
            let target = i.target.number();
            if nexts.contains(&Next::Branch) && (target <= at || target >= query.code.end) {
                return invalid(format!(
                    "it branches to {target}; branches go forward, and to instructions before {}, \
                     where the query ends",
                    query.code.end
                ));
            }
            if nexts.contains(&Next::Continue) && at + 1 == query.code.end {
                return invalid("the query runs over its end".into());
            }
        }
        Ok(())
    }

    /// The profile control table.
    pub const fn table(&self) -> &Table {
        &self.table
    }

    /// The entry whose countdown counts the executions of `entry`: of pairs the first one of the query, else its own.
    pub fn leader(&self, entry: Entry) -> Entry {
        let control = self
            .table
            .get(entry)
            .filter(|control| control.pair.is_some());
        let Some(control) = control else {
            return entry;
        };
        let mut entries = self.table.entries();
        let first = entries.find(|(_, other)| other.start == control.start);
        first.map_or(entry, |(first, _)| first)
    }

    /// The query instructions.
    pub fn code(&self) -> &[Instruction] {
        &self.code
    }

    /// The rules that give tags, in order.
    pub fn tags(&self) -> &[Rule] {
        &self.tags
    }

    /// Its queries, in the order of their code.
    pub fn queries(&self) -> Vec<Query> {
        let mut starts: Vec<Control> = self.table.entries().map(|(_, control)| control).collect();
        starts.sort_by_key(|c| c.start);
        starts.dedup_by_key(|c| c.start);
        let ends = starts.iter().skip(1).map(|c| c.start.number());
        let ends: Vec<usize> = ends.chain([self.code.len()]).collect();
        let query = |(first, end): (&Control, usize)| Query {
            entries: (self.table.entries())
                .filter(|(_, c)| c.start == first.start)
                .map(|(entry, _)| entry)
                .collect(),
            sampling: first.sampling,
            pair: first.pair,
            fields: first.fields,
            code: first.start.number()..end,
        };
        starts.iter().zip(ends).map(query).collect()
    }
}
