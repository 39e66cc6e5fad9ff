//! Places whose values are not profiled for a while, because they are known. The host reports the places, and the target obeys.
//!
//! The host watches how the values of each place develop (if [`wanted`](Converge::wanted) is set). From time to time it writes a
//! *table* of the places that are to have no probe. The target reads the table when it enters the dispatcher, or when a signal calls it back.
//! Then it makes code without those probes and with all others. Between tables the host says which code is to be executed: that
//! code, or for how long the code with all probes ([`all`](Converge::all)). The target acknowledges each report in
//! [`seen`](Converge::seen). Until then the host reports nothing else, so a table is read whole.
//!
//! The table is harmless: a place is an address that is compared with those of instructions.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// Places in a table at most.
pub const MAX_PLACES: usize = 1 << 18;

/// Places that the host says are not to be profiled.
#[repr(C, align(64))]
pub struct Converge {
    /// Not 0: the target reads tables. The host's to write, as are the next ones.
    pub wanted: AtomicU32,
    /// Number of reports so far; 0: nothing yet.
    pub reported: AtomicU32,
    /// Number of the table.
    pub table: AtomicU32,
    /// Every place has its probe, whatever the table says.
    pub all: AtomicU32,
    /// Cycles for which every place keeps its probe. Then the target goes by the table.
    pub lasts: AtomicU64,
    /// Places in it.
    pub places: AtomicU32,
    /// Value of [`reported`](Converge::reported) that the target goes by. The target's to write.
    pub seen: AtomicU32,
    /// Time stamp when the target began to go by it. The target's to write, before `seen`.
    pub stamp: AtomicU64,
    /// Last value of [`reported`](Converge::reported) whose time was over. The target's to write, when it finds that.
    pub back: AtomicU32,
    /// Time stamp of [`back`](Converge::back).
    pub back_stamp: AtomicU64,
    /// Addresses of the instructions, in increasing order. The host's to write.
    pub place: [AtomicU64; MAX_PLACES],
}

impl Default for Converge {
    /// Returns the state of a fresh slot.
    fn default() -> Self {
        Self {
            wanted: AtomicU32::new(0),
            reported: AtomicU32::new(0),
            table: AtomicU32::new(0),
            all: AtomicU32::new(0),
            places: AtomicU32::new(0),
            seen: AtomicU32::new(0),
            stamp: AtomicU64::new(0),
            lasts: AtomicU64::new(0),
            back: AtomicU32::new(0),
            back_stamp: AtomicU64::new(0),
            place: [const { AtomicU64::new(0) }; MAX_PLACES],
        }
    }
}
