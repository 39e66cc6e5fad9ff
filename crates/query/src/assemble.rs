//! From text to program.

use alloc::vec::Vec;

use crate::check::check;
use crate::diagnostic::{Diagnostic, Severity, Span};
use crate::lower::lower;
use crate::parse::parse;
use crate::program::Program;

/// The result of assembling a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assembly {
    /// The program.
    pub program: Program,
    /// For each query, in the order of its code, its header.
    pub headers: Vec<Span>,
    /// For each instruction, the clause it comes from.
    pub spans: Vec<Span>,
    /// Warnings: text that is probably not meant.
    pub warnings: Vec<Diagnostic>,
}

/// Assembles a text.
///
/// # Errors
/// Everything that is wrong with it, warnings included, in the order of the text. Of what is no file of
/// queries at all only the first mistake.
pub fn assemble(text: &str) -> Result<Assembly, Vec<Diagnostic>> {
    let file = parse(text).map_err(|error| alloc::vec![error])?;
    let mut found = Vec::new();
    let checked = check(text, &file, &mut found);
    let failed = |found: &[Diagnostic]| found.iter().any(|d| d.severity == Severity::Error);
    let lowered = match failed(&found) {
        true => None,
        false => lower(&checked, &mut found),
    };
    found.sort_by_key(|d| d.span.start);
    match lowered {
        Some((program, spans)) if !failed(&found) => Ok(Assembly {
            program,
            headers: checked.queries.iter().map(|q| q.span).collect(),
            spans,
            warnings: found,
        }),
        _ => Err(found),
    }
}
