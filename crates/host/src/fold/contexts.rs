//! Trees of calling contexts, of all threads in one.
//!
//! A tree is read when its counter array is. Its addresses become places while the code that they name is there: when a region takes the place of another,
//! all nodes so far are looked at. Nodes that nothing counts for are left out, but for those above others.

use std::collections::{BTreeMap, BTreeSet};

use trommel_profile::call_tree::{Basis, CallTree, Frame, Node, NodeId, Weight};
use trommel_queue::COUNTER_ARRAYS;
use trommel_queue::dict::TargetPc;
use trommel_symbol::{Symbols, part_of};
use trommel_tuple::{ModuleId, Place, Vaddr};

use crate::channel::modules::Modules;
use crate::channel::shared::{ContextNode, Damaged, Shared};

/// The sum of the trees of a process.
pub(super) struct Contexts {
    tree: CallTree,
    /// Nodes that were entered by a jump.
    tails: BTreeSet<NodeId>,
    /// Frames of trees that are still written, as far as they are known, by number of the counter array.
    met: BTreeMap<usize, Vec<Frame>>,
}

impl Default for Contexts {
    fn default() -> Self {
        Self {
            tree: CallTree::new(Basis::Contexts),
            tails: BTreeSet::new(),
            met: BTreeMap::new(),
        }
    }
}

impl Contexts {
    /// The tree of all threads, without stubs of calls into libraries, and with parts of functions in these.
    pub(super) fn finish(self, names: &mut impl Names) -> CallTree {
        plain(&self.tree, &self.tails, names).in_order()
    }

    /// Adds a tree, whose frames are known.
    fn add(&mut self, nodes: &[ContextNode], frames: &[Frame], folded: u64) {
        let loose = nodes.iter().filter(|n| n.loose).map(|n| n.calls);
        self.tree.lost.folded = loose.fold(
            self.tree.lost.folded.saturating_add(folded),
            u64::saturating_add,
        );
        let mut counts: Vec<bool> = nodes.iter().map(|n| n.calls != 0 || n.own != 0).collect();
        for (number, node) in nodes.iter().enumerate().rev() {
            if let Some(parent) = node.parent.filter(|_| counts[number]) {
                counts[parent as usize] = true;
            }
        }
        let mut ids: Vec<Option<NodeId>> = vec![None; nodes.len()];
        for (number, (node, frame)) in nodes.iter().zip(frames).enumerate() {
            if !counts[number] {
                continue;
            }
            let parent = node.parent.map(|parent| ids[parent as usize]);
            let id = match parent {
                // The node above was not made: this one counts for what is above that.
                Some(None) => None,
                parent => self.tree.child(parent.flatten(), *frame),
            };
            match id {
                Some(id) => self.tree.weigh(
                    id,
                    Weight {
                        times: node.calls,
                        own: node.own,
                    },
                ),
                None => {
                    let folded = &mut self.tree.lost.folded;
                    *folded = folded.saturating_add(node.calls);
                }
            }
            if let Some(id) = id.filter(|_| node.tail) {
                self.tails.insert(id);
            }
            ids[number] = id;
        }
    }
}

/// Part of a call into a library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Link {
    /// A stub of the procedure linkage table, which jumps to the library's function.
    Stub,
    /// The dynamic linker's routine that looks that up at the first call, and jumps there.
    Resolver,
}

impl Link {
    /// The part that a function of this name is.
    pub(super) fn of(name: &str) -> Option<Self> {
        match name {
            _ if name.ends_with("@plt") => Some(Self::Stub),
            _ if name.starts_with("_dl_runtime_resolve") => Some(Self::Resolver),
            _ => None,
        }
    }
}

/// Names of functions, by the places where they begin.
pub(super) trait Names {
    /// Returns the part of a call into a library that a function is.
    fn link(&mut self, at: Place) -> Option<Link>;
    /// Returns true if the function at `part` is a part of `whole` that a compiler has put elsewhere.
    fn is_of(&mut self, part: Place, whole: Place) -> bool;
}

impl Names for Symbols<'_> {
    fn link(&mut self, at: Place) -> Option<Link> {
        Link::of(self.locate(at).function.as_deref()?)
    }

    fn is_of(&mut self, part: Place, whole: Place) -> bool {
        if part.module() != whole.module() {
            return false;
        }
        match (self.symbol(part), self.symbol(whole)) {
            (Some((part, 0)), Some((whole, 0))) => part_of(&part) == Some(&whole[..]),
            // A thread begins after the call that made it, in the midst of a function, and goes on there.
            (Some((name, to)), Some((whole_name, from))) => {
                let start = |at: Place, offset: u64| at.vaddr().0.wrapping_sub(offset);
                from != 0 && to != 0 && name == whole_name && start(part, to) == start(whole, from)
            }
            _ => false,
        }
    }
}

/// The caller, and the call, that a jump from a stub counts for.
type Jumped = (NodeId, Option<Place>);

/// A tree in which a function of a library is called where the stub was, and parts of a function that jump to each other are one activation.
/// Instructions of stubs are their callers'.
fn plain(tree: &CallTree, tails: &BTreeSet<NodeId>, names: &mut impl Names) -> CallTree {
    let mut plain = CallTree::new(tree.basis);
    plain.lost = tree.lost;
    // For each node: where what it calls goes, where what it jumps to goes, and the call by which that is reached.
    let mut places: Vec<(Option<NodeId>, Option<Jumped>)> = Vec::new();
    for (number, node) in tree.nodes().iter().enumerate() {
        let tail = tails.contains(&NodeId(number as u32));
        let above = node.parent.map(|parent| places[parent.0 as usize]);
        let jumped = above.and_then(|(_, jumped)| jumped).filter(|_| tail);
        let (parent, call) = match jumped {
            Some((caller, call)) => (Some(caller), call),
            None => (above.and_then(|(parent, _)| parent), node.frame.call),
        };
        if let Some(whole) = parent.filter(|_| tail && jumped.is_none())
            && is_one(node, plain.node(whole), names)
        {
            plain.weigh(
                whole,
                Weight {
                    times: 0,
                    own: node.weight.own,
                },
            );
            places.push((Some(whole), None));
            continue;
        }
        let link = names.link(node.frame.at);
        if let (Some(Link::Stub), Some(caller), false) = (link, parent, tail) {
            plain.weigh(
                caller,
                Weight {
                    times: 0,
                    own: node.weight.own,
                },
            );
            places.push((Some(caller), Some((caller, call))));
            continue;
        }
        let frame = Frame { call, ..node.frame };
        let Some(id) = plain.child(parent, frame) else {
            places.push((parent, None));
            continue;
        };
        plain.weigh(id, node.weight);
        let resolves = jumped.filter(|_| link == Some(Link::Resolver));
        places.push((Some(id), resolves));
    }
    plain
}

/// Returns true if a node that was jumped to is the activation of the function that jumped: in a part of that, or back in it. What was jumped to
/// at its start was called, also where the node between is gone.
fn is_one(node: &Node, above: &Node, names: &mut impl Names) -> bool {
    let (at, whole) = (node.frame.at, above.frame.at);
    (at == whole && node.weight.times == 0) || names.is_of(at, whole)
}

/// The frame of a node.
fn frame(node: &ContextNode, modules: &Modules) -> Frame {
    let place = |pc: TargetPc| modules.place_at(pc);
    Frame {
        at: node.at.map_or(Place::new(ModuleId::ANON, Vaddr(0)), place),
        call: node.call.map(place),
    }
}

impl Contexts {
    /// Adds the tree of a counter array whose thread has ended, or the program has.
    pub(super) fn read(
        &mut self,
        shared: &Shared,
        number: usize,
        modules: &Modules,
    ) -> Result<(), Damaged> {
        let mut tree = shared.context_tree(number, 0)?;
        if let Some((node, rest)) = shared.context_rest(number)
            && let Some(node) = tree.nodes.get_mut(node)
        {
            node.own = node.own.wrapping_add(rest);
        }
        let mut frames = self.met.remove(&number).unwrap_or_default();
        frames.truncate(tree.nodes.len());
        let rest = tree.nodes[frames.len()..].iter();
        frames.extend(rest.map(|node| frame(node, modules)));
        self.add(&tree.nodes, &frames, tree.folded);
        self.tree.lost.truncated += u64::from(tree.stopped);
        Ok(())
    }

    /// Finds the places of all nodes so far: code of theirs is about to be replaced.
    pub(super) fn meet(&mut self, shared: &Shared, modules: &Modules) {
        for number in (0..COUNTER_ARRAYS).filter(|n| shared.counter_array(*n).is_some()) {
            let met = self.met.entry(number).or_default();
            // Damage is told where the tree is added.
            if let Ok(tree) = shared.context_tree(number, met.len()) {
                met.extend(tree.nodes.iter().map(|node| frame(node, modules)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Functions at 500 and 501 are one.
    struct Known;

    impl Names for Known {
        fn link(&mut self, at: Place) -> Option<Link> {
            match at.vaddr().0 {
                100 => Some(Link::Stub),
                200 => Some(Link::Resolver),
                _ => None,
            }
        }

        fn is_of(&mut self, part: Place, whole: Place) -> bool {
            let [part, whole] = [part, whole].map(|at| at.vaddr().0);
            (part, whole) == (501, 500)
        }
    }

    #[test]
    fn parts_of_a_function_are_one_activation() {
        let place = |at| Place::new(ModuleId(1), Vaddr(at));
        let mut tree = CallTree::new(Basis::Contexts);
        let mut add = |parent, at, weight| {
            let (at, call) = (place(at), Some(place(9)));
            let id = tree
                .child(parent, Frame { at, call })
                .expect("there is room");
            tree.weigh(id, weight);
            id
        };
        let weight = |times, own| Weight { times, own };
        let function = add(None, 500, weight(10, 100));
        let part = add(Some(function), 501, weight(4, 20));
        let back = add(Some(part), 500, weight(0, 3));
        let below = add(Some(back), 700, weight(1, 7));
        // Another calls the function. It is jumped to at its start, by one whose node was replaced.
        let called = add(Some(below), 500, weight(2, 5));
        let replaced = add(Some(called), 500, weight(6, 1));
        let tails = BTreeSet::from([part, back, replaced]);
        let plain = plain(&tree, &tails, &mut Known);
        let nodes: Vec<_> = plain
            .nodes()
            .iter()
            .map(|n| (n.frame.at, n.weight))
            .collect();
        let wanted = [
            (place(500), weight(10, 123)),
            (place(700), weight(1, 7)),
            (place(500), weight(2, 5)),
            (place(500), weight(6, 1)),
        ];
        assert_eq!(nodes, wanted);
    }

    #[test]
    fn functions_of_libraries_are_called_where_their_stubs_are() {
        let place = |at| Place::new(ModuleId(1), Vaddr(at));
        let mut tree = CallTree::new(Basis::Contexts);
        let mut add = |parent, at, call: Option<u64>, own| {
            let frame = Frame {
                at: place(at),
                call: call.map(place),
            };
            let id = tree.child(parent, frame).expect("there is room");
            tree.weigh(id, Weight { times: 1, own });
            id
        };
        let main = add(None, 1, None, 10);
        let stub = add(Some(main), 100, Some(2), 3);
        let resolver = add(Some(stub), 200, Some(101), 50);
        let fixes = add(Some(resolver), 300, Some(201), 70);
        let first = add(Some(resolver), 400, Some(202), 5);
        let later = add(Some(stub), 400, Some(101), 6);
        let tails = BTreeSet::from([resolver, first, later]);
        let plain = plain(&tree, &tails, &mut Known);
        let nodes: Vec<_> = plain.nodes().iter().collect();
        let found = |at| {
            nodes
                .iter()
                .filter(|n| n.frame.at == place(at))
                .collect::<Vec<_>>()
        };
        assert_eq!((nodes.len(), nodes[0].weight.own), (4, 13));
        let [function] = found(400)[..] else {
            panic!("it is called in two places");
        };
        assert_eq!(function.frame.call, Some(place(2)));
        assert_eq!(
            (function.parent, function.weight.times, function.weight.own),
            (Some(NodeId(0)), 2, 11)
        );
        assert_eq!(
            plain
                .path(found(300)[0].parent.expect("it has a caller"))
                .count(),
            2
        );
        assert!(fixes > resolver);
    }
}
