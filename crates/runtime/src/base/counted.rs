//! Layout that assembly, generated code and the profiler share: the place of value counters, and the fields of a subject.

use trommel_compress::interval::TABLES;
use trommel_queue::{VALUE_COUNTERS_OFFSET, ValueCounter};

use crate::base::area::COUNTERS_OFFSET;
use crate::base::emit::GsOffset;
use crate::base::ids::ExitNumber;

/// The value counters of a thread.
pub const VALUE_COUNTERS_AT: GsOffset = GsOffset((COUNTERS_OFFSET + VALUE_COUNTERS_OFFSET) as u32);

/// Number in place of a value counter's path: more than one tuple of the accumulator wants the counter.
pub const CONTESTED: u32 = u32::MAX;

/// Reason why an event has come out of the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Why {
    /// The event's tuple is to be promoted.
    Promoted = 0,
    /// The event's value counter is contested: the event is not counted yet.
    Contested = 1,
    /// The interval has ended.
    Ended = 2,
}

/// Subject of events: a tuple, or the place of values. Laid out as the routines read it.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub struct Subject {
    /// The place.
    pub place: u64,
    /// The value, where that is known.
    pub value: u64,
    /// The tuple's counters.
    pub positions: [u32; TABLES],
    /// Part of the hash that the place contributes.
    pub begin: u64,
    /// The tuple's cell, from GS; 0 without.
    pub cell: u32,
    /// The path of messages.
    pub path: ExitNumber,
    /// `Kind`.
    pub kind: u32,
}

/// Returns the bits of a value counter's place in bytes, among so many.
pub const fn mask_of_value_counters(count: usize) -> u32 {
    (count as u32 - 1) * size_of::<ValueCounter>() as u32
}

/// Returns the part of a value counter's index that the number of its event's messages contributes, or what stands in the place of one.
pub const fn first_of_value_counter(key: u32) -> u32 {
    key.wrapping_mul(0x9e37_79b1)
}
