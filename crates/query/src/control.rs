//! The profile control table (section 3.4.1): two profile control registers of 32 bits for each of its
//! 35 entries, 280 bytes as in the paper.
//!
//! ```text
//! register 2e      bits 0–18 the fields of Table 2, in its order; 19–31 the rate or budget (see `rate`)
//! register 2e + 1  bits 0–6 the query PC; 7–22 the distance of pairs (see `pair`), 0 without; 23–31 zero
//! ```
//! Both are 0 where nothing is profiled.

use crate::class::{ENTRIES, Entry};
use crate::field::{Field, FieldSet};
use crate::pair::{Layout, Within};
use crate::pc::QueryPc;
use crate::rate::{Rate, Sampling};

/// Registers of the table.
pub const REGISTERS: usize = 2 * ENTRIES;

const FIELD_BITS: u32 = Field::ALL.len() as u32;
const PC_BITS: u32 = 7;
const _: () = assert!(FIELD_BITS + Rate::BITS == 32 && REGISTERS * 4 == 280);

/// An entry of the table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Control {
    /// Rate at which executions are profiled.
    pub sampling: Sampling,
    /// Largest distance of pairs, if records are of pairs.
    pub pair: Option<Within>,
    /// Collected fields: one to seven, of pairs one to three.
    pub fields: FieldSet,
    /// First instruction of the query.
    pub start: QueryPc,
}

impl Control {
    /// Meanings of the words of its records.
    pub const fn layout(self) -> Layout {
        Layout {
            fields: self.fields,
            paired: self.pair.is_some(),
        }
    }

    /// The two registers.
    pub const fn registers(self) -> [u32; 2] {
        let pair = match self.pair {
            Some(within) => within.most(),
            None => 0,
        };
        [
            self.fields.bits() | self.sampling.encode() << FIELD_BITS,
            self.start.number() as u32 | pair << PC_BITS,
        ]
    }

    /// Returns what two registers that are not both 0 say.
    ///
    /// # Errors
    /// When they are not what [`Control::registers`] makes.
    pub fn from_registers([first, second]: [u32; 2]) -> Result<Self, &'static str> {
        let fields = FieldSet::from_bits(first & ((1 << FIELD_BITS) - 1)).unwrap_or_default();
        let (start, within) = (second & ((1 << PC_BITS) - 1), second >> PC_BITS);
        let pair = match within {
            0 => None,
            n => Some(Within::new(n.into()).ok_or("its bits 23 to 31 are not 0")?),
        };
        if fields.is_empty() || fields.len() > Layout::most_fields(pair.is_some()) {
            return Err("a record has one to seven fields, that of a pair one to three");
        }
        Ok(Self {
            sampling: Sampling::decode(first >> FIELD_BITS)
                .ok_or("its rate is not in the normal form")?,
            fields,
            pair,
            start: QueryPc::new(start as usize).ok_or("its query PC is out of range")?,
        })
    }
}

/// The profile control table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table([Option<Control>; ENTRIES]);

impl Default for Table {
    fn default() -> Self {
        Self([None; ENTRIES])
    }
}

impl Table {
    /// Returns what the entry says, if it is profiled.
    pub const fn get(&self, entry: Entry) -> Option<Control> {
        self.0[entry.number()]
    }

    /// Sets an entry.
    pub const fn set(&mut self, entry: Entry, control: Control) {
        self.0[entry.number()] = Some(control);
    }

    /// Returns what is profiled, in order.
    pub fn entries(&self) -> impl Iterator<Item = (Entry, Control)> + '_ {
        Entry::all().filter_map(|entry| Some((entry, self.get(entry)?)))
    }

    /// All registers in order.
    pub fn registers(&self) -> [u32; REGISTERS] {
        let mut all = [0; REGISTERS];
        for (entry, control) in self.entries() {
            let at = 2 * entry.number();
            all[at..at + 2].copy_from_slice(&control.registers());
        }
        all
    }

    /// The table of all registers.
    ///
    /// # Errors
    /// The entry that is malformed, and why.
    pub fn from_registers(all: &[u32; REGISTERS]) -> Result<Self, (Entry, &'static str)> {
        let mut table = Self::default();
        for entry in Entry::all() {
            let at = 2 * entry.number();
            let pair = [all[at], all[at + 1]];
            if pair != [0; 2] {
                let control = Control::from_registers(pair).map_err(|what| (entry, what))?;
                table.set(entry, control);
            }
        }
        Ok(table)
    }
}
