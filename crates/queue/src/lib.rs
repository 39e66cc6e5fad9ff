//! What target and host share: one memory file, laid out here, written by the target's runtime and
//! read by the host's service thread.
//!
//! # Problem
//! The runtime sits inside a program that may crash, be killed, or scribble over memory. Every
//! event delivered before that moment must reach the profile, and nothing the target writes may
//! harm the host.
//!
//! # Strategy
//! The host creates the file, so it outlives the target. It has four parts:
//!
//! | part | written by | holds |
//! |---|---|---|
//! | [`Control`] | both | state words, the published and consumed chunk counts, waits |
//! | thread page | target | the write pointer that generated code advances |
//! | [`dict`] | target | paths, blocks and regions: what a record's number stands for |
//! | ring | target | records, in [`CHUNK`]-byte chunks |
//!
//! A *record* is one execution of one *path* through a fragment: a 32-bit path number, then one
//! 64-bit word for each run-time value on that path, in order. All that is known at translation
//! time (which branches, which direction, which direct calls) is implied by the path number and
//! costs nothing at run time. Generated code stores the values first, then the number, then
//! advances the write pointer; a record is complete when the write pointer has passed it.
//!
//! # Invariants
//! * Records are at most [`MAX_RECORD`] bytes, so the write pointer cannot step over the window
//!   [`FULL_WINDOW`] that marks a chunk as full. Generated code tests for it with no flags:
//!   bits 8–15 of the pointer are zero only inside it.
//! * `consumed <= published <= consumed + CHUNKS`: a chunk is reused only after the host gave it
//!   back. A producer that finds none waits (and counts it); nothing is dropped.
//! * Path numbers are dense and a path is in the dictionary before its first record.
//! * The host reads with bounds checks only: a number, length or offset out of range is an error
//!   of the stream, never of the host.
//!
//! Architecture invariant: this crate does no system call and allocates nothing.
#![no_std]
#![forbid(unsafe_code)]

pub mod dict;
mod layout;

pub use layout::{
    CHUNK, CHUNKS, CONTROL_OFFSET, Control, DICT_INDEX_OFFSET, DICT_WORDS_OFFSET, FILE_SIZE,
    FIRST_RECORD, FULL_WINDOW, LAYOUT_VERSION, LetGo, MAGIC, MAX_PATHS, MAX_RECORD, MAX_REGIONS,
    MAX_VALUES, MAX_WORDS, REGION_OFFSET, RING_BYTES, RING_OFFSET, RegionRecord, State,
    THREAD_PAGE_OFFSET, chunk_start,
};

/// Test options in the control words, see `docs/testing.md`.
pub mod options {
    /// Bits 0–7: app instructions in a fragment at most (0: the usual number).
    pub const INSNS_MASK: u64 = 0xff;
    /// Arenas are placed out of reach of their app code.
    pub const FAR: u64 = 1 << 8;
    /// Bits 16–31: pages of code cache before everything is flushed (0: no limit but the arena).
    pub const CACHE_SHIFT: u32 = 16;
}
