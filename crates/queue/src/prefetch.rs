//! Prefetches between host and target. Queries find the places of the program's misses, and the table here says what
//! to prefetch.
//!
//! The target samples memory accesses in *rounds* of [`BURSTS`] bursts. Each burst is a stretch of executions one after the
//! other. When the last message of a round is published the target increments [`Prefetch::rounds`]. The host evaluates
//! the messages, writes the table, and then the number of the round to [`Prefetch::answered`]. It writes the table again
//! only after the next round ends, so the target reads it whole.
//!
//! The table is harmless. A place is an address that is compared with those of instructions, and the distance is a
//! displacement that the target checks. The worst prefetch is of no use.

use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64};

/// Bursts of a round.
pub const BURSTS: u32 = 8;
/// Executions of a burst.
pub const BURST: u32 = 16 << 10;
/// Places with prefetches at most.
pub const MAX_PLACES: usize = 256;

/// [`Prefetch::wanted`]: there are none.
pub const NOWHERE: u32 = 0;
/// [`Prefetch::wanted`]: where rounds find misses.
pub const MISSES: u32 = 1;
/// [`Prefetch::wanted`]: before each instruction with an operand in memory, of addresses of no use. For tests.
pub const EVERYWHERE: u32 = 2;

/// Questions about prefetches, and their answers.
#[repr(C, align(64))]
pub struct Prefetch {
    /// [`NOWHERE`] and so on. The host's to write.
    pub wanted: AtomicU32,
    /// Rounds that were begun. The target's to write, as are the next ones.
    pub begun: AtomicU32,
    /// Bursts that were made of the last one.
    pub bursts: AtomicU32,
    /// Rounds all of whose messages were published.
    pub rounds: AtomicU32,
    /// The last of them that the host has answered. The host's to write, as are the next ones.
    pub answered: AtomicU32,
    /// Places in the table.
    pub places: AtomicU32,
    /// Time stamp at which the next round is to begin; 0: not known. The target's to write.
    pub due: AtomicU64,
    /// Times that code with probes was dropped, as its round was over. The target's to write.
    pub dropped: AtomicU64,
    /// Prefetches put into code, all in all. The target's to write.
    pub put: AtomicU64,
    /// The places.
    pub place: [Ahead; MAX_PLACES],
}

impl Default for Prefetch {
    /// Returns the state of a fresh slot.
    fn default() -> Self {
        Self {
            wanted: AtomicU32::new(NOWHERE),
            begun: AtomicU32::new(0),
            bursts: AtomicU32::new(0),
            rounds: AtomicU32::new(0),
            answered: AtomicU32::new(0),
            places: AtomicU32::new(0),
            due: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            put: AtomicU64::new(0),
            place: core::array::from_fn(|_| Ahead::default()),
        }
    }
}

/// A prefetch to put before an instruction.
#[derive(Default)]
#[repr(C)]
pub struct Ahead {
    /// Address of the instruction.
    pub pc: AtomicU64,
    /// Bytes past the address of the instruction's operand.
    pub by: AtomicI64,
    /// The line is going to be written.
    pub written: AtomicU32,
    pad: AtomicU32,
}
