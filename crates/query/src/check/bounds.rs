//! Words whose numbers are known before anything is executed, by the header of their query.
//!
//! * The `distance` of `pair N` is from 1 to N.
//! * Some fields are 0 of whole classes, such as the address that a branch accesses.
//! * `misc` has a few bits only.
//!
//! A comparison with such a word may hold always, or never, whatever the program does. Both are warnings and no errors: the
//! comparison means something, and an assembled program may have it.

use alloc::format;
use alloc::string::String;

use super::Clauses;
use crate::class::{Operation, Subject};
use crate::field::Field;
use crate::instruction::{Known, Lane};
use crate::pair::Word;
use crate::record::misc;

/// Numbers that a word may have.
pub(super) struct Bounds {
    /// The least and the greatest.
    pub(super) range: (u64, u64),
    /// Bits that may be set.
    bits: u64,
    /// The reason, for the user.
    pub(super) why: String,
}

impl Bounds {
    /// Returns what the header says of a word; nothing where that is nothing.
    pub(super) fn of(word: Word, of: &Clauses<'_>) -> Option<Self> {
        let name = word.name();
        match word {
            Word::Distance => {
                let within = of.pair?;
                let most = u64::from(within.most());
                Some(Self {
                    range: (1, most),
                    bits: u64::MAX >> most.leading_zeros(),
                    why: format!("`{name}` is from 1 to {most}, as the header says `{within}`"),
                })
            }
            Word::Field(Field::Misc) | Word::Second(Field::Misc) => {
                let vector = 0xff << misc::VECTOR_SHIFT;
                let known = misc::TAKEN | misc::MISPREDICTED | misc::EXCEPTION | misc::SQUASHED;
                let bits = known | vector;
                Some(Self {
                    range: (0, bits),
                    bits,
                    why: format!("of `{name}` only the bits {bits:#x} are ever set"),
                })
            }
            Word::Field(field) | Word::Second(field) => {
                let mut all = of.entries.iter();
                let zero = all.all(|entry| match entry.subject() {
                    Subject::Class(class) => is_zero(class.operation, field),
                    Subject::Event(_) => false,
                });
                (zero && !of.entries.is_empty()).then(|| Self {
                    range: (0, 0),
                    bits: 0,
                    why: format!("`{name}` is 0 of all instructions that this query selects"),
                })
            }
        }
    }

    /// The numbers that a part of the word may have; nothing where they are not all from one to another.
    pub(super) fn of_lane(&self, signed: bool, lane: Lane) -> Option<(i128, i128)> {
        let (least, most) = self.range;
        let room = lane.bits() - u32::from(signed);
        let fits = |number: u64| u64::BITS - number.leading_zeros() <= room;
        match lane.byte() {
            0 if fits(most) => Some((least.into(), most.into())),
            0 => None,
            byte if most >> (8 * byte) == 0 => Some((0, 0)),
            _ => None,
        }
    }

    /// Returns what is known of a test of bits of a part of the word.
    pub(super) fn of_bits(&self, set: bool, lane: Lane, mask: u16) -> Known {
        let (mask, possible) = (u64::from(mask), lane.unsigned(self.bits));
        match (set, mask & !possible, mask & possible) {
            (true, 1.., _) => Known::Never,
            (false, _, 0) => Known::Always,
            _ => Known::Depends,
        }
    }
}

/// Returns true if a field is 0 of every instruction of a class.
pub(crate) fn is_zero(operation: Operation, field: Field) -> bool {
    use Field as F;
    match operation {
        Operation::Branch => matches!(
            field,
            F::Op1 | F::Op1Up | F::Op2 | F::Op2Up | F::Op3 | F::Res1Up | F::Res2
        ),
        Operation::Store => matches!(field, F::Res1 | F::Res1Up),
        Operation::Alu | Operation::Multiply | Operation::Float | Operation::System => {
            field == F::Res2
        }
        Operation::Jump => field == F::Res1Up,
        Operation::Load => false,
    }
}
