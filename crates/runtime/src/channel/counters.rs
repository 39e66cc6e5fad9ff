//! Counters of paths, incremented where the paths are executed.
//!
//! # Problem
//! Often only the number of each edge and call is wanted. Then a record for each executed path, and a host that counts the
//! records, cost several times what the program does. The counts must come out as if each path had been recorded:
//! exactly, by thread, and whenever and however the program ends.
//!
//! # Strategy
//! A thread has a *counter array*: a counter of 64 bits for each exit number. It is in the file that the host maps
//! too, and at the end of the thread's area. So generated code reaches the counter of a path at a constant offset
//! from GS. An increment replaces the record of a path (`translate/ways/exits.rs` says where, and how flags are spared).
//! The meaning of an exit number is in the dictionary as before. So the host multiplies where it used to count.
//!
//! The targets of indirect branches are counted too ([`crate::observe::pairs`]). Paths whose numbers are beyond the
//! counter array are recorded. When there are more threads than counter arrays, the code translated so far is dropped,
//! and all paths of later code are recorded. The host adds up both.
//!
//! *Counter arrays* are claimed in the shared table. A thread that has ended leaves its counter array to the host,
//! which reads it and zeroes it. A thread that finds no free one asks the host to do so.
//!
//! # Why it is correct
//! * No update is lost: only its thread writes to a counter array, by generated code or in its own signal
//!   handler.
//! * Nothing is lost at the end of the process: the increment is the delivery.
//! * Code that counts is executed only by threads with a counter array. A thread that gets none is given its
//!   area after all code that counts was dropped, under the same lock. After that, only threads that are in such code
//!   still execute it (`cache/retire.rs`).
//! * A child of `fork` has a copy of everything but shared memory: its first counter array is mapped over its
//!   parent's before it executes code.
//!
//! **I16 (one writer).** A counter array is written by one thread. Code that counts is executed only by threads with a counter array.
#![allow(unsafe_code)] // reason: reads and writes counters; maps them.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use trommel_queue::{COUNTER_ARRAY_COUNTERS, COUNTER_ARRAYS};

use crate::base::area::COUNTERS_OFFSET;
use crate::base::emit::GsOffset;
use crate::base::ids::{CounterArrayId, ExitNumber};
use crate::base::stress;
use crate::channel::slot::Mapped;

/// Paths close to the last counter: no trace is begun there.
const MANY: usize = 1 << 12;

/// Number of paths that have counters when the stress option asks for few.
const FEW: usize = 768;

/// Paths that have counters, the first ones.
fn most() -> usize {
    match stress::few_counters() {
        true => FEW,
        false => COUNTER_ARRAY_COUNTERS,
    }
}

/// The counter of a path, if it has one.
pub fn counter(path: ExitNumber) -> Option<GsOffset> {
    let has = (path.0 as usize) < most();
    has.then_some(GsOffset((COUNTERS_OFFSET + 8 * path.0 as usize) as u32))
}

/// Returns true if many more paths have counters, when `paths` are numbered.
pub fn have_room(paths: u32) -> bool {
    let many = if stress::few_counters() {
        FEW / 2
    } else {
        MANY
    };
    paths as usize + many <= most()
}

/// Claims a counter array for a thread of this number.
pub(crate) fn claim(mapped: Mapped, number: u32) -> Option<CounterArrayId> {
    (0..COUNTER_ARRAYS as u32).map(CounterArrayId).find(|&n| {
        let counter_array = mapped.counter_array(n);
        let free = counter_array.thread.load(Acquire) == 0;
        if free {
            counter_array.tid.store(0, Relaxed);
            counter_array.ended.store(0, Relaxed);
            counter_array.thread.store(number, Release);
        }
        free
    })
}
