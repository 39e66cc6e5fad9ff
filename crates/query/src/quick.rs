//! Queries that only compare and count, as trees of decisions.
//!
//! # Problem
//! To make a record and give it to an engine takes a hundred times as long as the instruction that it is about. Most records are
//! filtered out, or counted and no more. What then happens depends on a word or two, which generated code can compare by itself.
//!
//! # Strategy
//! The query of each table entry that profiles every execution is a tree of [`Node`]s. A leaf is either [`Node::Ask`], where
//! the engine is needed, or a *way*: everything is decided, nothing is sent. Ways are numbered, those of different entries apart.
//! Who sees an execution go a way adds one to its count and does nothing else. [`Way`] says what the count means.
//!
//! # Why it is correct
//! * A way has no chance, no message and no interrupt. So the engine's state is the same whether it saw the execution or not,
//!   but for the counters of the query, whose sums the way's count gives.
//! * A record that needs the engine is given to it from the start: nothing was counted on the way to [`Node::Ask`].
//! * Ways follow from the program alone, in one order. So both sides of a crossing number them alike.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::class::Entry;
use crate::field::{Field, FieldSet};
use crate::instruction::{Action, Against, Comparison, Instruction, Known, Next, Test};
use crate::pc::QueryPc;
use crate::program::Program;
use crate::rate::Sampling;
use crate::record::Record;

/// Ways of a program at most. Entries beyond them have no tree.
pub const MAX_WAYS: usize = 128;
/// Ways of an entry at most.
const MOST: usize = 8;
/// Nodes that are looked at for an entry, at most: trees grow faster than programs.
const NODES: usize = 32;
/// Tests of an entry at most, so that generated code has room for a tree.
pub const MAX_TESTS: usize = 6;

/// A comparison of a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Check {
    /// The field.
    pub field: Field,
    /// Its word in the record.
    word: u8,
    /// The question about it: a comparison with the immediate.
    pub test: Test,
    /// The immediate.
    pub immediate: u16,
}

/// Part of a tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Node {
    /// The engine is needed.
    Ask,
    /// The way of this number.
    Way(u8),
    /// All checks are made.
    Test {
        /// One or two checks.
        checks: Vec<Check>,
        /// They all succeed.
        matched: Box<Self>,
        /// One of them does not.
        otherwise: Box<Self>,
    },
}

/// A way through a query on which nothing is sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Way {
    /// The entry whose executions go it.
    pub entry: Entry,
    /// Instructions that count on it.
    pub counted: Vec<QueryPc>,
}

/// The trees of a program.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Quick {
    trees: BTreeMap<Entry, Node>,
    ways: Vec<Way>,
}

impl Quick {
    /// The trees of a program, for the entries that have one.
    pub fn of(program: &Program) -> Self {
        let mut quick = Self::default();
        for (entry, control) in program.table().entries() {
            if control.sampling != Sampling::ALWAYS {
                continue;
            }
            let mut growing = Growing {
                program,
                fields: control.fields,
                entry,
                before: quick.ways.len(),
                ways: Vec::new(),
                nodes: 0,
                tests: 0,
            };
            let tree = growing.node(control.start, &[]);
            let all = quick.ways.len() + growing.ways.len();
            if growing.ways.len() <= MOST && all <= MAX_WAYS && tree != Node::Ask {
                quick.ways.append(&mut growing.ways);
                quick.trees.insert(entry, tree);
            }
        }
        quick
    }

    /// The tree of an entry, if it has one.
    pub fn tree(&self, entry: Entry) -> Option<&Node> {
        self.trees.get(&entry)
    }

    /// The ways, by number.
    pub fn ways(&self) -> &[Way] {
        &self.ways
    }
}

impl Node {
    /// Returns where a record leads: to a way, or to the engine.
    pub fn leaf(&self, record: &Record) -> Option<u8> {
        match self {
            Self::Ask => None,
            Self::Way(number) => Some(*number),
            Self::Test {
                checks,
                matched,
                otherwise,
            } => {
                let holds = |check: &Check| {
                    let word = record.0[usize::from(check.word)];
                    check.test.holds(word, check.immediate, 0, |_| false)
                };
                match checks.iter().all(holds) {
                    true => matched.leaf(record),
                    false => otherwise.leaf(record),
                }
            }
        }
    }

    /// Number of tests.
    pub fn tests(&self) -> usize {
        match self {
            Self::Ask | Self::Way(_) => 0,
            Self::Test {
                matched, otherwise, ..
            } => 1 + matched.tests() + otherwise.tests(),
        }
    }

    /// Fields that are compared.
    pub fn fields(&self) -> FieldSet {
        match self {
            Self::Ask | Self::Way(_) => FieldSet::NONE,
            Self::Test {
                checks,
                matched,
                otherwise,
            } => {
                let deeper = [matched.fields(), otherwise.fields()];
                let deeper = deeper.iter().flat_map(|fields| fields.iter());
                let all = checks.iter().map(|check| check.field).chain(deeper);
                all.fold(FieldSet::NONE, FieldSet::with)
            }
        }
    }
}

/// A tree that is made.
struct Growing<'p> {
    program: &'p Program,
    fields: FieldSet,
    entry: Entry,
    /// Ways of other entries.
    before: usize,
    ways: Vec<Way>,
    nodes: usize,
    tests: usize,
}

impl Growing<'_> {
    /// The tree from an instruction on, to which a way leads that has `counted`.
    fn node(&mut self, at: QueryPc, counted: &[QueryPc]) -> Node {
        self.nodes += 1;
        let i = &self.program.code()[at.number()];
        let (Some(even), Some(odd)) = (self.check(i, 0), self.check(i, 1)) else {
            return Node::Ask;
        };
        if self.nodes > NODES || self.ways.len() > MOST {
            return Node::Ask;
        }
        let matched = |growing: &mut Self| match i.action {
            Action::Send(_) | Action::Interrupt { .. } => Node::Ask,
            Action::None => growing.next(i, i.matched, at, counted),
            Action::Count => {
                let more: Vec<QueryPc> = counted.iter().copied().chain([at]).collect();
                growing.next(i, i.matched, at, &more)
            }
        };
        let checks: Vec<Check> = match (even, odd) {
            (Made::Never, _) | (_, Made::Never) => {
                return self.next(i, i.otherwise, at, counted);
            }
            (even, odd) => [even, odd].into_iter().filter_map(Made::check).collect(),
        };
        if checks.is_empty() {
            return matched(self);
        }
        self.tests += 1;
        if self.tests > MAX_TESTS {
            return Node::Ask;
        }
        let matched = matched(self);
        let otherwise = self.next(i, i.otherwise, at, counted);
        match (&matched, &otherwise) {
            (Node::Ask, Node::Ask) => Node::Ask,
            _ => Node::Test {
                checks,
                matched: Box::new(matched),
                otherwise: Box::new(otherwise),
            },
        }
    }

    fn next(&mut self, i: &Instruction, next: Next, at: QueryPc, counted: &[QueryPc]) -> Node {
        let to = match next {
            Next::Stop => {
                let number = self.before + self.ways.len();
                self.ways.push(Way {
                    entry: self.entry,
                    counted: counted.to_vec(),
                });
                // More than there can be are refused as a whole.
                return Node::Way(number.min(MAX_WAYS) as u8);
            }
            Next::Branch => i.target,
            Next::Continue => match QueryPc::new(at.number() + 1) {
                Some(to) => to,
                None => return Node::Ask,
            },
        };
        self.node(to, counted)
    }

    /// The check that a comparison of an instruction makes; `None` where the engine is needed.
    fn check(&self, i: &Instruction, bank: u8) -> Option<Made> {
        let Comparison { test, word } = match bank {
            0 => i.even,
            _ => i.odd,
        };
        match (test.outcome(i.immediate), test.against()) {
            (Known::Always, _) => Some(Made::Always),
            (Known::Never, _) => Some(Made::Never),
            (Known::Depends, Some(Against::Immediate)) => {
                let word = 2 * word + bank;
                Some(Made::Check(Check {
                    field: self.fields.field_at(word)?,
                    word,
                    test,
                    immediate: i.immediate,
                }))
            }
            (Known::Depends, Some(Against::Other) | None) => None,
        }
    }
}

/// Outcome of a comparison.
#[derive(Clone, Copy)]
enum Made {
    Always,
    Never,
    Check(Check),
}

impl Made {
    const fn check(self) -> Option<Check> {
        match self {
            Self::Check(check) => Some(check),
            Self::Always | Self::Never => None,
        }
    }
}
