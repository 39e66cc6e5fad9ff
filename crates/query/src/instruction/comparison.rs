//! Comparisons: what one half of an instruction asks of its word.

use super::malformed::Malformed;

/// Position and width of a value in a word.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Lane(pub(super) u8);

impl Lane {
    /// The whole word.
    pub const WORD: Self = Self(14);

    /// The lane of `bits` (8, 16, 32, 64) that starts at `byte`, if it is aligned and in the word.
    pub const fn new(bits: u32, byte: u64) -> Option<Self> {
        if !matches!(bits, 8 | 16 | 32 | 64) {
            return None;
        }
        let bytes = (bits / 8) as u64;
        if byte > 7 || !byte.is_multiple_of(bytes) {
            return None;
        }
        let base = match bits {
            8 => 0,
            16 => 8,
            32 => 12,
            _ => 14,
        };
        Some(Self(base + (byte / bytes) as u8))
    }

    /// Its width in bits.
    pub const fn bits(self) -> u32 {
        match self.0 {
            0..8 => 8,
            8..12 => 16,
            12..14 => 32,
            _ => 64,
        }
    }

    /// The byte it starts at.
    pub const fn byte(self) -> u32 {
        match self.0 {
            0..8 => self.0 as u32,
            8..12 => (self.0 as u32 - 8) * 2,
            12..14 => (self.0 as u32 - 12) * 4,
            _ => 0,
        }
    }

    /// The largest unsigned value.
    pub const fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits())
    }

    /// The value in `word`, zero-extended.
    pub const fn unsigned(self, word: u64) -> u64 {
        word >> (8 * self.byte()) & self.mask()
    }

    /// The value in `word`, sign-extended.
    pub const fn signed(self, word: u64) -> i64 {
        let shift = 64 - self.bits();
        (self.unsigned(word) << shift) as i64 >> shift
    }
}

/// A relation of magnitude.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Relation {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl Relation {
    /// In the order of their codes.
    pub const ALL: [Self; 6] = [
        Self::Equal,
        Self::NotEqual,
        Self::Less,
        Self::LessOrEqual,
        Self::Greater,
        Self::GreaterOrEqual,
    ];

    /// Returns the name in the language.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "<>",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }

    /// Returns true if it holds.
    pub fn holds<T: Ord>(self, left: T, right: T) -> bool {
        match self {
            Self::Equal => left == right,
            Self::NotEqual => left != right,
            Self::Less => left < right,
            Self::LessOrEqual => left <= right,
            Self::Greater => left > right,
            Self::GreaterOrEqual => left >= right,
        }
    }
}

/// A test that reads no word.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Chance {
    /// Always succeeds.
    True,
    /// Never succeeds.
    False,
    /// Succeeds once in 2^n executions, at random: n is 1, 2, 4 or 8.
    Filter(u8),
}

impl Chance {
    const ALL: [Self; 6] = [
        Self::True,
        Self::False,
        Self::Filter(1),
        Self::Filter(2),
        Self::Filter(4),
        Self::Filter(8),
    ];

    /// The filter that succeeds once in `n`, if there is one.
    pub fn filter(n: u64) -> Option<Self> {
        (Self::ALL.into_iter()).find(|c| matches!(c, Self::Filter(bits) if 1 << bits == n))
    }
}

/// Operands that a test compares with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Against {
    /// The instruction's immediate.
    Immediate,
    /// The same lane of the word that the other comparison selects.
    Other,
}

/// Tests of a word.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Test {
    /// Nothing.
    Chance(Chance),
    /// Comparison as an unsigned or signed number.
    Magnitude {
        /// The relation.
        relation: Relation,
        /// Set for two's complement; the immediate is sign-extended.
        signed: bool,
        /// Lane of the word.
        lane: Lane,
        /// With what.
        against: Against,
    },
    /// Says whether the bits of the mask are all set, or all clear.
    Bits {
        /// Set, or clear.
        set: bool,
        /// Lane of the word.
        lane: Lane,
        /// The mask.
        against: Against,
    },
}

impl Test {
    /// Always succeeds.
    pub const TRUE: Self = Self::Chance(Chance::True);

    /// Returns what it compares with, if it reads a word.
    pub const fn against(self) -> Option<Against> {
        match self {
            Self::Chance(_) => None,
            Self::Magnitude { against, .. } | Self::Bits { against, .. } => Some(against),
        }
    }

    /// Returns true if it succeeds on `word`; `immediate` and `other` are what it may compare with. Of chance
    /// `passes` is asked, with n of one in 2^n.
    pub fn holds(
        self,
        word: u64,
        immediate: u16,
        other: u64,
        passes: impl FnOnce(u8) -> bool,
    ) -> bool {
        match self {
            Self::Chance(Chance::True) => true,
            Self::Chance(Chance::False) => false,
            Self::Chance(Chance::Filter(n)) => passes(n),
            Self::Magnitude {
                relation,
                signed: true,
                lane,
                against,
            } => {
                let right = match against {
                    Against::Immediate => i64::from(immediate as i16),
                    Against::Other => lane.signed(other),
                };
                relation.holds(lane.signed(word), right)
            }
            Self::Magnitude {
                relation,
                signed: false,
                lane,
                against,
            } => {
                let right = match against {
                    Against::Immediate => u64::from(immediate),
                    Against::Other => lane.unsigned(other),
                };
                relation.holds(lane.unsigned(word), right)
            }
            Self::Bits { set, lane, against } => {
                let mask = match against {
                    Against::Immediate => u64::from(immediate),
                    Against::Other => lane.unsigned(other),
                };
                let bits = lane.unsigned(word) & mask;
                bits == if set { mask } else { 0 }
            }
        }
    }

    /// Returns what is known of its outcome with this immediate, whatever the word.
    pub fn outcome(self, immediate: u16) -> Known {
        match self {
            Self::Chance(Chance::Filter(_)) => Known::Depends,
            Self::Chance(Chance::True) => Known::Always,
            Self::Chance(Chance::False) => Known::Never,
            Self::Magnitude {
                against: Against::Other,
                ..
            }
            | Self::Bits {
                against: Against::Other,
                ..
            } => Known::Depends,
            Self::Magnitude {
                relation,
                signed,
                lane,
                ..
            } => Known::of_magnitude(relation, signed, lane, immediate_value(signed, immediate)),
            Self::Bits { set, lane, .. } => {
                let mask = u64::from(immediate);
                if mask & lane.mask() == 0 && (mask == 0 || !set) {
                    Known::Always
                } else if set && mask & !lane.mask() != 0 {
                    Known::Never
                } else {
                    Known::Depends
                }
            }
        }
    }
}

/// The number that an immediate stands for.
pub(crate) const fn immediate_value(signed: bool, immediate: u16) -> i128 {
    if signed {
        immediate as i16 as i128
    } else {
        immediate as i128
    }
}

/// The least and the largest value of a lane.
pub(crate) const fn bounds(signed: bool, lane: Lane) -> (i128, i128) {
    let span = 1_i128 << lane.bits();
    if signed {
        (-span / 2, span / 2 - 1)
    } else {
        (0, span - 1)
    }
}

/// Knowledge of a test before it is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Known {
    /// It succeeds on every word.
    Always,
    /// It succeeds on none.
    Never,
    /// On some.
    Depends,
}

impl Known {
    pub(crate) fn of_magnitude(relation: Relation, signed: bool, lane: Lane, with: i128) -> Self {
        Self::within(bounds(signed, lane), relation, with)
    }

    /// Returns what is known of a comparison of a number from `least` to `most`.
    pub(crate) fn within((least, most): (i128, i128), relation: Relation, with: i128) -> Self {
        // The relation changes its truth at `with` and nowhere else, so the two ends and the values
        // around `with` tell.
        let mut seen = [false; 2];
        for value in [least, with - 1, with, with + 1, most] {
            if (least..=most).contains(&value) {
                seen[usize::from(relation.holds(value, with))] = true;
            }
        }
        match seen {
            [true, true] => Self::Depends,
            [_, true] => Self::Always,
            _ => Self::Never,
        }
    }
}

/// One comparison of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Comparison {
    /// The test.
    pub test: Test,
    /// The word of its bank, 0 to 3 of the even and 0 to 2 of the odd one; 0 where nobody reads it.
    pub word: u8,
}

impl Comparison {
    /// Always succeeds.
    pub const TRUE: Self = Self {
        test: Test::TRUE,
        word: 0,
    };

    pub(super) fn encode(self) -> u64 {
        let at = |list: &[Relation], r: Relation| list.iter().position(|x| *x == r).unwrap_or(0);
        let (test, lane, against) = match self.test {
            Test::Chance(chance) => {
                let code = Chance::ALL.iter().position(|c| *c == chance).unwrap_or(0);
                (0, code as u64, Against::Immediate)
            }
            Test::Magnitude {
                relation,
                signed,
                lane,
                against,
            } => {
                let code = 1 + at(&Relation::ALL, relation) as u64 + if signed { 8 } else { 0 };
                (code, lane.0.into(), against)
            }
            Test::Bits { set, lane, against } => (if set { 7 } else { 8 }, lane.0.into(), against),
        };
        let other = u64::from(against == Against::Other);
        test | lane << 4 | u64::from(self.word & 3) << 8 | other << 10
    }

    pub(super) fn decode(bits: u64) -> Result<Self, Malformed> {
        let (code, lane) = (bits & 15, bits >> 4 & 15);
        let against = match bits >> 10 & 1 {
            0 => Against::Immediate,
            _ => Against::Other,
        };
        let word = (bits >> 8 & 3) as u8;
        if code == 0 {
            let chance = Chance::ALL.get(lane as usize).copied();
            let chance =
                chance.ok_or(Malformed("a comparison tests a chance that does not exist"))?;
            if against == Against::Other {
                return Err(Malformed("a chance is compared with a word"));
            }
            let test = Test::Chance(chance);
            return Ok(Self { test, word });
        }
        if lane == 15 || code == 15 {
            return Err(Malformed("a comparison has a reserved test or lane"));
        }
        let lane = Lane(lane as u8);
        let test = match code {
            7 | 8 => Test::Bits {
                set: code == 7,
                lane,
                against,
            },
            _ => Test::Magnitude {
                relation: Relation::ALL[(code as usize & 7) - 1],
                signed: code > 8,
                lane,
                against,
            },
        };
        if is_needlessly_signed(test) {
            return Err(Malformed(
                "two words are compared for equality as signed numbers",
            ));
        }
        Ok(Self { test, word })
    }
}

/// Returns true if a signed form means the same as the unsigned one, which is then the form.
fn is_needlessly_signed(test: Test) -> bool {
    matches!(
        test,
        Test::Magnitude {
            relation: Relation::Equal | Relation::NotEqual,
            signed: true,
            against: Against::Other,
            ..
        }
    )
}
