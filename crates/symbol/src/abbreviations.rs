//! Tables of `.debug_abbrev`, by their bytes.
//!
//! Each unit of debug information has a table, which tells the tag and the attributes of its entries. Some questions are asked of all tables of
//! a file before any is read as a whole: this is what they cost least with.
//!
//! Nothing here allocates. A table that is cut short ends, and is for its reader to judge.

/// The form of a value that stands in the table itself.
const IMPLICIT_CONST: u64 = 0x21;

/// Tables, from a place on.
pub(crate) struct Tables<'t> {
    bytes: &'t [u8],
    at: usize,
}

/// An attribute: a name and a form.
pub(crate) struct Attribute {
    /// Place of the name, from the beginning of the bytes.
    pub(crate) at: usize,
}

impl<'t> Tables<'t> {
    /// The tables from byte `at` on.
    pub(crate) const fn new(bytes: &'t [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    /// Place of what comes next.
    pub(crate) const fn at(&self) -> usize {
        self.at
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    /// A number of variable length. Bits beyond 64 are left out.
    fn number(&mut self) -> Option<u64> {
        let (mut number, mut shift) = (0, 0_u32);
        loop {
            let byte = self.byte()?;
            if shift < 64 {
                number |= u64::from(byte & 0x7f) << shift;
            }
            if byte < 0x80 {
                return Some(number);
            }
            shift = shift.saturating_add(7);
        }
    }

    /// Takes the head of an entry and gives its tag; `Some(None)` is the end of a table, and `None` that of the bytes.
    pub(crate) fn entry(&mut self) -> Option<Option<u64>> {
        if self.number()? == 0 {
            return Some(None);
        }
        let tag = self.number()?;
        self.byte()?;
        Some(Some(tag))
    }

    /// Takes the next attribute of an entry; `Some(None)` is the end of the entry, and `None` that of the bytes.
    pub(crate) fn attribute(&mut self) -> Option<Option<Attribute>> {
        let at = self.at;
        let (name, form) = (self.number()?, self.number()?);
        if form == IMPLICIT_CONST {
            self.number()?;
        }
        Some(((name, form) != (0, 0)).then_some(Attribute { at }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn entries_and_attributes_are_told_with_their_places() {
        // A number in two bytes, a value in the table, the end of a table; then an entry that is cut short.
        let bytes = [
            1, 0x91, 0x00, 1, 0x25, 0x08, 0x3b, 0x21, 0x85, 0x01, 0, 0, 0, 2, 0x2e,
        ];
        let mut tables = Tables::new(&bytes, 0);
        assert_eq!(tables.entry(), Some(Some(0x11)));
        let mut attribute = || {
            let found = tables.attribute()?;
            Some(found.map(|found| found.at))
        };
        assert_eq!(attribute(), Some(Some(4)));
        assert_eq!(attribute(), Some(Some(6)));
        assert_eq!(attribute(), Some(None));
        assert_eq!(tables.entry(), Some(None));
        assert_eq!(tables.at(), 13);
        assert_eq!(tables.entry(), None);
    }

    proptest! {
        #[test]
        fn any_bytes_come_to_an_end(bytes: Vec<u8>, at: usize) {
            let mut tables = Tables::new(&bytes, at);
            let mut taken = 0;
            while let Some(entry) = tables.entry() {
                let mut inside = entry.is_some();
                while inside {
                    match tables.attribute() {
                        Some(more) => inside = more.is_some(),
                        None => return Ok(()),
                    }
                    taken += 1;
                }
                taken += 1;
                prop_assert!(taken <= bytes.len());
            }
        }
    }
}
