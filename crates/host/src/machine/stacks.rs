//! The call path of a sample: frames from the interrupted instruction to where the thread began.
//!
//! # Problem
//! A sample has registers, and the stack as it was. What is on it can be told only with what is known of the code of each frame.
//!
//! # Strategy
//! Each frame's address has a *code*: its place, and the rule that leads to its caller ([`trommel_symbol::unwind`]). Codes are kept by address,
//! so a frame that was met costs a look into a table. A frame is shown at its call, so its line is that of the call.
//!
//! # Invariants
//! * Each address that is followed is in code that the process has. Where only a frame pointer says that it is a return address, and its bytes
//!   are known, there is a call before it.
//! * A path that does not reach the thread's beginning is counted as truncated or broken, and ends at the last frame that is sure.

use std::rc::Rc;

use trommel_profile::call_tree::Lost;
use trommel_symbol::unwind::{Failed, Registers, Rule, Step};
use trommel_tuple::Place;

use crate::kernel::perf::records::Stack;

/// Frames of a path at most: deeper ones are truncated.
const DEEPEST: usize = 4096;

/// Knowledge of the code of a frame.
#[derive(Clone, Debug)]
pub(super) struct Code {
    /// The interrupted instruction, or the call.
    pub(super) at: Place,
    /// The way to its caller; `None`: nobody knows what is there.
    pub(super) rule: Option<Rc<Rule>>,
    /// False: the instruction before it is known, and no call.
    pub(super) may_return_here: bool,
}

/// A path, innermost frame first.
#[derive(Clone, Debug, Default)]
pub(super) struct Path {
    pub(super) frames: Vec<Place>,
    /// One of these is 1 where the path is not whole.
    pub(super) lost: Lost,
}

impl Path {
    pub(super) fn truncated(mut self) -> Self {
        self.lost.truncated = 1;
        self
    }

    pub(super) fn broken(mut self) -> Self {
        self.lost.broken = 1;
        self
    }
}

/// Follows a stack. `code`: what is known of an address, and whether a call has returned to it.
pub(super) fn walk(stack: &Stack, mut code: impl FnMut(u64, bool) -> Rc<Code>) -> Path {
    let mut path = Path::default();
    let mut registers = Registers::new(stack.pc, stack.registers);
    let (mut returned, mut likely) = (false, false);
    let read = |at| word(stack, at);
    loop {
        if path.frames.len() == DEEPEST {
            return path.truncated();
        }
        let code = code(registers.pc, returned);
        let Some(rule) = code.rule.as_deref() else {
            if !returned {
                path.frames.push(code.at);
            }
            return path.broken();
        };
        if likely && !code.may_return_here {
            return path.broken();
        }
        path.frames.push(code.at);
        match rule.step(&mut registers, read) {
            Ok(Step::End) => return path,
            Ok(Step::Caller) => {}
            Err(Failed::Beyond) => return path.truncated(),
            Err(Failed::Broken) => return path.broken(),
        }
        (returned, likely) = (!rule.interrupts(), rule.is_likely());
    }
}

/// A word of a stack.
fn word(stack: &Stack, at: u64) -> Result<u64, Failed> {
    const RSP: usize = 4;
    let offset = at.checked_sub(stack.registers[RSP]).ok_or(Failed::Broken)?;
    let after = usize::try_from(offset)
        .ok()
        .and_then(|offset| stack.bytes.get(offset..));
    match after.and_then(|after| after.first_chunk::<8>()) {
        Some(word) => Ok(u64::from_ne_bytes(*word)),
        // What is far away is on another stack.
        None if stack.is_cut && offset < MOST_OF_STACK => Err(Failed::Beyond),
        None => Err(Failed::Broken),
    }
}

/// No stack is larger, as far as one is told from another.
const MOST_OF_STACK: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use trommel_tuple::{ModuleId, Vaddr};

    fn stack(words: &[u64], rbp: u64, is_cut: bool) -> Stack {
        let mut registers = [0; 16];
        (registers[4], registers[5]) = (0x7000, rbp);
        Stack {
            pc: 0x100,
            registers,
            bytes: words.iter().flat_map(|word| word.to_ne_bytes()).collect(),
            is_cut,
        }
    }

    /// Code with frame pointers below 0x1000; a call is before each address but those that end in 7.
    fn code(at: u64, returned: bool) -> Rc<Code> {
        let known = at < 0x1000;
        Rc::new(Code {
            at: Place::new(ModuleId(1), Vaddr(at.wrapping_sub(u64::from(returned)))),
            rule: known.then(|| Rc::new(Rule::frame_pointer())),
            may_return_here: at % 16 != 7,
        })
    }

    fn walked(stack: &Stack) -> (Vec<u64>, u64, u64) {
        let path = walk(stack, code);
        let frames = path.frames.iter().map(|place| place.vaddr().0).collect();
        (frames, path.lost.truncated, path.lost.broken)
    }

    #[test]
    fn frames_are_followed_to_the_first() {
        let words = [1, 0x7018, 0x200, 0, 0x300];
        assert_eq!(
            walked(&stack(&words, 0x7008, false)),
            (vec![0x100, 0x1ff, 0x2ff], 0, 0)
        );
    }

    #[test]
    fn what_is_not_sure_is_no_frame() {
        // Not in code; not after a call; below the frame; not captured; on another stack.
        let unknown = [1, 0x7018, 0x2000, 0, 0];
        assert_eq!(walked(&stack(&unknown, 0x7008, false)), (vec![0x100], 0, 1));
        let no_call = [1, 0x7018, 0x207, 0, 0];
        assert_eq!(walked(&stack(&no_call, 0x7008, false)), (vec![0x100], 0, 1));
        let backwards = [1, 0x7000, 0x200, 0, 0];
        assert_eq!(
            walked(&stack(&backwards, 0x7008, false)),
            (vec![0x100, 0x1ff], 0, 1)
        );
        let long = [1, 0x7018, 0x200];
        assert_eq!(
            walked(&stack(&long, 0x7008, true)),
            (vec![0x100, 0x1ff], 1, 0)
        );
        assert_eq!(
            walked(&stack(&long, 0x7008, false)),
            (vec![0x100, 0x1ff], 0, 1)
        );
        let far = [1, 0x7f00_0000_0000, 0x200];
        assert_eq!(
            walked(&stack(&far, 0x7008, true)),
            (vec![0x100, 0x1ff], 0, 1)
        );
    }

    proptest! {
        #[test]
        fn any_stack_ends(words in prop::collection::vec(0x6ff0_u64..0x7100, 0..100), rbp in 0x6ff0_u64..0x7100, cut in any::<bool>()) {
            let path = walk(&stack(&words, rbp, cut), |at, returned| code(at % 0x1000, returned));
            prop_assert!(!path.frames.is_empty() && path.frames.len() <= words.len() + 1);
        }
    }
}
