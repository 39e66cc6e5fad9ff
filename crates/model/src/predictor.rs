//! Branch prediction of the front end.
//!
//! Conditional branches: gshare (Table 5), counters of two bits indexed by the address xor the outcomes of the last
//! branches. Indirect jumps: the last target, in a buffer of sets. Returns: a stack of return addresses, the
//! oldest of which are lost. Direct targets are known when they are fetched.
//!
//! Counters learn when a branch of the right path is fetched, and nothing on wrong paths: a machine that repairs them after a
//! misprediction does as well, one that does not a little worse. Wrong paths have a history and a stack of their own ([`Front`]).

use crate::instruction::{Flow, Instruction};

/// Sets and ways of the target buffer, and return addresses: SimpleScalar's.
const TARGETS: [usize; 2] = [512, 4];
const RETURNS: usize = 8;

/// State that every prediction changes: the last outcomes, and the return addresses.
#[derive(Clone, Copy, Debug)]
pub struct Front {
    history: u64,
    returns: [u64; RETURNS],
    top: usize,
}

impl Front {
    fn push(&mut self, address: u64) {
        self.top = (self.top + 1) % RETURNS;
        self.returns[self.top] = address;
    }

    fn pop(&mut self) -> u64 {
        let address = self.returns[self.top];
        self.top = (self.top + RETURNS - 1) % RETURNS;
        address
    }
}

/// The state of all predictors.
#[derive(Clone, Debug)]
pub struct Predictor {
    counters: Vec<u8>,
    mask: u64,
    /// Address and target; the ways of a set lie together, the last used first.
    targets: Vec<(u64, u64)>,
    front: Front,
}

impl Predictor {
    /// Counters are weakly not taken; nothing else is known.
    pub fn new(history: u32) -> Self {
        Self {
            counters: vec![1; 1 << history],
            mask: (1 << history) - 1,
            targets: vec![(0, 0); TARGETS[0] * TARGETS[1]],
            front: Front {
                history: 0,
                returns: [0; RETURNS],
                top: 0,
            },
        }
    }

    /// The front's state at the instruction that is fetched next on the right path.
    pub const fn front(&self) -> Front {
        self.front
    }

    /// The address that `instruction` is predicted to lead to; 0 where nothing is known. Nothing is learned, but `front` goes on.
    pub fn foresee(&self, instruction: &Instruction, front: &mut Front) -> u64 {
        match instruction.flow {
            Flow::Next => instruction.end(),
            Flow::Direct => instruction.target,
            Flow::Conditional => {
                let taken = self.counters[self.counter(instruction.pc, front.history)] >= 2;
                front.history = (front.history << 1 | u64::from(taken)) & self.mask;
                match taken {
                    true => instruction.target,
                    false => instruction.end(),
                }
            }
            Flow::Indirect => self.last_target(instruction.pc),
            Flow::Call => {
                front.push(instruction.end());
                instruction.target
            }
            Flow::IndirectCall => {
                front.push(instruction.end());
                self.last_target(instruction.pc)
            }
            Flow::Return => front.pop(),
        }
    }

    const fn counter(&self, pc: u64, history: u64) -> usize {
        ((pc ^ history) & self.mask) as usize
    }

    fn last_target(&self, pc: u64) -> u64 {
        let set = self.targets[first_of_set(pc)..].iter().take(TARGETS[1]);
        let found = set.into_iter().find(|target| target.0 == pc);
        found.map_or(0, |target| target.1)
    }

    /// Predicts where `instruction` leads, learns that it led to `to`, and says whether it was right.
    pub fn predict(&mut self, instruction: &Instruction, taken: bool, to: u64) -> bool {
        match instruction.flow {
            Flow::Next | Flow::Direct => true,
            Flow::Conditional => self.direction(instruction.pc, taken),
            Flow::Indirect => self.target(instruction.pc, to),
            Flow::Call => {
                self.front.push(instruction.end());
                true
            }
            Flow::IndirectCall => {
                self.front.push(instruction.end());
                self.target(instruction.pc, to)
            }
            Flow::Return => self.front.pop() == to,
        }
    }

    fn direction(&mut self, pc: u64, taken: bool) -> bool {
        let at = self.counter(pc, self.front.history);
        let counter = &mut self.counters[at];
        let predicted = *counter >= 2;
        *counter = match taken {
            true => (*counter + 1).min(3),
            false => counter.saturating_sub(1),
        };
        self.front.history = (self.front.history << 1 | u64::from(taken)) & self.mask;
        predicted == taken
    }

    fn target(&mut self, pc: u64, to: u64) -> bool {
        let [_, ways] = TARGETS;
        let at = first_of_set(pc);
        let set = &mut self.targets[at..at + ways];
        let found = set.iter().position(|t| t.0 == pc);
        let right = found.is_some_and(|way| set[way].1 == to);
        set[..=found.unwrap_or(ways - 1)].rotate_right(1);
        set[0] = (pc, to);
        right
    }
}

/// The place of the first way of the set that an indirect jump belongs to.
const fn first_of_set(pc: u64) -> usize {
    let [sets, ways] = TARGETS;
    pc as usize % sets * ways
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::InstructionInfoFactory;

    fn at(pc: u64, bytes: &[u8]) -> Instruction {
        Instruction::decode(&mut InstructionInfoFactory::new(), pc, bytes)
    }

    #[test]
    fn counters_learn_patterns_of_the_history() {
        let mut predictor = Predictor::new(14);
        let branch = at(0x1000, &[0x74, 0]);
        // Taken, taken, not taken, over and over.
        let wrong = |predictor: &mut Predictor, n: u32| -> u32 {
            let wrong = |i| !predictor.predict(&branch, i % 3 != 2, 0);
            (0..n).map(wrong).map(u32::from).sum()
        };
        assert!(wrong(&mut predictor, 300) > 2);
        assert_eq!(wrong(&mut predictor, 300), 0);
    }

    #[test]
    fn returns_go_where_calls_came_from_eight_deep() {
        let mut predictor = Predictor::new(14);
        let (call, ret) = (&[0xe8, 0, 0, 0, 0][..], at(0x9000, &[0xc3]));
        for n in 0..9 {
            assert!(predictor.predict(&at(0x1000 + 16 * n, call), true, 0x9000));
        }
        let right = (0..9)
            .rev()
            .map(|n| predictor.predict(&ret, true, 0x1000 + 16 * n + 5));
        let right: Vec<bool> = right.collect();
        assert_eq!(
            right,
            [true, true, true, true, true, true, true, true, false]
        );
    }

    #[test]
    fn indirect_jumps_go_where_they_went_last() {
        let mut predictor = Predictor::new(14);
        let jump = at(0x1000, &[0xff, 0xe0]);
        let went = [1, 1, 2, 2, 1].map(|to| predictor.predict(&jump, true, to));
        assert_eq!(went, [false, true, false, true, false]);
    }
}
