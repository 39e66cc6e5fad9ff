//! Descriptions of fragments: where each lies, what it was made from, and the app's state at each of its steps.

use super::Head;
use crate::base::address::{AppPc, CachePc, Range};
use crate::base::emit::Reg;
use crate::base::ids::{EntryId, FragmentId};
use crate::base::prefix::Prefix;

/// Position of an app instruction in a fragment, or of several that were copied one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// Offset of its first byte from the fragment's entry.
    pub cache: u16,
    /// Bytes from there on that lie as they do in the app's code.
    pub copied: u16,
    /// Events of the fragment's block before it, or of [strides](Fragment::strides).
    pub events: u16,
    /// Run-time values recorded before it.
    pub values: u8,
    /// Number of the way of a trace that it is on: 0 except in loops with several.
    pub way: u8,
    /// App address of the step.
    pub app: AppPc,
    /// Registers that are in their slots when it starts.
    pub spilled: Spilled,
    /// Registers that are in their slots if it faults.
    pub at_fault: Spilled,
    /// A register in the slot for far operands if it faults.
    pub far: Option<Reg>,
    /// Recipe of the app's flags when the step starts, if they are lost: see `Cache::recipe`.
    pub recipe: u32,
}

const _: () = assert!(size_of::<Step>() == 32);

impl Step {
    /// Returns whether what `next` describes follows this step as it does in the app's code, with all
    /// else the same.
    pub fn goes_on(&self, next: &Self) -> bool {
        self.copied != 0
            && self.cache + self.copied == next.cache
            && self.app.0 + u64::from(self.copied) == next.app.0
            && self.spilled == next.spilled
            && self.recipe == next.recipe
    }

    /// The app address of what lies `offset` bytes after the fragment's entry, if that is an
    /// instruction of this step.
    pub fn app_at(&self, offset: u64) -> Option<AppPc> {
        let within = offset.checked_sub(u64::from(self.cache))?;
        (within == 0 || within < u64::from(self.copied)).then_some(AppPc(self.app.0 + within))
    }
}

/// Registers that do not hold the app's values. The values are in their slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spilled {
    /// `rcx`
    pub rcx: bool,
    /// `rdx`
    pub rdx: bool,
    /// The register of [`Fragment::stolen`].
    pub stolen: bool,
    /// `rax`, which holds the app's status flags: in `ah` all but the overflow flag, which is `al`.
    pub flags: bool,
    /// The registers of [`Fragment::promoted`].
    pub promoted: bool,
}

impl Spilled {
    /// No register: all are the app's.
    pub const NONE: Self = Self {
        rcx: false,
        rdx: false,
        stolen: false,
        flags: false,
        promoted: false,
    };
    /// `rcx` and `rdx` are not.
    pub const BOTH: Self = Self {
        rcx: true,
        rdx: true,
        ..Self::NONE
    };
}

/// A fragment.
#[derive(Clone, Copy, Debug)]
pub struct Fragment {
    /// App address of its first instruction.
    pub app: AppPc,
    /// Prefix of the acyclic path at the fragment's start, where acyclic paths are counted.
    pub prefix: Prefix,
    /// Entry of direct links, all registers the app's.
    pub entry: CachePc,
    /// Entry of the inline lookup (the tag check), if it has been made, `rcx` and `rdx` in their
    /// slots.
    pub checked: Option<CachePc>,
    /// After its last byte.
    pub end: CachePc,
    /// The register that is stolen where steps say so, if any.
    pub stolen: Option<u8>,
    /// Registers that hold what slots of the stack frame hold, in the loop of a trace.
    pub promoted: u16,
    /// First step of the fragment in `Cache::steps`.
    pub first_step: u32,
    /// Number of steps.
    pub steps: u16,
    /// App instructions in them.
    pub insns: u16,
    /// Block of the fragment in the dictionary, if it has events.
    pub block: Option<EntryId>,
    /// The app addresses it was made from.
    pub span: Range,
    /// Offset of the fragment's code in `Cache::sources`, if it lies in one piece and may change.
    pub source: Option<u32>,
    /// True if the fragment compares its code each time it is entered.
    pub guarded: bool,
    /// True if the fragment's events are counted by strides: [`Step::events`] are strides.
    pub strides: bool,
    /// Places of query programs that it has probes of, by bit.
    pub probes: u8,
    /// Operations of its instructions that queries can be about, by bit; 0 where queries do not change.
    pub operations: u8,
    /// True if it is entered.
    pub state: FragmentState,
    /// State of the fragment in the selection of traces.
    pub head: Head,
    /// The first exit that is linked to it, in `Cache::exits`, or `UNLINKED`.
    pub first_link: u32,
    /// Another suspect fragment of the same address, or [`FragmentId::NONE`].
    pub older: FragmentId,
}

impl Fragment {
    /// Returns the fragment's key in the table, in the place of its address.
    pub(super) fn key(&self) -> AppPc {
        self.prefix.key(self.app)
    }
}

/// True if a fragment is entered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FragmentState {
    /// Entered.
    Live,
    /// Entered only after its app code has been compared with the code that it was made from.
    Suspect,
    /// Never entered again.
    Retired,
}
