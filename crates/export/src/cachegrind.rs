//! Cachegrind's format, for `cg_annotate`: instructions of each source line, by function.

use std::collections::BTreeMap;
use std::io::Write;
use std::rc::Rc;

use crate::error::ExportError;
use crate::format::{Format, Modules, Next};
use crate::input::Input;
use crate::lines::{Lines, by_function, command, events, instructions, name, unknown_file};

/// The format.
pub(crate) struct Cachegrind;

impl Format for Cachegrind {
    fn name(&self) -> &'static str {
        "cachegrind"
    }

    fn about(&self) -> &'static str {
        "instructions of each source line, for cg_annotate"
    }

    fn modules(&self) -> Modules {
        Modules::All
    }

    fn has_lines(&self) -> bool {
        true
    }

    fn extension(&self) -> &'static str {
        "cachegrind"
    }

    fn next(&self, next: &Next<'_>) -> String {
        let file = next.file;
        format!("cg_annotate {file}")
    }

    fn write(&self, input: &mut Input<'_, '_>, out: &mut dyn Write) -> Result<(), ExportError> {
        // By file, function and line.
        let mut all: BTreeMap<Rc<str>, BTreeMap<String, BTreeMap<u32, u64>>> = BTreeMap::new();
        let mut total = 0_u64;
        for (module, code, flow) in input.flows(self.name())? {
            let lines = Lines::of(input.symbols, &flow);
            let path = input.path(module);
            let spans = &input.program.modules[&module].spans;
            let unknown = unknown_file();
            for (span, straights) in by_function(spans, &flow) {
                let name = name(&path, spans, span);
                for straight in straights {
                    for instruction in instructions(&code, straight) {
                        let (file, line) = lines.at(instruction.ip()).unwrap_or((&unknown, 0));
                        let of_file = all.entry(Rc::clone(file)).or_default();
                        let of_function = match of_file.get_mut(&name) {
                            Some(found) => found,
                            None => of_file.entry(name.clone()).or_default(),
                        };
                        let sum = of_function.entry(line).or_default();
                        *sum = sum.saturating_add(straight.count);
                        total = total.saturating_add(straight.count);
                    }
                }
            }
        }
        let command = command(input.profile);
        writeln!(
            out,
            "desc: Counted by trommel\ncmd: {command}\n{}",
            events(input.profile)
        )?;
        for (file, functions) in &all {
            writeln!(out, "fl={}", file)?;
            for (name, lines) in functions {
                writeln!(out, "fn={}", name)?;
                for (line, count) in lines {
                    writeln!(out, "{line} {count}")?;
                }
            }
        }
        writeln!(out, "summary: {total}")?;
        Ok(())
    }
}
