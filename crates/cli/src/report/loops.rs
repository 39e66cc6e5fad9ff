//! Loops: how often they were entered, and how often they turned.

use std::io::{self, Write};

use trommel_code::{Loop, loops};
use trommel_tuple::{ModuleId, Place, Vaddr};

use super::Shown;
use super::functions::{executed, figure, module};
use super::table::{Table, limits_title, range};
use super::view::View;
use crate::output::{grouped, percent};

/// The loops of all functions, most instructions first.
pub(super) fn of(shown: &Shown<'_>) -> Vec<(ModuleId, Loop)> {
    let Some(program) = shown.program else {
        return Vec::new();
    };
    let mut all = Vec::new();
    for function in shown.functions() {
        if let Some(code) = program.modules.get(&function.module) {
            let found = loops(function.module, &code.blocks, &function.ranges);
            all.extend(found.into_iter().map(|l| (function.module, l)));
        }
    }
    let key = |(module, l): &(ModuleId, Loop)| (*module, l.header);
    all.sort_by(|a, b| {
        let more = b.1.executed.times.total_cmp(&a.1.executed.times);
        more.then_with(|| key(a).cmp(&key(b)))
    });
    all
}

/// Writes a table of the first of them.
pub(super) fn write(
    out: &mut impl Write,
    view: &mut View<'_>,
    shown: &Shown<'_>,
    all: &[(ModuleId, Loop)],
    top: usize,
) -> io::Result<()> {
    let whole = executed(shown).times;
    let sum: f64 = all.iter().map(|(_, l)| l.executed.times).sum();
    writeln!(
        out,
        "# {}: {} loops, {:.1} % of all {}; turns are per entry",
        shown.style.strong("Loops"),
        grouped(all.len() as u64),
        percent(sum.round() as u64, whole.round() as u64),
        view.profile.unit().in_words(),
    )?;
    let limits = limits_title(view);
    let titles = [
        "self", "%", "entries", "turns", limits, "loop", "source", "module",
    ];
    let mut table = Table::new(titles).numbers(4);
    for (id, found) in all.iter().take(top) {
        let header = Place::new(*id, Vaddr(found.header));
        table.row([
            figure(&found.executed, false),
            format!("{:.2}%", 100.0 * found.executed.times / whole.max(1.0)),
            figure(&found.entries, false),
            found.trips().map_or_else(|| "-".into(), trips),
            found.executed.limits.map_or_else(String::new, range),
            view.name(header),
            view.source(header),
            module(view, *id),
        ]);
    }
    table.write(out, shown.style)
}

/// A mean number of turns.
fn trips(turns: f64) -> String {
    match turns {
        n if n >= 100.0 => grouped(n.round() as u64),
        n => format!("{n:.1}"),
    }
}
