//! Source positions as sample profiles name them: by the line's distance from its function, through all functions inlined there.
//!
//! # Problem
//! A sample profile must survive edits of the source and another build. So it names a position by the function, the line's distance
//! from the function's first one, and a discriminator between blocks of one line. Code of inlined functions is named by the calls that were
//! inlined, each likewise.
//!
//! # Strategy
//! One pass over the debug information of a module. Each function gives a tree of the calls inlined in it, with their ranges. Line programs
//! give rows of line and discriminator. A position is a walk down the tree, then a row.
//!
//! A function that the debug information gives no linkage name (GCC does so for static functions of C++) has that of its symbol. Calls of it
//! that were inlined have it too.
//!
//! # Invariants
//! Depth and numbers are bounded by the bytes that are there. Malformed units are left out.

mod reader;

use std::collections::HashMap;
use std::ops::Range;

use addr2line::gimli::{self, Dwarf, Unit};

use crate::demangle::demangle;
use crate::meter::Metered;

use reader::{Reader, Units, number};

/// A position in one function.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct LineOffset {
    /// Lines from the line of the function's declaration, modulo 2^16.
    pub lines: u32,
    /// Discriminator, as the debug information has it.
    pub discriminator: u32,
}

/// A function of a position, and where in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceFrame<'s> {
    /// Linkage name of the function, or its plain name.
    pub function: &'s [u8],
    /// The position in it: of the inlined call, or of the instruction.
    pub at: LineOffset,
}

/// A function or an inlined call.
#[derive(Debug)]
struct Scope {
    ranges: Vec<Range<u64>>,
    /// Number of the name.
    name: u32,
    /// Entry that the function was declared by, where the debug information has no linkage name of it.
    unnamed: Option<usize>,
    /// The compiler made the function: no line of source did.
    artificial: bool,
    declared: u32,
    /// Line and discriminator of the call; `None` of a function by itself.
    call: Option<(u32, u32)>,
    inlined: Vec<Scope>,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    start: u64,
    end: u64,
    line: u32,
    discriminator: u32,
}

/// The source positions of a module.
#[derive(Debug, Default)]
pub struct Sources {
    names: Vec<Vec<u8>>,
    /// By each range of a function: start, end, number.
    ranges: Vec<(u64, u64, usize)>,
    functions: Vec<Scope>,
    rows: Vec<Row>,
}

/// Says whether a unit of the debug information is in a file of its own (`.dwo`).
pub(crate) fn is_split(dwarf: &Dwarf<Metered<'_>>) -> bool {
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        if dwarf
            .unit(header)
            .is_ok_and(|unit| unit.dwo_name().is_ok_and(|name| name.is_some()))
        {
            return true;
        }
    }
    false
}

impl Sources {
    /// Those of a module, with the symbols that begin at an address.
    pub(crate) fn of(dwarf: &Dwarf<Metered<'_>>, symbols: impl Fn(u64) -> Vec<Vec<u8>>) -> Self {
        let mut all = Self::default();
        let mut known = HashMap::new();
        let units = Units::of(dwarf);
        for unit in units.iter() {
            let mut reader = Reader {
                dwarf,
                units: &units,
                unit,
                names: &mut all.names,
                known: &mut known,
            };
            // What is malformed ends the unit; what was read of it stays.
            let _ = reader.functions(&mut all.functions);
            let _ = rows(unit, &mut all.rows);
        }
        all.name_by_symbols(symbols, &mut known);
        for (number, function) in all.functions.iter().enumerate() {
            let ranges = function.ranges.iter().map(|r| (r.start, r.end, number));
            all.ranges.extend(ranges);
        }
        all.ranges.sort_unstable();
        all.rows.sort_by_key(|row| row.start);
        all
    }

    /// Gives functions without a linkage name that of their symbol.
    fn name_by_symbols(
        &mut self,
        symbols: impl Fn(u64) -> Vec<Vec<u8>>,
        known: &mut HashMap<Vec<u8>, u32>,
    ) {
        let mut found: HashMap<usize, u32> = HashMap::new();
        for function in &self.functions {
            let (Some(entry), Some(range)) = (function.unnamed, function.ranges.first()) else {
                continue;
            };
            let plain = &self.names[function.name as usize];
            let names = symbols(range.start).into_iter();
            // The constructor of a base (`C2`) is the function, and that of a whole object (`C1`) another name of it.
            let linkage = names.filter_map(|name| linkage_of(&name, plain)).max();
            if let Some(linkage) = linkage {
                found.insert(entry, number(&mut self.names, known, linkage));
            }
        }
        let mut work: Vec<&mut Scope> = self.functions.iter_mut().collect();
        while let Some(scope) = work.pop() {
            if let Some(name) = scope.unnamed.and_then(|entry| found.get(&entry)) {
                scope.name = *name;
            }
            work.extend(&mut scope.inlined);
        }
    }

    /// Returns true if the function at an address is the compiler's own, such as a destructor that no source has.
    pub fn is_artificial(&self, address: u64) -> bool {
        self.around(address).is_some_and(|scope| scope.artificial)
    }

    /// The start of the function that an address is in, also in a part that was put elsewhere.
    pub fn start_of(&self, address: u64) -> Option<u64> {
        let first = self.around(address)?.ranges.first()?;
        Some(first.start)
    }

    /// The function that an address is in.
    fn around(&self, address: u64) -> Option<&Scope> {
        let after = self.ranges.partition_point(|r| r.0 <= address);
        let range = self.ranges[..after].last().filter(|r| address < r.1)?;
        self.functions.get(range.2)
    }

    /// Returns the functions at an address, the outermost first, each with the position in it. Empty where nothing is known.
    pub fn at(&self, address: u64) -> Vec<SourceFrame<'_>> {
        let Some(mut scope) = self.around(address) else {
            return Vec::new();
        };
        let after = self.rows.partition_point(|r| r.start <= address);
        let row = self.rows[..after].last().filter(|r| address < r.end);
        let Some(row) = row else {
            return Vec::new();
        };
        let mut frames = Vec::new();
        let holds = |s: &&Scope| s.ranges.iter().any(|r| r.contains(&address));
        while let Some(inner) = scope.inlined.iter().find(holds) {
            frames.push(self.frame(scope, inner.call.unwrap_or_default()));
            scope = inner;
        }
        frames.push(self.frame(scope, (row.line, row.discriminator)));
        frames
    }

    /// The name of the function that begins at an address.
    pub fn function_at(&self, address: u64) -> Option<&[u8]> {
        let first = self.ranges.partition_point(|r| r.0 < address);
        let (start, _, number) = *self.ranges.get(first)?;
        let function = self.functions.get(number).filter(|_| start == address)?;
        // A part that was put elsewhere begins no function.
        let begins = function.ranges.first().is_some_and(|r| r.start == start);
        self.names
            .get(function.name as usize)
            .filter(|_| begins)
            .map(|name| &name[..])
    }

    fn frame(&self, scope: &Scope, (line, discriminator): (u32, u32)) -> SourceFrame<'_> {
        let lines = line.wrapping_sub(scope.declared) & 0xffff;
        SourceFrame {
            function: self.names.get(scope.name as usize).map_or(&[], |name| name),
            at: LineOffset {
                lines,
                discriminator,
            },
        }
    }

    /// Returns true if there are no functions.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }
}

/// The rows of a unit's line program.
fn rows(unit: &Unit<Metered<'_>>, out: &mut Vec<Row>) -> gimli::Result<()> {
    let Some(program) = unit.line_program.clone() else {
        return Ok(());
    };
    let mut open: Option<Row> = None;
    let mut rows = program.rows();
    while let Some((_, row)) = rows.next_row()? {
        if let Some(before) = open.take()
            && before.start < row.address()
        {
            out.push(Row {
                end: row.address(),
                ..before
            });
        }
        if !row.end_sequence() {
            open = Some(Row {
                start: row.address(),
                end: row.address(),
                line: row
                    .line()
                    .map_or(0, |line| u32::try_from(line.get()).unwrap_or(0)),
                discriminator: u32::try_from(row.discriminator()).unwrap_or(0),
            });
        }
    }
    Ok(())
}

/// The linkage name of a function that is called so, by a symbol at its start. Names of copies (`f.constprop.0`) end at the dot.
/// Symbols of other functions are none: an alias may begin there too.
fn linkage_of(symbol: &[u8], plain: &[u8]) -> Option<Vec<u8>> {
    if !symbol.starts_with(b"_Z") {
        return None;
    }
    let name = symbol.split(|c| *c == b'.').next()?;
    let shown = demangle(name);
    let plain = std::str::from_utf8(plain).ok()?;
    let is = shown.as_bytes() != name && shown.contains(without_arguments(plain));
    is.then(|| name.to_vec())
}

/// A function's name without the arguments of a template, which compilers write in their own ways: `total<std::map<int, long> >`.
fn without_arguments(plain: &str) -> &str {
    const OPERATORS: [&str; 5] = ["<=>", "<<=", "<<", "<=", "<"];
    let operator = plain.strip_prefix("operator");
    let own = operator.and_then(|rest| OPERATORS.iter().find(|op| rest.starts_with(**op)));
    let first = own.map_or(0, |op| "operator".len() + op.len());
    match plain[first..].find('<') {
        Some(0) if first == 0 => plain,
        Some(at) => plain[..first + at].trim_end(),
        None => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_names_an_instance_of_a_template_and_no_other_function() {
        let symbol: &[u8] = b"_ZL5totalISt6vectorIiSaIiEEElRKT_";
        assert_eq!(
            linkage_of(symbol, b"total<std::vector<int> >").as_deref(),
            Some(symbol)
        );
        assert_eq!(linkage_of(symbol, b"sum<std::vector<int> >"), None);
    }

    #[test]
    fn operators_keep_their_own_signs() {
        for (plain, wanted) in [
            ("total<int>", "total"),
            ("total", "total"),
            ("operator()<int>", "operator()"),
            ("operator< <int>", "operator<"),
            ("operator<< <int>", "operator<<"),
            ("operator<=><int>", "operator<=>"),
            ("<lambda(int)>", "<lambda(int)>"),
        ] {
            assert_eq!(without_arguments(plain), wanted);
        }
    }
}
