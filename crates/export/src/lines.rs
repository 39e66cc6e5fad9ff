//! Instructions of straight lines, and their source lines and functions.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;

use iced_x86::{Decoder, DecoderOptions, Instruction};
use trommel_symbol::{Code, SourceRow, Spans, Symbols, demangle, printable};

use crate::view::{ModuleFlow, Straight};

/// The instructions of a straight line.
pub(crate) fn instructions<'c>(
    code: &Code<'c>,
    line: &Straight,
) -> impl Iterator<Item = Instruction> + use<'c> {
    let bytes = code.at(line.start).unwrap_or_default();
    let length = line.end.saturating_sub(line.start).min(bytes.len() as u64);
    let bytes = &bytes[..length as usize];
    Decoder::with_ip(64, bytes, line.start, DecoderOptions::NONE).into_iter()
}

/// Source lines of what was executed of a module, in files with printable names.
pub(crate) struct Lines(Vec<SourceRow>);

impl Lines {
    /// Those of a module.
    pub(crate) fn of(symbols: &mut Symbols<'_>, flow: &ModuleFlow) -> Self {
        let start = flow.lines.iter().map(|line| line.start).min();
        let end = flow.lines.iter().map(|line| line.end).max();
        let (Some(start), Some(end)) = (start, end) else {
            return Self(Vec::new());
        };
        let mut rows = symbols.rows(flow.module, &(start..end));
        for row in &mut rows {
            if let Cow::Owned(file) = printable(&row.file) {
                row.file = file.into();
            }
        }
        rows.sort_by_key(|row| row.range.start);
        Self(rows)
    }

    /// Returns true if no line is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The line of an instruction.
    pub(crate) fn at(&self, address: u64) -> Option<(&Rc<str>, u32)> {
        let after = self.0.partition_point(|row| row.range.start <= address);
        let row = self.0[..after].last()?;
        (address < row.range.end).then_some((&row.file, row.line))
    }
}

/// The straight lines of each function, by the number of its span. Code in no function is one without a number.
pub(crate) fn by_function<'l>(
    spans: &Spans,
    flow: &'l ModuleFlow,
) -> BTreeMap<Option<usize>, Vec<&'l Straight>> {
    let mut all: BTreeMap<Option<usize>, Vec<&Straight>> = BTreeMap::new();
    for line in &flow.lines {
        all.entry(span_of(spans, line.start))
            .or_default()
            .push(line);
    }
    all
}

/// The function that an address is in: of a part, the whole one.
pub(crate) fn span_of(spans: &Spans, at: u64) -> Option<usize> {
    spans.find(at).map(|number| spans.whole(number))
}

/// The name that people are shown, as in reports: printable, demangled, of a stub with `@plt`, of a function without a name its module and start. Code in
/// no function is its module.
pub(crate) fn name(path: &str, spans: &Spans, number: Option<usize>) -> String {
    let module = printable(path.rsplit('/').next().unwrap_or(path)).into_owned();
    let Some(span) = number.and_then(|n| spans.all().get(n)) else {
        return match module.starts_with('[') {
            true => module,
            false => format!("[{module}]"),
        };
    };
    match span.name.is_empty() {
        true => by_start(&module, span.range.start),
        false => printable(&demangle(&span.name)).into_owned(),
    }
}

/// The name of a function without a name: `libc.so.6+0x12340`.
pub(crate) fn by_start(module: &str, start: u64) -> String {
    format!("{module}+{start:#x}")
}

/// Executions of each source line, by file.
pub(crate) type ByLine = BTreeMap<Rc<str>, BTreeMap<u32, u64>>;

/// The name of a source file that is not known.
pub(crate) fn unknown_file() -> Rc<str> {
    "???".into()
}
