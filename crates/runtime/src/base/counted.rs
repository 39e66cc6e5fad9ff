//! What assembly, generated code and the profiler agree on: where value counters are, and what a subject is.

use trommel_compress::interval::TABLES;
use trommel_queue::VALUE_COUNTERS_OFFSET;

use crate::base::area::COUNTERS_OFFSET;
use crate::base::emit::GsOffset;

/// The value counters of a thread.
pub const VALUE_COUNTERS_AT: GsOffset = GsOffset((COUNTERS_OFFSET + VALUE_COUNTERS_OFFSET) as u32);

/// In place of a value counter's path: more than one tuple of the accumulator wants it.
pub const CONTESTED: u32 = u32::MAX;

/// Why an event has come out of the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Why {
    /// Its counters have come to where its tuple is promoted.
    Promoted = 0,
    /// Its value counter is contested: it is not counted yet.
    Contested = 1,
    /// The interval has ended.
    Ended = 2,
}

/// What is known of events: a tuple, or the place of values. As the routines read it.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub struct Subject {
    /// The place.
    pub place: u64,
    /// The value, where that is known.
    pub value: u64,
    /// The tuple's counters.
    pub positions: [u32; TABLES],
    /// What the place makes of a hash.
    pub begin: u64,
    /// The tuple's cell, from GS; 0 without.
    pub cell: u32,
    /// The path of messages.
    pub path: u32,
    /// `Kind`.
    pub kind: u32,
}

/// What the index of a value counter is made of: the path of its event.
pub const fn first_of_value_counter(path: u32) -> u32 {
    path.wrapping_mul(0x9e37_79b1)
}
