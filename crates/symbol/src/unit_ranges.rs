//! Units of debug information whose own ranges leave code out.
//!
//! BOLT 16 ends the ranges of a unit of DWARF 5 after the functions that stay where they are, if there are several. Those that it moved are
//! left out. Functions and rows of lines are right, but a reader finds these by the ranges of their unit. Without such ranges it takes
//! those of the rows.

/// Tags of units that have code.
const UNITS: [u64; 2] = [0x11, 0x4a];

/// `DW_AT_ranges`.
const RANGES: u8 = 0x55;

/// A number that no attribute has since DWARF 2.
const NOTHING: u8 = 0x06;

/// The form of a value that stands in the table itself.
const IMPLICIT_CONST: u64 = 0x21;

/// The tables of `.debug_abbrev` without the attribute that has a unit's ranges. What follows a malformed entry stays as it is.
pub(crate) fn without(tables: &[u8]) -> Vec<u8> {
    let mut changed = tables.to_vec();
    let mut rest = Rest { tables, at: 0 };
    while let Some(ranges) = rest.entry() {
        for at in ranges {
            changed[at] = NOTHING;
        }
    }
    changed
}

struct Rest<'t> {
    tables: &'t [u8],
    at: usize,
}

impl Rest<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.tables.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    /// A number of variable length. Bits beyond 64 are left out.
    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..).step_by(7) {
            let byte = self.byte()?;
            if shift < 64 {
                number |= u64::from(byte & 0x7f) << shift;
            }
            if byte < 0x80 {
                break;
            }
        }
        Some(number)
    }

    /// Passes the end of a table or an entry. Returns the places of `DW_AT_ranges` in the entry of a unit.
    fn entry(&mut self) -> Option<Vec<usize>> {
        let mut found = Vec::new();
        if self.number()? == 0 {
            return Some(found);
        }
        let is_unit = UNITS.contains(&self.number()?);
        self.byte()?;
        loop {
            let at = self.at;
            let (name, form) = (self.number()?, self.number()?);
            if form == IMPLICIT_CONST {
                self.number()?;
            }
            if (name, form) == (0, 0) {
                return Some(found);
            }
            // A longer form of the same number begins with another byte, and stays.
            if is_unit && self.tables[at] == RANGES {
                found.push(at);
            }
        }
    }
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
