//! Outcomes of the branches on an acyclic path, in one word.
//!
//! # Problem
//! Ball and Larus (*Efficient Path Profiling*, MICRO 1996) number the acyclic paths of a function by sums along the edges of
//! its control-flow graph. A binary does not give that graph reliably: targets of indirect jumps and the bounds of functions
//! are guesses. Two paths must never have one number, and from the number the path must be found again.
//!
//! # Strategy
//! What is known at a branch is which way it goes. From where a path begins, the outcomes of its conditional branches lead
//! through the code along that path and no other, so place and outcomes name the paths that Ball and Larus number, without
//! the graph. An indirect jump inside a path adds its distance. All that is in the word itself: it means the same in each run,
//! file and process, and needs no table beside it.
//!
//! ```text
//!   63 62   61   60 ................................. 0
//!   end     0    1 then outcomes, the first one highest     (at most 60)
//!   end     1    jump's place (5 bits), distance (24 bits),
//!                1 then outcomes                            (at most 31)
//! ```
//!
//! # Invariants
//! * A word is made of one sequence only, and a sequence makes one word: [`Outcomes::from_word`] takes nothing else.
//! * A path with no room for another outcome is full; who makes paths begins another there ([`Ended::Cut`]).

use core::fmt;

/// Reasons why a path ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Ended {
    /// It came to a transfer of control that ends paths.
    Whole = 0,
    /// It was full, after its last outcome.
    Cut = 1,
    /// The thread did not go on with it.
    Left = 2,
}

/// An indirect jump inside a path.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Jump {
    /// Outcomes before it.
    pub after: u8,
    /// Bytes from the jump to its target, above 0.
    pub distance: u32,
}

/// Outcomes of the conditional branches on a path, in order, and at most one indirect jump.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Outcomes {
    bits: u64,
    count: u8,
    jump: Option<Jump>,
}

const END_AT: u32 = 62;
const JUMP: u64 = 1 << 61;
const AFTER_AT: u32 = 56;
const DISTANCE_AT: u32 = 32;
const DISTANCE_BITS: u32 = 24;

impl Outcomes {
    /// Outcomes of a path without an indirect jump, at most.
    pub const MOST: u8 = 60;
    /// Outcomes of a path with one, at most.
    pub const MOST_WITH_JUMP: u8 = 31;
    /// Bytes that an indirect jump inside a path leads forward, at most.
    pub const FARTHEST: u64 = (1 << DISTANCE_BITS) - 1;

    /// No branch yet.
    pub const NONE: Self = Self {
        bits: 0,
        count: 0,
        jump: None,
    };

    const fn most(&self) -> u8 {
        match self.jump {
            None => Self::MOST,
            Some(_) => Self::MOST_WITH_JUMP,
        }
    }

    /// Returns true if there is no room for another outcome.
    pub const fn is_full(&self) -> bool {
        self.count >= self.most()
    }

    /// Adds the outcome of a conditional branch. Where there is no room nothing is added.
    pub const fn push(&mut self, taken: bool) {
        if !self.is_full() {
            self.bits = self.bits << 1 | taken as u64;
            self.count += 1;
        }
    }

    /// Adds an indirect jump that leads forward by `distance` bytes; false where it cannot be inside the path: it is
    /// the second one, leads too far, or comes too late.
    pub const fn jump(&mut self, distance: u64) -> bool {
        let fits = self.jump.is_none()
            && self.count <= Self::MOST_WITH_JUMP
            && distance != 0
            && distance <= Self::FARTHEST;
        if fits {
            self.jump = Some(Jump {
                after: self.count,
                distance: distance as u32,
            });
        }
        fits
    }

    /// A conditional branch is passed, which led backward or not. Why the path is no longer, if it is not.
    pub fn branch(&mut self, taken: bool, back: bool) -> Option<Ended> {
        self.push(taken);
        match self.is_full() {
            _ if back => Some(Ended::Whole),
            full => full.then_some(Ended::Cut),
        }
    }

    /// An indirect jump is passed, which led ahead by so many bytes in its module, or elsewhere. Why the path is no longer, if it is not.
    pub fn indirect_jump(&mut self, ahead: Option<u64>) -> Option<Ended> {
        let inside = ahead.is_some_and(|distance| self.jump(distance));
        match self.is_full() {
            _ if !inside => Some(Ended::Whole),
            full => full.then_some(Ended::Cut),
        }
    }

    /// Returns the number of outcomes.
    pub const fn count(&self) -> usize {
        self.count as usize
    }

    /// Returns true if branch `n` was taken, from 0.
    pub const fn taken(&self, n: usize) -> Option<bool> {
        if n < self.count() {
            Some(self.bits >> (self.count() - 1 - n) & 1 != 0)
        } else {
            None
        }
    }

    /// The indirect jump.
    pub const fn indirect(&self) -> Option<Jump> {
        self.jump
    }

    /// The word of a path with these outcomes.
    pub const fn word(&self, end: Ended) -> u64 {
        let outcomes = 1 << self.count | self.bits;
        let jump = match self.jump {
            None => 0,
            Some(jump) => {
                JUMP | (jump.after as u64) << AFTER_AT | (jump.distance as u64) << DISTANCE_AT
            }
        };
        (end as u64) << END_AT | jump | outcomes
    }

    /// The path of a word; `None` when it is no path's.
    pub fn from_word(word: u64) -> Option<(Self, Ended)> {
        let end = match word >> END_AT {
            0 => Ended::Whole,
            1 => Ended::Cut,
            2 => Ended::Left,
            _ => return None,
        };
        let jump = (word & JUMP != 0).then_some(Jump {
            after: (word >> AFTER_AT & 0x1f) as u8,
            distance: (word >> DISTANCE_AT) as u32 & ((1 << DISTANCE_BITS) - 1),
        });
        let outcomes = match jump {
            None => word & (JUMP - 1),
            Some(_) => word & ((1 << DISTANCE_AT) - 1),
        };
        let count = outcomes.checked_ilog2()? as u8;
        let path = Self {
            bits: outcomes & !(1 << count),
            count,
            jump,
        };
        let fits = jump.is_none_or(|jump| jump.distance != 0 && jump.after <= count);
        (fits && (end != Ended::Cut || path.is_full())).then_some((path, end))
    }
}

/// One letter an outcome, `T` taken and `N` not; the jump's distance between angle brackets.
impl fmt::Display for Outcomes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for n in 0..=self.count() {
            if let Some(jump) = self.jump.filter(|jump| usize::from(jump.after) == n) {
                write!(f, "<+{:#x}>", jump.distance)?;
            }
            match self.taken(n) {
                Some(true) => f.write_str("T")?,
                Some(false) => f.write_str("N")?,
                None => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::string::{String, ToString};

    use super::*;

    proptest! {
        #[test]
        fn words_are_exact(
            steps in prop::collection::vec((any::<bool>(), prop::option::weighted(0.05, 0_u64..1 << 25)), 0..80),
            end in 0..3_usize,
        ) {
            let mut path = Outcomes::NONE;
            let mut shown = String::new();
            for (taken, jump) in steps {
                if let Some(distance) = jump && path.jump(distance) {
                    shown += &std::format!("<+{distance:#x}>");
                }
                if path.is_full() {
                    break;
                }
                path.push(taken);
                shown.push(if taken { 'T' } else { 'N' });
            }
            let end = [Ended::Whole, Ended::Left, Ended::Cut][end];
            let end = if end == Ended::Cut && !path.is_full() { Ended::Whole } else { end };
            prop_assert_eq!(Outcomes::from_word(path.word(end)), Some((path, end)));
            prop_assert_eq!(path.to_string(), shown);
        }

        #[test]
        fn each_word_that_is_a_path_is_that_of_its_path(word in any::<u64>(), zeros in 0..64_u32) {
            if let Some((path, end)) = Outcomes::from_word(word >> zeros) {
                prop_assert_eq!(path.word(end), word >> zeros);
            }
        }
    }

    #[test]
    fn there_is_room_for_what_is_said() {
        let mut path = Outcomes::NONE;
        for n in 0..Outcomes::MOST {
            assert!(!path.is_full());
            assert!(!path.jump(0));
            path.push(n % 3 == 0);
        }
        assert!(path.is_full() && !path.jump(8));
        let mut path = Outcomes::NONE;
        assert!(!path.jump(Outcomes::FARTHEST + 1));
        assert!(path.jump(Outcomes::FARTHEST) && !path.jump(1));
        (0..Outcomes::MOST_WITH_JUMP).for_each(|_| path.push(true));
        assert!(path.is_full());
    }
}
