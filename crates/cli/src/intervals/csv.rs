//! Intervals as CSV: a row for each candidate, and one for an interval without any.

use std::io::{self, Write};

use trommel_tuple::{Message, Place};

use super::{Entry, Names};

/// Titles of columns.
const COLUMNS: &str =
    "spec,interval,start,events,phase,error_percent,kind,module,vaddr,to_module,value,count";
/// Titles of further columns where the intervals are of a profile.
const OF_PROFILE: &str = ",process,thread,function,to_function";

/// Writes the titles.
pub(crate) fn titles<N: Names>(out: &mut impl Write, _names: &N) -> io::Result<()> {
    let more = if N::FUNCTIONS { OF_PROFILE } else { "" };
    writeln!(out, "{COLUMNS}{more}")
}

/// Writes the rows of a compressor's intervals (RFC 4180, but lines end with a line feed).
pub(crate) fn rows<N: Names>(
    out: &mut impl Write,
    spec: &str,
    entries: &[Entry<'_>],
    names: &mut N,
) -> io::Result<()> {
    for e in entries {
        let error = e
            .error
            .map_or_else(String::new, |e| format!("{:.4}", e + 0.0));
        // A spec with a threshold has a comma.
        let front = format!(
            "{},{},{},{},{},{error}",
            quoted(spec),
            e.number,
            e.start,
            e.events,
            e.phase
        );
        let thread = match (N::FUNCTIONS, e.of) {
            (false, _) => String::new(),
            (true, None) => ",,".into(),
            (true, Some(of)) if of.thread == 0 => format!(",{},", of.process),
            (true, Some(of)) => format!(",{},{}", of.process, of.thread),
        };
        if e.candidates.is_empty() {
            let empty = if N::FUNCTIONS { ",," } else { "" };
            writeln!(out, "{front},,,,,,{thread}{empty}")?;
        }
        for m in e.candidates {
            writeln!(out, "{front},{}{thread}{}", tuple(m), functions(m, names))?;
        }
    }
    Ok(())
}

/// Columns of a candidate.
fn tuple(m: &Message) -> String {
    let (to, value) = match m.kind.value_is_place() {
        true => {
            let to = Place::from_word(m.tuple.value);
            (to.module().0.to_string(), to.vaddr().0)
        }
        false => (String::new(), m.tuple.value),
    };
    let (module, vaddr) = (m.tuple.pc.module().0, m.tuple.pc.vaddr().0);
    format!("{},{module},{vaddr},{to},{value},{}", m.kind, m.count)
}

/// Columns of its functions.
fn functions<N: Names>(m: &Message, names: &mut N) -> String {
    if !N::FUNCTIONS {
        return String::new();
    }
    let mut function = |place| {
        let location = names.location(place);
        let name = location.and_then(|l| l.function.as_deref().map(quoted));
        name.unwrap_or_default()
    };
    let at = function(m.tuple.pc);
    let to = match m.kind.value_is_place() {
        true => function(Place::from_word(m.tuple.value)),
        false => String::new(),
    };
    format!(",{at},{to}")
}

/// A field, in quotes where its text needs them.
pub(crate) fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}
