//! A multi-hash profiler whose shielded events are counted in generated code.
//!
//! # Problem
//! Few tuples have many of an interval's events. They are in the accumulator, where they are counted exactly and shield the hash tables.
//! With a record for each event, and a profiler in the service thread, each of them costs several times what the program does. The messages
//! must be those of `trommel_compress` on the events of the thread, one for one.
//!
//! # Strategy
//! *Tuples that are known* when code is made, of edges and calls, have a *cell*: a word of the thread's counter array at a constant offset from GS.
//! The cell is 0 while the tuple is not in the accumulator, and else what is left of [`FULL`]. So an event is a decrement,
//! and a branch where the result is negative ([`crate::translate`], `shields.rs`).
//! *Values* are looked up in the thread's value counters, which hold only what is in the accumulator.
//!
//! An event that is not shielded increments the least of its tuple's counters. Their places are known with the tuple, or hashed: out of line,
//! or in a routine (`arch/shields.rs`). Only the events of `Why` leave generated code: a tuple is promoted, the interval has
//! ended, or two values that are in the accumulator want the same value counter.
//!
//! Each event decrements what is left of the interval. At the interval's end the counts of cells and value counters go to the accumulator, and its
//! candidates become records.
//!
//! # Why it is correct
//! * `trommel_compress` itself decides what is promoted, replaced and retained (`interval/shielding.rs`). Generated code increments,
//!   and counts are brought up to date whenever they are read.
//! * A tuple is shielded in one place at a time: its cell, its value counter, or its slot of the accumulator (`shields/counting.rs`).
//! * Cells and value counters are of the thread's counter array, the accumulator and the counters its own. A child of `fork` starts anew.
//! * All is done at once: nothing of the app's is executed before the crossing, or the routine, is over.
#![allow(unsafe_code)] // reason: reads and writes counters.

mod counting;

use crate::base::counted::Subject;
use crate::base::ids::ExitNumber;
use alloc::collections::BTreeMap;
use core::mem::offset_of;
use core::sync::atomic::Ordering::Relaxed;

use trommel_compress::Seeds;
use trommel_compress::hash::HashKind;
use trommel_compress::interval::{Positions, Shield, TABLES};
use trommel_queue::{CELLS, CELLS_OFFSET, Control, Intervals, VALUE_COUNTERS};
use trommel_tuple::{Kind, KindSet, Place, Tuple};

use crate::base::area::COUNTERS_OFFSET;
use crate::base::emit::GsOffset;
use crate::base::sys;

pub use counting::Counting;
pub(crate) use counting::Slot;

/// Value that a cell starts from.
pub const FULL: u32 = i32::MAX as u32;

/// Events to come before the interval ends.
pub const LEFT: GsOffset = GsOffset((COUNTERS_OFFSET + offset_of!(Intervals, left)) as u32);

impl Subject {
    fn kind(&self) -> Kind {
        Kind::ALL[self.kind as usize % Kind::ALL.len()]
    }

    fn tuple(&self, value: u64) -> Tuple {
        let value = if self.cell == 0 { value } else { self.value };
        Tuple::new(Place::from_word(self.place), value)
    }
}

const SUBJECT_BYTES: usize = size_of::<Subject>();

/// Counters of the events of a known tuple.
#[derive(Clone, Copy)]
pub struct Counters {
    /// Cell of shielded events.
    pub cell: GsOffset,
    pub(crate) positions: [u32; TABLES],
    tables: usize,
    /// True if only the least counters are incremented for other events.
    pub conservative: bool,
}

impl Counters {
    /// Returns the indices of the thread's counters that count other events.
    pub fn at(&self) -> impl Iterator<Item = u32> + use<> {
        self.positions.into_iter().take(self.tables)
    }
}

/// The profiler of a process.
pub struct Profiler {
    pub(crate) shield: Shield,
    pub(crate) positions: Positions,
    /// Address of the subjects; `len` is their number. Subjects are never changed and never move: threads read them without the lock.
    pub(crate) at: u64,
    len: usize,
    /// Known subjects, by kind, place and value; values that are not known are 0.
    known: BTreeMap<(u8, u64, u64), u32>,
    /// The kind whose events are the rest.
    pub(crate) rest: Kind,
    /// Value counters in use.
    value_counters: usize,
}

impl Profiler {
    /// The one that the host asks for. `None`: the kernel refuses memory, or there is no such profiler.
    pub fn of(control: &Control) -> Option<Self> {
        let words = core::array::from_fn(|n| control.setup.intervals[n].load(Relaxed));
        let shield = Shield::of_words(words)?;
        let kinds = KindSet::from_bits(control.setup.kinds.load(Relaxed) as u16);
        let often = [Kind::Value, Kind::Edge, Kind::Call, Kind::Type];
        let rest = often.into_iter().find(|kind| kinds.has(*kind))?;
        Some(Self {
            shield,
            positions: Positions::new(&shield, Seeds::default().hash),
            at: sys::anonymous(CELLS * SUBJECT_BYTES).ok()?,
            len: 0,
            known: BTreeMap::new(),
            rest,
            value_counters: value_counters_for(shield.spec.accumulator_entries() as usize),
        })
    }

    /// Value counters in use.
    pub fn value_counters(&self) -> usize {
        self.value_counters
    }

    /// Returns true if values are hashed by a sum.
    pub fn sums(&self) -> bool {
        self.shield.hash == HashKind::Crc
    }

    /// Returns the counter of events of a kind. `None`: the kind is the rest.
    pub fn of_kind(&self, kind: Kind) -> Option<GsOffset> {
        let at = COUNTERS_OFFSET + offset_of!(Intervals, kinds) + 8 * kind as usize;
        (kind != self.rest).then_some(GsOffset(at as u32))
    }

    /// The subject of these, if it is there: its number.
    pub fn find(&self, kind: Kind, place: u64, value: u64) -> Option<u32> {
        self.known.get(&(kind as u8, place, value)).copied()
    }

    /// Another subject, whose messages name `path`. `value`: if it is known. `None`: there is no room.
    pub fn add(
        &mut self,
        kind: Kind,
        place: u64,
        value: Option<u64>,
        path: ExitNumber,
    ) -> Option<u32> {
        if self.len >= CELLS {
            return None;
        }
        let number = self.len as u32;
        let at = Place::from_word(place);
        let subject = Subject {
            place,
            value: value.unwrap_or_default(),
            positions: match value {
                Some(value) => self.positions.of(Tuple::new(at, value)),
                None => [0; TABLES],
            },
            begin: self.positions.begin(at),
            cell: match value {
                Some(_) => Self::cell(number).0,
                None => 0,
            },
            path,
            kind: kind as u32,
        };
        // SAFETY: inside the mapping; nobody reads it yet.
        unsafe { (self.at as *mut Subject).add(self.len).write(subject) };
        self.len += 1;
        let value = value.unwrap_or_default();
        self.known.insert((kind as u8, place, value), number);
        Some(number)
    }

    /// Returns the counters of the events of a known tuple.
    pub fn counters(&self, number: u32) -> Counters {
        let at = number as usize % CELLS;
        // SAFETY: inside the mapping of subjects, which are plain numbers.
        let subject = unsafe { (self.at as *const Subject).add(at).read() };
        Counters {
            cell: Self::cell(number),
            positions: subject.positions,
            tables: self.shield.spec.tables as usize,
            conservative: self.shield.spec.conservative,
        }
    }

    /// The cell of a subject.
    pub fn cell(number: u32) -> GsOffset {
        GsOffset((COUNTERS_OFFSET + CELLS_OFFSET) as u32 + 4 * number)
    }
}

/// Returns the number that a value counter has in place of a path.
pub const fn key(subject: u32) -> u32 {
    subject + 1
}

/// Returns the number of value counters for `slots` slots. Few value counters fit the processor's caches. There are so many that
/// two slots out of all rarely want the same.
fn value_counters_for(slots: usize) -> usize {
    const FEWEST: usize = 1 << 12;
    (slots * slots / 4)
        .next_power_of_two()
        .clamp(FEWEST, VALUE_COUNTERS)
}
