//! Functions of one unit and the calls inlined in them, from its entries.

use std::collections::HashMap;

use addr2line::gimli::{
    self, AttributeValue, DebuggingInformationEntry, DwAt, Dwarf, Unit, UnitOffset, constants as dw,
};

use super::Scope;
use crate::meter::Metered;

type Entry<'u, 'a> = DebuggingInformationEntry<'u, 'u, Metered<'a>>;
/// Inlined calls in each other, at most.
const MOST_DEEP: usize = 64;
/// Origins of an entry in a row, at most.
const MOST_ORIGINS: usize = 8;

/// The units of a module, in order.
pub(super) struct Units<'a>(Vec<Unit<Metered<'a>>>);

impl<'a> Units<'a> {
    pub(super) fn of(dwarf: &Dwarf<Metered<'a>>) -> Self {
        let mut all = Vec::new();
        let mut units = dwarf.units();
        while let Ok(Some(header)) = units.next() {
            all.extend(dwarf.unit(header));
        }
        Self(all)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Unit<Metered<'a>>> {
        self.0.iter()
    }

    /// The unit that holds an entry, and where in it.
    fn holding(&self, offset: gimli::DebugInfoOffset) -> Option<(&Unit<Metered<'a>>, UnitOffset)> {
        let begins = |unit: &Unit<_>| unit.header.offset().as_debug_info_offset();
        let after = self.0.partition_point(|unit| begins(unit) <= Some(offset));
        let unit = self.0[..after].last()?;
        Some((unit, offset.to_unit_offset(&unit.header)?))
    }
}

/// Reads the entries of one unit.
pub(super) struct Reader<'r, 'a> {
    pub(super) dwarf: &'r Dwarf<Metered<'a>>,
    pub(super) units: &'r Units<'a>,
    pub(super) unit: &'r Unit<Metered<'a>>,
    pub(super) names: &'r mut Vec<Vec<u8>>,
    pub(super) known: &'r mut HashMap<Vec<u8>, u32>,
}

impl<'a> Reader<'_, 'a> {
    pub(super) fn functions(&mut self, out: &mut Vec<Scope>) -> gimli::Result<()> {
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
        if self.ends_beyond_all(entry) {
            return None;
        }
        let mut found = self.dwarf.die_ranges(self.unit, entry).ok()?;
        while let Ok(Some(range)) = found.next() {
            if range.begin < range.end {
                ranges.push(range.begin..range.end);
            }
        }
        if ranges.is_empty() {
            return None;
        }
        let facts = self.facts(entry);
        let name = facts.linkage.clone().or_else(|| facts.plain.clone())?;
        let value_of = |at: DwAt| {
            let value = entry.attr_value(at).ok().flatten();
            value
                .and_then(|v| v.udata_value())
                .map_or(0, |n| u32::try_from(n).unwrap_or(0))
        };
        let call = is_call.then(|| {
            let line = value_of(dw::DW_AT_call_line);
            (line, value_of(dw::DW_AT_GNU_discriminator))
        });
        Some(Scope {
            ranges,
            name: number(self.names, self.known, name),
            unnamed: facts.linkage.is_none().then_some(facts.declared).flatten(),
            // The function of a lambda is one to GCC, but its lines are the source's.
            artificial: facts.artificial && facts.plain.as_deref() != Some(b"operator()"),
            declared: facts.line.unwrap_or(0),
            call,
            inlined: Vec::new(),
        })
    }

    /// Says whether an entry's size is greater than addresses are: the library adds it without a check.
    fn ends_beyond_all(&self, entry: &Entry<'_, 'a>) -> bool {
        let value = |at: DwAt| entry.attr_value(at).ok().flatten();
        let Some(AttributeValue::Udata(size)) = value(dw::DW_AT_high_pc) else {
            return false;
        };
        let start = value(dw::DW_AT_low_pc);
        let start = start.and_then(|start| self.dwarf.attr_address(self.unit, start).ok()?);
        start.is_some_and(|start| start.checked_add(size).is_none())
    }

    /// Facts of an entry, from its origins where it has none itself.
    fn facts(&self, entry: &Entry<'_, 'a>) -> Facts {
        let mut facts = Facts::default();
        let mut origin = self.attributes(entry, &mut facts);
        for _ in 0..MOST_ORIGINS {
            let Some(reference) = origin.take() else {
                break;
            };
            match reference {
                Reference::Here(offset) => {
                    if let Ok(entry) = self.unit.entry(offset) {
                        origin = self.attributes(&entry, &mut facts);
                    }
                }
                Reference::Elsewhere(offset) => {
                    if let Some((unit, offset)) = self.units.holding(offset)
                        && let Ok(entry) = unit.entry(offset)
                    {
                        let other = Reader {
                            dwarf: self.dwarf,
                            units: self.units,
                            unit,
                            names: &mut Vec::new(),
                            known: &mut HashMap::new(),
                        };
                        origin = other.attributes(&entry, &mut facts);
                        if let Some(Reference::Here(offset)) = origin {
                            let whole = offset.to_debug_info_offset(&unit.header);
                            origin = whole.map(Reference::Elsewhere);
                        }
                    }
                }
            }
        }
        facts
    }

    fn attributes(&self, entry: &Entry<'_, 'a>, facts: &mut Facts) -> Option<Reference> {
        let declared = entry.offset().to_debug_info_offset(&self.unit.header);
        facts.declared = declared.map(|offset| offset.0);
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
                dw::DW_AT_linkage_name | dw::DW_AT_MIPS_linkage_name if facts.linkage.is_none() => {
                    facts.linkage = text(value);
                }
                dw::DW_AT_name if facts.plain.is_none() => facts.plain = text(value),
                dw::DW_AT_artificial => facts.artificial = true,
                dw::DW_AT_decl_line if facts.line.is_none() => {
                    facts.line = value.udata_value().and_then(|n| u32::try_from(n).ok());
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

/// Facts of a function, as its entries have them.
#[derive(Default)]
struct Facts {
    linkage: Option<Vec<u8>>,
    plain: Option<Vec<u8>>,
    line: Option<u32>,
    artificial: bool,
    /// The last entry that was read: all instances of a function come to the same one.
    declared: Option<usize>,
}

/// The number of a name.
pub(super) fn number(
    names: &mut Vec<Vec<u8>>,
    known: &mut HashMap<Vec<u8>, u32>,
    name: Vec<u8>,
) -> u32 {
    if let Some(known) = known.get(&name) {
        return *known;
    }
    let number = names.len() as u32;
    names.push(name.clone());
    known.insert(name, number);
    number
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
