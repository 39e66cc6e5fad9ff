//! What a program executed, instruction by instruction: recorded once, replayed often.
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

mod file;
pub mod record;
pub mod stopped;
pub mod tags;

pub use file::TraceError;

/// Words of facts that are recorded: operands and results.
pub const WORDS: usize = 8;

/// The recorded fields, word by word.
pub const FIELDS: [trommel_query::Field; WORDS] = {
    use trommel_query::Field as F;
    [
        F::Op1,
        F::Op1Up,
        F::Op2,
        F::Op2Up,
        F::Op3,
        F::Res1,
        F::Res1Up,
        F::Res2,
    ]
};

/// One execution of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Execution {
    /// The number of the instruction in the trace's table.
    pub code: u32,
    /// Repetitions, of a repeated string instruction; otherwise 1.
    pub repeats: u32,
    /// The branch was taken.
    pub taken: bool,
    /// Addresses of its memory accesses.
    pub addresses: [u64; 2],
    /// Operands and results: [`FIELDS`].
    pub words: [u64; WORDS],
}

/// An instruction of the program, as it was in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Code {
    /// Its address.
    pub pc: u64,
    /// Its bytes.
    pub length: u8,
    /// The bytes, and zeros after them.
    pub bytes: [u8; 15],
}

impl Code {
    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length).min(15)]
    }
}

/// What a range of addresses is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// The stack of the thread.
    Stack,
    /// Memory from the kernel, after no file: where allocators put objects.
    Heap,
    /// Files, and what else there is.
    Other,
}

/// A range of the program's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    /// The first address.
    pub from: u64,
    /// After the last.
    pub to: u64,
    /// What for.
    pub used: Use,
}

/// A recording.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Trace {
    code: Vec<Code>,
    regions: Vec<Region>,
    executions: u64,
    bytes: Vec<u8>,
}

/// What encoder and decoder remember of an instruction.
#[derive(Clone, Copy, Default)]
struct History {
    /// The instruction that was executed after it last time.
    next: u32,
    last: Execution,
}

impl Trace {
    /// The instructions.
    pub fn code(&self) -> &[Code] {
        &self.code
    }

    /// What its memory was used for, in the order of addresses.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// What an address belongs to.
    pub fn used(&self, address: u64) -> Option<Use> {
        let at = self.regions.partition_point(|r| r.from <= address);
        let region = self.regions[..at].last()?;
        (address < region.to).then_some(region.used)
    }

    /// Executions.
    pub const fn len(&self) -> u64 {
        self.executions
    }

    /// Whether nothing was executed.
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
    /// What is left of the bytes when all executions were read.
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
        let execution = file::get(&mut self.bytes, &mut self.history, &mut self.at)?;
        self.left -= 1;
        Some(execution)
    }
}

/// Makes a trace.
#[derive(Default)]
pub struct Writer {
    trace: Trace,
    history: Vec<History>,
    at: usize,
}

impl Writer {
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
            file::put(out, &mut self.history, &mut self.at, execution);
            self.trace.executions += 1;
        }
    }

    /// Executions so far.
    pub const fn len(&self) -> u64 {
        self.trace.executions
    }

    /// Whether there is none.
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
