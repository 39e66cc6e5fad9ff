//! Numbers of things, each a type of its own. They are bare only as words of the shared file and in generated code.

/// An entry of the dictionary: the events of a fragment's main line. It is named by its word offset.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct EntryId(pub u32);

/// A counter array, by its place in the shared table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct CounterArrayId(pub u32);

/// A fragment of the current variant of the code, by its place in the list of fragments. Retired ones keep theirs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct FragmentId(pub u32);

impl FragmentId {
    /// No fragment, in lists where an `Option` would take twice the memory.
    pub const NONE: Self = Self(u32::MAX);

    /// Returns its place in the list of fragments.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// An exit of a fragment in the code cache: what threads that take it come to the dispatcher with. Numbers are given anew when
/// nothing is left that has them, and may wrap around.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(transparent)]
pub struct ExitId(pub u32);

impl ExitId {
    /// Returns the exit `n` after this one.
    pub fn plus(self, n: usize) -> Self {
        Self(self.0.wrapping_add(n as u32))
    }

    /// Returns by how much it is after `first`.
    pub fn since(self, first: Self) -> u32 {
        self.0.wrapping_sub(first.0)
    }
}

/// Exits of the code cache that were made one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExitIds {
    /// The first of them.
    pub first: ExitId,
    /// Number of them.
    pub count: u32,
}

impl ExitIds {
    /// Returns whether an exit is one of them.
    pub fn hold(self, exit: ExitId) -> bool {
        exit.since(self.first) < self.count
    }
}

/// The dictionary's number of an exit, or of messages about an event. Records name exits by it, and a thread's counter for an exit is
/// found by it. An exit of the code cache has an [`ExitId`] besides.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct ExitNumber(pub u32);

/// A region of code in the dictionary, by its place in the list of regions that the host reads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct RegionId(pub u32);

/// A chunk of records, by its place in the pool.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct ChunkId(pub u32);

/// A variant of the code. No two of a process have the same number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct VariantId(pub u32);
