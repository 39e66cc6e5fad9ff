//! A stratified sampler whose counters are in generated code.
//!
//! # Problem
//! A sampler of the papers is a table of counters and a hash that selects an event's counter. In software, with
//! a record for each event, that costs several times what the program does. The messages must be those of
//! `trommel_compress` on the events of the thread, one for one.
//!
//! # Strategy
//! For an edge or a direct call the tuple is known when it is translated, so its counter is a
//! constant: the event is a decrement of two bytes at a constant offset from GS, and a branch that is taken
//! once in as many events as a message stands for (`translate/ways/strata.rs`). An indirect branch counts in the code of the pair
//! of branch and target ([`crate::observe::pairs`]). A value, or the method table of a call, is hashed where it is loaded
//! (`translate/ways/strata_values.rs`). At a counter's end a few instructions out of line start it again and append the
//! message, which is a record of its path and the value, if it has one, to the thread's chunk (`arch::message`).
//!
//! Each thread has a table of its own, in its *counter array* ([`crate::channel::counters`]). So no update is lost. The host reads
//! the table when the thread or the program has ended, in whichever way.
//!
//! Places are hashed, and the host finds them out. So a fragment is made only when the host has reported the names of
//! the addresses of its code and of its branch targets ([`Refusal::Unnamed`](crate::translate::Refusal)). The thread
//! waits for that once for each file with code, with the lock free.
//!
//! # Why it is correct
//! * Events are counted in the order in which they happen, each after its own transfer and before the
//!   next app instruction. So at each boundary exactly the events that have happened are counted.
//! * A counter's place is that of the sampler's own table, and starts with the same number.
//! * Threads beyond the counter arrays there are, and branches beyond the keys of pairs: what counts is dropped, and from then
//!   on events are recorded, for the host to count beside.
#![allow(unsafe_code)] // reason: reads and writes counters.

use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;

use trommel_compress::hash::{Hash, HashKind, OfPlace};
use trommel_compress::{MAX_RATE, MAX_SUBSTREAMS, Seeds, Start, Strata};
use trommel_queue::dict::{Event, TargetPc};
use trommel_queue::{COUNTER_ARRAY_BYTES, COUNTS_STRATA, Control};
use trommel_tuple::{Place, Tuple};

use crate::base::address::AppPc;
use crate::base::area::COUNTERS_OFFSET;
use crate::base::emit::GsOffset;
use crate::memory::region::Regions;

/// The sampler of a process.
pub struct Sampler {
    pub(crate) strata: Strata,
    pub(crate) hash: Hash<u32>,
    /// Counters before the first event.
    pub(crate) start: Vec<u16>,
}

impl Sampler {
    /// The one that the host asks for, if it does.
    pub fn of(control: &Control) -> Option<Self> {
        if control.setup.counters.load(Relaxed) != COUNTS_STRATA {
            return None;
        }
        let from = &control.setup.strata;
        let substreams = from.substreams.load(Relaxed).min(MAX_SUBSTREAMS);
        let strata = Strata {
            hash: match from.hash.load(Relaxed) {
                0 => HashKind::Paper,
                1 => HashKind::Crc,
                _ => HashKind::Multiply,
            },
            substreams: substreams.max(1).next_power_of_two(),
            rate: from.rate.load(Relaxed).clamp(1, MAX_RATE.into()) as u16,
            start: match from.phase.load(Relaxed) {
                0 => Start::Zero,
                _ => Start::Random,
            },
        };
        let seeds = Seeds::default();
        Some(Self {
            strata,
            hash: strata.hash(seeds),
            start: strata.table(seeds).collect(),
        })
    }

    /// Events that a message stands for.
    pub fn rate(&self) -> u32 {
        self.strata.rate.into()
    }

    /// Returns the counter of an event whose tuple is known.
    pub fn counter(&mut self, regions: &Regions, event: &Event) -> GsOffset {
        let index = self.hash.index(tuple_of(regions, event));
        GsOffset(COUNTERS_OFFSET as u32 + 2 * index)
    }

    /// Returns the part of the hash that the place at `pc` contributes, for an event whose value is known when it happens.
    /// `None`: there is only one counter.
    pub fn of_place(&self, regions: &Regions, pc: AppPc) -> Option<OfPlace> {
        self.of_word(regions.word(pc))
    }

    pub(crate) fn of_word(&self, word: u64) -> Option<OfPlace> {
        match &self.hash {
            Hash::Cheap(hash) => hash.of_place(Place::from_word(word)),
            // The host asks for values with one counter or a cheap function alone.
            _ => None,
        }
    }

    /// Returns true if a value's hash is a sum that begins with a number of its place.
    pub fn sums(&self) -> bool {
        matches!(self.of_word(0), Some(OfPlace::Sum { .. }))
    }

    /// Returns true if values are hashed.
    pub fn hashes_values(&self) -> bool {
        self.strata.substreams > 1
    }
}

/// The tuple of an event, with no value where that is not known.
pub fn tuple_of(regions: &Regions, event: &Event) -> Tuple {
    let (pc, to) = match *event {
        Event::Branch {
            pc,
            len,
            target,
            taken,
        } => match taken {
            true => (pc, target.0),
            false => (pc, pc.0 + u64::from(len)),
        },
        Event::Call { pc, target } | Event::Indirect { pc, target, .. } => (pc, target.0),
        Event::Dynamic { pc, .. }
        | Event::Unprofiled { pc, .. }
        | Event::Arguments { pc }
        | Event::Enter { pc }
        | Event::AfterCall { pc }
        | Event::Delivered { pc }
        | Event::Begin { pc }
        | Event::Amid { pc }
        | Event::Resume { start: pc, .. }
        | Event::Return { pc }
        | Event::Jump { pc, .. }
        | Event::Instruction { pc, .. } => (pc, 0),
        Event::Marked(_) => (TargetPc(0), 0),
    };
    let place = Place::from_word(regions.word(AppPc(pc.0)));
    Tuple::new(place, regions.word(AppPc(to)))
}

const _: () = assert!(2 * MAX_SUBSTREAMS as usize <= COUNTER_ARRAY_BYTES);
