//! Programs: a profile control table, query instructions and the rules that give tags.
//!
//! Invariants, which [`Program::new`] checks: the code is divided into queries, each from the query PC of
//! some table entries to that of the next; entries of one query have the same rate and fields, and those
//! of events collect only what is known of events; within a query branches go forward, words that are
//! compared are collected, and no way leads over the end.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use crate::class::{Entry, EntrySet, Subject};
use crate::control::{Control, Table};
use crate::field::{Field, FieldSet};
use crate::instruction::{Instruction, Next};
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
        let next = Some(Field::Res1).filter(|_| transfers);
        let words = [Some(Field::Pc), next].into_iter().flatten();
        let words = words.filter_map(|field| self.fields.word_of(field));
        words.fold(0, |bits, word| bits | 1 << word)
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
            if (query.sampling, query.fields) != (control.sampling, control.fields) {
                return overall(format!(
                    "{entry} shares its query with {}, and collects at another rate or other fields",
                    query
                        .entries
                        .iter()
                        .next()
                        .map_or_else(String::new, |e| format!("{e}"))
                ));
            }
        }
        for query in &queries {
            program.check(query)?;
        }
        Ok(program)
    }

    fn check(&self, query: &Query) -> Result<(), Invalid> {
        let words = query.fields.len();
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
            fields: first.fields,
            code: first.start.number()..end,
        };
        starts.iter().zip(ends).map(query).collect()
    }
}
