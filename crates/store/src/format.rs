//! Marks of the file format.

/// First bytes of every profile file.
pub const MAGIC: [u8; 8] = *b"\x89TROMMEL";

/// The version of the format written.
pub const VERSION: u32 = 19;

/// The oldest version that is read. It has no checksums of code, does not say which part of a run was to be observed, and not how often
/// code after calls was executed.
pub const OLDEST: u32 = 12;
