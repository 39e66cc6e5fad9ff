//! Counts of indirect branches, by branch and target.
//!
//! # Problem
//! The target of an indirect branch or call is known only when it runs. A record of it costs more than
//! the branch. An interpreter executes little else.
//!
//! # Strategy
//! A branch that is counted uses the same table as all others, but at another index: the low
//! 16 bits of the sum of the target and the branch's *key*, a number from 1 to 65535 that no other
//! branch has. So a place in the table belongs to a *pair* of branch and target, and leads to a few
//! instructions of the pair's own:
//!
//! ```text
//!   tag check               the target is the pair's
//!   count                   the path that ends in this branch to this target
//!   rcx, rdx from their slots
//!   jump                    an exit, linked to the target's fragment
//! ```
//!
//! That costs what the checked entry would have cost, and the count. The dispatcher makes a pair when
//! the pair is first executed, and counts that execution. Branches that are not counted, such as returns,
//! have the key 0.
//!
//! Where the check fails, or the place in the table is empty, the key follows from the index and the
//! target, and the second table is searched for both together (`arch::mismatch`). So a branch says
//! nothing of itself where it is executed.
//!
//! # Why it is correct
//! A pair's check compares the whole target. A branch that passes it and reached the pair's index has the
//! pair's key, as keys are below 2^16. One that reached the second table has both, as targets are below
//! 2^48. A key is given to another branch only when no thread can be in a fragment with the first. That
//! is when no old generation is left.

use crate::base::ids::{EntryId, ExitId, ExitNumber, VariantId};
use crate::base::prefix::Key;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use trommel_queue::dict::Passed;

use crate::base::address::{AppPc, CachePc};
use crate::base::emit::GsOffset;
use crate::channel::dictionary::DictionaryFull;
use trommel_tuple::Kind;

/// A branch that is counted.
#[derive(Clone, Copy)]
pub struct Branch {
    /// Block of the branch's fragment in the dictionary, and the block's events before the branch.
    pub block: (EntryId, Passed),
    /// The branch.
    pub pc: AppPc,
    /// True if the branch is a call.
    pub call: bool,
    /// The variant of the code that it is in.
    pub variant: VariantId,
}

impl Branch {
    /// Returns the kind of the branch's events.
    pub fn kind(&self) -> Kind {
        if self.call { Kind::Call } else { Kind::Edge }
    }
}

/// A branch and a target of it.
#[derive(Clone, Copy)]
pub(crate) struct Pair {
    /// Way in which it is counted.
    pub(crate) by: CountedBy,
    /// Code of the pair, and the exit at its end.
    pub(crate) code: Option<(CachePc, ExitId)>,
}

/// Way in which a branch to a target is counted.
#[derive(Clone, Copy)]
pub(crate) enum CountedBy {
    /// An exit of the dictionary that ends there: counted, or recorded.
    Exit(ExitNumber),
    /// By a sampler's counter, whose messages have this number.
    Sampler(GsOffset, ExitNumber),
    /// By a profiler, as this subject.
    Profiler(u32),
}

impl CountedBy {
    /// Returns the dictionary's number of it, or of messages about it.
    pub(crate) fn number(self) -> Option<ExitNumber> {
        match self {
            Self::Exit(number) | Self::Sampler(_, number) => Some(number),
            Self::Profiler(_) => None,
        }
    }
}

/// Branches and pairs of a process.
#[derive(Default)]
pub struct Pairs {
    branches: Vec<Branch>,
    pub(crate) known: BTreeMap<(Key, u64), Pair>,
}

impl Pairs {
    /// Returns true if another branch can be counted.
    pub fn have_room(&self) -> bool {
        self.have_room_for(1)
    }

    /// Returns true if `branches` more can be counted.
    pub fn have_room_for(&self, branches: usize) -> bool {
        self.branches.len() + branches <= Key::MAX
    }

    /// Gives a branch its key. There must be room.
    pub fn key(&mut self, branch: Branch) -> Key {
        let number = self.branches.len();
        self.branches.push(branch);
        Key::of(number)
    }

    /// Forgets all code of pairs, which is gone. `alone`: and no branch that was counted is executed any more.
    pub fn forget(&mut self, alone: bool) {
        if alone {
            self.branches.clear();
            self.known.clear();
        }
        for pair in self.known.values_mut() {
            pair.code = None;
        }
    }

    /// Returns all branches that have keys.
    #[cfg(test)]
    pub fn branches(&self) -> &[Branch] {
        &self.branches
    }

    /// The path that ends in a branch to a target.
    pub fn path(&self, key: Key, to: AppPc) -> Option<ExitNumber> {
        self.known.get(&(key, to.0))?.by.number()
    }

    /// Returns the branch that has a key.
    pub fn branch(&self, key: Key) -> Option<Branch> {
        self.branches.get(key.number()?).copied()
    }
}

/// Reason why a branch was not counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Uncounted {
    /// The dictionary has no room.
    DictionaryFull,
    /// The host must say first what it calls the target.
    Unnamed,
}

impl From<DictionaryFull> for Uncounted {
    fn from(_: DictionaryFull) -> Self {
        Self::DictionaryFull
    }
}

/// Continuation of a branch that was counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counted {
    /// Exit of the branch, if it can be linked.
    pub exit: Option<ExitId>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_branch_has_a_key_of_its_own() {
        let mut seen = alloc::vec![false; 1 << 16];
        for number in 0..Key::MAX {
            let key = Key::of(number);
            assert_eq!(key.number(), Some(number));
            assert!(
                key != Key::NONE && !core::mem::replace(&mut seen[key.offset() as usize], true)
            );
        }
        assert_eq!(Key::NONE.number(), None);
    }
}
