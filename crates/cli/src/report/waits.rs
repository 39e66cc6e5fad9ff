//! Waits of threads (`record --off-cpu`): where they stop, for how long, and in which function.
//!
//! A thread stops in a system call, which the C library makes. People look for the place in their own code that led there, so a row is of
//! that place ([`Row::at`]) and of the function that stopped.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, Write};

use trommel_profile::Profile;
use trommel_profile::call_tree::{Basis, CallTree, NodeId, Weight};
use trommel_tuple::Place;

use super::table::{Style, Table};
use super::tree;
use super::view::View;
use crate::json::Json;
use crate::output::{duration, grouped, percent};

/// Waits with the same beginning.
struct Row {
    /// The call, or instruction, in the code that the thread is of.
    at: Place,
    /// The function that stopped.
    stopped: Place,
    weight: Weight,
}

/// The tree of waits, if they were recorded and there were some.
pub(super) fn waited(profile: &Profile) -> Option<&CallTree> {
    let mut all = Basis::OFF_CPU.into_iter();
    all.find_map(|basis| profile.call_tree(basis))
}

/// Waits of a tree in words, without how many there were: of samples that is not known.
fn amount(tree: &CallTree) -> String {
    let Weight { times, own } = total(tree);
    let own = duration(own);
    let times = grouped(times);
    match tree.basis {
        Basis::WaitSamples => format!("{own} of all threads, by {times} samples"),
        _ => format!("{own} in {times} waits of all threads"),
    }
}

/// The sum of all waits.
fn total(tree: &CallTree) -> Weight {
    let mut all = Weight::default();
    tree.nodes().iter().for_each(|node| all.add(node.weight));
    all
}

/// The number of waits, or samples of them, with a path that is not whole.
pub(super) fn paths_lost(tree: &CallTree) -> u64 {
    tree.lost.truncated.saturating_add(tree.lost.broken)
}

/// The line of a header.
pub(super) fn line(tree: &CallTree) -> String {
    let part = match paths_lost(tree) {
        0 => String::new(),
        some => format!(
            "; {} paths ({:.2} %) are not whole",
            grouped(some),
            percent(some, total(tree).times)
        ),
    };
    format!("{}{part}", amount(tree))
}

/// The place of a path that its reader knows: the innermost in the module that its thread began in, apart from the program's entry, which may be
/// all that the program has beside a library. Where the function that stopped is in that module too, it is that one's.
fn of_thread(tree: &CallTree, node: NodeId) -> Place {
    let mut frames = tree.path(node).map(|frame| frame.at);
    let Some(stopped) = frames.next() else {
        return Place::default();
    };
    let mut others: Vec<Place> = frames.collect();
    let entry = others.pop();
    others.retain(|at| at.module() != stopped.module());
    if others.is_empty() {
        others.extend(entry.filter(|at| at.module() != stopped.module()));
    }
    let began = others.last().map(|at| at.module());
    let own = others.iter().find(|at| Some(at.module()) == began);
    own.copied().unwrap_or(stopped)
}

/// Rows, longest first.
fn rows(view: &mut View<'_>, tree: &CallTree) -> Vec<Row> {
    let mut all: BTreeMap<(Place, Option<String>), Row> = BTreeMap::new();
    for (number, node) in tree.nodes().iter().enumerate() {
        if node.weight == Weight::default() {
            continue;
        }
        let at = of_thread(tree, NodeId(number as u32));
        let stopped = node.frame.at;
        let row = all.entry((at, view.of_function(stopped)));
        let row = row.or_insert(Row {
            at,
            stopped,
            weight: Weight::default(),
        });
        row.weight.add(node.weight);
    }
    let mut all: Vec<Row> = all.into_values().collect();
    all.sort_by_key(|row| (Reverse(row.weight.own), row.at));
    all
}

/// Writes the table, if there were waits, and gives the number of rows that there are.
pub(super) fn table(
    out: &mut impl Write,
    view: &mut View<'_>,
    top: usize,
    style: Style,
) -> io::Result<usize> {
    let Some(tree) = waited(view.profile) else {
        return Ok(0);
    };
    let sum = total(tree);
    writeln!(
        out,
        "\n# {}: {}, until each ran again",
        style.strong("Off-CPU"),
        amount(tree)
    )?;
    let is_exact = tree.basis == Basis::Waits;
    let all = rows(view, tree);
    let mut table = Table::new([
        "waited",
        "%",
        tree.basis.times(),
        // Nobody knows how many waits the samples are of.
        if is_exact { "average" } else { "" },
        "at",
        "in",
        "source",
        "module",
    ]);
    for row in all.iter().take(top) {
        let Weight { times, own } = row.weight;
        table.row([
            duration(own),
            format!("{:.2}%", percent(own, sum.own)),
            grouped(times),
            match is_exact {
                true => duration(own / times.max(1)),
                false => String::new(),
            },
            view.name(row.at),
            match view.of_function(row.stopped) {
                Some(name) => view.shortened(&name),
                None => view.name(row.stopped),
            },
            view.source(row.at),
            view.module(row.at),
        ]);
    }
    table.write(out, style)?;
    Ok(all.len())
}

/// The member `waits` of a report.
pub(super) fn json<W: Write>(
    json: &mut Json<W>,
    view: &mut View<'_>,
    mut place: impl FnMut(&mut Json<W>, &mut View<'_>, &str, Place) -> io::Result<()>,
) -> io::Result<()> {
    let Some(tree) = waited(view.profile) else {
        return Ok(());
    };
    let tree = tree.in_order();
    json.member_object("waits")?;
    json.number("truncated", tree.lost.truncated)?;
    json.number("broken", tree.lost.broken)?;
    tree::nodes(
        json,
        &tree,
        [tree.basis.times(), "time", "inclusive"],
        |json, node| place(json, view, "at", node.frame.at),
    )?;
    json.end_object()
}

#[cfg(test)]
mod tests {
    use super::*;
    use trommel_profile::call_tree::Frame;
    use trommel_tuple::{ModuleId, Vaddr};

    fn of(path: &[(u16, u64)]) -> (u16, u64) {
        let mut tree = CallTree::new(Basis::Waits);
        let frames = path.iter().map(|(module, at)| Frame {
            at: Place::new(ModuleId(*module), Vaddr(*at)),
            call: None,
        });
        let weight = Weight { times: 1, own: 1 };
        assert!(tree.add_stack(frames, weight));
        let at = of_thread(&tree, NodeId(path.len() as u32 - 1));
        (at.module().0, at.vaddr().0)
    }

    #[test]
    fn a_wait_is_shown_where_its_thread_s_own_code_led_there() {
        const PROGRAM: u16 = 1;
        const C: u16 = 2;
        const LIBRARY: u16 = 3;
        // The C library starts threads, and stops them.
        let path = [(C, 1), (PROGRAM, 2), (PROGRAM, 3), (LIBRARY, 4), (C, 5)];
        assert_eq!(of(&path), (PROGRAM, 3));
        // A program of a library: its own are the entry alone, or nothing.
        let path = [(PROGRAM, 1), (C, 2), (LIBRARY, 3), (LIBRARY, 4), (C, 5)];
        assert_eq!(of(&path), (LIBRARY, 4));
        assert_eq!(of(&[(PROGRAM, 1), (C, 5)]), (PROGRAM, 1));
        // A static program; a path that breaks at once.
        assert_eq!(of(&[(PROGRAM, 2), (PROGRAM, 3)]), (PROGRAM, 3));
        assert_eq!(of(&[(C, 5)]), (C, 5));
    }
}
