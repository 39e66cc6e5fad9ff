//! Pieces of traces, as the recorder describes them.

use alloc::vec::Vec;

use crate::base::address::AppPc;
use crate::base::prefix::Prefix;

/// App instructions in an unrolled trace.
pub const MAX_INSNS: usize = 704;

/// A part of a path: what was executed of one recorded fragment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// App address of its first instruction.
    pub start: AppPc,
    /// App instructions up to and including the one that goes on elsewhere.
    pub insns: u16,
}

/// Content of a trace.
pub struct Path<'a> {
    /// The pieces that are executed most.
    pub pieces: &'a [Piece],
    /// Prefix of its start on an acyclic path.
    pub prefix: Prefix,
    /// True if it comes to its own start.
    pub closed: bool,
    /// Other ways from its start to its start.
    pub others: Vec<&'a [Piece]>,
    /// Distance of `rbp` above `rsp` at its start, if it is a loop that may keep slots of the stack
    /// frame in registers.
    pub frame: Option<i64>,
}
