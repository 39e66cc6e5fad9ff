//! Facts of a page: the run, functions, call paths, code.
//!
//! Call paths can be far more than anybody sees. The heaviest nodes stay. What is below a node and left out becomes one child of it,
//! so all sums hold.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io::{self, Write};

use trommel_code::{Function, Program};
use trommel_export::CallPaths;
use trommel_profile::call_tree::{Basis, Cost};
use trommel_profile::unit::Unit;
use trommel_symbol::demangle;
use trommel_tuple::{ModuleId, Place, Vaddr};

use super::{code, numbers};
use crate::json::Json;
use crate::output;
use crate::report::table::Style;
use crate::report::view::View;
use crate::report::{functions, samples, text};

/// Functions on a page.
const FUNCTIONS: usize = 20_000;
/// Nodes of call paths on a page.
const NODES: usize = 60_000;

/// Writes the facts as JSON.
pub(super) fn write(
    out: &mut impl Write,
    view: &mut View<'_>,
    program: Option<&Program>,
    paths: Option<&CallPaths<'_>>,
) -> io::Result<()> {
    let mut json = Json::new(out);
    json.object()?;
    json.text("command", &output::command_line(&view.profile.command))?;
    json.text("version", env!("CARGO_PKG_VERSION"))?;
    run(&mut json, view)?;
    let inclusive = paths.map(inclusive).unwrap_or_default();
    match (program, paths) {
        (Some(program), _) => of_program(&mut json, view, program, &inclusive)?,
        (None, Some(paths)) => of_paths(&mut json, view, paths, &inclusive)?,
        (None, None) => none(&mut json, view.profile.unit())?,
    }
    if let Some(paths) = paths {
        tree(&mut json, view, paths)?;
    }
    json.member_array("code")?;
    code::write(&mut json, view, program)?;
    json.end_array()?;
    json.end_object()?;
    json.finish()
}

/// The lines of a report's header, as pairs.
fn run<W: Write>(json: &mut Json<W>, view: &mut View<'_>) -> io::Result<()> {
    let mut header = Vec::new();
    let style = Style::new(false);
    match &view.profile.samples {
        Some(data) => samples::header(&mut header, view, data, style)?,
        None => text::start(&mut header, view, style)?,
    }
    json.member_array("run")?;
    for line in String::from_utf8_lossy(&header).lines() {
        let line = line.trim_start_matches('#').trim();
        let (name, text) = line.split_once("  ").unwrap_or(("", line));
        json.object()?;
        json.text("name", name)?;
        json.text("text", text.trim())?;
        json.end_object()?;
    }
    json.end_array()
}

type ByName = HashMap<(ModuleId, String), Cost>;

/// The cost of each function of call paths.
fn inclusive(paths: &CallPaths<'_>) -> ByName {
    let functions = paths.functions.iter().zip(paths.costs());
    let named = functions.map(|(function, cost)| {
        let key = (function.module, function.name.to_string());
        (key, cost)
    });
    named.collect()
}

fn none<W: Write>(json: &mut Json<W>, unit: Unit) -> io::Result<()> {
    json.text("unit", unit.in_words())?;
    json.number("total", 0)?;
    json.member_array("functions")?;
    json.end_array()
}

/// Functions as they follow from branches and calls.
fn of_program<W: Write>(
    json: &mut Json<W>,
    view: &mut View<'_>,
    program: &Program,
    inclusive: &ByName,
) -> io::Result<()> {
    let whole: u64 = inclusive
        .values()
        .fold(0, |sum, cost| sum.saturating_add(cost.weight.own));
    json.text("unit", view.profile.unit().in_words())?;
    json.number("total", program.executed().times.round() as u64)?;
    json.number("functions_in_all", program.functions.len() as u64)?;
    json.member_array("functions")?;
    for function in program.functions.iter().take(FUNCTIONS) {
        json.object()?;
        let name = name(view, function);
        let short = view.readable(&name);
        json.text("name", &short)?;
        if short != name {
            json.text("full", &name)?;
        }
        let nowhere = Place::new(function.module, Vaddr(0));
        json.text("module", &view.module(nowhere))?;
        json.number("self", function.executed.times.round() as u64)?;
        if let Some(limits) = function.executed.limits {
            json.number("low", limits.low.floor() as u64)?;
            json.number("high", limits.high.ceil() as u64)?;
        }
        json.number("calls", function.calls.times.round() as u64)?;
        if let Some(start) = function.start() {
            json.text("source", &view.outer_source(start))?;
        }
        if let Some(cost) = inclusive.get(&(function.module, name)) {
            json.real("inclusive", cost.inclusive as f64 / whole.max(1) as f64)?;
        }
        json.end_object()?;
    }
    json.end_array()
}

/// The whole name of a function.
fn name(view: &mut View<'_>, function: &Function) -> String {
    match function.name.is_empty() {
        true => functions::shown(view, function),
        false => demangle(&function.name),
    }
}

/// Functions of call paths, where nothing else is known.
fn of_paths<W: Write>(
    json: &mut Json<W>,
    view: &View<'_>,
    paths: &CallPaths<'_>,
    inclusive: &ByName,
) -> io::Result<()> {
    let whole = paths.total().own;
    json.text("unit", paths.tree.basis.unit())?;
    if Basis::OFF_CPU.contains(&paths.tree.basis) {
        json.boolean("off_cpu", true)?;
    }
    json.number("total", whole)?;
    let mut all: Vec<_> = inclusive.iter().collect();
    let heaviest = |cost: &Cost| Reverse((cost.weight.own, cost.inclusive));
    all.sort_by(|a, b| (heaviest(a.1), a.0).cmp(&(heaviest(b.1), b.0)));
    json.number("functions_in_all", all.len() as u64)?;
    json.member_array("functions")?;
    for ((module, name), cost) in all.into_iter().take(FUNCTIONS) {
        json.object()?;
        let short = view.readable(name);
        json.text("name", &short)?;
        if short != *name {
            json.text("full", name)?;
        }
        json.text("module", &base(&paths.module(*module)))?;
        json.number("self", cost.weight.own)?;
        json.real("inclusive", cost.inclusive as f64 / whole.max(1) as f64)?;
        json.end_object()?;
    }
    json.end_array()
}

fn base(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

/// Call paths: columns of nodes, parents before children.
fn tree<W: Write>(json: &mut Json<W>, view: &View<'_>, paths: &CallPaths<'_>) -> io::Result<()> {
    let inclusive = paths.inclusive();
    let mut order = inclusive.clone();
    let least = match order.len().checked_sub(NODES) {
        Some(light) if light > 0 => *order.select_nth_unstable(light).1,
        _ => 0,
    };
    // Of equal nodes all stay or none, so a parent stays where a child does.
    let stays = |node: usize| inclusive[node] > least || least == 0;
    let rest = paths.functions.len();
    let mut kept: Vec<Option<usize>> = vec![None; paths.nodes.len()];
    let mut columns: [Vec<i128>; 5] = Default::default();
    let mut left_out: HashMap<usize, (u64, u64)> = HashMap::new();
    let mut count = 0;
    for (number, node) in paths.nodes.iter().enumerate() {
        let parent = node.parent.and_then(|parent| kept[parent]);
        let whole = node.parent.is_none() || parent.is_some();
        if stays(number) {
            let above = parent.map_or(-1, |parent| parent as i128);
            let values = [above, node.function as i128, node.weight.own.into()];
            let more = [node.weight.times.into(), node.inlined.into()];
            for (column, value) in columns.iter_mut().zip(values.into_iter().chain(more)) {
                column.push(value);
            }
            kept[number] = Some(count);
            count += 1;
        } else if let (true, Some(parent)) = (whole, parent) {
            let sum = left_out.entry(parent).or_default();
            sum.0 = sum.0.saturating_add(inclusive[number]);
            sum.1 += 1;
        }
    }
    let mut others: Vec<_> = left_out.into_iter().collect();
    others.sort_unstable();
    for (parent, (own, _)) in others {
        let values = [parent as i128, rest as i128, own.into(), 0, 0];
        for (column, value) in columns.iter_mut().zip(values) {
            column.push(value);
        }
    }
    let [parents, functions, own, times, inlined] = columns;
    json.member_object("paths")?;
    let basis = paths.tree.basis;
    json.text("unit", basis.unit())?;
    json.text("times", basis.times())?;
    let lost = paths.tree.lost;
    for (name, number) in [
        ("truncated", lost.truncated),
        ("broken", lost.broken),
        ("folded", lost.folded),
        ("nodes_in_all", paths.nodes.len() as u64),
    ] {
        json.number(name, number)?;
    }
    json.member_array("names")?;
    for function in &paths.functions {
        json.element(&view.readable(&function.name))?;
    }
    json.element("(lighter paths)")?;
    json.end_array()?;
    json.member_array("modules")?;
    for function in &paths.functions {
        json.element(&base(&paths.module(function.module)))?;
    }
    json.element("")?;
    json.end_array()?;
    numbers(json, "parents", parents)?;
    numbers(json, "functions", functions)?;
    numbers(json, "own", own)?;
    numbers(json, "counts", times)?;
    numbers(json, "inlined", inlined)?;
    json.end_object()
}
