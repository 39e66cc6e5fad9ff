//! Files of events.
//!
//! Problem: hundreds of millions of events have to be written while a program runs, read again many
//! times, and survive a writer that was killed. Other tools want the plainest form there is.
//!
//! Strategy: our own format (`.tstream`: [`Writer`], [`tstream`]) in independent, checked, compressed
//! blocks with kinds and modules; and `raw16` ([`raw16`]), packed little-endian pc and value, plain
//! or compressed with zstd, without kinds. [`open`] recognises what a file is. Outputs that may be pipes are [`outlet`]s.
//!
//! Invariants: a reader never panics and never allocates more than a block on any input; a file cut
//! short is read up to its last whole block, and [`End::CutShort`] says so.

mod block;
mod error;
mod open;
pub mod outlet;
pub mod raw16;
pub mod tstream;

use std::vec::Vec;

use crate::{Events, Kind, ModuleId, Tuple};

pub use error::{Error, Problem};
pub use open::{Format, Reader, open, read};
pub use tstream::Writer;

/// A module as a stream names it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Module {
    /// The number that places refer to.
    pub id: ModuleId,
    /// Path at run time, or a name such as `[vdso]`.
    pub path: Vec<u8>,
    /// GNU build id; empty where there is none.
    pub build_id: Vec<u8>,
}

/// Some events in memory, reused from block to block.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Block {
    tuples: Vec<Tuple>,
    kinds: Vec<Kind>,
}

impl Block {
    /// Adds an event.
    #[inline]
    pub fn push(&mut self, kind: Kind, tuple: Tuple) {
        self.tuples.push(tuple);
        self.kinds.push(kind);
    }

    /// Forgets all events and keeps the memory.
    pub fn clear(&mut self) {
        self.tuples.clear();
        self.kinds.clear();
    }

    /// The events.
    pub fn events(&self) -> Events<'_> {
        Events::new(&self.tuples, &self.kinds).expect("both lanes grow together")
    }
}

/// The end of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Ended by its writer.
    Complete,
    /// In the middle: everything up to this offset was read.
    CutShort {
        /// File offset of the last whole block's end (of the last whole event for `raw16`).
        offset: u64,
    },
}
