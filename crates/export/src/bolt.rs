//! BOLT's own format (`.fdata`): branches by function and offset.
//!
//! A line is `1 FUNCTION OFFSET 1 FUNCTION OFFSET MISPREDICTED COUNT`, offsets in hexadecimal. `0 [unknown] 0` stands for code of other files.
//! BOLT compares names byte by byte. A backslash stands before what would end a field, and nothing can stand for the end of a line: a function
//! whose names all have one is code of no function. Functions that are local to a source file have its name and a number after their own, as BOLT calls them: `f/file.c/1`. A function or a
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
        input.check_compiler(module, self.name())?;
        // BOLT knows functions by the file's own table, not by one that stands elsewhere.
        let own = input.symbols.own_tables(module);
        match own.is_some_and(|own| !own.symbols) {
            true => Err(input.nameless(module, self.name())),
            false => Ok(()),
        }
    }

    fn left_out(&self, input: &Input<'_, '_>) -> Option<String> {
        let (_, flow) = input.only(self.name()).ok()?;
        let named = Named::new(input.symbols.function_symbols(flow.module));
        let executed = |f: &&Function| {
            flow.lines
                .iter()
                .any(|l| (f.start..f.end).contains(&l.start))
        };
        let nameless = named.functions.iter().filter(|f| f.name.is_none());
        match nameless.filter(executed).count() {
            0 => None,
            number => Some(format!(
                "{number} executed functions have an end of a line in their names, which no line of the format can hold: they are left out"
            )),
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
            "{blocks}  # link with {} to have functions reordered and split, too",
            next.emit_relocations()
        ),
    }
}

/// A place as BOLT names it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum At<'n> {
    Unknown,
    Function(&'n [u8], u64),
}

impl At<'_> {
    fn write(self, out: &mut dyn Write) -> std::io::Result<()> {
        match self {
            Self::Unknown => write!(out, "0 [unknown] 0 "),
            Self::Function(name, offset) => {
                out.write_all(b"1 ")?;
                out.write_all(name)?;
                write!(out, " {offset:x} ")
            }
        }
    }
}

/// A function and the name that BOLT gives it, as it is written; `None` where it cannot be.
struct Function {
    start: u64,
    end: u64,
    name: Option<Vec<u8>>,
}

/// The functions of a file by the names that BOLT gives them.
struct Named {
    /// In the order of their starts.
    functions: Vec<Function>,
}

impl Named {
    fn new(symbols: Vec<FunctionSymbol>) -> Self {
        let mut times: HashMap<Vec<u8>, usize> = HashMap::new();
        let mut functions: Vec<Function> = Vec::new();
        for symbol in symbols {
            let mut numbered = |name: Vec<u8>| {
                let number = times.entry(name.clone()).or_default();
                *number += 1;
                field(&[name, format!("/{number}").into_bytes()].concat())
            };
            let name = match symbol.local {
                false => field(&symbol.name),
                true => {
                    // BOLT numbers all local functions of a name, and those of a name and a file.
                    let of_file = (symbol.file).map(|f| [&symbol.name[..], b"/", &f].concat());
                    let plain = numbered(symbol.name);
                    of_file.and_then(numbered).or(plain)
                }
            };
            let end = symbol.start.saturating_add(symbol.size);
            match functions.last_mut() {
                // One name of a place is enough: BOLT knows all of them.
                Some(known) if known.start == symbol.start => {
                    known.end = end.max(known.end);
                    known.name = known.name.take().or(name);
                }
                // To BOLT a symbol within a function is another entry of it.
                Some(known) if symbol.start < known.end => {}
                _ => functions.push(Function {
                    start: symbol.start,
                    end,
                    name,
                }),
            }
        }
        Self { functions }
    }

    /// Adds functions that have no symbol, but are described.
    fn add_stripped(&mut self, spans: &Spans, sections: &[(u64, Vec<u8>)]) {
        let functions = spans.all().iter().filter(|span| !span.stub && span.sized);
        let is_known = |span: &&Span| self.around(span.range.start).is_some();
        let stripped: Vec<&Span> = functions.filter(|span| !is_known(span)).collect();
        for Span { range, .. } in stripped {
            let section = sections.iter().find(|(start, _)| *start == range.start);
            let name = match section {
                Some((_, name)) => field(&[name, &b"/1"[..]].concat()),
                None => Some(format!("__BOLT_FDE_FUNCat{:x}", range.start).into_bytes()),
            };
            self.functions.push(Function {
                start: range.start,
                end: range.end,
                name,
            });
        }
        self.functions.sort_by_key(|function| function.start);
    }

    /// The function that an address is in.
    fn around(&self, address: u64) -> Option<&Function> {
        let after = self.functions.partition_point(|f| f.start <= address);
        let last = self.functions[..after].last()?;
        (address < last.end || address == last.start).then_some(last)
    }

    fn at(&self, address: u64) -> At<'_> {
        let function = self.around(address);
        function.map_or(At::Unknown, |function| match &function.name {
            Some(name) => At::Function(name, address - function.start),
            None => At::Unknown,
        })
    }
}

/// A name with a backslash before what ends a field; `None` of one with an end of a line.
fn field(name: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(name.len());
    for byte in name {
        match byte {
            b'\n' => return None,
            b' ' | b'\\' => out.extend([b'\\', *byte]),
            _ => out.push(*byte),
        }
    }
    Some(out)
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
            At::Function(name, offset) => {
                format!("{}+{offset:x}", String::from_utf8_lossy(name))
            }
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
    fn names_are_the_bytes_of_the_file_and_none_ends_a_line() {
        let symbol = |name: &[u8], start, file: Option<&[u8]>| FunctionSymbol {
            name: name.into(),
            start,
            size: 8,
            local: file.is_some(),
            file: file.map(Into::into),
        };
        let named = Named::new(vec![
            symbol(b"a b\\\x1b\r\xff", 0x10, None),
            symbol(b"two\nlines", 0x20, None),
            symbol(b"two\nnames", 0x30, None),
            symbol(b"another", 0x30, None),
            symbol(b"local", 0x40, Some(b"x\ny.c")),
        ]);
        let names = [0x10, 0x20, 0x30, 0x40].map(|at| match named.at(at) {
            At::Unknown => &b"none"[..],
            At::Function(name, _) => name,
        });
        let wanted = [&b"a\\ b\\\\\x1b\r\xff"[..], b"none", b"another", b"local/1"];
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
            At::Function(name, offset) => {
                format!("{}+{offset:x}", String::from_utf8_lossy(name))
            }
        });
        assert_eq!(names, ["alias+0", "alias+a", "alias+1f", "next+0"]);
    }
}
