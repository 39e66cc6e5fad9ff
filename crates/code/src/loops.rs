//! Loops of a function, by what was executed: how often they were entered, and how often they turned.
//!
//! # Strategy
//! The executed blocks of a function and the ways between them are a graph. A loop is a strongly connected part of it. Its *header*
//! is the block by which control mostly enters it. Without the ways to its header the part falls apart, and what is still strongly
//! connected in it are the inner loops (Steensgaard, *Sequentializing program dependence graphs for irreducible programs*, 1993). So
//! loops with several entries, and those entered in their middle, have one header too.
//!
//! # Invariants
//! A block belongs to the innermost loop that it is in. So instructions of loops can be added up. Time is in proportion to ways and depth, and depth
//! is bounded.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use trommel_tuple::ModuleId;

use crate::blocks::{Block, Blocks};
use crate::count::Count;
use crate::exit::Exit;

/// A loop.
#[derive(Clone, Debug)]
pub struct Loop {
    /// Vaddr of its header.
    pub header: u64,
    /// Vaddr of the last instruction of the loop, by address.
    pub last: u64,
    /// Times it was entered.
    pub entries: Count,
    /// Times its header was executed: turns of all entries together.
    pub turns: Count,
    /// Instructions executed in it, inner loops and callees not included.
    pub executed: Count,
    /// Loops around it.
    pub depth: usize,
}

impl Loop {
    /// Turns for each time that it is entered; `None` where it was never seen to be entered.
    pub fn trips(&self) -> Option<f64> {
        (self.entries.times >= 0.5).then(|| self.turns.times / self.entries.times)
    }
}

/// Nested loops are not deeper in programs that people write.
const MOST_DEEP: usize = 64;

/// The loops of the function in `ranges`.
pub fn loops(module: ModuleId, blocks: &Blocks, ranges: &[Range<u64>]) -> Vec<Loop> {
    let graph = Graph::new(module, blocks, ranges);
    let size = graph.blocks.len();
    let mut nest = Nest {
        graph: &graph,
        cut: vec![false; size],
        innermost: vec![None; size],
        found: Vec::new(),
    };
    nest.add(&(0..size).collect::<Vec<_>>(), 0);
    let Nest {
        innermost, found, ..
    } = nest;
    let mut found = found;
    for (block, of) in graph.blocks.iter().zip(innermost) {
        if let (Some(of), Some(executed)) = (of, block.executed()) {
            let of: &mut Loop = &mut found[of];
            of.executed = of.executed.plus(executed);
        }
    }
    found
}

/// The executed blocks of a function, by number, and the ways between them.
struct Graph<'b> {
    blocks: Vec<&'b Block>,
    /// For each block, the blocks that it goes to, and how often.
    to: Vec<Vec<(usize, Count)>>,
}

impl<'b> Graph<'b> {
    fn new(module: ModuleId, blocks: &'b Blocks, ranges: &[Range<u64>]) -> Self {
        let executed = |b: &&Block| b.count.is_some_and(|c| c.times > 0.0);
        let mut here: Vec<_> = (ranges.iter())
            .flat_map(|range| blocks.within(range))
            .filter(executed)
            .collect();
        here.sort_by_key(|b| b.start);
        here.dedup_by_key(|b| b.start);
        let at: HashMap<u64, usize> = (here.iter().enumerate())
            .map(|(n, b)| (b.start, n))
            .collect();
        let ends: HashMap<u64, usize> = (here.iter().enumerate())
            .map(|(n, b)| (b.last, n))
            .collect();
        let mut to = vec![Vec::new(); here.len()];
        for (n, block) in here.iter().enumerate() {
            let next = match block.exit {
                Exit::Next | Exit::Call | Exit::System => Some(block.end),
                Exit::Jump(target) => Some(target),
                _ => None,
            };
            if let Some(next) = next.and_then(|next| at.get(&next))
                && let Some(count) = block.count
            {
                to[n].push((*next, count));
            }
            for arrival in blocks
                .transfers
                .into
                .get(&block.start)
                .into_iter()
                .flatten()
            {
                let inside = arrival.from.module() == module && !arrival.call;
                let from = ends.get(&arrival.from.vaddr().0).filter(|_| inside);
                if let Some(from) = from {
                    to[*from].push((n, arrival.count));
                }
            }
        }
        Self { blocks: here, to }
    }

    /// Returns how often control goes to a block from those that are `inside`.
    fn inside_count(&self, to: usize, inside: &[bool]) -> Count {
        let from = (self.to.iter().zip(inside)).filter(|(_, inside)| **inside);
        let ways = from.flat_map(|(ways, _)| ways).filter(|(n, _)| *n == to);
        ways.fold(NOTHING, |sum, (_, count)| sum.plus(*count))
    }

    /// Strongly connected parts of `members` (Tarjan), without the ways to blocks that are `cut`: those that something turns in.
    fn parts(&self, members: &[usize], cut: &[bool]) -> Vec<Vec<usize>> {
        const NEW: usize = usize::MAX;
        let mut order = vec![NEW; self.blocks.len()];
        let mut low = vec![NEW; self.blocks.len()];
        let mut on_stack = vec![false; self.blocks.len()];
        let mut is_member = vec![false; self.blocks.len()];
        for n in members {
            is_member[*n] = true;
        }
        let (mut stack, mut next, mut parts) = (Vec::new(), 0, Vec::new());
        for &root in members {
            if order[root] != NEW {
                continue;
            }
            // Blocks that are looked at, each with the number of its next way.
            let mut path = vec![(root, 0)];
            while let Some((n, way)) = path.last_mut() {
                let n = *n;
                if *way == 0 {
                    (order[n], low[n]) = (next, next);
                    next += 1;
                    stack.push(n);
                    on_stack[n] = true;
                }
                let to = self.to[n].get(*way).map(|(to, _)| *to);
                *way += 1;
                match to {
                    Some(to) if cut[to] || !is_member[to] => {}
                    Some(to) if order[to] == NEW => path.push((to, 0)),
                    Some(to) if on_stack[to] => low[n] = low[n].min(order[to]),
                    Some(_) => {}
                    None => {
                        path.pop();
                        if let Some((above, _)) = path.last() {
                            low[*above] = low[*above].min(low[n]);
                        }
                        if low[n] == order[n] {
                            let at = stack.iter().rposition(|m| *m == n).unwrap_or(0);
                            let mut part = stack.split_off(at);
                            part.sort_unstable();
                            for m in &part {
                                on_stack[*m] = false;
                            }
                            let turns = self.to[n].iter().any(|(to, _)| *to == n && !cut[n]);
                            if part.len() > 1 || turns {
                                parts.push(part);
                            }
                        }
                    }
                }
            }
        }
        parts
    }
}

const NOTHING: Count = Count::of_events(0.0, None);

/// Loops in loops, as they are found.
struct Nest<'g, 'b> {
    graph: &'g Graph<'b>,
    /// Headers, to which no way is followed any more.
    cut: Vec<bool>,
    /// The innermost loop of each block.
    innermost: Vec<Option<usize>>,
    found: Vec<Loop>,
}

impl Nest<'_, '_> {
    /// Adds the loops among `members`.
    fn add(&mut self, members: &[usize], depth: usize) {
        let graph = self.graph;
        for part in graph.parts(members, &self.cut) {
            let mut inside = vec![false; graph.blocks.len()];
            for n in &part {
                inside[*n] = true;
                self.innermost[*n] = Some(self.found.len());
            }
            // What comes to each of them from outside.
            let mut entered: BTreeMap<usize, Count> = BTreeMap::new();
            let outside = (graph.to.iter().zip(&inside)).filter(|(_, inside)| !**inside);
            for (to, count) in outside.flat_map(|(ways, _)| ways) {
                if inside[*to] {
                    let sum = entered.entry(*to).or_insert(NOTHING);
                    *sum = sum.plus(*count);
                }
            }
            let most = (entered.iter()).max_by(|a, b| a.1.times.total_cmp(&b.1.times));
            // A function that begins with a loop is entered there, from elsewhere.
            let header = most.map_or(part[0], |(n, _)| *n);
            let turns = graph.blocks[header].count.unwrap_or(NOTHING);
            let entries = match entered.is_empty() {
                true => turns.less(graph.inside_count(header, &inside)),
                false => entered.into_values().fold(NOTHING, Count::plus),
            };
            let last = part.iter().map(|n| graph.blocks[*n].last).max();
            self.found.push(Loop {
                header: graph.blocks[header].start,
                last: last.unwrap_or_default(),
                entries,
                turns,
                executed: NOTHING,
                depth,
            });
            self.cut[header] = true;
            if depth < MOST_DEEP {
                self.add(&part, depth + 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::Returns;
    use crate::transfers::{Arrival, Transfers};
    use trommel_symbol::Code;
    use trommel_tuple::{Place, Vaddr};

    struct All;
    impl Returns for All {
        fn returns(&mut self, _: Place) -> bool {
            true
        }
    }

    /// Transfers of a module from (branch, target, times).
    fn transfers(edges: &[(u64, u64, u32)], called: &[(u64, u32)]) -> Transfers {
        let place = |at| Place::new(ModuleId(1), Vaddr(at));
        let mut all = Transfers {
            exact: true,
            ..Transfers::default()
        };
        for &(from, to, times) in edges {
            let count = Count::of_events(times.into(), None);
            let site = all.control.entry(from).or_insert(NOTHING);
            *site = Count::of_events(site.times + count.times, None);
            all.into.entry(to).or_default().push(Arrival {
                from: place(from),
                call: false,
                count,
            });
        }
        for &(to, times) in called {
            all.into.entry(to).or_default().push(Arrival {
                from: Place::new(ModuleId(2), Vaddr(1)),
                call: true,
                count: Count::of_events(times.into(), None),
            });
        }
        all
    }

    #[test]
    fn nested_loops_have_their_turns_and_their_own_instructions() {
        // 0: xor eax,eax; 2: mov ecx,5 (outer header); 7: dec ecx (inner); 9: jne 7; b: inc eax; d: cmp eax,3; 10: jne 2; 12: ret
        let bytes = [
            0x31, 0xc0, 0xb9, 5, 0, 0, 0, 0xff, 0xc9, 0x75, 0xfc, 0xff, 0xc0, 0x83, 0xf8, 3, 0x75,
            0xf0, 0xc3,
        ];
        let code = Code::new(vec![(0, &bytes)]);
        let edges = [(9, 7, 24), (9, 0xb, 6), (0x10, 2, 4), (0x10, 0x12, 2)];
        let transfers = transfers(&edges, &[(0, 2)]);
        let blocks = Blocks::new(&code, std::slice::from_ref(&(0..19)), transfers, &mut All);
        let executed: f64 = (blocks.all().iter())
            .filter_map(|b| Some(b.executed()?.times))
            .sum();
        // 2 × xor, 6 × mov, 30 × two, 6 × three, 2 × ret.
        assert_eq!(executed, 2.0 + 6.0 + 60.0 + 18.0 + 2.0);
        let range = std::iter::once(0..19).collect::<Vec<_>>();
        let found = loops(ModuleId(1), &blocks, &range);
        let facts: Vec<_> = (found.iter())
            .map(|l| {
                (
                    l.header,
                    l.entries.times,
                    l.turns.times,
                    l.executed.times,
                    l.depth,
                )
            })
            .collect();
        assert_eq!(facts, [(2, 2.0, 6.0, 24.0, 0), (7, 6.0, 30.0, 60.0, 1)]);
        assert_eq!(found[1].trips(), Some(5.0));
    }

    #[test]
    fn a_loop_entered_in_its_middle_has_one_header() {
        // 0: jmp 4; 2: inc eax; 4: dec ecx; 6: jne 2; 8: ret
        let bytes = [0xeb, 0x02, 0xff, 0xc0, 0xff, 0xc9, 0x75, 0xfa, 0xc3];
        let code = Code::new(vec![(0, &bytes)]);
        let transfers = transfers(&[(6, 2, 9), (6, 8, 1)], &[(0, 1)]);
        let blocks = Blocks::new(&code, std::slice::from_ref(&(0..9)), transfers, &mut All);
        let range = std::iter::once(0..9).collect::<Vec<_>>();
        let found = loops(ModuleId(1), &blocks, &range);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].header, found[0].trips()), (4, Some(10.0)));
        assert_eq!(found[0].executed.times, 9.0 + 20.0);
    }
}
