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

/// Where the value of a store stands among the recorded words, and its address.
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
