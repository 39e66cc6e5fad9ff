//! Event kinds and sets of them.

use core::fmt;
use core::str::FromStr;

/// Kinds of events. `docs/events.md` has the exact conditions: they are the project's contract.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Kind {
    /// (branch, next address): conditional branches, taken or not, and indirect jumps.
    Edge = 0,
    /// (call, target): direct and indirect calls.
    Call = 1,
    /// (load, memory operand): loads into registers.
    Value = 2,
    /// (instruction, general register written): chosen by a query.
    Result = 3,
    /// (indirect call, method table): `call [reg+disp]`.
    Type = 4,
    /// (load or store, effective address): chosen by a query.
    Address = 5,
    /// (load, cycles): sampled windows.
    Latency = 6,
    /// (where it begins, [`crate::Outcomes`]): acyclic paths of a thread.
    Path = 7,
}

impl Kind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Edge,
        Self::Call,
        Self::Value,
        Self::Result,
        Self::Type,
        Self::Address,
        Self::Latency,
        Self::Path,
    ];

    /// The kind's name on the command line and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Edge => "edge",
            Self::Call => "call",
            Self::Value => "value",
            Self::Result => "result",
            Self::Type => "type",
            Self::Address => "address",
            Self::Latency => "latency",
            Self::Path => "path",
        }
    }

    /// The kind of a number, as written to files and queues.
    pub const fn from_number(n: u8) -> Option<Self> {
        if (n as usize) < Self::ALL.len() {
            Some(Self::ALL[n as usize])
        } else {
            None
        }
    }

    /// Returns true if the value of a tuple of this kind is a code place.
    pub const fn value_is_place(self) -> bool {
        matches!(self, Self::Edge | Self::Call)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no event kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownKind;

impl fmt::Display for UnknownKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not an event kind (edge, call, value, result, type, address, latency, path)")
    }
}

impl core::error::Error for UnknownKind {}

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(s: &str) -> Result<Self, UnknownKind> {
        Self::ALL
            .into_iter()
            .find(|k| k.name() == s)
            .ok_or(UnknownKind)
    }
}

/// A set of event kinds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct KindSet(u8);

impl KindSet {
    /// No kind: the engine alone.
    pub const NONE: Self = Self(0);

    /// The set with `kind` added.
    #[must_use]
    pub const fn with(self, kind: Kind) -> Self {
        Self(self.0 | 1 << kind as u8)
    }

    /// Returns true if `kind` is in the set.
    pub const fn has(self, kind: Kind) -> bool {
        self.0 & (1 << kind as u8) != 0
    }

    /// Returns true if the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns true if all kinds of the set are in `other`.
    pub const fn is_within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// The set as bits, bit n for the kind of number n.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The set of `bits`; bits beyond the last kind are dropped.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & ((1_u16 << Kind::ALL.len()) - 1) as u8)
    }

    /// The kinds in the set, in order.
    pub fn iter(self) -> impl Iterator<Item = Kind> {
        Kind::ALL.into_iter().filter(move |k| self.has(*k))
    }
}

impl FromIterator<Kind> for KindSet {
    fn from_iter<I: IntoIterator<Item = Kind>>(kinds: I) -> Self {
        kinds.into_iter().fold(Self::NONE, Self::with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_round_trip() {
        for (n, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, n);
            assert_eq!(Kind::from_number(n as u8), Some(kind));
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        assert_eq!(Kind::from_number(8), None);
        assert_eq!("edges".parse::<Kind>(), Err(UnknownKind));
    }

    #[test]
    fn sets_hold_what_was_put_in() {
        let set: KindSet = [Kind::Value, Kind::Edge].into_iter().collect();
        assert!(set.is_within(set) && KindSet::NONE.is_within(set));
        assert!(!set.is_within(KindSet::NONE.with(Kind::Edge)));
        assert!(set.iter().eq([Kind::Edge, Kind::Value]));
        assert_eq!(KindSet::from_bits(set.bits()), set);
        assert!(KindSet::NONE.is_empty() && !set.is_empty());
    }
}
