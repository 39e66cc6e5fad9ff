//! Assembled queries for people.

use std::io::{self, Write};

use trommel_query::MAX_INSTRUCTIONS;
use trommel_query::disassemble::clause;
use trommel_query::program::Query;
use trommel_query::{Assembly, Field, Position, Span, Subject};

use super::forecast;
use crate::output::{self, printable};

/// Writes a summary of the queries in a file.
pub(crate) fn summary(
    out: &mut impl Write,
    name: &str,
    text: &str,
    assembly: &Assembly,
) -> io::Result<()> {
    let program = &assembly.program;
    let queries = program.queries();
    let count = |n: usize, one: &str, many: &str| match n {
        1 => format!("1 {one}"),
        n => format!("{n} {many}"),
    };
    writeln!(
        out,
        "{}: {}, {} of {MAX_INSTRUCTIONS} instructions",
        printable(name),
        count(queries.len(), "query", "queries"),
        program.code().len()
    )?;
    for (query, header) in queries.iter().zip(&assembly.headers) {
        let line = line(text, Some(header));
        writeln!(
            out,
            "  line {line}: {}, {}, collects {}",
            query.entries.selectors().join(", "),
            query.rate(),
            fields(query)
        )?;
        let only = only_modelled(query);
        if !only.is_empty() {
            writeln!(out, "    only the hardware model knows {}", only.join(", "))?;
        }
    }
    if let Some(costly) = forecast::of(&queries, None) {
        let costly = output::wrapped(&costly, 2, 2, output::width(&io::stdout()));
        writeln!(out, "  {costly}")?;
    }
    Ok(())
}

/// The registers and instructions.
pub(crate) fn program(out: &mut impl Write, text: &str, assembly: &Assembly) -> io::Result<()> {
    let program = &assembly.program;
    if program.queries().is_empty() {
        return writeln!(out, "# no query: nothing is profiled");
    }
    writeln!(out, "# profile control registers; all others are 0")?;
    for (entry, control) in program.table().entries() {
        let number = 2 * entry.number();
        let [first, second] = control.registers();
        let names: Vec<&str> = control.fields.iter().map(Field::name).collect();
        writeln!(
            out,
            "pcr {number:>2}  {first:08x}  {entry}: {}, {}",
            control.sampling,
            names.join(" ")
        )?;
        let start = control.start.number();
        let pair = control
            .pair
            .map_or_else(String::new, |within| format!(", {within}"));
        let number = number + 1;
        writeln!(out, "pcr {number:>2}  {second:08x}  query at {start}{pair}")?;
    }
    writeln!(out, "# query instructions")?;
    for query in program.queries() {
        for at in query.code.clone() {
            let instruction = &program.code()[at];
            writeln!(
                out,
                "{at:>3}  {:016x}  {}  # line {}",
                instruction.encode(),
                clause(instruction, query.layout()),
                line(text, assembly.spans.get(at))
            )?;
        }
    }
    Ok(())
}

pub(super) fn line(text: &str, span: Option<&Span>) -> usize {
    Position::of(text, span.map_or(0, |s| s.start)).line
}

fn fields(query: &Query) -> String {
    let names: Vec<&str> = query.fields.iter().map(Field::name).collect();
    names.join(" ")
}

/// Returns what software cannot see: facts of a pipeline, and events of caches.
pub(super) fn only_modelled(query: &Query) -> Vec<&'static str> {
    let fields = query.fields.iter().filter(|f| f.is_of_pipeline());
    let events = query.entries.iter().filter_map(|e| match e.subject() {
        Subject::Event(event) => Some(event.name()),
        Subject::Class(_) => None,
    });
    events.chain(fields.map(Field::name)).collect()
}
