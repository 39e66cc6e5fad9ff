//! Places whose values are not profiled for a while, as they are known: told by the host, gone by by the target.
//!
//! The host watches how the values of each place develop ([`wanted`](Converge::wanted) says that it does), and from time to time
//! writes a *table* of the places that are to have no probe. The target reads it when it comes by, or is called back by a signal;
//! drops all code, and makes it anew without those probes and with all others. Until it has told so in
//! [`seen`](Converge::seen) the host writes no other table, so the target reads it whole.
//!
//! Nothing in the table can do harm: a place is an address that is compared with those of instructions.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// Places in a table at most.
pub const MAX_PLACES: usize = 1 << 15;

/// What is told.
#[repr(C, align(64))]
pub struct Converge {
    /// Tables are to be looked at. The host's to write, as are the next ones.
    pub wanted: AtomicU32,
    /// Number of the table; 0: there was none yet.
    pub told: AtomicU32,
    /// Places in it.
    pub places: AtomicU32,
    /// The last table that the target goes by. The target's to write.
    pub seen: AtomicU32,
    /// Addresses of the instructions, in increasing order. The host's to write.
    pub place: [AtomicU64; MAX_PLACES],
}

impl Default for Converge {
    /// As in a fresh slot.
    fn default() -> Self {
        Self {
            wanted: AtomicU32::new(0),
            told: AtomicU32::new(0),
            places: AtomicU32::new(0),
            seen: AtomicU32::new(0),
            place: [const { AtomicU64::new(0) }; MAX_PLACES],
        }
    }
}
