//! Call paths: which function was called by which, all the way from the start of a thread.
//!
//! # Problem
//! A function's cost says little where it is called from many places. People ask how it was reached.
//!
//! # Strategy
//! Paths share their beginnings, so a tree holds them: a node for each frame that was seen under its caller.
//! Three sources fill it. *Sampled stacks* (`-e stack`) add the time of a sample to its innermost frame. *Waits* (`--off-cpu`) add the time that
//! a thread did not run. *Exact contexts* (`-e context`) are counted in generated code: calls and instructions of each function in each of its
//! calling contexts (Ammons, Ball and Larus, *Exploiting Hardware Performance Counters with Flow and Context Sensitive Profiling*, 1997).
//! A weight is a node's own. What it is inclusively is a sum over the nodes below it.
//!
//! # Invariants
//! * A parent is made before its children, so its number is less than theirs.
//! * A frame is once below its parent.
//! * Trees are equal where they hold the same paths, whatever the numbers of their nodes.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use trommel_tuple::Place;

/// The number of a node in its tree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u32);

/// Sources of a tree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Basis {
    /// Samples: `times` counts samples, `own` nanoseconds.
    #[default]
    Stacks,
    /// Exact counts: `times` counts calls, `own` instructions.
    Contexts,
    /// Waits of threads, each of them: `times` counts waits, `own` nanoseconds in which the thread did not run.
    Waits,
    /// Threads that were found waiting: `times` counts how often, `own` the nanoseconds that this stands for.
    WaitSamples,
}

impl Basis {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Stacks, Self::Contexts, Self::Waits, Self::WaitSamples];

    /// Those of time in which threads did not run.
    pub const OFF_CPU: [Self; 2] = [Self::Waits, Self::WaitSamples];

    /// Returns true if weights are nanoseconds, and frames are as stacks have them: instructions and calls.
    pub const fn is_time(self) -> bool {
        !matches!(self, Self::Contexts)
    }

    /// The unit of own weights, in words.
    pub const fn unit(self) -> &'static str {
        match self.is_time() {
            true => "nanoseconds",
            false => "instructions",
        }
    }

    /// That of which weights have a number, in words.
    pub const fn times(self) -> &'static str {
        match self {
            Self::Stacks | Self::WaitSamples => "samples",
            Self::Contexts => "calls",
            Self::Waits => "waits",
        }
    }
}

/// A frame: an activation of a function.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Frame {
    /// An instruction of the function. Of sampled stacks: the one that was interrupted, or the call that the frame waits for.
    /// Of contexts: the function's entry.
    pub at: Place,
    /// The call that led here, an instruction of the frame above. Sampled stacks have it as the parent's `at`.
    pub call: Option<Place>,
}

/// Cost of a frame by itself, without the frames that it called.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Weight {
    /// Samples or waits in it, or calls of it.
    pub times: u64,
    /// Nanoseconds or instructions.
    pub own: u64,
}

impl Weight {
    /// Adds another one.
    pub fn add(&mut self, other: Self) {
        self.times = self.times.saturating_add(other.times);
        self.own = self.own.saturating_add(other.own);
    }
}

/// The cost of a function, wherever it is in a tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cost {
    /// The sum of its nodes' own weights.
    pub weight: Weight,
    /// The sum of its outermost nodes' inclusive costs: a function that is on a path several times counts once there.
    pub inclusive: u64,
}

/// The inclusive cost of each node: its own and that of all nodes below it. `nodes`: the number of each node's parent, which is less than its
/// own, and its own cost.
pub fn inclusive(nodes: &[(Option<usize>, Weight)]) -> Vec<u64> {
    let mut sums: Vec<u64> = nodes.iter().map(|(_, weight)| weight.own).collect();
    for (number, (parent, _)) in nodes.iter().enumerate().rev() {
        if let Some(parent) = *parent {
            sums[parent] = sums[parent].saturating_add(sums[number]);
        }
    }
    sums
}

/// The cost of each function, by its number. `nodes`: as of [`inclusive`]; `functions`: the number of each node's function.
pub fn costs(nodes: &[(Option<usize>, Weight)], functions: &[usize]) -> Vec<Cost> {
    let sums = inclusive(nodes);
    let mut children = vec![Vec::new(); nodes.len() + 1];
    for (number, (parent, _)) in nodes.iter().enumerate() {
        children[parent.unwrap_or(nodes.len())].push(number);
    }
    let count = functions.iter().max().map_or(0, |most| most + 1);
    let mut costs = vec![Cost::default(); count];
    let mut on_path = vec![0_u32; count];
    let mut left: Vec<(usize, bool)> = Vec::new();
    let enter = |left: &mut Vec<(usize, bool)>, nodes: &[usize]| {
        left.extend(nodes.iter().map(|node| (*node, true)));
    };
    enter(&mut left, &children[nodes.len()]);
    while let Some((node, enters)) = left.pop() {
        let function = functions[node];
        if !enters {
            on_path[function] -= 1;
            continue;
        }
        let cost = &mut costs[function];
        cost.weight.add(nodes[node].1);
        if on_path[function] == 0 {
            cost.inclusive = cost.inclusive.saturating_add(sums[node]);
        }
        on_path[function] += 1;
        left.push((node, false));
        enter(&mut left, &children[node]);
    }
    costs
}

/// A node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Node {
    /// The caller's node; `None`: a thread began here, or nothing is known above.
    pub parent: Option<NodeId>,
    /// The frame.
    pub frame: Frame,
    /// Its own weight.
    pub weight: Weight,
}

/// Paths that are not whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lost {
    /// Stacks that were longer than what was looked at: their outermost frames are missing.
    pub truncated: u64,
    /// Stacks that could not be followed to their end: a frame without unwind information, or memory that could not be read.
    pub broken: u64,
    /// Calls whose path was not kept, as the tree was full: they count for a root of their function, or for the node above.
    pub folded: u64,
}

impl Lost {
    /// Adds more of them.
    pub fn add(&mut self, other: Self) {
        self.truncated = self.truncated.saturating_add(other.truncated);
        self.broken = self.broken.saturating_add(other.broken);
        self.folded = self.folded.saturating_add(other.folded);
    }
}

/// A tree of call paths.
#[derive(Clone, Debug, Default)]
pub struct CallTree {
    /// Its sources.
    pub basis: Basis,
    /// Paths that are not whole.
    pub lost: Lost,
    nodes: Vec<Node>,
    numbers: hashbrown::HashMap<(Option<NodeId>, Frame), NodeId>,
}

impl CallTree {
    /// An empty tree.
    pub fn new(basis: Basis) -> Self {
        Self {
            basis,
            ..Self::default()
        }
    }

    /// Its nodes, in the order of their numbers: parents before children.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The node of a number, which is one of this tree.
    ///
    /// # Panics
    /// For a number of another tree, if this one has fewer nodes.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// Returns the node of a frame below another, which is made if there is none. `None`: there are as many as have numbers, or the
    /// parent is no node of this tree.
    pub fn child(&mut self, parent: Option<NodeId>, frame: Frame) -> Option<NodeId> {
        if let Some(&id) = self.numbers.get(&(parent, frame)) {
            return Some(id);
        }
        if parent.is_some_and(|parent| parent.0 as usize >= self.nodes.len()) {
            return None;
        }
        let id = NodeId(u32::try_from(self.nodes.len()).ok()?);
        self.nodes.push(Node {
            parent,
            frame,
            weight: Weight::default(),
        });
        self.numbers.insert((parent, frame), id);
        Some(id)
    }

    /// Adds to a node's own weight.
    ///
    /// # Panics
    /// As [`CallTree::node`].
    pub fn weigh(&mut self, id: NodeId, weight: Weight) {
        self.nodes[id.0 as usize].weight.add(weight);
    }

    /// Adds a stack, outermost frame first, with the weight of its innermost frame. Returns false if the tree was full.
    pub fn add_stack(&mut self, frames: impl IntoIterator<Item = Frame>, weight: Weight) -> bool {
        let mut last = None;
        for frame in frames {
            match self.child(last, frame) {
                Some(id) => last = Some(id),
                None => return false,
            }
        }
        if let Some(id) = last {
            self.weigh(id, weight);
        }
        true
    }

    /// Adds another tree, whose places are `renumbered` here.
    pub fn add(&mut self, other: &Self, renumbered: impl Fn(Place) -> Place) {
        self.lost.add(other.lost);
        let mut ids: Vec<Option<NodeId>> = Vec::with_capacity(other.nodes.len());
        for node in &other.nodes {
            let parent = node.parent.map(|parent| ids[parent.0 as usize]);
            let frame = Frame {
                at: renumbered(node.frame.at),
                call: node.frame.call.map(&renumbered),
            };
            let id = match parent {
                Some(None) => None,
                parent => self.child(parent.flatten(), frame),
            };
            match id {
                Some(id) => self.weigh(id, node.weight),
                None => self.lost.folded = self.lost.folded.saturating_add(node.weight.times),
            }
            ids.push(id);
        }
    }

    /// The inclusive cost of each node, by number, in the unit of [`Weight::own`].
    pub fn inclusive(&self) -> Vec<u64> {
        inclusive(&self.weights())
    }

    /// The cost of each function; `functions` names the function of each node.
    pub fn costs<F: Clone + Eq + Hash>(&self, functions: &[F]) -> HashMap<F, Cost> {
        let mut names: Vec<F> = Vec::new();
        let mut numbers: HashMap<&F, usize> = HashMap::new();
        let number = |function| {
            *numbers.entry(function).or_insert_with(|| {
                names.push(F::clone(function));
                names.len() - 1
            })
        };
        let functions: Vec<usize> = functions.iter().map(number).collect();
        let costs = costs(&self.weights(), &functions);
        names.into_iter().zip(costs).collect()
    }

    /// Each node's parent and own weight.
    fn weights(&self) -> Vec<(Option<usize>, Weight)> {
        let nodes = self.nodes.iter();
        let weights = nodes.map(|node| (node.parent.map(|id| id.0 as usize), node.weight));
        weights.collect()
    }

    /// The frames of a node, innermost first.
    pub fn path(&self, id: NodeId) -> impl Iterator<Item = Frame> {
        let mut next = Some(id);
        std::iter::from_fn(move || {
            let node = self.node(next?);
            next = node.parent;
            Some(node.frame)
        })
    }

    /// The tree with its nodes in an order that only their frames decide: depth first, children by frame.
    pub fn in_order(&self) -> Self {
        let mut children: BTreeMap<Option<NodeId>, Vec<NodeId>> = BTreeMap::new();
        for (number, node) in self.nodes.iter().enumerate() {
            let list = children.entry(node.parent).or_default();
            list.push(NodeId(number as u32));
        }
        for list in children.values_mut() {
            list.sort_unstable_by_key(|id| std::cmp::Reverse(self.node(*id).frame));
        }
        let mut ordered = Self::new(self.basis);
        ordered.lost = self.lost;
        let roots = children.remove(&None).unwrap_or_default();
        let mut left: Vec<_> = roots.into_iter().map(|id| (None, id)).collect();
        while let Some((parent, id)) = left.pop() {
            let node = self.node(id);
            let Some(made) = ordered.child(parent, node.frame) else {
                break;
            };
            ordered.weigh(made, node.weight);
            let below = children.remove(&Some(id)).unwrap_or_default();
            left.extend(below.into_iter().map(|id| (Some(made), id)));
        }
        ordered
    }
}

impl PartialEq for CallTree {
    fn eq(&self, other: &Self) -> bool {
        (self.basis, self.lost, self.nodes.len()) == (other.basis, other.lost, other.nodes.len())
            && self.in_order().nodes == other.in_order().nodes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trommel_tuple::{ModuleId, Vaddr};

    fn frame(at: u64) -> Frame {
        Frame {
            at: Place::new(ModuleId(1), Vaddr(at)),
            call: None,
        }
    }

    fn tree(stacks: &[(&[u64], u64)]) -> CallTree {
        let mut tree = CallTree::new(Basis::Stacks);
        for (stack, own) in stacks {
            let weight = Weight {
                times: 1,
                own: *own,
            };
            assert!(tree.add_stack(stack.iter().map(|at| frame(*at)), weight));
        }
        tree
    }

    #[test]
    fn what_is_inclusive_is_the_sum_below() {
        let tree = tree(&[(&[1, 2], 5), (&[1, 3], 7), (&[1], 1), (&[1, 2, 4], 10)]);
        let inclusive = tree.inclusive();
        let of = |path: &[u64]| {
            let wanted: Vec<_> = path.iter().rev().map(|at| frame(*at)).collect();
            let found = (0..tree.nodes().len()).find(|number| {
                let frames: Vec<_> = tree.path(NodeId(*number as u32)).collect();
                frames == wanted
            });
            inclusive[found.expect("the path is there")]
        };
        assert_eq!((of(&[1]), of(&[1, 2]), of(&[1, 3])), (23, 15, 7));
    }

    #[test]
    fn recursion_counts_once() {
        let tree = tree(&[
            (&[1, 2], 5),
            (&[1, 2, 1], 7),
            (&[1, 2, 1, 2], 100),
            (&[2], 1),
        ]);
        let functions: Vec<Place> = tree.nodes().iter().map(|node| node.frame.at).collect();
        let costs = tree.costs(&functions);
        let of = |at| costs[&frame(at).at];
        assert_eq!((of(1).weight.own, of(1).inclusive), (7, 112));
        assert_eq!(
            (of(2).weight.own, of(2).inclusive, of(2).weight.times),
            (106, 113, 3)
        );
    }

    #[test]
    fn the_order_of_sums_does_not_matter() {
        let parts = [
            tree(&[(&[1, 2], 5), (&[9], 1)]),
            tree(&[(&[9], 3), (&[1, 3, 2], 7), (&[1, 2], 2)]),
        ];
        let sum = |order: [usize; 2]| {
            let mut sum = CallTree::new(Basis::Stacks);
            for part in order {
                sum.add(&parts[part], |place| place);
            }
            sum
        };
        assert_eq!(sum([0, 1]), sum([1, 0]));
        assert_ne!(sum([0, 1]), parts[0]);
        assert_eq!(sum([0, 1]).inclusive().iter().max(), Some(&14));
    }

    #[test]
    fn a_node_of_another_tree_is_no_parent() {
        let mut tree = tree(&[(&[1], 1)]);
        assert_eq!(tree.child(Some(NodeId(7)), frame(2)), None);
        assert_eq!(tree.child(Some(NodeId(0)), frame(2)), Some(NodeId(1)));
    }
}
