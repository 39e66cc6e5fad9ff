//! An acyclic path led along its code again.
//!
//! **Problem.** A profile has of an acyclic path where it begins and the outcomes of its branches. People want the blocks: what was
//! executed, how much of it, and where it ended.
//!
//! **Strategy.** From where the path begins instructions are decoded, one after the other; direct jumps are followed, each conditional
//! branch goes as its outcome says, and an indirect jump inside the path by the distance that is told. The path ends as `docs/events.md`
//! defines it, and the outcomes must end there too: otherwise the file is not the one that was recorded, and nothing is said.
//!
//! **Invariants.** Addresses only grow along a path, as what leads backward ends it; so it is walked in bounded time.

use std::ops::Range;

use iced_x86::{Code as Encoding, Decoder, DecoderOptions, FlowControl, Instruction};
use trommel_symbol::Code;
use trommel_tuple::{Ended, Outcomes};

/// Ends of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// A branch or direct jump backward.
    Backward,
    /// A call.
    Call,
    /// A return.
    Return,
    /// An indirect jump that is not inside it.
    Jump,
    /// Its last outcome: it was full.
    Full,
    /// The thread did not go on.
    Left,
}

impl Ending {
    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Backward => "backward branch",
            Self::Call => "call",
            Self::Return => "return",
            Self::Jump => "indirect jump",
            Self::Full => "cut",
            Self::Left => "left",
        }
    }
}

/// A conditional branch on a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Passed {
    /// The branch.
    pub at: u64,
    /// It was taken.
    pub taken: bool,
}

/// A path as code. Addresses are vaddrs of its module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Acyclic {
    /// Its blocks in order: runs of instructions without a branch between them. Of a path that was [`Ending::Left`], what is known
    /// to have been executed.
    pub blocks: Vec<Range<u64>>,
    /// Its instructions.
    pub instructions: u64,
    /// Its conditional branches.
    pub branches: Vec<Passed>,
    /// The indirect jump inside it.
    pub jump: Option<u64>,
    /// Its last instruction; a path that was [`Ending::Left`] may have gone further.
    pub last: Option<u64>,
    /// The end of the path.
    pub ending: Ending,
}

/// Walks along code.
struct Walker<'a> {
    code: &'a Code<'a>,
    found: Acyclic,
    block: u64,
}

impl Walker<'_> {
    fn decode(&self, at: u64) -> Option<Instruction> {
        let bytes = self.code.at(at)?;
        let bytes = &bytes[..bytes.len().min(15)];
        let instruction = Decoder::with_ip(64, bytes, at, DecoderOptions::NONE).decode();
        (!instruction.is_invalid()).then_some(instruction)
    }

    /// A block ends with the instruction; the next is at `to`.
    fn turn(&mut self, instruction: &Instruction, to: u64) {
        self.found.blocks.push(self.block..instruction.next_ip());
        self.block = to;
    }

    fn ends(mut self, instruction: &Instruction, ending: Ending) -> Acyclic {
        self.turn(instruction, 0);
        self.found.ending = ending;
        self.found
    }
}

/// The path that begins at `start`; `None` where its code is not that of the path.
pub fn acyclic(code: &Code<'_>, start: u64, outcomes: &Outcomes, end: Ended) -> Option<Acyclic> {
    /// Instructions between two branches at most.
    const LONGEST: u32 = 1 << 16;
    let mut walker = Walker {
        code,
        found: Acyclic {
            blocks: Vec::new(),
            instructions: 0,
            branches: Vec::new(),
            jump: None,
            last: None,
            ending: Ending::Left,
        },
        block: start,
    };
    let mut jump = outcomes.indirect();
    let mut at = start;
    let mut straight = 0;
    loop {
        let passed = walker.found.branches.len();
        let all = passed == outcomes.count() && jump.is_none();
        match end {
            Ended::Left if all => return Some(walker.found),
            Ended::Cut if all => {
                walker.found.ending = Ending::Full;
                return Some(walker.found);
            }
            _ => {}
        }
        straight += 1;
        if straight > LONGEST {
            return None;
        }
        let instruction = walker.decode(at)?;
        walker.found.instructions += 1;
        walker.found.last = Some(at);
        let next = instruction.next_ip();
        match instruction.flow_control() {
            FlowControl::ConditionalBranch => {
                let taken = outcomes.taken(passed)?;
                let to = if taken {
                    instruction.near_branch_target()
                } else {
                    next
                };
                walker.found.branches.push(Passed { at, taken });
                if to <= at {
                    let all = passed + 1 == outcomes.count() && jump.is_none();
                    return (all && end == Ended::Whole)
                        .then(|| walker.ends(&instruction, Ending::Backward));
                }
                walker.turn(&instruction, to);
                straight = 0;
                at = to;
            }
            FlowControl::UnconditionalBranch => {
                let to = instruction.near_branch_target();
                if to <= at {
                    return all.then(|| walker.ends(&instruction, Ending::Backward));
                }
                walker.turn(&instruction, to);
                at = to;
            }
            FlowControl::IndirectBranch => match jump.filter(|j| usize::from(j.after) == passed) {
                Some(inside) => {
                    jump = None;
                    walker.found.jump = Some(at);
                    let to = at + u64::from(inside.distance);
                    walker.turn(&instruction, to);
                    straight = 0;
                    at = to;
                }
                None => return all.then(|| walker.ends(&instruction, Ending::Jump)),
            },
            FlowControl::Return => return all.then(|| walker.ends(&instruction, Ending::Return)),
            FlowControl::Call | FlowControl::IndirectCall if !is_system_call(&instruction) => {
                return all.then(|| walker.ends(&instruction, Ending::Call));
            }
            _ => at = next,
        }
    }
}

/// Returns true if a call is of the kernel.
fn is_system_call(instruction: &Instruction) -> bool {
    matches!(instruction.code(), Encoding::Syscall | Encoding::Sysenter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// je +2; nop; nop; jmp +1; int3; syscall; jmp rax; nop; loop to the start; call; ret
    const BYTES: [u8; 19] = [
        0x74, 0x02, 0x90, 0x90, 0xeb, 0x01, 0xcc, 0x0f, 0x05, 0xff, 0xe0, 0x90, 0xe2, 0xf2, 0xe8,
        0, 0, 0, 0,
    ];

    fn outcomes(steps: &str) -> Outcomes {
        let mut all = Outcomes::NONE;
        for step in steps.chars() {
            match step {
                'T' | 'N' => all.push(step == 'T'),
                _ => assert!(all.jump(u64::from(step.to_digit(16).expect("a distance")))),
            }
        }
        all
    }

    fn walk(start: u64, steps: &str, end: Ended) -> Option<Acyclic> {
        let code = Code::new(vec![(0x100, &BYTES)]);
        acyclic(&code, start, &outcomes(steps), end)
    }

    #[test]
    fn a_path_goes_where_its_outcomes_say() {
        let path = walk(0x100, "T3T", Ended::Whole).expect("a path");
        assert_eq!(
            path.blocks,
            [0x100..0x102, 0x104..0x106, 0x107..0x10b, 0x10c..0x10e]
        );
        assert_eq!((path.instructions, path.last), (5, Some(0x10c)));
        assert_eq!((path.ending, path.jump), (Ending::Backward, Some(0x109)));
        let path = walk(0x100, "N2N", Ended::Whole).expect("a path");
        assert_eq!((path.instructions, path.ending), (9, Ending::Call));
        assert_eq!(
            path.branches[0],
            Passed {
                at: 0x100,
                taken: false
            }
        );
        let path = walk(0x102, "", Ended::Whole).expect("a path");
        assert_eq!((path.last, path.ending), (Some(0x109), Ending::Jump));
    }

    #[test]
    fn what_is_known_of_a_path_that_was_left_is_told() {
        let path = walk(0x100, "T", Ended::Left).expect("a path");
        assert_eq!((path.instructions, path.ending), (1, Ending::Left));
        let path = walk(0x100, "", Ended::Left).expect("a path");
        assert_eq!((path.instructions, path.last), (0, None));
    }

    #[test]
    fn code_that_is_not_the_paths_is_told_from_it() {
        assert_eq!(
            walk(0x100, "", Ended::Whole),
            None,
            "a branch too many in the code"
        );
        assert_eq!(walk(0x102, "T", Ended::Whole), None, "none in the code");
        assert_eq!(walk(0x200, "", Ended::Whole), None);
        assert_eq!(walk(0x10f, "", Ended::Whole), None, "no end");
    }

    proptest! {
        #[test]
        fn any_bytes_are_walked(
            bytes in prop::collection::vec(any::<u8>(), 0..100),
            start in 0_u64..120,
            word in any::<u64>(),
            zeros in 0..64_u32,
        ) {
            let code = Code::new(vec![(0, &bytes)]);
            if let Some((outcomes, end)) = Outcomes::from_word(word >> zeros)
                && let Some(path) = acyclic(&code, start, &outcomes, end)
            {
                prop_assert_eq!(path.branches.len(), outcomes.count());
                prop_assert!(path.blocks.windows(2).all(|b| b[0].end <= b[1].start));
            }
        }
    }
}
