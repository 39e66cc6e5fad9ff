//! BOLT's own format (`.fdata`): branches by function and offset.
//!
//! A line is `1 FUNCTION OFFSET 1 FUNCTION OFFSET MISPREDICTED COUNT`, offsets in hexadecimal. `0 [unknown] 0` stands for code of other files.
//! Functions that are local to a source file have its name and a number after their own, as BOLT calls them: `f/file.c/1`. A function or a
//! part of one whose symbol was stripped is known by the entry in `.eh_frame` that describes it: `__BOLT_FDE_FUNCat1234`.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;

use trommel_symbol::{FunctionSymbol, Span, Spans};
use trommel_tuple::{ModuleId, Place};

use crate::error::ExportError;
use crate::format::{Format, Modules, Next};
use crate::input::Input;
use crate::leaders;

/// The format.
pub(crate) struct Bolt;

impl Format for Bolt {
    fn name(&self) -> &'static str {
        "bolt"
    }

    fn about(&self) -> &'static str {
        "branches by function, for llvm-bolt --data"
    }

    fn modules(&self) -> Modules {
        Modules::One
    }

    fn is_for_optimisers(&self) -> bool {
        true
    }

    fn extension(&self) -> &'static str {
        "fdata"
    }

    fn next(&self, next: &Next<'_>) -> String {
        rewrite(next, next.file)
    }

    fn check(&self, input: &Input<'_, '_>, module: ModuleId) -> Result<(), ExportError> {
        input.check_original(module, false)?;
        // BOLT knows functions by the file's own table, not by one that stands elsewhere.
        let own = input.symbols.own_tables(module);
        match own.is_some_and(|own| !own.symbols) {
            true => Err(input.nameless(module, self.name())),
            false => Ok(()),
        }
    }

    fn write(&self, input: &mut Input<'_, '_>, out: &mut dyn Write) -> Result<(), ExportError> {
        let (code, flow) = input.only(self.name())?;
        self.check(input, flow.module)?;
        let mut named = Named::new(input.symbols.function_symbols(flow.module));
        if named.functions.is_empty() {
            return Err(input.nameless(flow.module, self.name()));
        }
        let sections = input.symbols.section_symbols(flow.module);
        named.add_stripped(&input.program.modules[&flow.module].spans, &sections);
        let mut all: BTreeMap<(At<'_>, At<'_>), u64> = BTreeMap::new();
        for transfer in leaders::transfers(input, &code, &flow) {
            let at = |place: Place| match flow.has(place) {
                true => named.at(place.vaddr().0),
                false => At::Unknown,
            };
            let (from, to) = (at(transfer.from), at(transfer.to));
            if (from, to) != (At::Unknown, At::Unknown) {
                let sum = all.entry((from, to)).or_default();
                *sum = sum.saturating_add(transfer.count);
            }
        }
        for ((from, to), count) in &all {
            from.write(out)?;
            to.write(out)?;
            writeln!(out, "0 {count}")?;
        }
        Ok(())
    }
}

/// The command that rewrites a program by a profile of BOLT's.
pub(crate) fn rewrite(next: &Next<'_>, profile: &str) -> String {
    let Next { module, made, .. } = next;
    // The profile may have the name that the new program usually has.
    let end = match *next.file == format!("{made}.bolt") {
        true => "bolt.new",
        false => "bolt",
    };
    let blocks =
        format!("llvm-bolt {module} -o {made}.{end} --data={profile} --reorder-blocks=ext-tsp");
    match next.relocations {
        true => format!("{blocks} --reorder-functions=hfsort --split-functions --split-all-cold"),
        false => format!(
            "{blocks}  # link with -Wl,--emit-relocs to have functions reordered and split, too"
        ),
    }
}

/// A place as BOLT names it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum At<'n> {
    Unknown,
    Function(&'n str, u64),
}

impl At<'_> {
    fn write(self, out: &mut dyn Write) -> std::io::Result<()> {
        match self {
            Self::Unknown => write!(out, "0 [unknown] 0 "),
            Self::Function(name, offset) => write!(out, "1 {name} {offset:x} "),
        }
    }
}

/// The functions of a file by the names that BOLT gives them.
struct Named {
    /// Start, end and name, in the order of their starts.
    functions: Vec<(u64, u64, String)>,
}

impl Named {
    fn new(symbols: Vec<FunctionSymbol>) -> Self {
        let mut times: HashMap<Vec<u8>, usize> = HashMap::new();
        let mut functions: Vec<(u64, u64, String)> = Vec::new();
        for symbol in symbols {
            let name = match symbol.local {
                false => symbol.name,
                true => {
                    let mut name = symbol.name;
                    // BOLT numbers all local functions of a name, and those of a name and a file.
                    let mut number = times.entry(name.clone()).or_default();
                    *number += 1;
                    if let Some(file) = symbol.file {
                        name.push(b'/');
                        name.extend(file);
                        number = times.entry(name.clone()).or_default();
                        *number += 1;
                    }
                    name.extend(format!("/{number}").into_bytes());
                    name
                }
            };
            let end = symbol.start.saturating_add(symbol.size);
            match functions.last_mut() {
                // The first name of a place is enough: BOLT knows all of them.
                Some((start, known, _)) if *start == symbol.start => *known = end.max(*known),
                // To BOLT a symbol within a function is another entry of it.
                Some((_, known, _)) if symbol.start < *known => {}
                _ => functions.push((symbol.start, end, escaped(&name))),
            }
        }
        Self { functions }
    }

    /// Adds functions that have no symbol, but are described.
    fn add_stripped(&mut self, spans: &Spans, sections: &[(u64, Vec<u8>)]) {
        let functions = spans.all().iter().filter(|span| !span.stub && span.sized);
        let has_name = |span: &&Span| self.at(span.range.start) != At::Unknown;
        let stripped: Vec<&Span> = functions.filter(|span| !has_name(span)).collect();
        for Span { range, .. } in stripped {
            let section = sections.iter().find(|(start, _)| *start == range.start);
            let name = match section {
                Some((_, name)) => format!("{}/1", escaped(name)),
                None => format!("__BOLT_FDE_FUNCat{:x}", range.start),
            };
            self.functions.push((range.start, range.end, name));
        }
        self.functions.sort_by_key(|(start, ..)| *start);
    }

    fn at(&self, address: u64) -> At<'_> {
        let after = self
            .functions
            .partition_point(|(start, ..)| *start <= address);
        match self.functions[..after].last() {
            Some((start, end, name)) if address < *end || address == *start => {
                At::Function(name, address - start)
            }
            _ => At::Unknown,
        }
    }
}

/// A name with a backslash before what ends a field.
fn escaped(name: &[u8]) -> String {
    let mut out = String::new();
    for c in String::from_utf8_lossy(name).chars() {
        let c = if c == '\n' { ' ' } else { c };
        if matches!(c, ' ' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_functions_are_told_apart_by_file_and_number() {
        let symbol = |name: &str, start, local, file: Option<&str>| FunctionSymbol {
            name: name.into(),
            start,
            size: 8,
            local,
            file: file.map(Into::into),
        };
        let named = Named::new(vec![
            symbol("main", 0x10, false, None),
            symbol("f", 0x20, true, Some("a.c")),
            symbol("f", 0x30, true, Some("b.c")),
            symbol("f", 0x40, true, Some("a.c")),
            symbol("g", 0x50, true, None),
        ]);
        let names = [0x10, 0x22, 0x30, 0x47, 0x50, 0x58, 0x0f].map(|at| match named.at(at) {
            At::Unknown => String::new(),
            At::Function(name, offset) => format!("{name}+{offset:x}"),
        });
        let wanted = [
            "main+0",
            "f/a.c/1+2",
            "f/b.c/1+0",
            "f/a.c/2+7",
            "g/1+0",
            "",
            "",
        ];
        assert_eq!(names, wanted);
    }

    #[test]
    fn symbols_within_a_function_are_of_it_and_one_of_them_with_a_size_is_enough() {
        let symbol = |name: &str, start, size| FunctionSymbol {
            name: name.into(),
            start,
            size,
            local: false,
            file: None,
        };
        let named = Named::new(vec![
            symbol("alias", 0x10, 0),
            symbol("whole", 0x10, 0x20),
            symbol("entry", 0x18, 4),
            symbol("next", 0x30, 8),
        ]);
        let names = [0x10, 0x1a, 0x2f, 0x30].map(|at| match named.at(at) {
            At::Unknown => String::new(),
            At::Function(name, offset) => format!("{name}+{offset:x}"),
        });
        assert_eq!(names, ["alias+0", "alias+a", "alias+1f", "next+0"]);
    }
}
