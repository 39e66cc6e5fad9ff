//! Sampled call paths: the time of each function with all that it called, and the tree itself for programs.

use std::collections::HashMap;
use std::io::{self, Write};

use trommel_profile::Profile;
use trommel_profile::call_tree::{Basis, CallTree};
use trommel_tuple::{ModuleId, Place};

use super::tree;
use super::view::View;
use crate::json::Json;
use crate::output::{grouped, percent};

/// A function as reports tell it from others: its module, and its name if it has one.
pub(super) type Key = (ModuleId, Option<String>);

/// A function's time with that of all that it called, in nanoseconds, and a place in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inclusive {
    pub(super) at: Place,
    pub(super) time: u64,
}

/// The function that a place is in.
pub(super) fn key(view: &mut View<'_>, at: Place) -> Key {
    (at.module(), view.of_function(at))
}

/// The innermost function at a place: one that was inlined there, if there is one.
pub(super) fn innermost(view: &mut View<'_>, at: Place) -> Key {
    let location = view.locate(at);
    match location.inlined.first() {
        Some(frame) => (at.module(), Some(frame.function.to_string())),
        None => key(view, at),
    }
}

/// The tree of sampled paths, if there is one.
pub(super) fn sampled(profile: &Profile) -> Option<&CallTree> {
    profile.call_tree(Basis::Stacks)
}

/// The inclusive time of each function. A path counts once for a function, however often that is in it.
pub(super) fn inclusive(view: &mut View<'_>, tree: &CallTree) -> HashMap<Key, Inclusive> {
    let places = tree.nodes().iter().map(|node| node.frame.at);
    let keys: Vec<Key> = places.clone().map(|at| key(view, at)).collect();
    let costs = tree.costs(&keys);
    let mut all = HashMap::with_capacity(costs.len());
    for (key, at) in keys.into_iter().zip(places) {
        let time = costs[&key].inclusive;
        all.entry(key).or_insert(Inclusive { at, time });
    }
    all
}

/// The same of functions that were inlined too.
pub(super) fn inclusive_of_inlined(view: &mut View<'_>) -> HashMap<Key, Inclusive> {
    let Some(paths) = view.call_paths(Basis::Stacks) else {
        return HashMap::new();
    };
    let costs = paths.costs();
    let mut all = HashMap::new();
    for node in &paths.nodes {
        let of_path = &paths.functions[node.function];
        let key = match node.inlined {
            true => (of_path.module, Some(of_path.name.to_string())),
            false => key(view, node.at),
        };
        let time = costs[node.function].inclusive;
        all.entry(key).or_insert(Inclusive { at: node.at, time });
    }
    all
}

/// The line of a header that says how far paths are whole.
pub(super) fn line(tree: &CallTree) -> String {
    let samples = tree.nodes().iter().map(|node| node.weight.times);
    let samples = samples.fold(0, u64::saturating_add);
    let part = |count: u64, what: &str| match count {
        0 => format!("none {what}"),
        count => format!(
            "{} {what} ({:.2} %)",
            grouped(count),
            percent(count, samples)
        ),
    };
    format!(
        "{} paths of {}, {}, {}",
        grouped(tree.nodes().iter().filter(|n| n.weight.times > 0).count() as u64),
        grouped(samples),
        part(tree.lost.truncated, "truncated"),
        part(tree.lost.broken, "broken"),
    )
}

/// The member `stacks` of a report.
pub(super) fn json<W: Write>(
    json: &mut Json<W>,
    view: &mut View<'_>,
    mut place: impl FnMut(&mut Json<W>, &mut View<'_>, &str, Place) -> io::Result<()>,
) -> io::Result<()> {
    let profile = view.profile;
    let Some(tree) = sampled(profile) else {
        return Ok(());
    };
    let tree = tree.in_order();
    let machine = profile.samples.as_ref().and_then(|s| s.machine.as_ref());
    json.member_object("stacks")?;
    json.number("truncated", tree.lost.truncated)?;
    json.number("broken", tree.lost.broken)?;
    json.number("lost", machine.map_or(0, |machine| machine.lost))?;
    tree::nodes(
        json,
        &tree,
        ["samples", "time", "inclusive"],
        |json, node| place(json, view, "at", node.frame.at),
    )?;
    json.end_object()
}

#[cfg(test)]
mod tests {
    use super::*;
    use trommel_profile::call_tree::{Frame, Weight};
    use trommel_profile::confidence::Confidence;
    use trommel_symbol::{Files, Symbols};
    use trommel_tuple::Vaddr;

    #[test]
    fn recursion_counts_once() {
        let mut tree = CallTree::default();
        // Without symbols all places of a module are one function.
        let frame = |module: u16, at| Frame {
            at: Place::new(ModuleId(module), Vaddr(at)),
            call: None,
        };
        let weight = Weight { times: 1, own: 10 };
        let (main, other) = (frame(1, 1), frame(2, 1));
        assert!(tree.add_stack([main, other, frame(1, 2)], weight));
        assert!(tree.add_stack([main, other, frame(2, 7)], weight));
        let profile = Profile::default();
        let files = Files::new();
        let confidence = Confidence::of_processes(&profile, 1);
        let mut view = View::new(&profile, Symbols::new(&files, &[]), confidence);
        let all = inclusive(&mut view, &tree);
        let of = |module| all[&(ModuleId(module), None)].time;
        assert_eq!((of(1), of(2)), (20, 20));
        assert!(line(&tree).contains("2 paths of 2, none truncated, none broken"));
    }
}
