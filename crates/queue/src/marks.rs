//! Marks: the bytes of a code cache that do the program's own work.
//!
//! A cache is made of arenas. In each, fragments come first and exit stubs after them. A fragment holds
//! the app's instructions, copied or rewritten, and what the engine adds: checks of indirect branches,
//! jumps from one fragment to the next, spills of registers. With `Traces::audit` the runtime marks the
//! bytes of the app's instructions in a map at the end of the arena: a bit for each byte of code, lowest
//! first. The host samples program counters from outside. From the map it knows how much of the time is
//! the program's.
//!
//! The host reads the map while the runtime writes it. A sample that is misattributed for that reason counts
//! as one sample.

/// Address space of one arena.
pub const ARENA_BYTES: u64 = MARKS_OFFSET + CODE_BYTES / 8;
/// Bytes of an arena that fragments lie in, from its start on.
pub const CODE_BYTES: u64 = 192 << 20;
/// Offset of an arena's map of marks; stubs and counters are before it.
pub const MARKS_OFFSET: u64 = 256 << 20;
/// Arenas that the host knows of. Samples in other arenas are not distinguished.
pub const ARENAS: usize = 8;

/// The byte of the map, from its start, and the bit in it, of a byte of code at an offset from the
/// arena's start.
pub const fn place(offset: u64) -> (u64, u8) {
    (offset / 8, 1 << (offset % 8))
}
