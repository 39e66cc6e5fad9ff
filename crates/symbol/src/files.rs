//! The files that symbols are read from, mapped for as long as their names are in use.
//!
//! Parsed tables borrow from the bytes of their files, and new files turn up while others are in
//! use. So the bytes live in an arena that the caller owns: [`Files`] only grows, and everything
//! borrowed from it lives as long as the arena.
#![allow(unsafe_code)] // reason: mapping a file is unsafe; see `Bytes::map`.

use std::cell::{Cell, OnceCell};
use std::fs::File;
use std::io;
use std::path::Path;

use memmap2::Mmap;

/// Bytes that may be in memory because they were unpacked: the debug information of a browser has a fourth of this.
const ROOM: u64 = 8 << 30;

/// An arena of file contents.
#[derive(Debug)]
pub struct Files {
    first: OnceCell<Box<Node>>,
    room: Cell<u64>,
}

impl Default for Files {
    fn default() -> Self {
        Self::with_room(ROOM)
    }
}

#[derive(Debug)]
struct Node {
    bytes: Bytes,
    next: OnceCell<Box<Node>>,
}

#[derive(Debug)]
enum Bytes {
    Mapped(Mmap),
    Owned(Vec<u8>),
}

impl Bytes {
    /// Maps a file that has been opened.
    fn map(file: &File) -> io::Result<Self> {
        // SAFETY: the map is private and only read. Nobody may shrink the file while it is mapped:
        // package managers, linkers and compilers replace programs by a new file and do not shrink
        // the old one. A file shrunk all the same ends this process with SIGBUS, as it ends the
        // program that runs from it; no memory of ours is affected.
        Ok(Self::Mapped(unsafe { Mmap::map(file) }?))
    }

    fn slice(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Owned(bytes) => bytes,
        }
    }
}

impl Files {
    /// An empty arena.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty arena in which so many bytes may be kept that are not of a mapped file.
    pub(crate) fn with_room(room: u64) -> Self {
        Self {
            first: OnceCell::new(),
            room: Cell::new(room),
        }
    }

    /// Bytes that what is unpacked may have.
    pub(crate) fn room(&self) -> u64 {
        self.room.get()
    }

    /// Keeps `bytes`.
    pub fn keep(&self, bytes: Vec<u8>) -> &[u8] {
        self.room
            .set(self.room.get().saturating_sub(bytes.len() as u64));
        self.push(Bytes::Owned(bytes))
    }

    /// Maps the regular file at `path`. Pipes and devices are refused: they could block for ever.
    pub fn map(&self, path: &Path) -> io::Result<&[u8]> {
        let metadata = std::fs::metadata(path)?;
        if !metadata.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        if metadata.len() == 0 {
            return Ok(&[]);
        }
        Ok(self.push(Bytes::map(&File::open(path)?)?))
    }

    fn push(&self, bytes: Bytes) -> &[u8] {
        let mut slot = &self.first;
        while let Some(node) = slot.get() {
            slot = &node.next;
        }
        let node = slot.get_or_init(|| {
            Box::new(Node {
                bytes,
                next: OnceCell::new(),
            })
        });
        node.bytes.slice()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_bytes_stay_when_later_ones_come() {
        let files = Files::new();
        let one = files.keep(vec![1; 10]);
        let two = files.map(Path::new("/proc/self/exe")).expect("own file");
        let three = files.keep(vec![3]);
        assert_eq!(
            (one, &two[..4], three),
            (&[1; 10][..], &b"\x7fELF"[..], &[3][..])
        );
    }

    #[test]
    fn what_is_no_regular_file_is_refused() {
        assert!(Files::new().map(Path::new("/dev/zero")).is_err());
        assert!(Files::new().map(Path::new("/")).is_err());
    }
}
