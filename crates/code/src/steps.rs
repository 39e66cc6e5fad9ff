//! Instructions that were executed, and heads of straight lines among them, by vaddr.
//!
//! # Problem
//! A compiler executes half a million instructions of its twenty megabytes, and each is asked for several times: whether it is known, where the
//! next head is, what comes before it. A tree takes most of the time of a report for that.
//!
//! # Strategy
//! Pages of 4096 vaddrs, each with a word of 16 bits: the instruction's length, the way out of it, and a bit for a head. Targets of jumps are
//! kept beside. What follows an instruction is mostly in its page, so the page that was found last is looked at first.
//!
//! # Invariants
//! A page is made for the first instruction or head in it, so memory follows what was executed and not the size of a file.

use std::cell::Cell;
use std::collections::HashMap;
use std::ops::Range;

use crate::exit::Exit;

/// An instruction that was executed, as far as it matters for flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    /// Bytes, 1 to 15.
    pub(crate) length: u8,
    pub(crate) exit: Exit,
}

/// Vaddrs of a page.
const PAGE: u64 = 1 << 12;
/// The bits of a length, 0 where no instruction is known.
const LENGTH: u16 = 0xf;
/// The bit with which the number of an exit begins.
const EXIT: u32 = 4;
const HEAD: u16 = 1 << 8;

/// Exits by their numbers. That of a jump is any: its target is kept beside.
const EXITS: [Exit; 8] = [
    Exit::Next,
    Exit::Branch,
    Exit::Jump(0),
    Exit::IndirectJump,
    Exit::Call,
    Exit::System,
    Exit::Return,
    Exit::Nowhere,
];

/// Steps and heads.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    pages: Vec<Box<[u16; PAGE as usize]>>,
    /// Pages by their numbers.
    index: HashMap<u64, usize>,
    /// Number and place of the page that was found last.
    last: Cell<Option<(u64, usize)>>,
    /// Targets of jumps.
    jumps: HashMap<u64, u64>,
    heads: usize,
}

impl Steps {
    fn page(&self, number: u64) -> Option<usize> {
        match self.last.get() {
            Some((last, at)) if last == number => Some(at),
            _ => {
                let at = *self.index.get(&number)?;
                self.last.set(Some((number, at)));
                Some(at)
            }
        }
    }

    fn word(&self, at: u64) -> u16 {
        let page = self.page(at / PAGE);
        page.map_or(0, |page| self.pages[page][(at % PAGE) as usize])
    }

    fn word_mut(&mut self, at: u64) -> &mut u16 {
        let number = at / PAGE;
        let page = self.page(number).unwrap_or_else(|| {
            self.index.insert(number, self.pages.len());
            self.pages.push(Box::new([0; PAGE as usize]));
            self.pages.len() - 1
        });
        &mut self.pages[page][(at % PAGE) as usize]
    }

    /// The instruction at a vaddr.
    pub(crate) fn get(&self, at: u64) -> Option<Step> {
        let word = self.word(at);
        let length = (word & LENGTH) as u8;
        let exit = match EXITS[usize::from(word >> EXIT & 7)] {
            Exit::Jump(_) => Exit::Jump(*self.jumps.get(&at)?),
            exit => exit,
        };
        (length > 0).then_some(Step { length, exit })
    }

    /// Returns true if the instruction at a vaddr is known.
    pub(crate) fn contains(&self, at: u64) -> bool {
        self.word(at) & LENGTH != 0
    }

    /// Notes an instruction, in place of what was known of it.
    pub(crate) fn insert(&mut self, at: u64, step: Step) {
        if let Exit::Jump(to) = step.exit {
            self.jumps.insert(at, to);
        }
        let is_it = |exit: &Exit| match step.exit {
            Exit::Jump(_) => matches!(exit, Exit::Jump(_)),
            other => *exit == other,
        };
        let exit = EXITS.iter().position(is_it).unwrap_or_default() as u16;
        let word = self.word_mut(at);
        *word = *word & HEAD | exit << EXIT | u16::from(step.length) & LENGTH;
    }

    /// Notes a head. Returns false if it was one.
    pub(crate) fn add_head(&mut self, at: u64) -> bool {
        let word = self.word_mut(at);
        let is_new = *word & HEAD == 0;
        *word |= HEAD;
        self.heads += usize::from(is_new);
        is_new
    }

    /// Returns true if a straight line begins at a vaddr.
    pub(crate) fn is_head(&self, at: u64) -> bool {
        self.word(at) & HEAD != 0
    }

    /// The number of heads.
    pub(crate) const fn heads(&self) -> usize {
        self.heads
    }

    /// All heads, in order.
    pub(crate) fn all_heads(&self) -> impl Iterator<Item = u64> {
        let mut pages: Vec<(u64, usize)> = self.index.iter().map(|(n, at)| (*n, *at)).collect();
        pages.sort_unstable();
        pages.into_iter().flat_map(|(number, at)| {
            let words = self.pages[at].iter().enumerate();
            let heads = words.filter(|(_, word)| **word & HEAD != 0);
            heads.map(move |(offset, _)| number * PAGE + offset as u64)
        })
    }

    /// The last instruction that begins in a range, which is looked at vaddr by vaddr from its end.
    pub(crate) fn last_in(&self, range: Range<u64>) -> Option<(u64, Step)> {
        range.rev().find_map(|at| Some((at, self.get(at)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn any_exit() -> impl Strategy<Value = Exit> {
        prop_oneof![
            (0..EXITS.len()).prop_map(|n| EXITS[n]),
            any::<u64>().prop_map(Exit::Jump),
        ]
    }

    proptest! {
        /// Vaddrs lie close together, in a few pages, the last of all among them.
        #[test]
        fn steps_are_those_of_a_tree(
            all in proptest::collection::vec((0..6_000_u64, any::<bool>(), 1..16_u8, any_exit(), any::<bool>()), 0..200)
        ) {
            let (mut steps, mut tree, mut heads) = (Steps::default(), BTreeMap::new(), BTreeSet::new());
            for (at, at_the_end, length, exit, is_head) in all {
                let at = if at_the_end { u64::MAX - at } else { at };
                let step = Step { length, exit };
                if is_head {
                    prop_assert_eq!(steps.add_head(at), heads.insert(at));
                } else {
                    steps.insert(at, step);
                    tree.insert(at, step);
                }
                prop_assert_eq!(steps.get(at), tree.get(&at).copied());
                prop_assert_eq!(steps.is_head(at), heads.contains(&at));
                prop_assert_eq!(steps.contains(at), tree.contains_key(&at));
                let before = at.saturating_sub(600)..at;
                let last = tree.range(before.clone()).next_back();
                prop_assert_eq!(steps.last_in(before), last.map(|(at, step)| (*at, *step)));
            }
            prop_assert_eq!(steps.heads(), heads.len());
            prop_assert!(steps.all_heads().eq(heads));
        }
    }
}
