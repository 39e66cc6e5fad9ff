//! Acyclic paths of a profile: the hottest, with what the code says of them.
//!
//! A path is where it begins and its outcomes (`docs/events.md`); its blocks are found in the file of its module, where that is there
//! and the one that was recorded.

use std::cmp::Reverse;
use std::io::{self, Write};

use trommel_code::Acyclic;
use trommel_profile::limits::Limits;
use trommel_tuple::{Ended, Kind, Outcomes, Place, Vaddr};

use super::place::{limits as limits_json, place};
use super::table::{Style, Table, limits_title, range};
use super::view::View;
use crate::json::Json;
use crate::output::{grouped, percent};

/// Letters of outcomes that tables show.
const SHOWN: usize = 32;

/// A path with how often it was executed.
#[derive(Clone, Copy)]
struct Row {
    at: Place,
    word: u64,
    count: u64,
}

/// The paths, hottest first, and executions of all.
fn rows(view: &View<'_>) -> (Vec<Row>, u64) {
    let data = view.profile.kinds.get(&Kind::Path);
    let places = data.into_iter().flat_map(|data| &data.counts);
    let row = |(&at, paths): (&Place, &Vec<(u64, u64)>)| {
        let each = paths
            .iter()
            .map(move |&(word, count)| Row { at, word, count });
        each.collect::<Vec<_>>()
    };
    let mut all: Vec<Row> = places.flat_map(row).collect();
    all.sort_unstable_by_key(|row| (Reverse(row.count), row.at, row.word));
    let total = all
        .iter()
        .fold(0_u64, |sum, row| sum.saturating_add(row.count));
    (all, total)
}

/// A path with all that is known of it.
struct Shown {
    /// `None`: the word is no path's.
    outcomes: Option<(Outcomes, Ended)>,
    /// `None`: its code is not there, or is another.
    code: Option<Acyclic>,
    limits: Option<Limits>,
}

fn shown(view: &mut View<'_>, row: Row) -> Shown {
    let outcomes = Outcomes::from_word(row.word);
    let code = outcomes.and_then(|(outcomes, end)| view.acyclic(row.at, &outcomes, end));
    Shown {
        outcomes,
        code,
        limits: view.limits_of(row.at, row.word, row.count),
    }
}

/// Returns how a path ended, where nothing is known of its code.
const fn end_name(end: Ended) -> &'static str {
    match end {
        Ended::Whole => "whole",
        Ended::Cut => "cut",
        Ended::Left => "left",
    }
}

/// A table of the hottest paths; gives the number of all.
pub(super) fn table(
    out: &mut impl Write,
    view: &mut View<'_>,
    top: usize,
    style: Style,
) -> io::Result<usize> {
    let (all, total) = rows(view);
    writeln!(
        out,
        "# {}: {} paths, {} executions",
        style.strong("Acyclic paths"),
        grouped(all.len() as u64),
        grouped(total)
    )?;
    let mut table = Table::new([
        "executions",
        "%",
        limits_title(view),
        "begins at",
        "blocks",
        "instructions",
        "outcomes",
        "ends with",
        "source",
        "module",
    ]);
    for &row in all.iter().take(top) {
        let Shown {
            outcomes,
            code,
            limits,
        } = shown(view, row);
        let (steps, end) = match outcomes {
            Some((outcomes, end)) => (outcomes.to_string(), end_name(end)),
            None => (format!("{:#x}", row.word), "no path"),
        };
        let steps = match steps.char_indices().nth(SHOWN) {
            Some((at, _)) => format!("{}…", &steps[..at]),
            None => steps,
        };
        let ends = match &code {
            Some(Acyclic {
                ending,
                last: Some(last),
                ..
            }) => {
                let last = Place::new(row.at.module(), Vaddr(*last));
                format!("{} at {}", ending.words(), view.destination(row.at, last))
            }
            Some(code) => code.ending.words().to_owned(),
            None => end.to_owned(),
        };
        let number = |n: Option<u64>| n.map_or_else(String::new, grouped);
        table.row([
            grouped(row.count),
            format!("{:.2}%", percent(row.count, total)),
            limits.map_or_else(String::new, range),
            view.name(row.at),
            number(code.as_ref().map(|code| code.blocks.len() as u64)),
            number(code.as_ref().map(|code| code.instructions)),
            steps,
            ends,
            view.source(row.at),
            view.module(row.at),
        ]);
    }
    table.write(out, style)?;
    Ok(all.len())
}

/// The member `paths`, where paths were recorded.
pub(super) fn json<W: Write>(
    json: &mut Json<W>,
    view: &mut View<'_>,
    top: usize,
) -> io::Result<()> {
    if !view.profile.kinds.contains_key(&Kind::Path) {
        return Ok(());
    }
    let (all, total) = rows(view);
    json.member_array("paths")?;
    for &row in all.iter().take(top) {
        let Shown {
            outcomes,
            code,
            limits,
        } = shown(view, row);
        json.object()?;
        place(json, view, "at", row.at)?;
        json.number("path", row.word)?;
        json.number("executions", row.count)?;
        json.real("share", row.count as f64 / total.max(1) as f64)?;
        limits_json(json, limits)?;
        if let Some((outcomes, end)) = outcomes {
            json.text("outcomes", &outcomes.to_string())?;
            json.text("end", end_name(end))?;
        }
        if let Some(code) = code {
            let module = row.at.module();
            json.text("ends_with", code.ending.words())?;
            match code.last {
                Some(last) => place(json, view, "last", Place::new(module, Vaddr(last)))?,
                None => json.null("last")?,
            }
            match code.jump {
                Some(jump) => place(json, view, "jump", Place::new(module, Vaddr(jump)))?,
                None => json.null("jump")?,
            }
            json.number("instructions", code.instructions)?;
            json.member_array("blocks")?;
            for block in code.blocks {
                json.object()?;
                json.number("start", block.start)?;
                json.number("end", block.end)?;
                json.end_object()?;
            }
            json.end_array()?;
            json.member_array("branches")?;
            for branch in code.branches {
                json.object()?;
                json.number("vaddr", branch.at)?;
                json.text("kind", if branch.taken { "taken" } else { "fallthrough" })?;
                json.end_object()?;
            }
            json.end_array()?;
        }
        json.end_object()?;
    }
    json.end_array()
}
