//! Executions, the code they are of, and the memory they touch.

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

/// Uses of a range of addresses.
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
    /// Use of the range.
    pub used: Use,
}

/// State that encoder and decoder keep of an instruction.
#[derive(Clone, Copy, Default)]
pub(crate) struct History {
    /// The instruction that was executed after it last time.
    pub(crate) next: u32,
    pub(crate) last: Execution,
}
