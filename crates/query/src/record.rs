//! Facts about one execution of an instruction, and records of some of them.
//!
//! A record has seven words, and a message eight: the eighth is its queue's (section 3.4.2). The fields
//! that a query collects stand in the words in the order of Table 2, densely from word 0 on; the other
//! words are 0.

use crate::field::{Field, FieldSet};

/// Words of a record.
pub const RECORD_WORDS: usize = 7;

/// Everything that is known about one execution, a word for each field. What is not known is 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Facts([u64; Field::ALL.len()]);

impl Facts {
    /// Nothing known.
    pub const NONE: Self = Self([0; Field::ALL.len()]);

    /// The facts with `field` known.
    #[must_use]
    pub const fn with(mut self, field: Field, value: u64) -> Self {
        self.0[field as usize] = value;
        self
    }

    /// One of them.
    pub const fn get(&self, field: Field) -> u64 {
        self.0[field as usize]
    }
}

/// A record.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Record(pub [u64; RECORD_WORDS]);

impl Record {
    /// The record of `fields`. Of more than seven, which no table entry has, the first seven.
    pub fn pack(facts: &Facts, fields: FieldSet) -> Self {
        let mut words = [0; RECORD_WORDS];
        for (word, field) in words.iter_mut().zip(fields.iter()) {
            *word = facts.get(field);
        }
        Self(words)
    }

    /// The record of a pair, of records of `fields` fields: the words of both in turn, then the distance.
    pub(crate) fn of_pair(first: &Self, second: &Self, fields: usize, distance: u64) -> Self {
        let both = first.0.iter().zip(&second.0).take(fields);
        let both = both.flat_map(|(first, second)| [*first, *second]);
        let mut words = [0; RECORD_WORDS];
        for (word, value) in words.iter_mut().zip(both.chain([distance])) {
            *word = value;
        }
        Self(words)
    }

    /// Returns what the record says of `field`, if `fields` are what it holds.
    pub fn get(&self, field: Field, fields: FieldSet) -> Option<u64> {
        let word = fields.word_of(field)?;
        self.0.get(usize::from(word)).copied()
    }
}

/// Bits of the field `misc`.
pub mod misc {
    /// The branch was taken; also of every unconditional one.
    pub const TAKEN: u64 = 1;
    /// The branch was mispredicted. Only a pipeline knows.
    pub const MISPREDICTED: u64 = 1 << 1;
    /// The instruction ended in an exception, whose vector is in bits 8 to 15.
    pub const EXCEPTION: u64 = 1 << 2;
    /// The instruction was on a path that a branch was mispredicted to, and was squashed. Only a modelled pipeline knows.
    pub const SQUASHED: u64 = 1 << 3;
    /// First bit of the exception's vector.
    pub const VECTOR_SHIFT: u32 = 8;
}
