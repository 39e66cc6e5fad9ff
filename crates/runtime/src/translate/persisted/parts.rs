//! Parts of a record, as bytes.

use super::field::Field;
use crate::cache::{Spilled, Way};

/// Numbers before a record's lists.
pub(in crate::translate) const COUNTS: usize = 17;
/// Bytes of a step, an exit, a range of app code, an event, a path, an indirect branch.
pub(in crate::translate) const STEP: usize = 12;
pub(in crate::translate) const EXIT: usize = 12;
pub(in crate::translate) const SOURCE: usize = 8;
pub(in crate::translate) const EVENT: usize = 12;
pub(in crate::translate) const PATH: usize = 8;
pub(in crate::translate) const BRANCH: usize = 12;

/// No register.
pub(in crate::translate) const NONE: u8 = 0xff;

impl Spilled {
    pub(in crate::translate) fn bits(self) -> u8 {
        let all = [self.rcx, self.rdx, self.stolen, self.flags, self.promoted];
        (all.iter().rev()).fold(0, |bits, &one| bits << 1 | u8::from(one))
    }

    pub(in crate::translate) fn from_bits(bits: u8) -> Self {
        let bit = |n: u8| bits >> n & 1 != 0;
        Self {
            rcx: bit(0),
            rdx: bit(1),
            stolen: bit(2),
            flags: bit(3),
            promoted: bit(4),
        }
    }
}

/// Reads lists of numbers.
pub(in crate::translate) struct Cursor<'a>(pub(in crate::translate) &'a [u8]);

impl<'a> Cursor<'a> {
    pub(in crate::translate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }
}

pub(in crate::translate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub(in crate::translate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// A record taken apart.
pub(in crate::translate) struct Parts<'a> {
    pub(in crate::translate) counts: [u16; COUNTS],
    pub(in crate::translate) span: [u32; 2],
    pub(in crate::translate) steps: &'a [u8],
    pub(in crate::translate) exits: &'a [u8],
    pub(in crate::translate) sources: &'a [u8],
    pub(in crate::translate) pages: &'a [u8],
    pub(in crate::translate) fields: &'a [u8],
    pub(in crate::translate) work: &'a [u8],
    /// Events of the block, then the tails of paths.
    pub(in crate::translate) events: &'a [u8],
    pub(in crate::translate) paths: &'a [u8],
    pub(in crate::translate) branches: &'a [u8],
    pub(in crate::translate) app: &'a [u8],
    pub(in crate::translate) code: &'a [u8],
}

/// Index of a number in a record.
#[derive(Clone, Copy)]
pub(in crate::translate) enum Count {
    Code,
    /// Plus one; 0 for none.
    Checked,
    Insns,
    Steps,
    Exits,
    Fields,
    Pages,
    /// Sources of the fragment itself.
    Sources,
    /// Sources that were looked at after it.
    Looked,
    Work,
    /// Place of the code in a cache line.
    Phase,
    /// Events of the block.
    Events,
    /// Tails of paths.
    Tails,
    Paths,
    /// One at most.
    Branches,
    /// The register that counters of values use, plus one; 0 for none.
    Stolen,
    /// State of the ways. With strides: the kinds of the events that are counted, as bits, and [`STRIDES`].
    Ways,
}

impl<'a> Parts<'a> {
    pub(in crate::translate) fn of(record: &'a [u8]) -> Option<Self> {
        let mut rest = Cursor(record);
        let head = rest.take(2 * COUNTS + 8)?;
        let counts = core::array::from_fn(|n| u16_at(head, 2 * n));
        let n = |count: Count| usize::from(counts[count as usize]);
        let steps = rest.take(STEP * n(Count::Steps))?;
        let exits = rest.take(EXIT * n(Count::Exits))?;
        let sources = rest.take(SOURCE * (n(Count::Sources) + n(Count::Looked)))?;
        let pages = rest.take(4 * n(Count::Pages))?;
        let fields = rest.take(4 * n(Count::Fields))?;
        let work = rest.take(4 * n(Count::Work))?;
        let events = rest.take(EVENT * (n(Count::Events) + n(Count::Tails)))?;
        let paths = rest.take(PATH * n(Count::Paths))?;
        let branches = rest.take(BRANCH * n(Count::Branches))?;
        let lens = sources.as_chunks::<SOURCE>().0.iter();
        let app = rest.take(lens.map(|s| usize::from(u16_at(s, 4))).sum())?;
        let code = rest.take(n(Count::Code))?;
        (n(Count::Checked) <= code.len()).then_some(Self {
            counts,
            span: [u32_at(head, 2 * COUNTS), u32_at(head, 2 * COUNTS + 4)],
            steps,
            exits,
            sources,
            pages,
            fields,
            work,
            events,
            paths,
            branches,
            app,
            code,
        })
    }

    pub(in crate::translate) fn count(&self, count: Count) -> usize {
        usize::from(self.counts[count as usize])
    }

    /// Fields of the code; `None` where one is not within it.
    pub(in crate::translate) fn fields(&self) -> impl Iterator<Item = Option<(Field, usize)>> {
        let code = self.code.len();
        self.fields.as_chunks::<4>().0.iter().map(move |bytes| {
            let field = *Field::ALL.get(usize::from(bytes[2]))?;
            let at = usize::from(u16_at(bytes, 0));
            let len = match field {
                Field::Absolute | Field::Negative => 8,
                _ => 4,
            };
            (at + len <= code).then_some((field, at))
        })
    }
}

pub(in crate::translate) fn way_of(number: u8) -> Option<Way> {
    Some(match number {
        0 => Way::Forward,
        1 => Way::Backward,
        2 => Way::Call,
        3 => Way::Syscall,
        4 => Way::Stored,
        _ => return None,
    })
}

pub(in crate::translate) fn number_of(way: Way) -> Option<u8> {
    Some(match way {
        Way::Forward => 0,
        Way::Backward => 1,
        Way::Call => 2,
        Way::Syscall => 3,
        Way::Stored => 4,
        Way::Return | Way::Indirect | Way::Loop | Way::Site => return None,
    })
}

/// Flags of an exit.
pub(in crate::translate) const HAS_STUB: u8 = 1;
pub(in crate::translate) const COUNTS_TRACES: u8 = 2;
pub(in crate::translate) const BEFORE_CALL: u8 = 4;
pub(in crate::translate) const SAMPLED: u8 = 8;

/// Beside kinds: there are strides.
pub(in crate::translate) const STRIDES: u16 = 1 << 15;
