//! Units of debug information whose own ranges leave code out.
//!
//! BOLT 16 ends the ranges of a unit of DWARF 5 after the functions that stay where they are, if there are several. Those that it moved are
//! left out. Functions and rows of lines are right, but a reader finds these by the ranges of their unit. Without such ranges it takes
//! those of the rows.

use crate::abbreviations::Tables;

/// Tags of units that have code.
const UNITS: [u64; 2] = [0x11, 0x4a];

/// `DW_AT_ranges`.
const RANGES: u8 = 0x55;

/// A number that no attribute has since DWARF 2.
const NOTHING: u8 = 0x06;

/// The tables of `.debug_abbrev` without the attribute that has a unit's ranges. What follows a malformed entry stays as it is.
pub(crate) fn without(tables: &[u8]) -> Vec<u8> {
    let mut changed = tables.to_vec();
    let mut rest = Tables::new(tables, 0);
    while let Some(ranges) = ranges(tables, &mut rest) {
        for at in ranges {
            changed[at] = NOTHING;
        }
    }
    changed
}

/// Passes the end of a table or an entry. Returns the places of `DW_AT_ranges` in the entry of a unit.
fn ranges(tables: &[u8], rest: &mut Tables<'_>) -> Option<Vec<usize>> {
    let mut found = Vec::new();
    let Some(tag) = rest.entry()? else {
        return Some(found);
    };
    while let Some(attribute) = rest.attribute()? {
        // A longer form of the same number begins with another byte, and stays.
        if UNITS.contains(&tag) && tables[attribute.at] == RANGES {
            found.push(attribute.at);
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A unit, a function, both with ranges; a value in the table that looks like ranges; a second table.
    const TABLES: [u8; 26] = [
        1, 0x11, 1, 0x25, 0x08, 0x55, 0x23, 0, 0, //
        2, 0x2e, 0, 0x3b, 0x21, 0x55, 0x55, 0x23, 0, 0, 0, //
        1, 0x4a, 0, 0x55, 0x23, 0,
    ];

    #[test]
    fn ranges_of_units_go_and_those_of_functions_stay() {
        let changed = without(&TABLES);
        let places: Vec<usize> = (0..TABLES.len())
            .filter(|at| changed[*at] != TABLES[*at])
            .collect();
        // The last table is cut short.
        assert_eq!(places, [5]);
        let whole = [&TABLES[..], &[0, 0]].concat();
        assert_eq!(without(&whole)[23], NOTHING);
    }

    #[test]
    fn malformed_tables_stay_as_they_are() {
        for tables in [&[][..], &[1], &[1, 0x11, 0, 0x55], &[0x80; 40]] {
            assert_eq!(without(tables), tables);
        }
    }
}
