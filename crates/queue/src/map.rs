//! Questions about the memory map of a process that may not ask the kernel itself.
//!
//! A filter of system calls (seccomp) may keep a program from opening `/proc`. The host reads the map then, and puts its text, as the kernel
//! prints it, into the place of the question. One thread at a time has the place. The words of request and answer are
//! used as [`crate::protocol`] says: [`ask`](crate::protocol::ask), [`wait_for`](crate::protocol::wait_for),
//! [`answer`](crate::protocol::answer).

use core::sync::atomic::{AtomicU32, AtomicU64};

/// Bytes of text in an answer at most.
pub const MAP_TEXT: usize = 60 << 10;

/// The place of a question, and of all of its answer but the text.
#[repr(C)]
pub struct MapQuestion {
    /// Futex: 1 while a thread has the place.
    pub held: AtomicU32,
    /// Questions so far.
    pub asked: AtomicU32,
    /// Futex: questions that are answered.
    pub answered: AtomicU32,
    /// [`Self::ENTRY`] or [`Self::PIECE`].
    pub what: AtomicU32,
    /// The address, or the offset in the text.
    pub at: AtomicU64,
    /// Bytes of the answer, or [`Self::NONE`].
    pub bytes: AtomicU64,
    /// Not 0: the process has the file of the entry open for writing.
    pub written: AtomicU32,
    /// Unused.
    pub pad: AtomicU32,
}

/// Text of the answer.
#[repr(C)]
pub struct MapText {
    /// Its bytes, in the order of memory.
    pub words: [AtomicU64; MAP_TEXT / 8],
}

impl MapQuestion {
    /// Asks for the line of the mapping that holds an address. Without one, the answer is empty.
    pub const ENTRY: u32 = 1;
    /// Asks for what follows an offset in the text. From 0 on it is the map as it is now, else as it was then. At its end the answer is empty.
    pub const PIECE: u32 = 2;
    /// Value of [`Self::bytes`]: the map cannot be read.
    pub const NONE: u64 = u64::MAX;
}
