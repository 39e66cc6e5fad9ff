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
    /// (load or store, address of the line): misses of a simulated first-level cache.
    Miss = 8,
    /// (load or store, address of the line): misses of a simulated last-level cache.
    LastMiss = 9,
    /// (branch or call, next address): mispredictions of a simulated predictor.
    Mispredict = 10,
}

/// Kinds that a target records, the first ones: the host makes the others of these.
pub const RECORDED_KINDS: usize = 8;

impl Kind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [Self; 11] = [
        Self::Edge,
        Self::Call,
        Self::Value,
        Self::Result,
        Self::Type,
        Self::Address,
        Self::Latency,
        Self::Path,
        Self::Miss,
        Self::LastMiss,
        Self::Mispredict,
    ];

    /// Kinds of data accesses, with an event each time that their instruction is executed.
    pub const DATA: [Self; 4] = [Self::Value, Self::Type, Self::Address, Self::Latency];

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
            Self::Miss => "miss",
            Self::LastMiss => "llmiss",
            Self::Mispredict => "mispredict",
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
        matches!(self, Self::Edge | Self::Call | Self::Mispredict)
    }

    /// Returns true if the host makes events of this kind: no target records them.
    pub const fn is_simulated(self) -> bool {
        self as usize >= RECORDED_KINDS
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
        f.write_str("not an event kind (")?;
        for (i, kind) in Kind::ALL.into_iter().enumerate() {
            f.write_str(if i == 0 { "" } else { ", " })?;
            f.write_str(kind.name())?;
        }
        f.write_str(")")
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
pub struct KindSet(u16);

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
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// The set of `bits`; bits beyond the last kind are dropped.
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits & ((1 << Kind::ALL.len()) - 1))
    }

    /// Returns true if the host makes events of some of these kinds.
    pub const fn has_simulated(self) -> bool {
        self.0 >> RECORDED_KINDS != 0
    }

    /// The kinds that a target must record, so that events of these kinds can be made.
    #[must_use]
    pub const fn recorded(self) -> Self {
        let mut recorded = Self(self.0 & ((1 << RECORDED_KINDS) - 1));
        if self.has(Kind::Miss) || self.has(Kind::LastMiss) {
            recorded = recorded.with(Kind::Address);
        }
        if self.has(Kind::Mispredict) {
            recorded = recorded.with(Kind::Edge).with(Kind::Call);
        }
        recorded
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
        assert_eq!(Kind::from_number(11), None);
        assert_eq!("edges".parse::<Kind>(), Err(UnknownKind));
    }

    #[test]
    fn simulated_kinds_are_made_of_recorded_ones() {
        let set = |kinds: &[Kind]| -> KindSet { kinds.iter().copied().collect() };
        let recorded = set(&Kind::ALL[..RECORDED_KINDS]);
        assert_eq!(recorded.recorded(), recorded);
        assert!(!recorded.has_simulated());
        assert_eq!(set(&[Kind::Miss]).recorded(), set(&[Kind::Address]));
        let both = set(&[Kind::Mispredict, Kind::LastMiss]);
        assert!(both.has_simulated() && both.recorded().is_within(recorded));
        let all = set(&[Kind::Edge, Kind::Call, Kind::Address]);
        assert_eq!(both.recorded(), all);
        for kind in Kind::ALL {
            let one = KindSet::NONE.with(kind);
            assert_eq!(kind.is_simulated(), one.has_simulated());
        }
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
