//! Which bytes of a code cache do the program's own work.
//!
//! A cache is made of arenas. In each, fragments come first and exit stubs after them; what is a
//! fragment's is the app's instructions, copied or in other words, and what the engine adds: checks
//! of indirect branches, jumps from one fragment to the next, registers put away. With
//! `Traces::audit` the runtime marks the bytes of the former in a map at the end of the
//! arena, a bit for each byte of code, lowest first. So the host, which samples program counters from outside,
//! tells how much of the time is the program's.
//!
//! The host reads the map while the runtime writes it. A sample that is told wrong for that counts as
//! one sample.

/// Address space of one arena.
pub const ARENA_BYTES: u64 = MARKS_OFFSET + CODE_BYTES / 8;
/// What fragments lie in, from the start of the arena on.
pub const CODE_BYTES: u64 = 192 << 20;
/// Where an arena's map of marks begins; stubs and counters are before it.
pub const MARKS_OFFSET: u64 = 256 << 20;
/// Arenas that the host knows of. Samples in others are not told apart.
pub const ARENAS: usize = 8;

/// The byte of the map, from its start, and the bit in it, of a byte of code at an offset from the
/// arena's start.
pub const fn place(offset: u64) -> (u64, u8) {
    (offset / 8, 1 << (offset % 8))
}
