//! Instructions of straight lines, and their source lines and functions.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;

use iced_x86::{Decoder, DecoderOptions, Instruction};
use trommel_profile::Profile;
use trommel_profile::unit::Unit;
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

/// The line of the formats of Valgrind's tools that names their event.
pub(crate) fn events(profile: &Profile) -> &'static str {
    match profile.unit() {
        Unit::Instructions => "events: Ir",
        Unit::Cycles => "events: Cycles",
    }
}

/// The command of a profile on one line. Where processes have no word in common, what the profile is of.
pub(crate) fn command(profile: &Profile) -> String {
    if profile.command.is_empty() {
        return whole(profile);
    }
    let words = profile.command.iter().map(|w| String::from_utf8_lossy(w));
    printable(&words.collect::<Vec<_>>().join(" ")).into_owned()
}

/// Words for the processes of a profile that has no command in common.
pub(crate) fn whole(profile: &Profile) -> String {
    match profile.sum {
        Some(sum) => format!(
            "[{} recordings, {} processes]",
            sum.recordings, sum.processes
        ),
        None => "[several programs]".to_owned(),
    }
}

/// The path of a file without `.` and `..`, as lcov writes it.
pub(crate) fn plain_path(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match (part, parts.last()) {
            (".", Some(_)) => {}
            ("", Some(_)) => {}
            ("..", Some(&"")) => {}
            ("..", Some(&last)) if last != ".." && last != "." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// Executions of each source line, by file.
pub(crate) type ByLine = BTreeMap<Rc<str>, BTreeMap<u32, u64>>;

/// The name of a source file that is not known.
pub(crate) fn unknown_file() -> Rc<str> {
    "???".into()
}

#[cfg(test)]
mod tests {
    use trommel_profile::Sum;

    use super::*;

    #[test]
    fn paths_have_no_detours() {
        for (path, plain) in [
            (
                "/usr/bin/../lib/gcc/12/../../../include/c++/12/map",
                "/usr/include/c++/12/map",
            ),
            ("/build/./a//b.c", "/build/a/b.c"),
            ("/../a.c", "/a.c"),
            ("../src/a.c", "../src/a.c"),
            ("../../a/../b.c", "../../b.c"),
            ("./a.c", "./a.c"),
            ("a.c", "a.c"),
        ] {
            assert_eq!(plain_path(path), plain);
        }
    }

    #[test]
    fn a_profile_of_several_programs_says_so() {
        let word = |text: &str| text.as_bytes().to_vec();
        let mut profile = Profile {
            command: vec![word("app"), word("a\nb")],
            ..Profile::default()
        };
        assert_eq!(command(&profile), "app a\\nb");
        profile.command.clear();
        assert_eq!(command(&profile), "[several programs]");
        profile.sum = Some(Sum {
            recordings: 2,
            processes: 3,
        });
        assert_eq!(command(&profile), "[2 recordings, 3 processes]");
    }
}
