//! Marks of the file format.

/// First bytes of every profile file.
pub const MAGIC: [u8; 8] = *b"\x89TROMMEL";

/// The version of the format written.
pub const VERSION: u32 = 13;

/// The oldest version that is read. It has no checksums of code, and does not say which part of a run was to be observed.
pub const OLDEST: u32 = 12;
