//! Assembled queries for scripts: schema `trommel.query/1`, described in `docs/json.md`.

use std::io::Write;

use anyhow::Result;
use serde_json::{Value, json};
use trommel_query::disassemble::clause;
use trommel_query::pair::Within;
use trommel_query::tag::Where;
use trommel_query::{Assembly, Diagnostic, Field, Position, Rate, Sampling};

use super::listing;
use super::source::Source;

const SCHEMA: &str = "trommel.query/1";

pub(super) fn write(out: &mut impl Write, document: &Value) -> Result<()> {
    writeln!(out, "{}", serde_json::to_string_pretty(document)?)?;
    Ok(())
}

/// Returns what `check` found.
pub(super) fn checks(sources: &[Source]) -> Value {
    let files = sources.iter().map(|source| {
        json!({
            "file": source.name,
            "valid": source.assembled.is_ok(),
            "instructions": source.assembled.as_ref().ok().map(|a| a.program.code().len()),
            "queries": source.assembled.as_ref().ok().map(|a| queries(&source.text, a)),
            "diagnostics": diagnostics(source),
        })
    });
    json!({ "schema": SCHEMA, "files": files.collect::<Vec<_>>() })
}

/// A program as `asm` shows it.
pub(super) fn program(source: &Source, assembly: &Assembly) -> Value {
    let program = &assembly.program;
    let registers = program.table().registers();
    let registers = registers
        .iter()
        .enumerate()
        .filter(|(_, value)| **value != 0);
    let registers = registers.map(|(number, value)| json!({ "number": number, "value": value }));
    let mut code = Vec::new();
    for query in program.queries() {
        for at in query.code.clone() {
            let instruction = &program.code()[at];
            code.push(json!({
                "number": at,
                "word": format!("{:016x}", instruction.encode()),
                "text": clause(instruction, query.layout()),
                "line": listing::line(&source.text, assembly.spans.get(at)),
            }));
        }
    }
    let tags = program.tags().iter().map(|rule| match &rule.place {
        Where::Module(name) => json!({ "tag": rule.tag, "module": name }),
        Where::Symbol(name) => json!({ "tag": rule.tag, "symbol": name }),
        Where::Range { from, to, module } => {
            json!({ "tag": rule.tag, "from": from, "to": to, "module": module })
        }
    });
    json!({
        "schema": SCHEMA,
        "file": source.name,
        "registers": registers.collect::<Vec<_>>(),
        "instructions": code,
        "queries": queries(&source.text, assembly),
        "tags": tags.collect::<Vec<_>>(),
        "diagnostics": diagnostics(source),
    })
}

fn queries(text: &str, assembly: &Assembly) -> Vec<Value> {
    let queries = assembly.program.queries();
    let queries = queries
        .iter()
        .zip(&assembly.headers)
        .map(|(query, header)| {
            json!({
                "line": listing::line(text, Some(header)),
                "entries": query.entries.selectors(),
                "every": query.sampling.rate().map(Rate::one_in),
                "budget_percent": match query.sampling {
                    Sampling::Every(_) => None,
                    Sampling::Auto(budget) => Some(budget.percent()),
                },
                "pair": query.pair.map(Within::most),
                "fields": query.fields.iter().map(Field::name).collect::<Vec<_>>(),
                "words": query.names().collect::<Vec<_>>(),
                "start": query.code.start,
                "instructions": query.code.len(),
                "only_in_model": listing::only_modelled(query),
            })
        });
    queries.collect()
}

fn diagnostics(source: &Source) -> Vec<Value> {
    let of = |d: &Diagnostic| {
        let [from, to] = [d.span.start, d.span.end].map(|at| Position::of(&source.text, at));
        json!({
            "severity": d.severity.name(),
            "line": from.line,
            "column": from.column,
            "end_line": to.line,
            "end_column": to.column,
            "message": d.message,
            "fix": d.fix,
        })
    };
    source.found().iter().map(of).collect()
}
