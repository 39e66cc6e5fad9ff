//! Executions by what instructions do: instructions, branches, calls, loads, stores, system calls.
//!
//! # Strategy
//! Each block of a module has a count, and each of its instructions is executed so often. What an instruction does to memory is in its
//! decoding. An instruction that reads memory is one load, however many bytes it reads, and one that writes memory is one store: `add [m],1` is
//! both, a `call` is a store, a `ret` is a load. Prefetches and address computations are none. A `rep`-prefixed instruction is one execution, whatever its count.

use iced_x86::{
    Code as Opcode, Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic,
    OpAccess,
};
use trommel_symbol::Code;

use crate::blocks::Blocks;
use crate::exit::Exit;

/// Executions by what instructions do.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Mix {
    /// All.
    pub instructions: f64,
    /// Conditional branches, taken or not.
    pub branches: f64,
    /// Conditional branches that were taken.
    pub taken: f64,
    /// Direct jumps.
    pub jumps: f64,
    /// Jumps through a register or memory.
    pub indirect_jumps: f64,
    /// Calls, direct or not.
    pub calls: f64,
    /// Calls through a register or memory, among them.
    pub indirect_calls: f64,
    /// Returns.
    pub returns: f64,
    /// Instructions that read memory.
    pub loads: f64,
    /// Instructions that write memory.
    pub stores: f64,
    /// System calls.
    pub system_calls: f64,
}

impl Mix {
    /// Adds up what the blocks of a module executed.
    pub fn of_blocks(blocks: &Blocks, code: &Code<'_>) -> Self {
        let mut factory = InstructionInfoFactory::new();
        let mut sum = Self::default();
        for block in blocks.all() {
            let Some(times) = block.count.map(|c| c.times).filter(|times| *times > 0.0) else {
                continue;
            };
            let Some(bytes) = code.at(block.start) else {
                continue;
            };
            let mut decoder = Decoder::with_ip(64, bytes, block.start, DecoderOptions::NONE);
            let mut instruction = Instruction::default();
            for _ in 0..block.instructions {
                decoder.decode_out(&mut instruction);
                let (reads, writes) = memory(&mut factory, &instruction);
                sum.loads += if reads { times } else { 0.0 };
                sum.stores += if writes { times } else { 0.0 };
            }
            sum.instructions += times * f64::from(block.instructions);
            match block.exit {
                Exit::Branch => {
                    sum.branches += times;
                    let taken = instruction.near_branch_target();
                    let arrivals = blocks.transfers.into.get(&taken).into_iter().flatten();
                    let own = arrivals.filter(|a| !a.call && a.from.vaddr().0 == block.last);
                    sum.taken += own.map(|a| a.count.times).sum::<f64>();
                }
                Exit::Jump(_) => sum.jumps += times,
                Exit::IndirectJump => sum.indirect_jumps += times,
                Exit::Call => {
                    sum.calls += times;
                    if !instruction.is_call_near() {
                        sum.indirect_calls += times;
                    }
                }
                Exit::Return => sum.returns += times,
                Exit::System if instruction.code() == Opcode::Syscall => sum.system_calls += times,
                Exit::System | Exit::Next | Exit::Nowhere => {}
            }
        }
        sum
    }

    /// Adds what is known of code that has no bytes: its branches and calls.
    pub fn of_events(blocks: &Blocks) -> Self {
        let mut sum = Self::default();
        for (at, count) in &blocks.transfers.control {
            sum.instructions += count.times;
            match blocks.transfers.called.contains_key(at) {
                true => sum.calls += count.times,
                false => sum.branches += count.times,
            }
        }
        sum
    }

    /// Both together.
    #[must_use]
    pub fn plus(mut self, other: &Self) -> Self {
        for (sum, more) in self.each_mut().into_iter().zip(other.clone().each_mut()) {
            *sum += *more;
        }
        self
    }

    fn each_mut(&mut self) -> [&mut f64; 11] {
        [
            &mut self.instructions,
            &mut self.branches,
            &mut self.taken,
            &mut self.jumps,
            &mut self.indirect_jumps,
            &mut self.calls,
            &mut self.indirect_calls,
            &mut self.returns,
            &mut self.loads,
            &mut self.stores,
            &mut self.system_calls,
        ]
    }
}

/// Returns whether an instruction reads memory, and whether it writes it.
fn memory(factory: &mut InstructionInfoFactory, instruction: &Instruction) -> (bool, bool) {
    // The kernel's or the processor's own business.
    if matches!(instruction.mnemonic(), Mnemonic::Syscall | Mnemonic::Nop) {
        return (false, false);
    }
    let (mut reads, mut writes) = (false, false);
    for used in factory.info(instruction).used_memory() {
        match used.access() {
            OpAccess::Read | OpAccess::CondRead => reads = true,
            OpAccess::Write | OpAccess::CondWrite => writes = true,
            OpAccess::ReadWrite | OpAccess::ReadCondWrite => (reads, writes) = (true, true),
            _ => {}
        }
    }
    (reads, writes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_and_stores_are_what_instructions_do() {
        let mut factory = InstructionInfoFactory::new();
        for (bytes, reads, writes) in [
            (&[0x48, 0x8b, 0x47, 0x08][..], true, false), // mov rax,[rdi+8]
            (&[0x48, 0x89, 0x07], false, true),           // mov [rdi],rax
            (&[0xff, 0x07], true, true),                  // inc dword [rdi]
            (&[0x48, 0x8d, 0x47, 0x08], false, false),    // lea rax,[rdi+8]
            (&[0x83, 0x3f, 0x00], true, false),           // cmp dword [rdi],0
            (&[0x50], false, true),                       // push rax
            (&[0x58], true, false),                       // pop rax
            (&[0xe8, 0, 0, 0, 0], false, true),           // call
            (&[0xc3], true, false),                       // ret
            (&[0x0f, 0x1f, 0x40, 0x00], false, false),    // nop [rax]
            (&[0x0f, 0x18, 0x08], false, false),          // prefetcht0 [rax]
            (&[0xf3, 0xa4], true, true),                  // rep movsb
            (&[0x0f, 0x05], false, false),                // syscall
        ] {
            let i = Decoder::with_ip(64, bytes, 0x10, DecoderOptions::NONE).decode();
            assert_eq!(memory(&mut factory, &i), (reads, writes), "{bytes:x?}");
        }
    }
}
