//! Coverage of source lines, for `genhtml` and `lcov`.
//!
//! All lines of functions that the debug information has are there, those that were not executed with 0. A line's count is the largest of
//! its instructions: the first one of a loop's line is executed once. Of a line that several functions have (constructors, instances of a
//! template, copies) the counts are added up, as gcov does.
//!
//! Executions of a function are those of its first instruction, and of the first instruction of each of its inlined copies. The copies of
//! one line, and those that a compiler makes of a loop, are one.
//!
//! Functions have their linkage names, as gcov gives them: two constructors of a class differ in these alone. Functions of one linkage
//! name in one file (static ones of a header) are added up. Functions that the compiler made without source are left out.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Write;
use std::rc::Rc;

use trommel_symbol::{Code, LineOffset, SourceRow, Sources, Span, Spans, printable};
use trommel_tuple::ModuleId;

use crate::error::ExportError;
use crate::format::{Format, Modules, Next};
use crate::input::Input;
use crate::lines::{ByLine, plain_path, span_of};
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

    fn opens_sources(&self) -> bool {
        true
    }

    fn needs_lines(&self) -> bool {
        true
    }

    fn extension(&self) -> &'static str {
        "info"
    }

    fn next(&self, next: &Next<'_>) -> String {
        let file = next.file;
        let missing = match next.sources_missing {
            true => " --ignore-errors source",
            false => "",
        };
        format!("genhtml --demangle-cpp{missing} -o coverage {file}")
    }

    fn check(&self, input: &Input<'_, '_>, module: ModuleId) -> Result<(), ExportError> {
        input.check_lines(module, self.name())
    }

    fn write(&self, input: &mut Input<'_, '_>, out: &mut dyn Write) -> Result<(), ExportError> {
        let (code, flow) = input.only(self.name())?;
        let sources = input.symbols.sources(flow.module).unwrap_or_default();
        let mut paths = PlainPaths::default();
        let mut most_of: BTreeMap<(Rc<str>, u32, Option<usize>), u64> = BTreeMap::new();
        for (start, bytes) in code.parts() {
            let range = *start..start.saturating_add(bytes.len() as u64);
            for row in paths.rows(input, flow.module, &range) {
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
        let mut functions = functions(input, &flow, &sources, &mut paths);
        add_inlined(
            &mut functions,
            input,
            (&code, &flow),
            (&sources, &mut paths),
        );
        for (file, counts) in &lines {
            writeln!(out, "TN:\nSF:{}", printable(file))?;
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

/// Paths of source files as lcov has them, so that its own files and these can be added up.
#[derive(Default)]
struct PlainPaths(HashMap<Rc<str>, Rc<str>>);

impl PlainPaths {
    /// The source lines of the instructions in a range.
    fn rows(
        &mut self,
        input: &mut Input<'_, '_>,
        module: ModuleId,
        range: &std::ops::Range<u64>,
    ) -> Vec<SourceRow> {
        let mut rows = input.symbols.rows(module, range);
        for row in &mut rows {
            let plain = self.0.get(&row.file).cloned();
            row.file = plain.unwrap_or_else(|| {
                let plain: Rc<str> = plain_path(&row.file).into();
                self.0.insert(Rc::clone(&row.file), Rc::clone(&plain));
                plain
            });
        }
        rows
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

/// A function's name as a field, which ends at a comma.
fn field(name: &[u8]) -> String {
    printable(&String::from_utf8_lossy(name)).replace(',', ";")
}

/// Line and calls of each function, by file and name.
type ByFile = BTreeMap<Rc<str>, BTreeMap<String, (u32, u64)>>;

fn functions(
    input: &mut Input<'_, '_>,
    flow: &ModuleFlow,
    sources: &Sources,
    paths: &mut PlainPaths,
) -> ByFile {
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
        let rows = paths.rows(input, flow.module, &(start..start.saturating_add(1)));
        let Some(row) = rows.into_iter().find(|row| row.range.contains(&start)) else {
            continue;
        };
        let count = most(flow, &(start..start.saturating_add(1)));
        let name = field(linkage);
        let of_file = all.entry(row.file).or_default();
        let (line, calls) = of_file.entry(name).or_insert((row.line, 0));
        *line = row.line.min(*line);
        *calls = count.saturating_add(*calls);
    }
    all
}

/// A copy of a function: the function around all, and the calls inlined in each other down to it.
type InlinedCopy<'s> = (Option<u64>, Vec<(&'s [u8], LineOffset)>);

/// Adds the executions of inlined copies, and the functions that are nowhere else.
fn add_inlined(
    all: &mut ByFile,
    input: &mut Input<'_, '_>,
    (code, flow): (&Code<'_>, &ModuleFlow),
    (sources, paths): (&Sources, &mut PlainPaths),
) {
    let mut files: HashMap<String, Rc<str>> = HashMap::new();
    for (file, functions) in &*all {
        let named = functions.keys().map(|name| (name.clone(), Rc::clone(file)));
        files.extend(named);
    }
    let mut known: HashSet<InlinedCopy<'_>> = HashSet::new();
    for (start, bytes) in code.parts() {
        let range = *start..start.saturating_add(bytes.len() as u64);
        let mut rows = paths.rows(input, flow.module, &range);
        rows.sort_by_key(|row| row.range.start);
        for row in rows {
            let at = row.range.start;
            let frames = sources.at(at);
            let frames: Vec<_> = frames.iter().map(|f| (f.function, f.at)).collect();
            for depth in 1..frames.len() {
                let mut copy = frames[..=depth].to_vec();
                let (name, inner) = std::mem::take(&mut copy[depth]);
                copy[depth].0 = name;
                if !known.insert((sources.start_of(at), copy)) {
                    continue;
                }
                let name = field(name);
                let is_innermost = depth + 1 == frames.len();
                let own = all
                    .get(&row.file)
                    .filter(|f| is_innermost && f.contains_key(&name));
                let file = own.map(|_| Rc::clone(&row.file));
                let file = file.or_else(|| files.get(&name).cloned());
                let count = most(flow, &(at..at.saturating_add(1)));
                let of_file = file.and_then(|file| all.get_mut(&file));
                match of_file.and_then(|functions| functions.get_mut(&name)) {
                    Some((_, calls)) => *calls = count.saturating_add(*calls),
                    // The row's line is one of the innermost function.
                    None if is_innermost && inner.lines < row.line && !name.is_empty() => {
                        files.insert(name.clone(), Rc::clone(&row.file));
                        let of_file = all.entry(Rc::clone(&row.file)).or_default();
                        of_file.insert(name, (row.line - inner.lines, count));
                    }
                    None => {}
                }
            }
        }
    }
}
