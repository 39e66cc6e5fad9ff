//! Coverage of source lines, for `genhtml` and `lcov`.
//!
//! All lines of functions that the debug information has are there, those that were not executed with 0. A line's count is the largest of
//! its instructions: the first one of a loop's line is executed once.

use std::collections::BTreeMap;
use std::io::Write;
use std::rc::Rc;

use trommel_symbol::demangle;

use crate::error::ExportError;
use crate::format::{Format, Modules, Next};
use crate::input::Input;
use crate::lines::{ByLine, one_line};
use crate::view::ModuleFlow;

/// The format.
pub(crate) struct Lcov;

impl Format for Lcov {
    fn name(&self) -> &'static str {
        "lcov"
    }

    fn about(&self) -> &'static str {
        "executed source lines, for genhtml and lcov"
    }

    fn modules(&self) -> Modules {
        Modules::One
    }

    fn promises_exact(&self) -> bool {
        true
    }

    fn extension(&self) -> &'static str {
        "info"
    }

    fn next(&self, next: &Next<'_>) -> String {
        let file = next.file;
        format!("genhtml -o coverage {file}")
    }

    fn write(&self, input: &mut Input<'_, '_>, out: &mut dyn Write) -> Result<(), ExportError> {
        let (code, flow) = input.only(self.name())?;
        let mut lines = ByLine::new();
        for (start, bytes) in code.parts() {
            let range = *start..start.saturating_add(bytes.len() as u64);
            for row in input.symbols.rows(flow.module, &range) {
                let count = most(&flow, &row.range);
                let at = lines
                    .entry(row.file)
                    .or_default()
                    .entry(row.line)
                    .or_default();
                *at = count.max(*at);
            }
        }
        if lines.is_empty() {
            return Err(ExportError::NoLines {
                module: input.path(flow.module),
                format: self.name(),
            });
        }
        let functions = functions(input, &flow);
        for (file, counts) in &lines {
            writeln!(out, "TN:\nSF:{}", one_line(file))?;
            let none = BTreeMap::new();
            let of_file = functions.get(file).unwrap_or(&none);
            for (name, (line, _)) in of_file {
                writeln!(out, "FN:{line},{name}")?;
            }
            for (name, (_, count)) in of_file {
                writeln!(out, "FNDA:{count},{name}")?;
            }
            let hit = of_file.values().filter(|(_, count)| *count > 0).count();
            writeln!(out, "FNF:{}\nFNH:{hit}", of_file.len())?;
            for (line, count) in counts {
                writeln!(out, "DA:{line},{count}")?;
            }
            let hit = counts.values().filter(|count| **count > 0).count();
            writeln!(out, "LF:{}\nLH:{hit}\nend_of_record", counts.len())?;
        }
        Ok(())
    }
}

/// The most that any straight line in a range was executed.
fn most(flow: &ModuleFlow, range: &std::ops::Range<u64>) -> u64 {
    // Straight lines do not overlap, but for shared bytes of two instructions.
    let first = flow.lines.partition_point(|line| line.end <= range.start);
    let inside = flow.lines[first..].iter();
    let inside = inside.take_while(|line| line.start < range.end);
    inside.map(|line| line.count).max().unwrap_or(0)
}

/// Line and calls of each function, by file and name.
type ByFile = BTreeMap<Rc<str>, BTreeMap<String, (u32, u64)>>;

fn functions(input: &mut Input<'_, '_>, flow: &ModuleFlow) -> ByFile {
    let mut all = ByFile::new();
    let spans = &input.program.modules[&flow.module].spans;
    for (number, span) in spans.all().iter().enumerate() {
        if span.name.is_empty() || span.stub || spans.whole(number) != number {
            continue;
        }
        let start = span.range.start;
        let rows = input
            .symbols
            .rows(flow.module, &(start..start.saturating_add(1)));
        let Some(row) = rows.into_iter().find(|row| row.range.contains(&start)) else {
            continue;
        };
        let count = most(flow, &(start..start.saturating_add(1)));
        let name = one_line(&demangle(&span.name)).replace(',', ";");
        all.entry(row.file)
            .or_default()
            .insert(name, (row.line, count));
    }
    all
}
