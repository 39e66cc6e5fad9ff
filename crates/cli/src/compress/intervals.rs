//! `compress --per-interval`: the intervals of a stream ([`crate::intervals`]). Text shows the hottest candidate of each.

use std::io::{self, Write};
use std::rc::Rc;

use serde_json::{Value, json};
use trommel_profile::accuracy::Evaluation;
use trommel_symbol::Location;
use trommel_tuple::Place;
use trommel_tuple::stream::Module;

use crate::intervals::text::Lines;
use crate::intervals::{self, Entry, Names};
use crate::output::printable;
use crate::report::table::Style;

/// Text has all intervals, each with the hottest candidate.
const LINES: Lines = Lines {
    top: usize::MAX,
    candidates: 1,
};

/// The intervals of a compressor; `None` where it has none.
fn entries(evaluation: &Evaluation) -> Option<Vec<Entry<'_>>> {
    let each = evaluation.interval.as_ref()?.each.iter();
    let all = each.zip(1..).map(|(interval, number)| Entry {
        of: None,
        number,
        start: interval.start,
        events: interval.events,
        phase: interval.phase,
        error: Some(interval.error.total()),
        candidates: &interval.candidates,
    });
    Some(all.collect())
}

/// Places are named by the modules of the stream.
impl Names for &[Module] {
    const FUNCTIONS: bool = false;

    /// Returns the file name of the place's module, or the number of a module that has none.
    fn place(&mut self, place: Place) -> String {
        let module = self.iter().find(|m| m.id == place.module());
        let path = module.map(|m| String::from_utf8_lossy(&m.path));
        let name = path.as_deref().map(|p| p.rsplit('/').next().unwrap_or(p));
        match name {
            Some(name) => format!("{}:{:#x}", printable(name), place.vaddr()),
            None => format!("{}:{:#x}", place.module().0, place.vaddr()),
        }
    }

    fn value(&mut self, _at: Place, value: u64) -> String {
        format!("{value:#x}")
    }

    fn location(&mut self, _place: Place) -> Option<Rc<Location>> {
        None
    }
}

/// Writes a table for each compressor.
pub(super) fn text(
    out: &mut impl Write,
    style: Style,
    evaluations: &[Evaluation],
    mut modules: &[Module],
) -> io::Result<()> {
    for e in evaluations {
        let Some(entries) = entries(e) else { continue };
        writeln!(out)?;
        let of = (&*e.spec.to_string(), &entries[..]);
        intervals::text::write(out, style, of, &mut modules, LINES)?;
    }
    Ok(())
}

/// Writes all intervals as CSV.
pub(super) fn csv(
    out: &mut impl Write,
    evaluations: &[Evaluation],
    mut modules: &[Module],
) -> io::Result<()> {
    intervals::csv::titles(out, &modules)?;
    for e in evaluations {
        let entries = entries(e).unwrap_or_default();
        intervals::csv::rows(out, &e.spec.to_string(), &entries, &mut modules)?;
    }
    Ok(())
}

/// Adds the intervals to the JSON of each evaluation.
pub(super) fn add(values: &mut Value, evaluations: &[Evaluation], mut modules: &[Module]) {
    let named = |m: &Module| json!({"id": m.id.0, "path": String::from_utf8_lossy(&m.path)});
    let list = values.as_array_mut().into_iter().flatten();
    for (value, e) in list.zip(evaluations) {
        let Some(entries) = entries(e) else { continue };
        value["modules"] = modules.iter().map(named).collect();
        let each = entries.iter();
        value["per_interval"] = each
            .map(|entry| intervals::json::interval(entry, &mut modules))
            .collect();
        let phases = intervals::phases(&entries);
        value["phases"] = (phases.iter().enumerate())
            .map(intervals::json::phase)
            .collect();
    }
}
