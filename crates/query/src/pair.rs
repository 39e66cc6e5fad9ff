//! Pairs of executions, for what instructions do to each other.
//!
//! # Problem
//! A record tells of one execution. How two executions that are close to each other go together (a load that reads what a store
//! has just written, two misses that overlap) no rate of single records tells: both have to be seen, and how far apart they are.
//! The paper names ProfileMe's *paired sampling* for that, and leaves it to future work (section 7).
//!
//! # A pair
//! The header's `every M pair N` says it. All that a query selects is *one* sequence in the order of the thread, whatever its
//! classes and tags. Its executions are the candidates, and those that clauses filter out later are among them.
//!
//! * *The first* of a pair is sampled: one execution in M.
//! * *The second* is the d-th execution of the sequence after it, and d, the *distance*, is drawn uniformly from 1 to N. So each
//!   distance is as likely as any other, and nothing keeps step with a loop.
//! * The pair is one record, of which the query's clauses decide once: the fields of both, and d.
//!
//! The distance counts what the query selects: instructions that no query selects are translated as if there were none, so they
//! are not counted either. A query on all classes counts all instructions.
//!
//! # Intervals
//! ```text
//!          first      second                 first
//! ───────────┼────d─────┼─────────────────────┼────────
//!            │←──────── M on the average ────→│
//! ```
//! One countdown serves all entries of the query: that of the first of them, its *leader*. The first countdown is uniform from 1 to
//! 2M − 1. At a first it becomes d, at a second uniform from 1 to 2(M − d) − 1. From first to first it is M on the average, for
//! each d. Hence the conditions: M is above N, and is a rate. So one execution in M is a first, and *a pair stands for M*: the sum of M over the
//! pairs of a kind at distance d, times N, estimates how many such pairs the sequence has.
//!
//! # Layout
//! The words of a pair alternate, so that a field and the other's same field can be compared (one is an even word, one an odd one):
//! the first field of both, the second of both, …, the distance. Seven words hold three fields.
//!
//! # Decisions
//! * At the end of a thread, or of the query, a first without its second is dropped: a pair is whole or is none.
//! * An execution that ends in an exception is no member, as it makes no record. The pair is none then. Pairs are numbered, so that no other
//!   record takes its place.
//! * A query on events has pairs of events. One on events and classes has none: an event is noticed late, so there is no one order of both.
//! * `every auto` begins with each execution, which leaves no room for a second. It has no pairs.

use crate::field::{Field, FieldSet};
use crate::record::{RECORD_WORDS, Record};

/// Distance that the two of a pair may have.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Within(u16);

impl Within {
    /// The largest.
    pub const MOST: Self = Self(u16::MAX);

    /// At most so many executions, if a register can say so.
    pub const fn new(n: u64) -> Option<Self> {
        match n {
            1..=0xffff => Some(Self(n as u16)),
            _ => None,
        }
    }

    /// N.
    pub const fn most(self) -> u32 {
        self.0 as u32
    }
}

impl core::fmt::Display for Within {
    /// Writes it as a query's header has it.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "pair {}", self.0)
    }
}

/// Part that a profiled execution has in a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Member {
    /// The record is its own.
    Alone,
    /// The first of the pair of this number.
    First(u32),
    /// The second.
    Second {
        /// Number of the pair.
        pair: u32,
        /// Executions from the first to this one.
        distance: u32,
    },
}

/// Meaning of a word of a record.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Word {
    /// A field of the execution, or of the first of a pair.
    Field(Field),
    /// A field of the second.
    Second(Field),
    /// Executions from the first to the second.
    Distance,
}

impl Word {
    /// The name of the distance in a text.
    pub const DISTANCE: &'static str = "distance";
    /// The name before a field of the second in a text.
    pub const SECOND: &'static str = "second";

    /// Returns the meaning that has a name, if any has.
    pub fn from_name(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case(Self::DISTANCE) {
            return Some(Self::Distance);
        }
        match name.split_once('.') {
            Some((of, field)) if of.eq_ignore_ascii_case(Self::SECOND) => {
                Field::from_name(field).map(Self::Second)
            }
            _ => Field::from_name(name).map(Self::Field),
        }
    }

    /// The name, as a clause has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Field(field) => field.name(),
            Self::Second(field) => SECONDS[field as usize],
            Self::Distance => Self::DISTANCE,
        }
    }
}

/// Names of the fields of the second.
const SECONDS: [&str; Field::ALL.len()] = [
    "second.pc",
    "second.thread",
    "second.op1",
    "second.op1up",
    "second.op2",
    "second.op2up",
    "second.op3",
    "second.res1",
    "second.res1u",
    "second.res2",
    "second.misc",
    "second.ftime",
    "second.frate",
    "second.drate",
    "second.irate",
    "second.wlat",
    "second.elat",
    "second.rtime",
    "second.rrate",
];

/// Meanings of the words of a query's records.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Layout {
    /// Collected fields.
    pub fields: FieldSet,
    /// True if a record is of a pair.
    pub paired: bool,
}

impl Layout {
    /// Words in use. A valid program has no more than a record.
    pub const fn len(self) -> usize {
        match self.paired {
            true => 2 * self.fields.len() + 1,
            false => self.fields.len(),
        }
    }

    /// Returns true if no word is in use.
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Fields that fit into a record.
    pub const fn most_fields(paired: bool) -> usize {
        match paired {
            true => (RECORD_WORDS - 1) / 2,
            false => RECORD_WORDS,
        }
    }

    /// The word in which something stands, if it is in the record.
    pub fn word_of(self, word: Word) -> Option<u8> {
        match (word, self.paired) {
            (Word::Field(field), false) => self.fields.word_of(field),
            (Word::Field(field), true) => Some(2 * self.fields.word_of(field)?),
            (Word::Second(field), true) => Some(2 * self.fields.word_of(field)? + 1),
            (Word::Distance, true) => Some(2 * self.fields.len() as u8),
            (Word::Second(_) | Word::Distance, false) => None,
        }
    }

    /// Returns what stands in `word`.
    pub fn word_at(self, word: u8) -> Option<Word> {
        self.words().nth(word.into())
    }

    /// The meanings of the words, in order.
    pub fn words(self) -> impl Iterator<Item = Word> {
        let fields = self.fields.iter().flat_map(move |field| {
            let second = self.paired.then_some(Word::Second(field));
            core::iter::once(Word::Field(field)).chain(second)
        });
        fields.chain(self.paired.then_some(Word::Distance))
    }
}

/// Pairs of a query in a thread.
#[derive(Clone, Debug)]
pub(crate) struct Pairs {
    within: Within,
    /// Number of the last pair that was begun.
    number: u32,
    /// Distance of the second that is awaited.
    open: Option<u32>,
    /// Record of a first, and the number of its pair.
    held: Option<(u32, Record)>,
}

impl Pairs {
    /// No pair yet.
    pub(crate) const fn new(within: Within) -> Self {
        Self {
            within,
            number: 0,
            open: None,
            held: None,
        }
    }

    /// An execution is profiled, at a rate of one in `n`. Returns its part, and the next countdown. `below` draws a number
    /// below another one.
    pub(crate) fn profile(&mut self, n: u64, mut below: impl FnMut(u64) -> u64) -> (Member, u64) {
        match self.open.take() {
            None => {
                let distance = 1 + below(self.within.0.into());
                self.number = self.number.wrapping_add(1);
                self.open = Some(distance as u32);
                (Member::First(self.number), distance)
            }
            Some(distance) => {
                let rest = n.saturating_sub(distance.into()).max(1);
                let pair = self.number;
                (Member::Second { pair, distance }, 1 + below(2 * rest - 1))
            }
        }
    }

    /// The record of an execution of `fields` fields: that of the pair, if it is whole.
    pub(crate) fn join(
        &mut self,
        member: Member,
        record: &Record,
        fields: usize,
    ) -> Option<Record> {
        match member {
            Member::Alone => Some(*record),
            Member::First(pair) => {
                self.held = Some((pair, *record));
                None
            }
            Member::Second { pair, distance } => {
                let (_, first) = self.held.take().filter(|(held, _)| *held == pair)?;
                Some(Record::of_pair(&first, record, fields, distance.into()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;
    use std::vec::Vec;

    #[test]
    fn names_of_the_second_are_those_of_fields() {
        for field in Field::ALL {
            let name = format!("{}.{}", Word::SECOND, field.name());
            assert_eq!(Word::Second(field).name(), name);
            assert_eq!(Word::from_name(&name), Some(Word::Second(field)));
        }
    }

    #[test]
    fn words_of_a_pair_alternate() {
        let fields: FieldSet = [Field::Res2, Field::Pc].into_iter().collect();
        let paired = Layout {
            fields,
            paired: true,
        };
        let names: Vec<_> = paired.words().map(Word::name).collect();
        assert_eq!(
            names,
            ["pc", "second.pc", "res2", "second.res2", "distance"]
        );
        assert_eq!(paired.len(), names.len());
        for (n, word) in paired.words().enumerate() {
            assert_eq!(paired.word_of(word), Some(n as u8));
            assert_eq!(paired.word_at(n as u8), Some(word));
            assert_eq!(Word::from_name(word.name()), Some(word));
        }
        let single = Layout {
            fields,
            paired: false,
        };
        assert_eq!(single.words().count(), single.len());
        assert_eq!(single.word_of(Word::Distance), None);
        assert_eq!(single.word_of(Word::Second(Field::Pc)), None);
    }

    /// A member that makes no record leaves its pair without one, and no other pair with it.
    #[test]
    fn a_pair_with_a_missing_member_is_none() {
        let mut pairs = Pairs::new(Within(5));
        let record = |n| Record([n, 0, 0, 0, 0, 0, 0]);
        let mut joined = Vec::new();
        for n in 0..40 {
            let (member, left) = pairs.profile(10, |bound| n % bound);
            assert!(left >= 1);
            // The first of pair 1, the second of pair 2, both of pair 4 and the second of pair 5 fault.
            if [2, 5, 8, 9, 11].contains(&n) {
                continue;
            }
            joined.extend(pairs.join(member, &record(n), 1));
        }
        let firsts: Vec<u64> = joined.iter().map(|record| record.0[0]).collect();
        let expected = (0..40).step_by(2).filter(|n| ![2, 4, 8, 10].contains(n));
        assert_eq!(firsts, expected.collect::<Vec<u64>>());
        for record in joined {
            assert_eq!(record.0[1], record.0[0] + 1);
            assert_eq!(record.0[2], 1 + record.0[0] % 5);
        }
    }
}
