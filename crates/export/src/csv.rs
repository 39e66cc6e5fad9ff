//! Tables: one row for each straight line and each transfer, for spreadsheets, DuckDB and scripts.
//!
//! Fields are written as RFC 4180 says: in quotes where they have commas, quotes or line ends.

use std::collections::HashMap;
use std::io::Write;
use std::rc::Rc;

use trommel_tuple::{ModuleId, Place, Vaddr};

use crate::error::ExportError;
use crate::format::{Format, Modules, Next};
use crate::input::Input;
use crate::lines::{Lines, name, span_of};

/// The format.
pub(crate) struct Csv;

impl Format for Csv {
    fn name(&self) -> &'static str {
        "csv"
    }

    fn about(&self) -> &'static str {
        "a table of blocks, branches and calls, for DuckDB"
    }

    fn modules(&self) -> Modules {
        Modules::All
    }

    fn extension(&self) -> &'static str {
        "csv"
    }

    fn next(&self, next: &Next<'_>) -> String {
        // The name of a file would have to be quoted for SQL and for the shell.
        let (file, unit) = (next.file, next.unit.name());
        format!(
            "duckdb -c \"select function, sum({unit}) from read_csv('/dev/stdin') where kind = 'block' group by all order by 2 desc\" < {file}"
        )
    }

    fn write(&self, input: &mut Input<'_, '_>, out: &mut dyn Write) -> Result<(), ExportError> {
        let flows = input.flows(self.name())?;
        writeln!(
            out,
            "kind,module,address,function,file,line,to_module,to_address,to_function,count,{}",
            input.profile.unit().name()
        )?;
        let mut names = Names::default();
        for (_, _, flow) in flows {
            let lines = Lines::of(input.symbols, &flow);
            for line in &flow.lines {
                let at = Place::new(flow.module, Vaddr(line.start));
                let (module, function) = names.of(input, at);
                let address = at.vaddr();
                let (file, number) = position(&lines, line.start);
                let all = line.count.saturating_mul(line.instructions.into());
                write!(
                    out,
                    "block,{module},{address:#x},{function},{file},{number},,,,"
                )?;
                writeln!(out, "{},{all}", line.count)?;
            }
            // Each transfer once: where it begins, or, from modules that are not written, where it ends.
            let wanted = |m: &ModuleId| input.modules.contains(m);
            let own = |from: Place| flow.has(from) || !wanted(&from.module());
            for transfer in flow.transfers.iter().filter(|t| own(t.from)) {
                let (module, function) = names.of(input, transfer.from);
                let (to_module, to_function) = names.of(input, transfer.to);
                let (address, to) = (transfer.from.vaddr(), transfer.to.vaddr());
                let (file, number) = match flow.has(transfer.from) {
                    true => position(&lines, transfer.from.vaddr().0),
                    false => (String::new(), String::new()),
                };
                write!(
                    out,
                    "{},{module},{address:#x},{function},",
                    transfer.way.name()
                )?;
                write!(out, "{file},{number},{to_module},{to:#x},{to_function},")?;
                writeln!(out, "{},", transfer.count)?;
            }
        }
        Ok(())
    }
}

/// Names as they are written, each made once.
#[derive(Default)]
struct Names {
    modules: HashMap<ModuleId, Rc<str>>,
    functions: HashMap<(ModuleId, usize), Rc<str>>,
}

impl Names {
    /// Module and function of a place.
    fn of(&mut self, input: &Input<'_, '_>, place: Place) -> (Rc<str>, Rc<str>) {
        let id = place.module();
        let named = self.modules.entry(id);
        let module = Rc::clone(named.or_insert_with(|| quoted(&input.path(id)).into()));
        let spans = input.program.modules.get(&id).map(|m| &m.spans);
        let function = spans.and_then(|spans| {
            let span = span_of(spans, place.vaddr().0)?;
            let named = self.functions.entry((id, span));
            let quoted = || quoted(&name(&input.path(id), spans, Some(span))).into();
            Some(Rc::clone(named.or_insert_with(quoted)))
        });
        (module, function.unwrap_or_default())
    }
}

fn position(lines: &Lines, at: u64) -> (String, String) {
    let found: Option<(&Rc<str>, u32)> = lines.at(at);
    found.map_or_else(Default::default, |(file, line)| {
        (quoted(file), line.to_string())
    })
}

/// A field.
fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_commas_quotes_and_line_ends_are_quoted() {
        assert_eq!(quoted("f(int)"), "f(int)");
        assert_eq!(quoted("f<\"a\",\n>"), "\"f<\"\"a\"\",\n>\"");
    }
}
