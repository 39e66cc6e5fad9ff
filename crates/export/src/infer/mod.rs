//! Counts of sampled code made consistent before an optimiser reads them.
//!
//! # Problem
//! Windows and samplers estimate each branch by itself. What enters a block by the estimates is not what leaves it, and code between two
//! sampled branches may have no sample at all. Optimisers take that for cold code.
//!
//! # Strategy
//! For each executed function all of its code is a graph of blocks ([`graph`]), the code that no sample met included. Its counts become a flow
//! at the least cost of changes ([`trommel_code::Balance`]). Prices are those of *profile inference* (He et al. 2022) in proportion: to lower what
//! was sampled costs more than to raise it. A way that a sampled branch was never seen to take (*seen 0 times*) costs more than a way of a
//! branch that no sample met (*unseen*).
//!
//! Calls between functions stay as sampled. The profile is not changed: only what is exported has inferred counts.
//!
//! # Invariants
//! * In each function that was solved, what enters a block leaves it.
//! * A function beyond the bound of work, or with counts too large to add up, stays as it was sampled. [`Inferred`] says how many those are.

mod graph;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;

use trommel_code::{Body, Function, Unsolved};
use trommel_symbol::Code;
use trommel_tuple::{ModuleId, Place, Vaddr};

use crate::view::{ModuleFlow, Straight, Transfer, Way};
use graph::{Graph, Sampled};

/// Steps for one function at most: seconds.
pub(crate) const WORK: u64 = 1 << 27;

/// Functions by what inference made of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Inferred {
    /// Functions whose counts were made consistent.
    pub solved: u64,
    /// Functions that are too large, with their counts as they were.
    pub large: u64,
    /// Functions whose counts are too large, with their counts as they were.
    pub counts: u64,
}

impl Inferred {
    pub(crate) const fn add(&mut self, other: Self) {
        self.solved += other.solved;
        self.large += other.large;
        self.counts += other.counts;
    }
}

impl fmt::Display for Inferred {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let functions = match self.solved {
            1 => "function",
            _ => "functions",
        };
        write!(out, "made consistent in {} {functions}", self.solved)?;
        for (number, why) in [
            (self.large, "too large"),
            (self.counts, "beyond the largest counts"),
        ] {
            match number {
                0 => {}
                1 => write!(out, "; 1 is {why} and has its counts as they were")?,
                _ => write!(
                    out,
                    "; {number} are {why} and have their counts as they were"
                )?,
            }
        }
        Ok(())
    }
}

/// Returns what was executed of a module, with counts that are consistent in each of these functions, as far as `work` steps suffice.
pub(crate) fn inferred<'f>(
    code: &Code<'_>,
    flow: ModuleFlow,
    functions: impl Iterator<Item = &'f Function>,
    work: u64,
) -> (ModuleFlow, Inferred) {
    let mut inferred = Inferred::default();
    let sampled = Sampled::new(&flow);
    let mut solved = Solved::default();
    for function in functions.filter(|function| !function.ranges.is_empty() && !function.stub) {
        let lines = function
            .ranges
            .iter()
            .flat_map(|range| sampled.lines(range));
        let places: Vec<u64> = lines.map(|line| line.start).collect();
        if places.is_empty() {
            continue;
        }
        let body = Body::new(code, &function.ranges, &places);
        let graph = Graph::new(&body, &sampled, function);
        match graph.balance().solve(work) {
            Ok(counts) => {
                inferred.solved += 1;
                solved.add(flow.module, &graph, &counts);
            }
            Err(Unsolved::Work) => inferred.large += 1,
            Err(Unsolved::Count) => inferred.counts += 1,
        }
    }
    (solved.instead(flow), inferred)
}

/// Lines and transfers of functions that were solved.
#[derive(Default)]
struct Solved {
    starts: BTreeSet<u64>,
    ends: BTreeSet<Place>,
    lines: Vec<Straight>,
    transfers: Vec<Transfer>,
}

impl Solved {
    fn add(&mut self, module: ModuleId, graph: &Graph, counts: &[u64]) {
        for (block, count) in graph.blocks.iter().zip(counts) {
            self.starts.insert(block.start);
            self.ends.insert(Place::new(module, Vaddr(block.last)));
            if *count > 0 {
                self.lines.push(Straight {
                    start: block.start,
                    last: block.last,
                    end: block.end,
                    instructions: block.instructions,
                    count: *count,
                });
            }
        }
        let ways = graph.ways.iter().map(|(arc, from, to, way)| Transfer {
            from: *from,
            to: *to,
            way: *way,
            count: counts[*arc],
        });
        self.transfers.extend(ways.filter(|way| way.count > 0));
    }

    /// Puts them in place of what a module had there.
    fn instead(self, mut flow: ModuleFlow) -> ModuleFlow {
        flow.lines.retain(|line| !self.starts.contains(&line.start));
        flow.lines.extend(self.lines);
        flow.lines
            .sort_unstable_by_key(|line| (line.start, line.end));
        flow.transfers
            .retain(|transfer| transfer.way == Way::Call || !self.ends.contains(&transfer.from));
        flow.transfers.extend(self.transfers);
        flow.transfers.sort_unstable();
        flow
    }
}
