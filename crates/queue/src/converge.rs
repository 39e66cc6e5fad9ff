//! Places whose values are not profiled for a while, as they are known: told by the host, gone by by the target.
//!
//! The host watches how the values of each place develop ([`wanted`](Converge::wanted) says that it does), and from time to time
//! writes a *table* of the places that are to have no probe. The target reads it when it reaches, or is called back by a signal;
//! and goes on with code that it makes without those probes and with all others. Between tables the host says whether that code is
//! to be executed or for how long what has all probes ([`all`](Converge::all)). Until the target has told in
//! [`seen`](Converge::seen) that it goes by what was told the host tells nothing else, so a table is read whole.
//!
//! Nothing in the table can do harm: a place is an address that is compared with those of instructions.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// Places in a table at most.
pub const MAX_PLACES: usize = 1 << 15;

/// Places that the host says are not to be profiled.
#[repr(C, align(64))]
pub struct Converge {
    /// Tables are to be looked at. The host's to write, as are the next ones.
    pub wanted: AtomicU32,
    /// Number of reports so far; 0: nothing yet.
    pub told: AtomicU32,
    /// Number of the table.
    pub table: AtomicU32,
    /// Every place has its probe, whatever the table says.
    pub all: AtomicU32,
    /// Cycles for which every place keeps its probe. Then the target goes by the table.
    pub lasts: AtomicU64,
    /// Places in it.
    pub places: AtomicU32,
    /// [`told`](Converge::told) of what the target goes by. The target's to write.
    pub seen: AtomicU32,
    /// The time stamp counter when it began to. The target's to write, before `seen`.
    pub stamp: AtomicU64,
    /// The last [`told`](Converge::told) whose time was over, and when the target found that. The target's to write.
    pub back: AtomicU32,
    /// See [`back`](Converge::back).
    pub back_stamp: AtomicU64,
    /// Addresses of the instructions, in increasing order. The host's to write.
    pub place: [AtomicU64; MAX_PLACES],
}

impl Default for Converge {
    /// Returns the state of a fresh slot.
    fn default() -> Self {
        Self {
            wanted: AtomicU32::new(0),
            told: AtomicU32::new(0),
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
