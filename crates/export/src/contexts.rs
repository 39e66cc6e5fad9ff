//! Inclusive instructions of calls, by exact contexts.
//!
//! # Problem
//! Shares by calls give each caller the same for a call. A function may be cheap for one caller and dear for another.
//!
//! # Strategy
//! A context says which call led to it, and the instructions below it are what that call brought its caller. Functions of libraries are
//! called by way of stubs, which contexts do not have: a call of a stub has all that its instruction brought, and the stub's own instructions.
//!
//! # Invariant
//! A function's own instructions and those of its calls add up to what its outermost contexts have inclusively. So what is below a further
//! context of the caller itself counts for that one's calls alone.

use std::collections::{HashMap, HashSet};

use trommel_profile::call_tree::{CallTree, inclusive};
use trommel_tuple::Place;

use crate::graph::{Graph, Inclusive, Node};

/// A call of one function by another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// The instruction; none of a call that the loader resolves late.
    pub(crate) at: Option<Place>,
    pub(crate) from: Node,
    pub(crate) to: Node,
    /// Times.
    pub(crate) count: u64,
}

/// Instructions that calls brought their callers.
#[derive(Default)]
pub(crate) struct Contexts {
    /// By call and function.
    brought: HashMap<Place, HashMap<Node, i128>>,
    /// Functions that have contexts.
    functions: HashSet<Node>,
    stubs: HashMap<Node, Stub>,
    /// Functions that an instruction calls by itself, and its calls of stubs.
    called: HashMap<Place, (HashSet<Node>, u64)>,
}

/// The calls of a stub and by it.
#[derive(Default)]
struct Stub {
    own: f64,
    calls: u64,
    at: Vec<Place>,
    to: HashMap<Node, u64>,
}

impl Contexts {
    /// Those of a tree, where functions have these numbers.
    pub(crate) fn of(tree: &CallTree, function: impl Fn(Place) -> Option<Node>) -> Self {
        let mut all = Self::default();
        let nodes = tree.nodes();
        let weights: Vec<_> = (nodes.iter())
            .map(|node| (node.parent.map(|id| id.0 as usize), node.weight))
            .collect();
        let sums = inclusive(&weights);
        let mut children = vec![Vec::new(); nodes.len() + 1];
        for (number, (parent, _)) in weights.iter().enumerate() {
            children[parent.unwrap_or(nodes.len())].push(number);
        }
        // The path to a node, and the depths of each function on it.
        let mut path: Vec<(usize, Option<Node>)> = Vec::new();
        let mut depths: HashMap<Node, Vec<usize>> = HashMap::new();
        let mut left: Vec<(usize, bool)> =
            children[nodes.len()].iter().map(|n| (*n, true)).collect();
        while let Some((number, enters)) = left.pop() {
            if !enters {
                if let Some((_, Some(function))) = path.pop() {
                    depths.entry(function).or_default().pop();
                }
                continue;
            }
            let own = function(nodes[number].frame.at);
            path.push((number, own));
            if let Some(own) = own {
                all.functions.insert(own);
                let before = depths.entry(own).or_default();
                let again = before.last().map(|depth| path[depth + 1]);
                before.push(path.len() - 1);
                let sum = i128::from(sums[number]);
                all.bring(nodes[number].frame.call, Some(own), sum);
                if let Some((first, to)) = again {
                    all.bring(nodes[first].frame.call, to, -sum);
                }
            }
            left.push((number, false));
            left.extend(children[number].iter().map(|child| (*child, true)));
        }
        all
    }

    fn bring(&mut self, call: Option<Place>, to: Option<Node>, instructions: i128) {
        if let (Some(call), Some(to)) = (call, to) {
            let sum = self.brought.entry(call).or_default().entry(to).or_default();
            *sum += instructions;
        }
    }

    /// Adds a call, to tell which of them went by way of stubs.
    pub(crate) fn add(&mut self, call: Call, graph: &Graph, is_stub: impl Fn(Node) -> bool) {
        let Call {
            at,
            from,
            to,
            count,
        } = call;
        if is_stub(from) {
            let sum = self
                .stubs
                .entry(from)
                .or_default()
                .to
                .entry(to)
                .or_default();
            *sum = sum.saturating_add(count);
        }
        let Some(at) = at else {
            return;
        };
        let (direct, by_stub) = self.called.entry(at).or_default();
        if !is_stub(to) {
            direct.insert(to);
            return;
        }
        *by_stub = by_stub.saturating_add(count);
        let stub = self.stubs.entry(to).or_default();
        stub.own = graph.own[to].nearest();
        stub.calls = stub.calls.saturating_add(count);
        stub.at.push(at);
    }

    /// Instructions that calls brought their caller; of what no context knows, shares of all calls.
    pub(crate) fn of_calls(&self, call: Call, shares: &Inclusive) -> u64 {
        let share = || shares.of_calls(call.from, call.to, call.count).whole();
        let brought = call.at.and_then(|at| self.brought.get(&at));
        if let (Some(stub), Some(brought), Some(at)) = (self.stubs.get(&call.to), brought, call.at)
            && stub.calls > 0
        {
            let (direct, by_stub) = &self.called[&at];
            let others = brought.iter().filter(|(to, _)| !direct.contains(to));
            let sum: i128 = others.map(|(_, sum)| *sum).sum();
            let heads = stub.to.iter().filter_map(|(to, count)| {
                let head = self.stubs.get(to)?;
                Some(head.own * *count as f64 / head.calls.max(1) as f64)
            });
            // With what they share: the start of a table of stubs.
            let own = stub.own + heads.sum::<f64>();
            let own = own * call.count as f64 / stub.calls as f64;
            return part(sum, call.count, *by_stub).saturating_add(own.round() as u64);
        }
        if let Some(stub) = self.stubs.get(&call.from) {
            let to = |at: &Place| self.brought.get(at)?.get(&call.to).copied();
            let sum: i128 = stub.at.iter().filter_map(to).sum();
            let all = stub.to.get(&call.to).copied().unwrap_or(0);
            return match sum > 0 {
                true => part(sum, call.count, all),
                false => share(),
            };
        }
        match brought.and_then(|brought| brought.get(&call.to)) {
            Some(sum) => part(*sum, 1, 1),
            None if self.functions.contains(&call.to) => 0,
            None => share(),
        }
    }
}

/// The part that so many of all calls have.
fn part(sum: i128, count: u64, all: u64) -> u64 {
    let sum = sum.max(0);
    let part = match count == all {
        true => sum,
        false => (sum as f64 * count as f64 / all.max(1) as f64) as i128,
    };
    u64::try_from(part).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trommel_profile::call_tree::{Basis, Frame, Weight};
    use trommel_tuple::{ModuleId, Vaddr};

    fn place(at: u64) -> Place {
        Place::new(ModuleId(1), Vaddr(at))
    }

    /// A path of functions at multiples of 16, each called by the instruction that follows its caller's entry by its own number.
    fn add(tree: &mut CallTree, functions: &[u64], own: u64) {
        let mut last = None;
        let mut caller: Option<u64> = None;
        for &function in functions {
            let frame = Frame {
                at: place(function * 16),
                call: caller.map(|caller| place(caller * 16 + function)),
            };
            last = tree.child(last, frame);
            caller = Some(function);
        }
        tree.weigh(last.expect("there is room"), Weight { times: 1, own });
    }

    fn cost(contexts: &Contexts, from: usize, to: usize) -> u64 {
        let graph = Graph {
            own: vec![trommel_code::Exact::default(); 9],
            ..Graph::default()
        };
        let call = Call {
            at: Some(place((from * 16 + to) as u64)),
            from,
            to,
            count: 1,
        };
        contexts.of_calls(call, &Inclusive::of(&graph))
    }

    #[test]
    fn a_call_has_what_is_below_it_up_to_its_caller() {
        let mut tree = CallTree::new(Basis::Contexts);
        // 1 calls 3 cheaply, 2 dearly. 4 and 5 call each other.
        add(&mut tree, &[0, 1, 3], 2);
        add(&mut tree, &[0, 2, 3], 500);
        add(&mut tree, &[0, 4, 5, 4, 5], 7);
        add(&mut tree, &[0, 4, 5, 4], 10);
        add(&mut tree, &[0, 4, 5], 3);
        let contexts = Contexts::of(&tree, |at| Some(at.vaddr().0 as usize / 16));
        assert_eq!((cost(&contexts, 1, 3), cost(&contexts, 2, 3)), (2, 500));
        assert_eq!((cost(&contexts, 0, 1), cost(&contexts, 0, 2)), (2, 500));
        assert_eq!(cost(&contexts, 0, 4), 20);
        // With 4's own 10 and 5's own 10, each comes to 20 inclusively.
        assert_eq!((cost(&contexts, 4, 5), cost(&contexts, 5, 4)), (10, 10));
    }
}
