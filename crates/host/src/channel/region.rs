//! Regions of code, as the runtime finds them.

/// A region as the runtime found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Addresses in the target.
    pub range: std::ops::Range<u64>,
    /// Offset of the start in the file.
    pub offset: u64,
    /// Inode of the file, 0 for none.
    pub inode: u64,
    /// Path as the kernel prints it.
    pub path: Vec<u8>,
    /// Paths of code that were numbered before it was found.
    pub paths: usize,
}
