//! Classes that can be selected: eight classes of instructions (Table 1) with a profile tag each, and three
//! events (section 3.4.1). Each of these 35 has an entry in the profile control table.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// Operations of instructions (Table 1). The operation of each x86-64 instruction is chosen by
/// [`x86`](crate::x86).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Operation {
    /// Unconditional jumps, calls and returns.
    Jump = 0,
    /// Conditional branches.
    Branch = 1,
    /// Loads.
    Load = 2,
    /// Stores.
    Store = 3,
    /// Simple arithmetic and logic.
    Alu = 4,
    /// Integer multiplication and division.
    Multiply = 5,
    /// Floating point and vectors.
    Float = 6,
    /// System calls, traps, control of the machine.
    System = 7,
}

impl Operation {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Jump,
        Self::Branch,
        Self::Load,
        Self::Store,
        Self::Alu,
        Self::Multiply,
        Self::Float,
        Self::System,
    ];

    /// Returns true if it decides where control goes.
    pub const fn is_transfer(self) -> bool {
        matches!(self, Self::Jump | Self::Branch)
    }

    /// The mnemonic.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Jump => "opJMP",
            Self::Branch => "opBRANCH",
            Self::Load => "opLOAD",
            Self::Store => "opSTORE",
            Self::Alu => "opALU",
            Self::Multiply => "opMULT",
            Self::Float => "opFLOAT",
            Self::System => "opSYS",
        }
    }
}

/// An event that selects the instruction which caused it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Event {
    /// A miss of the instruction TLB.
    ItlbMiss = 0,
    /// A miss of the data TLB.
    DtlbMiss = 1,
    /// A data access that misses the second-level cache.
    L2DataMiss = 2,
}

impl Event {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::ItlbMiss, Self::DtlbMiss, Self::L2DataMiss];

    /// The mnemonic.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ItlbMiss => "evITLBMISS",
            Self::DtlbMiss => "evDTLBMISS",
            Self::L2DataMiss => "evL2DMISS",
        }
    }
}

/// Instructions of one kind and one profile tag.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Class {
    /// The kind.
    pub operation: Operation,
    /// The profile tag, 0 to 3.
    tag: u8,
}

impl Class {
    /// The class of a kind and a tag; none for a tag above 3.
    pub const fn new(operation: Operation, tag: u8) -> Option<Self> {
        if tag < TAGS {
            Some(Self { operation, tag })
        } else {
            None
        }
    }

    /// The profile tag.
    pub const fn tag(self) -> u8 {
        self.tag
    }
}

/// Profile tags: two bits.
pub const TAGS: u8 = 4;
const CLASSES: u8 = Operation::ALL.len() as u8 * TAGS;
/// Entries of the profile control table.
pub const ENTRIES: usize = CLASSES as usize + Event::ALL.len();

/// The subject of an entry of the profile control table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Subject {
    /// A class of instructions.
    Class(Class),
    /// An event.
    Event(Event),
}

/// The number of an entry of the profile control table: kind × 4 + tag, and 32 + event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Entry(u8);

impl Entry {
    /// The entry of a subject.
    pub const fn of(subject: Subject) -> Self {
        match subject {
            Subject::Class(class) => Self(class.operation as u8 * TAGS + class.tag),
            Subject::Event(event) => Self(CLASSES + event as u8),
        }
    }

    /// All of them, in order.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..ENTRIES as u8).map(Self)
    }

    /// Its number, from 0.
    pub const fn number(self) -> usize {
        self.0 as usize
    }

    /// Returns what it is for.
    pub const fn subject(self) -> Subject {
        if self.0 >= CLASSES {
            return Subject::Event(Event::ALL[(self.0 - CLASSES) as usize]);
        }
        Subject::Class(Class {
            operation: Operation::ALL[(self.0 / TAGS) as usize],
            tag: self.0 % TAGS,
        })
    }
}

impl core::fmt::Display for Entry {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.subject() {
            Subject::Class(class) => write!(f, "{} {}", class.operation.name(), class.tag),
            Subject::Event(event) => write!(f, "{} *", event.name()),
        }
    }
}

/// A set of entries.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct EntrySet(u64);

impl EntrySet {
    /// No entry.
    pub const NONE: Self = Self(0);

    /// The set with `entry` added.
    #[must_use]
    pub const fn with(self, entry: Entry) -> Self {
        Self(self.0 | 1 << entry.0)
    }

    /// Returns true if `entry` is in it.
    pub const fn has(self, entry: Entry) -> bool {
        self.0 & 1 << entry.0 != 0
    }

    /// Returns true if it is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The entries, in order.
    pub fn iter(self) -> impl Iterator<Item = Entry> {
        Entry::all().filter(move |e| self.has(*e))
    }

    /// Returns selectors as a query's header has them: `opLOAD *` for all tags of a kind, else each by its own.
    pub fn selectors(self) -> Vec<String> {
        let mut all = Vec::new();
        for operation in Operation::ALL {
            let entry = |tag| Class::new(operation, tag).map(|c| Entry::of(Subject::Class(c)));
            let tags = (0..TAGS).filter_map(entry).filter(|e| self.has(*e));
            let tags: Vec<Entry> = tags.collect();
            if tags.len() == usize::from(TAGS) {
                all.push(format!("{} *", operation.name()));
            } else {
                all.extend(tags.iter().map(Entry::to_string));
            }
        }
        let events = Event::ALL.map(|event| Entry::of(Subject::Event(event)));
        let events = events.iter().filter(|e| self.has(**e));
        all.extend(events.map(Entry::to_string));
        all
    }
}

impl FromIterator<Entry> for EntrySet {
    fn from_iter<I: IntoIterator<Item = Entry>>(entries: I) -> Self {
        entries.into_iter().fold(Self::NONE, Self::with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_numbered_densely() {
        for (n, entry) in Entry::all().enumerate() {
            assert_eq!(entry.number(), n);
            assert_eq!(Entry::of(entry.subject()), entry);
        }
        assert_eq!(Entry::all().count(), 35);
        let shown: Vec<_> = [0, 7, 31, 34].map(|n| Entry(n).to_string()).into();
        assert_eq!(shown, ["opJMP 0", "opBRANCH 3", "opSYS 3", "evL2DMISS *"]);
        assert_eq!(Class::new(Operation::Load, 4), None);
        let some: EntrySet = [0, 1, 2, 3, 9, 34].into_iter().map(Entry).collect();
        assert_eq!(some.selectors(), ["opJMP *", "opLOAD 1", "evL2DMISS *"]);
    }
}
