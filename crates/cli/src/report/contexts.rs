//! Calling contexts: what each function costs in all of them, and the nodes for programs.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io::{self, Write};

use trommel_export::CallPaths;
use trommel_profile::call_tree::{Basis, Cost};
use trommel_tuple::{ModuleId, Place};

use super::Shown;
use super::table::{Table, limited, more};
use super::tree;
use super::view::View;
use crate::json::Json;
use crate::output::grouped;

/// A function, by its module and name, or by an address where it has no name.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Named {
    module: ModuleId,
    name: String,
}

/// The function that a place is in.
fn named(view: &mut View<'_>, at: Place) -> Named {
    let location = view.locate(at);
    Named {
        module: at.module(),
        name: match &location.function {
            Some(name) => name.to_string(),
            None => view.name(at),
        },
    }
}

/// Costs of functions.
pub(super) type Costs = HashMap<Named, Cost>;

/// Costs of functions by calling contexts, if those are known.
pub(super) fn costs(view: &mut View<'_>) -> Option<Costs> {
    let tree = view.profile.call_tree(Basis::Contexts)?;
    let nodes = tree.nodes().iter();
    let functions: Vec<Named> = nodes.map(|node| named(view, node.frame.at)).collect();
    Some(tree.costs(&functions))
}

/// The cost of the function that begins at a place.
pub(super) fn cost_of(costs: &Costs, view: &mut View<'_>, start: Place) -> Option<Cost> {
    costs.get(&named(view, start)).copied()
}

/// The inclusive cost of a function: a lower limit where calls have no path.
pub(super) fn inclusive(view: &View<'_>, cost: &Cost) -> String {
    let tree = view.profile.call_tree(Basis::Contexts);
    let at_least = tree.is_some_and(|tree| tree.lost.folded != 0);
    limited(cost.inclusive, at_least)
}

/// Writes the functions of call paths, most instructions first. It is for profiles with nothing else to tell what functions did.
pub(super) fn functions(
    out: &mut impl Write,
    view: &mut View<'_>,
    paths: &CallPaths<'_>,
    shown: &Shown<'_>,
) -> io::Result<()> {
    let whole = paths.total().own;
    let mut all: Vec<_> = paths.functions.iter().zip(paths.costs()).collect();
    all.sort_by_key(|(_, cost)| Reverse((cost.weight.own, cost.inclusive)));
    writeln!(
        out,
        "# {}: {} instructions of {} functions",
        shown.style.strong("Functions"),
        grouped(whole),
        grouped(all.len() as u64),
    )?;
    let titles = ["self", "%", "inclusive", "calls", "function", "module"];
    let mut table = Table::new(titles).numbers(4);
    for (function, cost) in all.iter().take(shown.top) {
        let place = Place::new(function.module, trommel_tuple::Vaddr(0));
        table.row([
            grouped(cost.weight.own),
            format!(
                "{:.2}%",
                100.0 * cost.weight.own as f64 / whole.max(1) as f64
            ),
            inclusive(view, cost),
            grouped(cost.weight.times),
            tree::name(view, &function.name),
            view.module(place),
        ]);
    }
    table.write(out, shown.style)?;
    if view.expands {
        writeln!(
            out,
            "# inlined functions are known with branches and calls: trommel record -e edge,call,context"
        )?;
    }
    more(out, all.len(), shown.top)
}

/// The member `contexts`: the nodes of calling contexts, each after its parent.
pub(super) fn json<W: Write>(json: &mut Json<W>, view: &mut View<'_>) -> io::Result<()> {
    let Some(tree) = view.profile.call_tree(Basis::Contexts) else {
        return Ok(());
    };
    json.member_object("contexts")?;
    json.number("folded", tree.lost.folded)?;
    json.number("threads_not_to_end", tree.lost.truncated)?;
    tree::nodes(
        json,
        tree,
        ["calls", "instructions", "inclusive"],
        |json, node| {
            let frame = node.frame;
            let location = view.locate(frame.at);
            json.optional_text("function", location.function.as_deref())?;
            json.number("module", frame.at.module().0)?;
            json.number("at", frame.at.vaddr().0)?;
            match frame.call {
                Some(call) => {
                    json.member_object("call")?;
                    json.number("module", call.module().0)?;
                    json.number("vaddr", call.vaddr().0)?;
                    if view.expands {
                        json.texts("inlined", view.inlined_at(call))?;
                    }
                    json.end_object()
                }
                None => json.null("call"),
            }
        },
    )?;
    json.end_object()
}
