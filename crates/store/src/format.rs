//! Marks of the file format.

/// First bytes of every profile file.
pub const MAGIC: [u8; 8] = *b"\x89TROMMEL";

/// The version of the format written, and the only one read.
pub const VERSION: u32 = 12;
