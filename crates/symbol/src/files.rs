//! The files that symbols are read from, mapped for as long as their names are in use.
//!
//! Parsed tables borrow from the bytes of their files, and new files turn up while others are in
//! use. So the bytes live in an arena that the caller owns: [`Files`] only grows, and everything
//! borrowed from it lives as long as the arena.
//!
//! Who shows a program that goes on asks again and again. So what is there already is not mapped or kept twice, and what took long to find
//! out is remembered with it.
#![allow(unsafe_code)] // reason: mapping a file is unsafe; see `Bytes::map`.

use std::any::{Any, TypeId};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::rc::Rc;

use memmap2::Mmap;

use crate::meter::Meter;

/// Bytes that may be in memory because they were unpacked: the debug information of a browser has a fourth of this.
const ROOM: u64 = 8 << 30;

/// An arena of file contents.
#[derive(Debug)]
pub struct Files {
    first: OnceCell<Box<Node>>,
    room: Cell<u64>,
    meters: Meters,
    /// By the address of the bytes, which stay where they are, and by type.
    known: RefCell<HashMap<(usize, TypeId), Rc<dyn Any>>>,
}

impl Default for Files {
    fn default() -> Self {
        Self::with_room(ROOM)
    }
}

/// Meters of what is read in the files.
#[derive(Debug, Default)]
struct Meters(OnceCell<Box<(Meter, Meters)>>);

#[derive(Debug)]
struct Node {
    bytes: Bytes,
    /// The file that was mapped.
    file: Option<Identity>,
    /// The part that these were packed in.
    packed: Option<PackedKey>,
    next: OnceCell<Box<Node>>,
}

/// A packed part of a file: address, length, promised size, way of compression.
type PackedKey = (usize, usize, Option<u64>, u32);

/// A file as it was at some time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.len(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
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
            meters: Meters::default(),
            known: RefCell::default(),
        }
    }

    /// Bytes that what is unpacked may have.
    pub(crate) fn room(&self) -> u64 {
        self.room.get()
    }

    /// Keeps `bytes`.
    pub fn keep(&self, bytes: Vec<u8>) -> &[u8] {
        let same = |node: &&Node| matches!(&node.bytes, Bytes::Owned(there) if *there == bytes);
        if let Some(node) = self.nodes().find(same) {
            return node.bytes.slice();
        }
        self.room
            .set(self.room.get().saturating_sub(bytes.len() as u64));
        self.push(Bytes::Owned(bytes), None, None)
    }

    /// Keeps the content of a packed part of a file here, which is found out once; `None` where it has none.
    pub(crate) fn unpacked(
        &self,
        bytes: &[u8],
        (size, way): (Option<u64>, u32),
        unpack: impl FnOnce() -> Option<Vec<u8>>,
    ) -> Option<&[u8]> {
        // Bytes elsewhere do not stay, and others may take their place.
        let range = bytes.as_ptr_range();
        let holds = |node: &Node| {
            let all = node.bytes.slice().as_ptr_range();
            all.start <= range.start && range.end <= all.end
        };
        if !self.nodes().any(holds) {
            return unpack().map(|content| self.keep(content));
        }
        let packed = Some((range.start.addr(), bytes.len(), size, way));
        if let Some(node) = self.nodes().find(|node| node.packed == packed) {
            return Some(node.bytes.slice()).filter(|content| !content.is_empty());
        }
        let content = unpack().unwrap_or_default();
        self.room
            .set(self.room.get().saturating_sub(content.len() as u64));
        let kept = self.push(Bytes::Owned(content), None, packed);
        Some(kept).filter(|content| !content.is_empty())
    }

    /// Keeps a meter of so much.
    pub(crate) fn meter(&self, left: u64) -> &Meter {
        let mut last = &self.meters;
        while let Some(meter) = last.0.get() {
            last = &meter.1;
        }
        let meter = || Box::new((Meter::new(left), Meters::default()));
        &last.0.get_or_init(meter).0
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
        let there = Some(Identity::of(&metadata));
        if let Some(node) = self.nodes().find(|node| node.file == there) {
            return Ok(node.bytes.slice());
        }
        let file = File::open(path)?;
        let identity = Identity::of(&file.metadata()?);
        Ok(self.push(Bytes::map(&file)?, Some(identity), None))
    }

    /// Returns what `make` makes of bytes here, and makes it once.
    pub(crate) fn known<T: 'static>(&self, bytes: &[u8], make: impl FnOnce() -> T) -> Rc<T> {
        let key = (bytes.as_ptr().addr(), TypeId::of::<T>());
        let known = self.known.borrow().get(&key).cloned();
        if let Some(known) = known.and_then(|known| known.downcast().ok()) {
            return known;
        }
        let new = Rc::new(make());
        self.known
            .borrow_mut()
            .insert(key, Rc::clone(&new) as Rc<dyn Any>);
        new
    }

    fn nodes(&self) -> impl Iterator<Item = &Node> {
        let first = self.first.get();
        std::iter::successors(first, |node| node.next.get()).map(|node| &**node)
    }

    fn push(&self, bytes: Bytes, file: Option<Identity>, packed: Option<PackedKey>) -> &[u8] {
        let mut slot = &self.first;
        while let Some(node) = slot.get() {
            slot = &node.next;
        }
        let node = slot.get_or_init(|| {
            Box::new(Node {
                bytes,
                file,
                packed,
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
    fn what_is_there_is_not_mapped_or_kept_again() {
        let files = Files::with_room(100);
        let own = Path::new("/proc/self/exe");
        for _ in 0..3 {
            files.map(own).expect("own file");
            files.keep(vec![1; 10]);
        }
        assert_eq!((files.nodes().count(), files.room()), (2, 90));
        files.keep(vec![2; 10]);
        assert_eq!((files.nodes().count(), files.room()), (3, 80));
    }

    #[test]
    fn what_is_packed_is_unpacked_once() {
        let files = Files::with_room(100);
        let (one, two) = (files.keep(vec![1, 2, 3]), files.keep(vec![4]));
        for other in [10, 20] {
            let unpacked = |bytes, content: Option<usize>| {
                let content = content.map(|length| vec![7; length]);
                files
                    .unpacked(bytes, (None, 0), || content)
                    .map(<[u8]>::len)
            };
            assert_eq!(unpacked(&one[..2], Some(other)), Some(10));
            assert_eq!(unpacked(&one[1..], Some(11)), Some(11));
            assert_eq!(unpacked(two, (other == 20).then_some(1)), None);
            assert_eq!(unpacked(&[9], Some(other)), Some(other));
        }
        assert_eq!(files.room(), 100 - 4 - 10 - 11 - 20);
    }

    #[test]
    fn a_file_that_changed_is_mapped_again() {
        let path = std::env::temp_dir().join(format!("trommel-files-{}", std::process::id()));
        let files = Files::new();
        for content in ["one", "another"] {
            std::fs::write(&path, content).expect("written");
            assert_eq!(files.map(&path).ok(), Some(content.as_bytes()));
            // Not while it is mapped: a new file takes its name.
            std::fs::remove_file(&path).expect("removed");
        }
    }

    #[test]
    fn what_is_known_of_bytes_is_made_once() {
        let files = Files::new();
        let (one, two) = (files.keep(vec![1]), files.keep(vec![2]));
        assert_eq!(*files.known(one, || 7), 7);
        assert_eq!(*files.known(one, || 8), 7);
        assert_eq!(*files.known(two, || 8), 8);
        assert_eq!(*files.known(one, || "of another type"), "of another type");
        assert_eq!(*files.known(one, || 8), 7);
    }

    #[test]
    fn what_is_no_regular_file_is_refused() {
        assert!(Files::new().map(Path::new("/dev/zero")).is_err());
        assert!(Files::new().map(Path::new("/")).is_err());
    }
}
