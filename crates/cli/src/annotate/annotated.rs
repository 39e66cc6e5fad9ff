//! A function with what is known of its instructions.

use std::ops::Range;

use trommel_code::{Count, Instruction};
use trommel_profile::Module;
use trommel_profile::limits::Limits;
use trommel_profile::memory::{Conflict, Pair};
use trommel_profile::sampled::Sampled;
use trommel_profile::samples::At;
use trommel_tuple::{ModuleId, Place};

use crate::callers::Caller;
use crate::find::FunctionMatch;

/// A part of an instruction's executions.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Part {
    pub(super) count: u64,
    /// 0 to 1.
    pub(super) share: f64,
    /// Limits of the share, where it is an estimate of which something is known.
    pub(super) limits: Option<Limits>,
}

/// A pair that an instruction is one of.
pub(super) struct InTheWay {
    pub(super) pair: Pair,
    /// Part of the load's executions.
    pub(super) part: Part,
}

/// An instruction with what is known of it.
pub(super) struct Line<'p> {
    pub(super) at: Place,
    pub(super) instruction: Instruction,
    pub(super) text: String,
    pub(super) count: Option<Count>,
    /// Share of the instructions that the function executed, 0 to 1.
    pub(super) share: f64,
    /// Number of times a conditional branch was taken.
    pub(super) taken: Option<Part>,
    /// Targets of an indirect jump or a call, most frequent first.
    pub(super) targets: Vec<(Place, Part)>,
    /// Values of a load, and in words.
    pub(super) values: Vec<(u64, String, Part)>,
    /// Number of values.
    pub(super) distinct: usize,
    /// The same by who called the function, those for whom it was executed most first.
    pub(super) by_caller: Vec<Caller<'p>>,
    /// Receivers' method tables of a call.
    pub(super) types: Vec<(u64, String, Part)>,
    /// Arguments of a call, first to the function that it called most.
    pub(super) arguments: Vec<Passed>,
    pub(super) latency: Option<Latency>,
    pub(super) conflicts: Vec<InTheWay>,
    /// Samples of the whole machine.
    pub(super) sampled: Option<At>,
}

/// A register that a call passes an argument in.
pub(super) struct Passed {
    pub(super) register: &'static str,
    /// The function that takes it.
    pub(super) to: Place,
    /// Values, and in words.
    pub(super) values: Vec<(u64, String, Part)>,
}

/// Latency of a load.
pub(super) struct Latency {
    /// Cycles.
    pub(super) median: u64,
    /// By level, nearest first.
    pub(super) levels: Vec<(&'static str, Part)>,
}

/// A function with what is known of it.
pub(super) struct Annotated<'p> {
    pub(super) found: FunctionMatch,
    pub(super) module: &'p Module,
    pub(super) ranges: Vec<Range<u64>>,
    pub(super) lines: Vec<Line<'p>>,
    /// Instructions executed, of those whose count is known.
    pub(super) executed: f64,
    /// Its time, where samples of the whole machine are what is known.
    pub(super) time: Option<Sampled>,
    /// Number of times it was entered at its first instruction.
    pub(super) entered: Option<Count>,
    /// From where it was called, most often first.
    pub(super) callers: Vec<(Place, u64)>,
    /// Times that signals entered it; `None` where these are not counted.
    pub(super) signals: Option<u64>,
}

/// A module whose code is not there.
pub(super) struct LeftOut {
    pub(super) module: ModuleId,
    pub(super) functions: u64,
    pub(super) why: String,
}

/// In words, of which the other instruction of the pair is the object.
pub(super) fn conflict_in_words(conflict: Conflict, is_load: bool) -> &'static str {
    match (conflict, is_load) {
        (Conflict::Size, true) => "needs more than what was stored by",
        (Conflict::Order, true) => "waits for the address of",
        (Conflict::Synonym, true) => "looks like what was stored by",
        (Conflict::Size, false) => "stores a part of what is loaded by",
        (Conflict::Order, false) => "has its address late for",
        (Conflict::Synonym, false) => "looks like what is loaded by",
    }
}
