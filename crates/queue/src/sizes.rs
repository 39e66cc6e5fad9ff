//! Sizes that the structures of the file and its layout share.

/// The longest record, in bytes.
pub const MAX_RECORD: usize = 256;
/// Paths that can be numbered.
pub const MAX_PATHS: usize = 1 << 25;
/// Bytes of a thread's page.
pub const THREAD_PAGE: usize = 0x1000;
