//! Fields that a query can collect about an instruction: Table 2 of the paper.
//!
//! A field is one word of a record. The paper's words have 32 bits; ours have 64, so that an address or
//! a general register is one field, and the `up` fields are the upper half of a 128-bit operand.

/// A fact about one execution of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Field {
    /// Address of the instruction.
    Pc = 0,
    /// Number of the thread.
    Thread = 1,
    /// First input operand.
    Op1 = 2,
    /// Its upper 64 bits.
    Op1Up = 3,
    /// Second input operand.
    Op2 = 4,
    /// Its upper 64 bits.
    Op2Up = 5,
    /// Third input operand.
    Op3 = 6,
    /// First result.
    Res1 = 7,
    /// Its upper 64 bits.
    Res1Up = 8,
    /// Second result: the effective address.
    Res2 = 9,
    /// Branch outcome and exceptions, as [`record::misc`](crate::record::misc) lays them out.
    Misc = 10,
    /// Cycle when it was fetched.
    FetchTime = 11,
    /// Fetch rate.
    FetchRate = 12,
    /// Dispatch rate.
    DispatchRate = 13,
    /// Issue rate.
    IssueRate = 14,
    /// Cycles in the execution window.
    WindowLatency = 15,
    /// Cycles in execution.
    ExecutionLatency = 16,
    /// Cycle when it retired.
    RetireTime = 17,
    /// Retire rate.
    RetireRate = 18,
}

impl Field {
    /// Every field, in the order of their numbers, which is that of Table 2 and of words in records.
    pub const ALL: [Self; 19] = [
        Self::Pc,
        Self::Thread,
        Self::Op1,
        Self::Op1Up,
        Self::Op2,
        Self::Op2Up,
        Self::Op3,
        Self::Res1,
        Self::Res1Up,
        Self::Res2,
        Self::Misc,
        Self::FetchTime,
        Self::FetchRate,
        Self::DispatchRate,
        Self::IssueRate,
        Self::WindowLatency,
        Self::ExecutionLatency,
        Self::RetireTime,
        Self::RetireRate,
    ];

    /// The mnemonic.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pc => "pc",
            Self::Thread => "thread",
            Self::Op1 => "op1",
            Self::Op1Up => "op1up",
            Self::Op2 => "op2",
            Self::Op2Up => "op2up",
            Self::Op3 => "op3",
            Self::Res1 => "res1",
            Self::Res1Up => "res1u",
            Self::Res2 => "res2",
            Self::Misc => "misc",
            Self::FetchTime => "ftime",
            Self::FetchRate => "frate",
            Self::DispatchRate => "drate",
            Self::IssueRate => "irate",
            Self::WindowLatency => "wlat",
            Self::ExecutionLatency => "elat",
            Self::RetireTime => "rtime",
            Self::RetireRate => "rrate",
        }
    }

    /// The field of a mnemonic.
    pub fn from_name(name: &str) -> Option<Self> {
        (Self::ALL.into_iter()).find(|f| f.name().eq_ignore_ascii_case(name))
    }

    /// Returns true if only a pipeline has this fact: no software sees it happen.
    pub const fn is_of_pipeline(self) -> bool {
        self as u8 >= Self::FetchTime as u8
    }

    /// Returns true if it is a number of cycles or the like, and no address, operand or set of bits.
    pub const fn is_count(self) -> bool {
        matches!(
            self,
            Self::Thread
                | Self::FetchTime
                | Self::WindowLatency
                | Self::ExecutionLatency
                | Self::RetireTime
        )
    }

    /// Returns true if it has several numbers of a cycle in its parts.
    pub const fn is_rate(self) -> bool {
        matches!(
            self,
            Self::FetchRate | Self::DispatchRate | Self::IssueRate | Self::RetireRate
        )
    }

    /// Returns true if it is known when an event is noticed, which is late in the pipeline (section 3.4.1:
    /// at least the pc, a cycle count and the effective address).
    pub const fn is_of_events(self) -> bool {
        matches!(
            self,
            Self::Pc | Self::Thread | Self::Res2 | Self::RetireTime
        )
    }
}

/// A set of fields: the words of a record.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct FieldSet(u32);

impl FieldSet {
    /// No field.
    pub const NONE: Self = Self(0);

    /// The set with `field` added.
    #[must_use]
    pub const fn with(self, field: Field) -> Self {
        Self(self.0 | 1 << field as u8)
    }

    /// Returns true if `field` is in it.
    pub const fn has(self, field: Field) -> bool {
        self.0 & 1 << field as u8 != 0
    }

    /// Fields in it.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Returns true if it is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Bit n for the field of number n.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The set of `bits`, if there are no others.
    pub const fn from_bits(bits: u32) -> Option<Self> {
        if bits >> Field::ALL.len() == 0 {
            Some(Self(bits))
        } else {
            None
        }
    }

    /// The fields, in order.
    pub fn iter(self) -> impl Iterator<Item = Field> {
        Field::ALL.into_iter().filter(move |f| self.has(*f))
    }

    /// The word of a record in which `field` stands: records hold the fields in order, densely.
    pub const fn word_of(self, field: Field) -> Option<u8> {
        if !self.has(field) {
            return None;
        }
        Some((self.0 & ((1 << field as u8) - 1)).count_ones() as u8)
    }

    /// The field that stands in `word`.
    pub fn field_at(self, word: u8) -> Option<Field> {
        self.iter().nth(word.into())
    }
}

impl FromIterator<Field> for FieldSet {
    fn from_iter<I: IntoIterator<Item = Field>>(fields: I) -> Self {
        fields.into_iter().fold(Self::NONE, Self::with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_those_of_table_2() {
        for (n, field) in Field::ALL.into_iter().enumerate() {
            assert_eq!(field as usize, n);
            assert_eq!(Field::from_name(field.name()), Some(field));
        }
        let names = Field::ALL.map(Field::name).join(" ");
        assert_eq!(
            names,
            "pc thread op1 op1up op2 op2up op3 res1 res1u res2 misc ftime frate drate irate wlat \
             elat rtime rrate"
        );
    }

    #[test]
    fn words_are_dense_and_in_order() {
        let set: FieldSet = [Field::Misc, Field::Pc, Field::Op2].into_iter().collect();
        assert_eq!(
            [Field::Pc, Field::Op2, Field::Misc, Field::Op1].map(|f| set.word_of(f)),
            [Some(0), Some(1), Some(2), None]
        );
        assert_eq!(set.field_at(2), Some(Field::Misc));
        assert_eq!(set.field_at(3), None);
        assert_eq!(FieldSet::from_bits(set.bits()), Some(set));
        assert_eq!(FieldSet::from_bits(1 << 19), None);
    }
}
