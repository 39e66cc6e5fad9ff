//! Call paths, as reports show them: each function below its caller, hottest first.
//!
//! Text shows functions ([`CallPaths`]): places of one function below the same caller are one line. JSON has the nodes as they were recorded.

use std::cmp::Reverse;
use std::io::{self, Write};

use trommel_export::CallPaths;
use trommel_profile::call_tree::{Basis, CallTree, Node};

use super::table::{Style, ended};
use super::view::View;
use crate::json::Json;
use crate::output::{duration, grouped};

/// Lines of a tree, unless the user asks for more.
pub(super) const LINES: usize = 40;
/// Columns that depth is shown by at most.
const DEEPEST: usize = 24;

/// Writes the hottest `top` nodes of call paths, each below its caller.
pub(super) fn write(
    out: &mut impl Write,
    view: &View<'_>,
    paths: &CallPaths<'_>,
    (top, style): (usize, Style),
) -> io::Result<()> {
    let inclusive = paths.inclusive();
    let whole = paths.total().own;
    let basis = paths.tree.basis;
    let of = match basis {
        Basis::Contexts => "instructions in calling contexts",
        Basis::Stacks => "of samples with call paths",
        Basis::Waits => "in which threads waited",
        Basis::WaitSamples => "in which threads waited, by samples",
    };
    let (times, amount) = match basis.is_time() {
        true => (basis.times(), duration(whole)),
        false => (basis.times(), grouped(whole)),
    };
    writeln!(out, "# {}: {amount} {of}", style.strong("Call paths"))?;
    writeln!(out, "#  total    self {times:>14}  function")?;
    let share = |part: u64| format!("{:.1}%", 100.0 * part as f64 / whole.max(1) as f64);
    let about = |estimated| if estimated { "~" } else { "" };
    for (number, depth) in hottest(paths, &inclusive, top) {
        let node = &paths.nodes[number];
        let name = name(view, &paths.function(number).name);
        let line = format!(
            "{:>8} {:>7} {:>14}  {}{name}{}",
            share(inclusive[number]),
            format!("{}{}", about(node.estimated), share(node.weight.own)),
            if node.inlined && node.weight.times == 0 {
                String::new()
            } else {
                grouped(node.weight.times)
            },
            " ".repeat(depth.min(DEEPEST)),
            if node.inlined { " (inlined)" } else { "" },
        );
        writeln!(out, "{}", ended(&line, style.width))?;
    }
    if let Some(rest) = paths.nodes.len().checked_sub(top).filter(|n| *n > 0) {
        let rest = grouped(rest as u64);
        writeln!(out, "# … and {rest} more: --top N shows N, --top 0 all")?;
    }
    if paths.nodes.iter().any(|node| node.estimated) {
        writeln!(
            out,
            "# ~ self of functions that were reached in several ways is divided as in all of these together"
        )?;
    }
    lost(out, paths.tree)
}

/// A function's name as tables show it. What is in brackets is no function, but the module of code that nothing names.
pub(super) fn name(view: &View<'_>, name: &str) -> String {
    match name.starts_with('[') {
        true => name.to_owned(),
        false => view.shortened(name),
    }
}

/// The `top` hottest nodes depth first, hottest first, with their depths.
fn hottest(paths: &CallPaths<'_>, inclusive: &[u64], top: usize) -> Vec<(usize, usize)> {
    let heat = |node: &usize| (Reverse(inclusive[*node]), *node);
    // A parent is as hot as its hottest child, and has the smaller number.
    let mut all: Vec<usize> = (0..paths.nodes.len()).collect();
    all.sort_by_key(heat);
    let mut wanted = vec![false; paths.nodes.len()];
    for node in all.into_iter().take(top) {
        wanted[node] = true;
    }
    let mut children = paths.children();
    for list in &mut children {
        list.sort_by_key(heat);
    }
    let roots = children[paths.nodes.len()].iter().rev();
    let mut left: Vec<(usize, usize)> = roots.map(|node| (*node, 0)).collect();
    let mut found = Vec::new();
    while let Some((node, depth)) = left.pop() {
        if wanted[node] {
            found.push((node, depth));
            let below = children[node].iter().rev();
            left.extend(below.map(|node| (*node, depth + 1)));
        }
    }
    found
}

/// Says what a tree lacks.
fn lost(out: &mut impl Write, tree: &CallTree) -> io::Result<()> {
    for line in lacks(tree) {
        writeln!(out, "# {line}")?;
    }
    Ok(())
}

/// Sentences about what a tree lacks.
pub(super) fn lacks(tree: &CallTree) -> Vec<String> {
    let lost = tree.lost;
    let truncated = match tree.basis {
        Basis::Contexts => "threads were not counted to their end: more than 64 ran at a time",
        Basis::Stacks | Basis::Waits | Basis::WaitSamples => {
            "stacks were longer than what was looked at, and lack their beginning"
        }
    };
    let all = [
        (
            lost.folded,
            "calls have no path, as memory for paths is full; ≥ marks lower limits",
        ),
        (lost.truncated, truncated),
        (
            lost.broken,
            "stacks could not be followed to their beginning",
        ),
    ];
    let lost = all.into_iter().filter(|(number, _)| *number != 0);
    lost.map(|(number, words)| format!("{} {words}", grouped(number)))
        .collect()
}

/// The member `nodes` of a tree, each after its parent. `frame` writes the members of its frame; `names` are those of its weights and of its
/// inclusive cost.
pub(super) fn nodes<W: Write>(
    json: &mut Json<W>,
    tree: &CallTree,
    [times, own, inclusive]: [&str; 3],
    mut frame: impl FnMut(&mut Json<W>, &Node) -> io::Result<()>,
) -> io::Result<()> {
    json.member_array("nodes")?;
    for (node, sum) in tree.nodes().iter().zip(tree.inclusive()) {
        json.object()?;
        match node.parent {
            Some(parent) => json.number("parent", parent.0)?,
            None => json.null("parent")?,
        }
        frame(json, node)?;
        json.number(times, node.weight.times)?;
        json.number(own, node.weight.own)?;
        json.number(inclusive, sum)?;
        json.end_object()?;
    }
    json.end_array()
}
