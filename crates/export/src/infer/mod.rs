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
//! * A function beyond the bound of work stays as it was sampled.

mod graph;

use std::collections::BTreeSet;

use trommel_code::{Body, Function};
use trommel_symbol::Code;
use trommel_tuple::{ModuleId, Place, Vaddr};

use crate::view::{ModuleFlow, Straight, Transfer, Way};
use graph::{Graph, Sampled};

/// Steps for one function at most: less than a second.
const WORK: u64 = 1 << 27;

/// Returns what was executed of a module, with counts that are consistent in each of these functions.
pub(crate) fn inferred<'f>(
    code: &Code<'_>,
    flow: ModuleFlow,
    functions: impl Iterator<Item = &'f Function>,
) -> ModuleFlow {
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
        if let Some(counts) = graph.balance().solve(WORK) {
            solved.add(flow.module, &graph, &counts);
        }
    }
    solved.instead(flow)
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
