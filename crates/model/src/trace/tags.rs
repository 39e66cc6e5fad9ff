//! Profile tags for a recorded program: which of its stores store references.
//!
//! # Problem
//! The garbage collector's query asks for stores of object references only. The paper's virtual machine knows
//! them, since it compiled the program, and sets their profile tag. Our programs were compiled by somebody else.
//!
//! # Strategy
//! The trace says what each store stored. An instruction that moves a whole register to memory outside the
//! stack, and in the whole trace stored nothing but addresses of the heap and nulls, and an address at least
//! once, stores references as far as anybody could tell: it gets tag 1. The rest of the interpreters', compilers'
//! and data bases' heaps is what their pointers make of it: linked objects, as a collector would trace.

use trommel_query::Operation;

use super::{Execution, Trace, Use};
use crate::instruction::Instruction;

/// The tag of stores of references, as in Figure 2 of the paper.
pub const REFERENCES: u8 = 1;

/// Position of a store's value among the recorded words, and of its address.
const STORED: usize = 0;
const ADDRESS: usize = 7;

/// Gives the stores of references among the trace's instructions their tag. Returns how many there are.
pub fn tag_references(trace: &Trace, code: &mut [Instruction]) -> usize {
    #[derive(Clone, Copy, Default)]
    struct Seen {
        addresses: bool,
        others: bool,
    }
    let mut seen = vec![Seen::default(); code.len()];
    let mut look = |execution: &Execution| {
        let Some(at) = seen.get_mut(execution.code as usize) else {
            return;
        };
        let value = execution.words[STORED];
        let of_stack = trace.used(execution.words[ADDRESS]) == Some(Use::Stack);
        let of_heap = trace.used(value) == Some(Use::Heap);
        at.addresses |= of_heap;
        at.others |= of_stack || value != 0 && !of_heap;
    };
    trace.replay().for_each(|execution| look(&execution));
    let mut tagged = 0;
    for (instruction, seen) in code.iter_mut().zip(seen) {
        // A plain store of a register: nothing is read from memory or computed.
        let plain = instruction.operation == Operation::Store
            && instruction.unit.is_none()
            && matches!(instruction.accesses[..], [a] if a.writes && !a.reads && a.size == 8);
        if plain && seen.addresses && !seen.others {
            instruction.tag = REFERENCES;
            tagged += 1;
        }
    }
    tagged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Program;
    use crate::trace::{Code, Region, TraceWriter};

    #[test]
    fn a_store_of_references_stores_addresses_of_the_heap_and_nulls_only() {
        let store: &[u8] = &[0x48, 0x89, 0x07]; // mov [rdi], rax
        let push: &[u8] = &[0x50]; // push rax
        let add: &[u8] = &[0x48, 0x01, 0x07]; // add [rdi], rax
        let (heap, stack) = (0x10_0040, 0x20_0040);
        // What each stores, where, and whether it is one.
        let cases: [(&[u8], &[u64], u64, bool); 7] = [
            (store, &[0, heap, 0], heap, true),
            (store, &[heap], 0x30_0000, true),
            (store, &[0, 0], heap, false),
            (store, &[heap, 7], heap, false),
            (store, &[heap], stack, false),
            (push, &[heap], stack, false),
            (add, &[heap], heap, false),
        ];
        let mut writer = TraceWriter::default();
        for (n, (bytes, values, at, _)) in cases.iter().enumerate() {
            let mut code = Code {
                pc: 0x1000 + 8 * n as u64,
                length: bytes.len() as u8,
                bytes: [0; 15],
            };
            code.bytes[..bytes.len()].copy_from_slice(bytes);
            let code = writer.code(code);
            for value in *values {
                let mut execution = Execution {
                    code,
                    repeats: 1,
                    ..Execution::default()
                };
                execution.words[STORED] = *value;
                execution.words[ADDRESS] = *at;
                writer.push(&execution);
            }
        }
        let region = |from, used| Region {
            from,
            to: from + 0x1000,
            used,
        };
        let regions = vec![region(0x20_0000, Use::Stack), region(0x10_0000, Use::Heap)];
        let program = Program::new(writer.finish(regions));
        let tagged: Vec<bool> = program.code().iter().map(|i| i.tag == REFERENCES).collect();
        assert_eq!(tagged, cases.map(|c| c.3));
    }
}
