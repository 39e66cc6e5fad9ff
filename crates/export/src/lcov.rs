//! Coverage of source lines, for `genhtml` and `lcov`.
//!
//! All lines of functions that the debug information has are there, those that were not executed with 0. A line's count is the largest of
//! its instructions: the first one of a loop's line is executed once. Of a line that several functions have (constructors, instances of a
//! template, copies) the counts are added up, as gcov does.
//!
//! Functions have their linkage names, as gcov gives them: two constructors of a class differ in these alone. Functions of one linkage
//! name in one file (static ones of a header) are added up. Functions that the compiler made without source are left out.

use std::collections::BTreeMap;
use std::io::Write;
use std::rc::Rc;

use trommel_symbol::{Sources, Span, Spans};
use trommel_tuple::ModuleId;

use crate::error::ExportError;
use crate::format::{Format, Modules, Next};
use crate::input::Input;
use crate::lines::{ByLine, one_line, span_of};
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
        format!("genhtml --demangle-cpp -o coverage {file}")
    }

    fn check(&self, input: &Input<'_, '_>, module: ModuleId) -> Result<(), ExportError> {
        input.check_lines(module, self.name())
    }

    fn write(&self, input: &mut Input<'_, '_>, out: &mut dyn Write) -> Result<(), ExportError> {
        let (code, flow) = input.only(self.name())?;
        let sources = input.symbols.sources(flow.module).unwrap_or_default();
        let mut most_of: BTreeMap<(Rc<str>, u32, Option<usize>), u64> = BTreeMap::new();
        for (start, bytes) in code.parts() {
            let range = *start..start.saturating_add(bytes.len() as u64);
            for row in input.symbols.rows(flow.module, &range) {
                let spans = &input.program.modules[&flow.module].spans;
                let function = function_of(spans, &sources, row.range.start);
                if is_made(spans, function, &sources, row.range.start) {
                    continue;
                }
                let count = most(&flow, &row.range);
                let at = most_of.entry((row.file, row.line, function)).or_default();
                *at = count.max(*at);
            }
        }
        let mut lines = ByLine::new();
        for ((file, line, _), count) in most_of {
            let sum = lines.entry(file).or_default().entry(line).or_default();
            *sum = count.saturating_add(*sum);
        }
        if lines.is_empty() {
            return Err(input.lineless(flow.module, self.name()));
        }
        let functions = functions(input, &flow, &sources);
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

/// The number of the function that an address is in. A part that was put elsewhere is of its function by the debug information, where
/// its own symbol was stripped.
fn function_of(spans: &Spans, sources: &Sources, at: u64) -> Option<usize> {
    span_of(spans, sources.start_of(at).unwrap_or(at))
}

/// The most that any straight line in a range was executed.
fn most(flow: &ModuleFlow, range: &std::ops::Range<u64>) -> u64 {
    // Straight lines do not overlap, but for shared bytes of two instructions.
    let first = flow.lines.partition_point(|line| line.end <= range.start);
    let inside = flow.lines[first..].iter();
    let inside = inside.take_while(|line| line.start < range.end);
    inside.map(|line| line.count).max().unwrap_or(0)
}

/// Returns true if no source has the function: the compiler made it, or it is a thunk that adjusts `this`.
fn is_made(spans: &Spans, function: Option<usize>, sources: &Sources, at: u64) -> bool {
    let name = function.and_then(|number| spans.all().get(number));
    let name = name.map_or(&b""[..], |span| &span.name);
    let thunk = [&b"_ZTh"[..], b"_ZTv", b"_ZTc"];
    thunk.iter().any(|start| name.starts_with(start)) || sources.is_artificial(at)
}

/// The linkage name of a function. Several symbols may begin there (constructors of a class): the debug information has the one that gcov
/// gives. A part of a function has a name of its own, as its executions are no calls of the function.
fn named<'s>(span: &'s Span, sources: &'s Sources) -> &'s [u8] {
    let is_part = span.name.windows(6).any(|part| part == b".part.");
    let linkage = sources.function_at(span.range.start);
    linkage.filter(|_| !is_part).unwrap_or(&span.name)
}

/// Line and calls of each function, by file and name.
type ByFile = BTreeMap<Rc<str>, BTreeMap<String, (u32, u64)>>;

fn functions(input: &mut Input<'_, '_>, flow: &ModuleFlow, sources: &Sources) -> ByFile {
    let mut all = ByFile::new();
    let spans = &input.program.modules[&flow.module].spans;
    for (number, span) in spans.all().iter().enumerate() {
        let linkage = named(span, sources);
        if linkage.is_empty() || span.stub || spans.whole(number) != number {
            continue;
        }
        let start = span.range.start;
        if is_made(spans, Some(number), sources, start) {
            continue;
        }
        let rows = input
            .symbols
            .rows(flow.module, &(start..start.saturating_add(1)));
        let Some(row) = rows.into_iter().find(|row| row.range.contains(&start)) else {
            continue;
        };
        let count = most(flow, &(start..start.saturating_add(1)));
        let name = one_line(&String::from_utf8_lossy(linkage)).replace(',', ";");
        let of_file = all.entry(row.file).or_default();
        let (line, calls) = of_file.entry(name).or_insert((row.line, 0));
        *line = row.line.min(*line);
        *calls = count.saturating_add(*calls);
    }
    all
}
