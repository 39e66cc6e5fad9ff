//! Functions: what each did, derived from the branches and calls of the profile ([`trommel_code::Program`]).
//!
//! The program's own functions come first, those of libraries after them. What happens between them is folded, one line each: the dynamic
//! linker, the vDSO, the stubs of calls into libraries.

use std::io::{self, Write};

use trommel_code::{Count, Function, Program};
use trommel_profile::Module;
use trommel_symbol::demangle;
use trommel_tuple::{Kind, ModuleId};

use super::Shown;
use super::contexts::{self, Costs};
use super::inlined;
use super::nameless;
use super::row::Row;
use super::table::{INLINED, Table, limited, limits_title, more, range};
use super::view::View;
use crate::json::Json;
use crate::output::grouped;

/// Functions with a smaller part of all instructions are not on the first screen.
const LEAST_SHARE: f64 = 0.0005;

/// Returns true if a module is a program, rather than a library or the kernel's.
pub(crate) fn is_program(module: &Module) -> bool {
    let path = String::from_utf8_lossy(&module.path);
    let name = path.rsplit('/').next().unwrap_or(&path);
    match path.starts_with('/') {
        true => !(name.ends_with(".so") || name.contains(".so.")),
        // Code that the program made.
        false => module.id == ModuleId::ANON,
    }
}

/// Returns true if a module links programs, or is the kernel's in every process.
fn is_system(name: &str) -> bool {
    [
        "ld-linux",
        "ld-musl",
        "ld.so",
        "ld64.so",
        "[vdso]",
        "[vsyscall]",
    ]
    .iter()
    .any(|start| name.starts_with(start))
}

/// Writes what a profile lacks for functions; nothing where it never was to have them.
pub(super) fn missing(out: &mut impl Write, view: &View<'_>) -> io::Result<()> {
    let kinds = &view.profile.kinds;
    let lacks: Vec<&str> = [(Kind::Edge, "branches"), (Kind::Call, "calls")]
        .into_iter()
        .filter(|(kind, _)| !kinds.contains_key(kind))
        .map(|(_, words)| words)
        .collect();
    if lacks.is_empty() || kinds.is_empty() {
        return Ok(());
    }
    let others = kinds
        .keys()
        .filter(|k| !matches!(k, Kind::Edge | Kind::Call));
    let others: String = others.map(|kind| format!(",{kind}")).collect();
    writeln!(
        out,
        "# functions   not known without {}; `trommel record -e edge,call{others}` records them too",
        lacks.join(" and "),
    )
}

/// Instructions that the program executed.
pub(super) fn executed(shown: &Shown<'_>) -> Count {
    let nothing = Count::of_events(0.0, None);
    shown.program.map_or(nothing, Program::executed)
}

/// Writes the tables.
pub(super) fn write(
    out: &mut impl Write,
    view: &mut View<'_>,
    shown: &Shown<'_>,
) -> io::Result<()> {
    let Shown { top, chosen, .. } = *shown;
    let whole = executed(shown);
    let all: Vec<&Function> = shown.functions().collect();
    let rows = rows(view, shown, &all);
    let least = if chosen {
        0.0
    } else {
        LEAST_SHARE * whole.times
    };
    let own = |row: &&Row| {
        let module = view.profile.module(row.module);
        !row.folded && module.is_none_or(is_program)
    };
    let (own, others): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(own);
    for (rows, title, top) in [
        (own, "Functions of the program", top),
        (
            others,
            "Functions of libraries",
            if chosen { top } else { top / 2 },
        ),
    ] {
        if rows.is_empty() {
            continue;
        }
        let sum = rows.iter().map(|r| r.executed.times).sum::<f64>();
        let at_least = rows.iter().any(|r| r.at_least);
        writeln!(
            out,
            "\n# {}: {}{} {}, {:.1} %",
            shown.style.strong(title),
            if at_least { "at least " } else { "" },
            grouped(sum.round() as u64),
            view.profile.unit().in_words(),
            100.0 * sum / whole.times.max(1.0),
        )?;
        let hot = rows.iter().filter(|r| r.executed.times >= least.max(0.5));
        let hot: Vec<&Row> = hot.copied().take(top).collect();
        let table = table(view, shown, &hot, whole.times);
        if !table.is_empty() {
            table.write(out, shown.style)?;
        }
        more(out, rows.len(), hot.len())?;
    }
    match shown.program.map(|p| p.left_early(view.profile)) {
        None | Some(0) => Ok(()),
        Some(times) => writeln!(
            out,
            "\n# {} exceptions and longjmps ended calls, which count as if they had come back: code right after them is counted too often",
            grouped(times)
        ),
    }
}

/// Writes one table of the hottest functions, wherever they are.
pub(super) fn summary(
    out: &mut impl Write,
    view: &mut View<'_>,
    shown: &Shown<'_>,
) -> io::Result<()> {
    let whole = executed(shown);
    let all: Vec<&Function> = shown.functions().collect();
    let rows = rows(view, shown, &all);
    let at_least = rows.iter().any(|r| r.at_least);
    writeln!(
        out,
        "# {}: {}{} {} of {} functions",
        shown.style.strong("Functions"),
        if at_least { "at least " } else { "" },
        grouped(whole.times.round() as u64),
        view.profile.unit().in_words(),
        grouped(all.len() as u64),
    )?;
    let hot: Vec<&Row> = rows.iter().take(shown.top).collect();
    table(view, shown, &hot, whole.times).write(out, shown.style)
}

fn table(view: &mut View<'_>, shown: &Shown<'_>, rows: &[&Row], whole: f64) -> Table<9> {
    let limits = limits_title(view);
    let costs = contexts::costs(view);
    let inclusive = if costs.is_some() { "inclusive" } else { "" };
    let inlined = if shown.inlined.is_some() { INLINED } else { "" };
    let titles = [
        "self", "%", inclusive, "calls", inlined, limits, "function", "source", "module",
    ];
    let mut table = Table::new(titles).numbers(5);
    for row in rows {
        let place = row.place.filter(|_| !row.folded);
        let start = place.filter(|_| row.stands);
        let cost = start.and_then(|start| contexts::cost_of(costs.as_ref()?, view, start));
        table.row([
            figure(&row.executed, row.at_least),
            format!("{:.2}%", 100.0 * row.executed.times / whole.max(1.0)),
            cost.map_or_else(String::new, |cost| contexts::inclusive(view, &cost)),
            match row.stands {
                true => figure(&row.calls, false),
                false => String::new(),
            },
            match row.inlined.times > 0.0 {
                true => format!("{:.1}%", 100.0 * row.inlined.times / row.executed.times),
                false => String::new(),
            },
            row.executed.limits.map_or_else(String::new, range),
            row.name.clone(),
            place.map_or_else(String::new, |place| view.outer_source(place)),
            module(view, row.module),
        ]);
    }
    table
}

pub(super) fn figure(count: &Count, at_least: bool) -> String {
    limited(count.times.round() as u64, at_least)
}

pub(crate) fn module(view: &View<'_>, module: ModuleId) -> String {
    view.module(trommel_tuple::Place::new(module, trommel_tuple::Vaddr(0)))
}

/// The lines, most instructions first.
fn rows(view: &mut View<'_>, shown: &Shown<'_>, all: &[&Function]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let mut divided = inlined::Rows::default();
    for function in all {
        let name = module(view, function.module);
        let fold = match (is_system(&name), function.stub) {
            (true, _) => Some("(all of it)"),
            (false, true) => Some("(stubs of calls into libraries)"),
            (false, false) => None,
        };
        let same = |row: &&mut Row| {
            row.folded && row.module == function.module && Some(&*row.name) == fold
        };
        if let Some(fold) = fold {
            if let Some(row) = rows.iter_mut().find(same) {
                row.executed = row.executed.plus(function.executed);
                row.calls = row.calls.plus(function.calls);
                row.at_least |= function.at_least;
                continue;
            }
            rows.push(Row::new(fold.to_owned(), function, true));
        } else {
            let name = self::shown(view, function);
            let mut row = Row::new(name, function, false);
            if let Some(inlined) = shown.inlined {
                divided.add(&mut row, function, inlined, rows.len());
            }
            rows.push(row);
        }
    }
    divided.finish(view, &mut rows);
    rows.sort_by(|a, b| b.executed.times.total_cmp(&a.executed.times));
    rows
}

/// A function's name in a table.
pub(crate) fn shown(view: &mut View<'_>, function: &Function) -> String {
    match (function.start(), function.name.is_empty()) {
        (_, false) => view.shortened(&demangle(&function.name)),
        (Some(start), true) => view.name(start),
        (None, true) if function.module == ModuleId::ANON => nameless::JIT.to_owned(),
        (None, true) => "(outside of functions)".to_owned(),
    }
}

/// Words for `annotate` that name the hottest function.
pub(super) fn hottest(view: &View<'_>, shown: &Shown<'_>) -> Option<String> {
    let hottest = shown.functions().find(|f| {
        let system = is_system(&module(view, f.module));
        !f.stub && !f.at_least && !f.ranges.is_empty() && !system
    })?;
    Some(match (hottest.name.is_empty(), hottest.ranges.first()) {
        (true, Some(range)) => {
            let module = module(view, hottest.module);
            format!("{module}:{:#x}-{:#x}", range.start, range.end)
        }
        _ => demangle(&hottest.name),
    })
}

/// The member `functions`.
pub(super) fn json<W: Write>(
    json: &mut Json<W>,
    view: &mut View<'_>,
    shown: &Shown<'_>,
) -> io::Result<()> {
    json.member_array("functions")?;
    let costs = contexts::costs(view);
    for function in shown.functions().take(shown.top) {
        json.object()?;
        members(json, view, function)?;
        inclusive(json, view, function, costs.as_ref())?;
        inlined::json(json, view, shown, function)?;
        json.end_object()?;
    }
    json.end_array()
}

/// The member `inclusive` of a function, where calling contexts are known.
fn inclusive<W: Write>(
    json: &mut Json<W>,
    view: &mut View<'_>,
    function: &Function,
    costs: Option<&Costs>,
) -> io::Result<()> {
    let Some((costs, start)) = costs.zip(function.start()) else {
        return Ok(());
    };
    match contexts::cost_of(costs, view, start) {
        Some(cost) => json.number("inclusive", cost.inclusive),
        None => Ok(()),
    }
}

/// The members of one function.
fn members<W: Write>(
    json: &mut Json<W>,
    view: &mut View<'_>,
    function: &Function,
) -> io::Result<()> {
    let linkage = String::from_utf8_lossy(&function.name);
    json.optional_text("linkage_name", Some(&*linkage).filter(|n| !n.is_empty()))?;
    let name = demangle(&function.name);
    json.optional_text("name", Some(&*name).filter(|n| !n.is_empty()))?;
    json.number("module", function.module.0)?;
    match function.start() {
        Some(start) => {
            let location = view.locate(start);
            json.number("start", start.vaddr().0)?;
            json.number("size", function.size())?;
            json.member_array("parts")?;
            for part in function.ranges.iter().skip(1) {
                json.object()?;
                json.number("start", part.start)?;
                json.number("size", part.end - part.start)?;
                json.end_object()?;
            }
            json.end_array()?;
            json.optional_text("file", location.outer_file.as_deref())?;
            match location.outer_line {
                Some(line) => json.number("line", line)?,
                None => json.null("line")?,
            }
        }
        None => {
            for member in ["start", "size", "parts", "file", "line"] {
                json.null(member)?;
            }
        }
    }
    json.count("self", &function.executed)?;
    json.text(
        "known",
        if function.at_least {
            "at_least"
        } else {
            "derived"
        },
    )?;
    json.count("calls", &function.calls)?;
    json.text("kind", if function.stub { "stub" } else { "function" })
}
