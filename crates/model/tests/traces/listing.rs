//! Traces written by hand.

use trommel_model::machine::queries;
use trommel_model::service::Service;
use trommel_model::trace::{Code, Execution, Trace, TraceWriter};
use trommel_model::{Parameters, Program, RunFigures};

/// `mov ebx, 5`: depends on nothing.
pub(crate) const MOV: &[u8] = &[0xbb, 5, 0, 0, 0];
/// `add rax, rax`: depends on the one before.
pub(crate) const ADD: &[u8] = &[0x48, 0x01, 0xc0];
/// `imul ebx, ecx, 5`.
pub(crate) const IMUL: &[u8] = &[0x6b, 0xd9, 5];
/// `div rcx`.
pub(crate) const DIV: &[u8] = &[0x48, 0xf7, 0xf1];
/// `mov rbx, [rdi]`.
pub(crate) const LOAD: &[u8] = &[0x48, 0x8b, 0x1f];
/// `mov rax, [rax]`.
pub(crate) const CHASE: &[u8] = &[0x48, 0x8b, 0x00];
/// `mov [rdi], rax`.
pub(crate) const STORE: &[u8] = &[0x48, 0x89, 0x07];
/// `je` to the next instruction.
pub(crate) const BRANCH: &[u8] = &[0x74, 0];
/// `jmp` to the next instruction.
pub(crate) const JUMP: &[u8] = &[0xeb, 0];
/// `rep stosb`.
pub(crate) const FILL: &[u8] = &[0xf3, 0xaa];

/// Instructions one after the other, each executed once.
#[derive(Default)]
pub(crate) struct Listing {
    writer: TraceWriter,
    pc: u64,
}

impl Listing {
    /// An instruction that touches memory at `address`, if it touches any.
    pub(crate) fn at(&mut self, bytes: &[u8], address: u64) -> &mut Self {
        self.add(bytes, address, false, 1)
    }

    /// A branch that is taken, to what follows.
    pub(crate) fn taken(&mut self, bytes: &[u8]) -> &mut Self {
        self.add(bytes, 0, true, 1)
    }

    /// The same `n` times.
    pub(crate) fn times(&mut self, n: usize, bytes: &[u8]) -> &mut Self {
        for _ in 0..n {
            self.at(bytes, 0x9000);
        }
        self
    }

    pub(crate) fn add(
        &mut self,
        bytes: &[u8],
        address: u64,
        taken: bool,
        repeats: u32,
    ) -> &mut Self {
        let mut code = Code {
            pc: 0x40_0000 + self.pc,
            length: bytes.len() as u8,
            bytes: [0; 15],
        };
        code.bytes[..bytes.len()].copy_from_slice(bytes);
        self.pc += bytes.len() as u64;
        let mut execution = Execution {
            code: self.writer.code(code),
            repeats,
            taken,
            addresses: [address, 0],
            ..Execution::default()
        };
        execution.words[7] = address;
        execution.words[0] = 0x1000 + self.pc;
        self.writer.push(&execution);
        self
    }

    pub(crate) fn trace(&mut self) -> Trace {
        std::mem::take(&mut self.writer).finish(Vec::new())
    }

    /// Cycles without queries.
    pub(crate) fn cycles(&mut self, parameters: Parameters) -> u64 {
        self.run(parameters, "", &[]).core.cycles
    }

    /// A run under queries.
    pub(crate) fn run(
        &mut self,
        parameters: Parameters,
        text: &str,
        services: &[&[Service]],
    ) -> RunFigures {
        Program::new(self.trace()).run(parameters, &queries(text), services, true)
    }
}

/// Table 5 with memory that is always there.
pub(crate) fn near() -> Parameters {
    let mut parameters = Parameters::TABLE_5;
    parameters.core.round_trip = 0;
    parameters
}
