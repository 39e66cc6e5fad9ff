//! Trace of a program, instruction by instruction: recorded once, replayed often.
//!
//! # Problem
//! The model is driven by what real programs do: which instruction was executed, where it went, which memory
//! it touched, which values it read and made. All of that has to be true, it is millions of instructions
//! long, and each figure replays it dozens of times.
//!
//! # Strategy
//! [`record`] single-steps a program with `ptrace` and looks at registers and memory before and after each
//! instruction. That is slow, and the only way that shares nothing with the engine of trommel, needs no
//! emulator that might be wrong, and sees every operand. What is looked at is what `trommel_query::observe`
//! says, so that a query on the model has the very facts that it has on a running program.
//!
//! A [`Trace`] keeps the code (each distinct instruction once, with its bytes) and the executions, each as
//! what differs from the last execution of the same instruction. Loops cost a few bytes a turn; decoding is a
//! pass over bytes, as fast as reading the executions from memory would be.
//!
//! # Invariants
//! * Each execution names an instruction of the table. [`Trace::decode`] goes through all of a file's bytes
//!   before it accepts them, so that a [`Replay`] cannot fail.
//! * Encoder and decoder keep the same history, updated by the same function.
//! * The kernel's instructions are not there, and an instruction that raised a signal is not.
//! * A repeated string instruction is one execution, with the number of its repetitions.

mod bytes;
mod execution;
mod file;
pub mod record;
pub mod stopped;
pub mod tags;

use execution::History;

pub use execution::{Code, Execution, FIELDS, Region, Use, WORDS};
pub use file::TraceError;

/// A recording.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Trace {
    code: Vec<Code>,
    regions: Vec<Region>,
    executions: u64,
    bytes: Vec<u8>,
}

impl Trace {
    /// The instructions.
    pub fn code(&self) -> &[Code] {
        &self.code
    }

    /// Returns what its memory was used for, in the order of addresses.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// Returns what an address belongs to.
    pub fn used(&self, address: u64) -> Option<Use> {
        let at = self.regions.partition_point(|r| r.from <= address);
        let region = self.regions[..at].last()?;
        (address < region.to).then_some(region.used)
    }

    /// Executions.
    pub const fn len(&self) -> u64 {
        self.executions
    }

    /// Returns true if nothing was executed.
    pub const fn is_empty(&self) -> bool {
        self.executions == 0
    }

    /// The executions, in order.
    pub fn replay(&self) -> Replay<'_> {
        Replay {
            left: self.executions,
            history: vec![History::default(); self.code.len()],
            at: 0,
            bytes: &self.bytes,
        }
    }
}

/// The executions of a trace.
#[derive(Clone)]
pub struct Replay<'t> {
    left: u64,
    history: Vec<History>,
    /// The instruction executed last.
    at: usize,
    bytes: &'t [u8],
}

impl Replay<'_> {
    /// Returns what is left of the bytes when all executions were read.
    pub(crate) const fn rest(&self) -> &[u8] {
        self.bytes
    }
}

impl Iterator for Replay<'_> {
    type Item = Execution;

    fn next(&mut self) -> Option<Execution> {
        if self.left == 0 {
            return None;
        }
        let execution = bytes::get(&mut self.bytes, &mut self.history, &mut self.at)?;
        self.left -= 1;
        Some(execution)
    }
}

/// Makes a trace.
#[derive(Default)]
pub struct TraceWriter {
    trace: Trace,
    history: Vec<History>,
    at: usize,
}

impl TraceWriter {
    /// Adds an instruction to the table and returns its number.
    pub fn code(&mut self, code: Code) -> u32 {
        self.trace.code.push(code);
        self.history.push(History::default());
        (self.trace.code.len() - 1) as u32
    }

    /// Adds an execution of an instruction of the table; of another, nothing.
    pub fn push(&mut self, execution: &Execution) {
        if (execution.code as usize) < self.history.len() {
            let out = &mut self.trace.bytes;
            bytes::put(out, &mut self.history, &mut self.at, execution);
            self.trace.executions += 1;
        }
    }

    /// Executions so far.
    pub const fn len(&self) -> u64 {
        self.trace.executions
    }

    /// Returns true if there is none.
    pub const fn is_empty(&self) -> bool {
        self.trace.executions == 0
    }

    /// The trace.
    pub fn finish(mut self, mut regions: Vec<Region>) -> Trace {
        regions.sort_by_key(|r| r.from);
        self.trace.regions = regions;
        self.trace
    }
}
