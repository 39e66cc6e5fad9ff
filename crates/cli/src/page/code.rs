//! The hottest functions of a page, instruction by instruction.
//!
//! Instructions that were not executed are left out where there are several in a row: a page is about what ran.

use std::io::{self, Write};

use trommel_code::Program;
use trommel_symbol::demangle;

use crate::annotate::{Listed, listing};
use crate::json::Json;
use crate::report::view::View;

/// Functions with their code.
const FUNCTIONS: usize = 24;
/// Instructions of all of them.
const INSTRUCTIONS: usize = 24_000;
/// A function with a smaller share of all instructions is not hot.
const LEAST_SHARE: f64 = 0.004;
/// Instructions in a row, not executed, from which on they are left out.
const COLD: usize = 4;

/// Writes an object for each of the functions.
pub(super) fn write<W: Write>(
    json: &mut Json<W>,
    view: &mut View<'_>,
    program: Option<&Program>,
) -> io::Result<()> {
    let Some(program) = program else {
        return Ok(());
    };
    let whole = program.executed().times.max(1.0);
    let hot = program.functions.iter().enumerate().filter(|(_, f)| {
        !f.ranges.is_empty() && !f.at_least && f.executed.times / whole >= LEAST_SHARE
    });
    let mut room = INSTRUCTIONS;
    for (number, function) in hot.take(FUNCTIONS) {
        let name = match function.name.is_empty() {
            true => String::new(),
            false => demangle(&function.name),
        };
        let found = listing(view, function.module, name.clone(), function.ranges.clone());
        // Its file is gone, or another one.
        let Ok(lines) = found else {
            continue;
        };
        if lines.len() > room {
            continue;
        }
        room -= lines.len();
        json.object()?;
        json.number("function", number as u64)?;
        json.text("name", &view.readable(&name))?;
        json.member_array("lines")?;
        let mut cold = 0;
        for (n, line) in lines.iter().enumerate() {
            let ran = |line: &Listed| line.count.is_none_or(|count| count > 0.0);
            let in_a_row = lines[n..].iter().take_while(|line| !ran(line)).count();
            if cold > 0 || in_a_row >= COLD {
                cold += usize::from(!ran(line));
                if in_a_row <= 1 {
                    json.object()?;
                    json.number("cold", cold as u64)?;
                    json.end_object()?;
                    cold = 0;
                }
                continue;
            }
            one(json, line)?;
        }
        json.end_array()?;
        json.end_object()?;
    }
    Ok(())
}

fn one<W: Write>(json: &mut Json<W>, line: &Listed) -> io::Result<()> {
    json.object()?;
    json.text("at", &format!("{:x}", line.address))?;
    json.text("text", &line.text)?;
    if let Some(count) = line.count {
        json.number("count", count.round() as u64)?;
        json.real("share", line.share)?;
    }
    if let Some(source) = &line.source {
        json.text("source", source)?;
    }
    if let Some(taken) = line.taken {
        json.real("taken", taken)?;
    }
    if !line.notes.is_empty() {
        json.text("notes", &line.notes)?;
    }
    json.end_object()
}
