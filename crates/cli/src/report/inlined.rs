//! `report --inlined`: functions that were inlined into others, by themselves.
//!
//! # Strategy
//! A function that was inlined has one line, with what it executed wherever it is. Where there is such a function by itself too, that is its
//! line. The others have less by as much, so the sum over functions stays.

use std::collections::HashMap;
use std::io::{self, Write};

use trommel_code::{Count, Function, Inlined, InlinedPart};
use trommel_symbol::demangle;
use trommel_tuple::ModuleId;

use super::Shown;
use super::row::Row;
use super::view::View;
use crate::json::Json;

/// Functions that were inlined, as they are met.
#[derive(Default)]
pub(super) struct Rows<'a> {
    /// Lines of functions by themselves, by their full names.
    lines: HashMap<(ModuleId, String), usize>,
    parts: Vec<(ModuleId, &'a InlinedPart)>,
}

impl<'a> Rows<'a> {
    /// Takes what was inlined from the line of a function, which will have this number.
    pub(super) fn add(
        &mut self,
        row: &mut Row,
        function: &Function,
        inlined: &'a Inlined,
        number: usize,
    ) {
        let name = demangle(&function.name);
        self.lines.entry((function.module, name)).or_insert(number);
        let parts = inlined.parts(function);
        if parts.is_empty() {
            return;
        }
        row.executed = Count::of_events(0.0, None);
        for part in parts {
            match part.functions.is_empty() {
                true => row.executed = part.executed,
                false => self.parts.push((function.module, part)),
            }
        }
    }

    /// Adds what was inlined to lines of its functions.
    pub(super) fn finish(mut self, view: &View<'_>, rows: &mut Vec<Row>) {
        // The hottest instruction of each line that is of inlined code alone.
        let mut most: HashMap<usize, f64> = HashMap::new();
        for (module, part) in self.parts {
            let name = part.functions[0].to_string();
            let number = *self.lines.entry((module, name)).or_insert_with_key(|key| {
                rows.push(Row::inlined(view.shortened(&key.1), module));
                rows.len() - 1
            });
            let row = &mut rows[number];
            row.executed = row.executed.plus(part.executed);
            row.inlined = row.inlined.plus(part.executed);
            let most = most.entry(number).or_default();
            if !row.stands && part.executed.times > *most {
                (*most, row.place) = (part.executed.times, Some(part.hottest));
            }
        }
    }
}

/// The member `inlined` of a function, where that was asked for: what was inlined into it, most instructions first.
pub(super) fn json<W: Write>(
    json: &mut Json<W>,
    view: &mut View<'_>,
    shown: &Shown<'_>,
    function: &Function,
) -> io::Result<()> {
    let Some(inlined) = shown.inlined else {
        return Ok(());
    };
    let parts = inlined.parts(function).iter();
    let mut parts: Vec<&InlinedPart> = parts.filter(|part| !part.functions.is_empty()).collect();
    parts.sort_by(|a, b| b.executed.times.total_cmp(&a.executed.times));
    json.member_array("inlined")?;
    for part in parts {
        json.object()?;
        json.texts("functions", &part.functions)?;
        let location = view.locate(part.hottest);
        json.optional_text("file", location.file.as_deref())?;
        match location.line {
            Some(line) => json.number("line", line)?,
            None => json.null("line")?,
        }
        json.count("self", &part.executed)?;
        json.end_object()?;
    }
    json.end_array()
}
