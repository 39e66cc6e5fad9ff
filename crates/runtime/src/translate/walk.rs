//! The walk of the second pass over the instructions of a fragment, and its position.
//!
//! The second pass and the ways of counting share both types. They stand before both, so that a way imports no pass.

use alloc::vec::Vec;
use core::ops::Range;

use crate::base::address::AppPc;
use crate::base::decode::{Effect, Insn};
use crate::base::ids::EntryId;

/// One walk over the instructions of a fragment.
pub(super) struct Walk {
    pub(super) insns: Vec<Insn>,
    /// Rounds: for each, true if it is a second round, and the range of its instructions.
    pub(super) rounds: Vec<(bool, Range<usize>)>,
    pub(super) app: AppPc,
    /// Address at which the main line goes on, if it does not end in a transfer.
    pub(super) end: Option<AppPc>,
    /// Offset at which direct links enter.
    pub(super) entry: usize,
    pub(super) block: Option<EntryId>,
    pub(super) first_step: usize,
}

/// Ways of counting: the length of [`super::ways::list`], which checks it.
pub(super) const WAYS: usize = 19;

/// Position of a walk.
pub(super) struct At {
    /// The round, and the instruction.
    pub(super) round: usize,
    pub(super) n: usize,
    /// True if it is of a second round, if it is the last of its round, and if it closes a loop.
    pub(super) second: bool,
    pub(super) last: bool,
    pub(super) closes: bool,
    /// Start of its step.
    pub(super) from: usize,
    /// Events of the block, and values, that were passed.
    pub(super) events: usize,
    pub(super) values: usize,
    /// Effect of the last instruction on flags, before that is taken note of.
    pub(super) effect: Option<Effect>,
    /// The round is left out.
    pub(super) left_out: bool,
    /// A way writes something before or after the instruction that belongs to its step.
    pub(super) probed: bool,
    /// Place of each way's words of the instruction in the record.
    pub(super) slots: [i32; WAYS],
}

impl At {
    pub(super) fn new(events: usize) -> Self {
        Self {
            round: 0,
            n: 0,
            second: false,
            last: false,
            closes: false,
            from: 0,
            events,
            values: 0,
            effect: None,
            left_out: false,
            probed: false,
            slots: [0; WAYS],
        }
    }

    /// Turns to instruction `n` of a round.
    pub(super) fn turn_to(&mut self, walk: &Walk, round: usize, n: usize) {
        let (second, range) = &walk.rounds[round];
        self.round = round;
        self.n = n;
        self.second = *second;
        self.last = n + 1 == range.end;
    }
}
