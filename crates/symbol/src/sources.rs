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
//! # Invariants
//! Depth and numbers are bounded by the bytes that are there. Malformed units are left out.

use std::collections::HashMap;
use std::ops::Range;

use addr2line::gimli::{
    self, AttributeValue, DebuggingInformationEntry, DwAt, Dwarf, EndianSlice, LittleEndian, Unit,
    UnitOffset, constants as dw,
};

type Slice<'a> = EndianSlice<'a, LittleEndian>;
type Entry<'u, 'a> = DebuggingInformationEntry<'u, 'u, Slice<'a>>;

/// Inlined calls in each other, at most.
const MOST_DEEP: usize = 64;
/// Origins of an entry in a row, at most.
const MOST_ORIGINS: usize = 8;

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

impl Sources {
    pub(crate) fn of(dwarf: &Dwarf<Slice<'_>>) -> Self {
        let mut all = Self::default();
        let mut known = HashMap::new();
        let mut units = dwarf.units();
        while let Ok(Some(header)) = units.next() {
            let Ok(unit) = dwarf.unit(header) else {
                continue;
            };
            let mut reader = Reader {
                dwarf,
                unit: &unit,
                names: &mut all.names,
                known: &mut known,
            };
            // What is malformed ends the unit; what was read of it stays.
            let _ = reader.functions(&mut all.functions);
            let _ = rows(&unit, &mut all.rows);
        }
        for (number, function) in all.functions.iter().enumerate() {
            let ranges = function.ranges.iter().map(|r| (r.start, r.end, number));
            all.ranges.extend(ranges);
        }
        all.ranges.sort_unstable();
        all.rows.sort_by_key(|row| row.start);
        all
    }

    /// Returns the functions at an address, the outermost first, each with the position in it. Empty where nothing is known.
    pub fn at(&self, address: u64) -> Vec<SourceFrame<'_>> {
        let after = self.ranges.partition_point(|r| r.0 <= address);
        let around = self.ranges[..after].last().filter(|r| address < r.1);
        let Some(mut scope) = around.and_then(|r| self.functions.get(r.2)) else {
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
fn rows(unit: &Unit<Slice<'_>>, out: &mut Vec<Row>) -> gimli::Result<()> {
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

/// Reads the entries of one unit.
struct Reader<'r, 'a> {
    dwarf: &'r Dwarf<Slice<'a>>,
    unit: &'r Unit<Slice<'a>>,
    names: &'r mut Vec<Vec<u8>>,
    known: &'r mut HashMap<Vec<u8>, u32>,
}

impl<'a> Reader<'_, 'a> {
    fn functions(&mut self, out: &mut Vec<Scope>) -> gimli::Result<()> {
        let mut cursor = self.unit.entries();
        // Scopes that are open, each with its depth.
        let mut open: Vec<(isize, Scope)> = Vec::new();
        let mut depth = 0_isize;
        while let Some((delta, entry)) = cursor.next_dfs()? {
            depth += delta;
            while open.last().is_some_and(|(of, _)| *of >= depth) {
                close(&mut open, out);
            }
            let is_call = entry.tag() == dw::DW_TAG_inlined_subroutine;
            if !is_call && entry.tag() != dw::DW_TAG_subprogram || open.len() >= MOST_DEEP {
                continue;
            }
            if let Some(scope) = self.scope(entry, is_call) {
                open.push((depth, scope));
            }
        }
        while !open.is_empty() {
            close(&mut open, out);
        }
        Ok(())
    }

    fn scope(&mut self, entry: &Entry<'_, 'a>, is_call: bool) -> Option<Scope> {
        let mut ranges = Vec::new();
        let mut found = self.dwarf.die_ranges(self.unit, entry).ok()?;
        while let Ok(Some(range)) = found.next() {
            if range.begin < range.end {
                ranges.push(range.begin..range.end);
            }
        }
        if ranges.is_empty() {
            return None;
        }
        let (name, declared) = self.name_and_line(entry);
        let number = |at: DwAt| {
            let value = entry.attr_value(at).ok().flatten();
            value
                .and_then(|v| v.udata_value())
                .map_or(0, |n| u32::try_from(n).unwrap_or(0))
        };
        let call = is_call.then(|| {
            let line = number(dw::DW_AT_call_line);
            (line, number(dw::DW_AT_GNU_discriminator))
        });
        Some(Scope {
            ranges,
            name: self.number(name?),
            declared,
            call,
            inlined: Vec::new(),
        })
    }

    fn number(&mut self, name: Vec<u8>) -> u32 {
        if let Some(known) = self.known.get(&name) {
            return *known;
        }
        let number = self.names.len() as u32;
        self.names.push(name.clone());
        self.known.insert(name, number);
        number
    }

    /// Linkage name, else name, and line of an entry, from its origins where it has none itself.
    fn name_and_line(&self, entry: &Entry<'_, 'a>) -> (Option<Vec<u8>>, u32) {
        let (mut linkage, mut plain, mut line) = (None, None, None);
        let mut origin = self.attributes(entry, &mut linkage, &mut plain, &mut line);
        for _ in 0..MOST_ORIGINS {
            let Some(reference) = origin.take() else {
                break;
            };
            match reference {
                Reference::Here(offset) => {
                    if let Ok(entry) = self.unit.entry(offset) {
                        origin = self.attributes(&entry, &mut linkage, &mut plain, &mut line);
                    }
                }
                Reference::Elsewhere(offset) => {
                    if let Some((unit, offset)) = self.unit_of(offset)
                        && let Ok(entry) = unit.entry(offset)
                    {
                        let other = Reader {
                            dwarf: self.dwarf,
                            unit: &unit,
                            names: &mut Vec::new(),
                            known: &mut HashMap::new(),
                        };
                        origin = other.attributes(&entry, &mut linkage, &mut plain, &mut line);
                        if let Some(Reference::Here(offset)) = origin {
                            let whole = offset.to_debug_info_offset(&unit.header);
                            origin = whole.map(Reference::Elsewhere);
                        }
                    }
                }
            }
        }
        (linkage.or(plain), line.unwrap_or(0))
    }

    fn unit_of(&self, offset: gimli::DebugInfoOffset) -> Option<(Unit<Slice<'a>>, UnitOffset)> {
        let mut units = self.dwarf.units();
        while let Ok(Some(header)) = units.next() {
            if let Some(inside) = offset.to_unit_offset(&header) {
                return Some((self.dwarf.unit(header).ok()?, inside));
            }
        }
        None
    }

    fn attributes(
        &self,
        entry: &Entry<'_, 'a>,
        linkage: &mut Option<Vec<u8>>,
        plain: &mut Option<Vec<u8>>,
        line: &mut Option<u32>,
    ) -> Option<Reference> {
        let text = |value| {
            Some(
                self.dwarf
                    .attr_string(self.unit, value)
                    .ok()?
                    .slice()
                    .to_vec(),
            )
        };
        let mut origin = None;
        let mut attributes = entry.attrs();
        while let Ok(Some(attribute)) = attributes.next() {
            let value = attribute.value();
            match attribute.name() {
                dw::DW_AT_linkage_name | dw::DW_AT_MIPS_linkage_name if linkage.is_none() => {
                    *linkage = text(value);
                }
                dw::DW_AT_name if plain.is_none() => *plain = text(value),
                dw::DW_AT_decl_line if line.is_none() => {
                    *line = value.udata_value().and_then(|n| u32::try_from(n).ok());
                }
                dw::DW_AT_abstract_origin | dw::DW_AT_specification => {
                    origin = match value {
                        AttributeValue::UnitRef(offset) => Some(Reference::Here(offset)),
                        AttributeValue::DebugInfoRef(offset) => Some(Reference::Elsewhere(offset)),
                        _ => None,
                    };
                }
                _ => {}
            }
        }
        origin
    }
}

/// The entry that another one is an instance of.
enum Reference {
    Here(UnitOffset),
    Elsewhere(gimli::DebugInfoOffset),
}

/// Puts the innermost open scope where it belongs.
fn close(open: &mut Vec<(isize, Scope)>, out: &mut Vec<Scope>) {
    let Some((_, scope)) = open.pop() else {
        return;
    };
    // A call is inlined in the scope around it; a function is none's.
    match open.last_mut() {
        Some((_, around)) if scope.call.is_some() => around.inlined.push(scope),
        _ => out.push(scope),
    }
}
