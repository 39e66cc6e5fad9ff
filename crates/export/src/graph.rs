//! The call graph, and instructions of functions with all that they called.
//!
//! # Problem
//! A profile has calls of each pair, and no stacks. How many of a function's instructions belong to which caller is not known where it has
//! several.
//!
//! # Strategy
//! As gprof does: a function's instructions are shared among its callers by their calls. Functions that call each other in a cycle count as
//! one: what is called inside of it brings its caller nothing.
//!
//! # Why it is right
//! Of a function with one caller the share is exact. The sum over the functions that nothing calls is all instructions.

use std::collections::BTreeMap;

use trommel_code::Exact;

/// The node of a function.
pub(crate) type Node = usize;

/// Functions and calls.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    /// Instructions of each function itself.
    pub(crate) own: Vec<Exact>,
    /// Calls from one to another.
    pub(crate) calls: BTreeMap<(Node, Node), u64>,
    /// Times that signals entered functions. What is executed then is no caller's.
    pub(crate) signals: BTreeMap<Node, u64>,
}

/// Instructions of functions with what they called.
#[derive(Debug)]
pub(crate) struct Inclusive {
    /// By node: of its cycle, for those in one.
    whole: Vec<Exact>,
    component: Vec<usize>,
    /// Calls into each component from outside, and signals.
    calls: Vec<u64>,
}

impl Inclusive {
    /// Shares all instructions.
    pub(crate) fn of(graph: &Graph) -> Self {
        let nodes = graph.own.len();
        let mut out: Vec<Vec<(Node, u64)>> = vec![Vec::new(); nodes];
        for (&(from, to), &count) in &graph.calls {
            out[from].push((to, count));
        }
        // Callees come before their callers.
        let (component, number) = components(&out);
        let mut calls = vec![0_u64; number];
        for (&(from, to), &count) in &graph.calls {
            if component[from] != component[to] {
                calls[component[to]] = calls[component[to]].saturating_add(count);
            }
        }
        for (&to, &count) in &graph.signals {
            calls[component[to]] = calls[component[to]].saturating_add(count);
        }
        let mut members: Vec<Vec<Node>> = vec![Vec::new(); number];
        for node in 0..nodes {
            members[component[node]].push(node);
        }
        let mut whole = vec![Exact::default(); number];
        for of in 0..number {
            let mut sum = Exact::default();
            for &node in &members[of] {
                sum = sum.plus(graph.own[node]);
                let away = out[node].iter().filter(|(to, _)| component[*to] != of);
                for &(to, count) in away {
                    let to = component[to];
                    sum = sum.plus(share(whole[to], count, calls[to]));
                }
            }
            whole[of] = sum;
        }
        Self {
            whole,
            component,
            calls,
        }
    }

    /// Instructions that so many calls of a function brought their caller.
    pub(crate) fn of_calls(&self, from: Node, to: Node, count: u64) -> Exact {
        let of = self.component[to];
        match self.component[from] == of {
            true => Exact::default(),
            false => share(self.whole[of], count, self.calls[of]),
        }
    }
}

fn share(whole: Exact, count: u64, all: u64) -> Exact {
    match count == all {
        true => whole,
        false => Exact::new(whole.nearest() * count as f64 / all.max(1) as f64),
    }
}

/// The strongly connected components, each with a higher number than those that it leads to, and how many there are (Tarjan, with a stack of its own).
fn components(out: &[Vec<(Node, u64)>]) -> (Vec<usize>, usize) {
    const NONE: usize = usize::MAX;
    let mut index = vec![NONE; out.len()];
    let mut low = vec![0; out.len()];
    let mut component = vec![NONE; out.len()];
    let (mut next, mut number) = (0, 0);
    let mut stack = Vec::new();
    for root in 0..out.len() {
        if index[root] != NONE {
            continue;
        }
        let mut work = vec![(root, 0)];
        while let Some((node, edge)) = work.pop() {
            if edge == 0 {
                index[node] = next;
                low[node] = next;
                next += 1;
                stack.push(node);
            }
            if let Some(&(to, _)) = out[node].get(edge) {
                work.push((node, edge + 1));
                if index[to] == NONE {
                    work.push((to, 0));
                } else if component[to] == NONE {
                    low[node] = low[node].min(index[to]);
                }
                continue;
            }
            if low[node] == index[node] {
                while let Some(member) = stack.pop() {
                    component[member] = number;
                    if member == node {
                        break;
                    }
                }
                number += 1;
            }
            if let Some(&(parent, _)) = work.last() {
                low[parent] = low[parent].min(low[node]);
            }
        }
    }
    (component, number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_shared_by_calls_and_cycles_count_as_one() {
        // 0 calls 1 three times and 2 once; 1 calls 2 three times; 2 and 3 call each other.
        let graph = Graph {
            own: [10.0, 20.0, 30.0, 10.0].map(Exact::new).into(),
            calls: [
                ((0, 1), 3),
                ((0, 2), 1),
                ((1, 2), 3),
                ((2, 3), 9),
                ((3, 2), 8),
            ]
            .into(),
            signals: [(1, 1)].into(),
        };
        let inclusive = Inclusive::of(&graph);
        assert_eq!(inclusive.of_calls(0, 2, 1), Exact::new(10.0));
        assert_eq!(inclusive.of_calls(1, 2, 3), Exact::new(30.0));
        // A quarter is a signal's.
        assert_eq!(inclusive.of_calls(0, 1, 3), Exact::new(37.5));
        assert_eq!(inclusive.of_calls(2, 3, 9), Exact::default());
    }

    #[test]
    fn long_chains_need_no_deep_stack() {
        let nodes = 200_000;
        let graph = Graph {
            own: vec![Exact::new(1.0); nodes],
            calls: (1..nodes).map(|n| ((n - 1, n), 1)).collect(),
            signals: BTreeMap::new(),
        };
        let whole = Inclusive::of(&graph).of_calls(0, 1, 1).whole();
        assert_eq!(whole, nodes as u64 - 1);
    }
}
