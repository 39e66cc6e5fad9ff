//! The descriptions of call frames in a file, found by address.
//!
//! Compilers describe frames in `.eh_frame` (DWARF 5, section 6.4; the x86-64 psABI, section 4.2.4). Linkers put a sorted table of functions
//! before it, `.eh_frame_hdr`. Both are copies of the file's bytes, so a file that is cut short later harms nobody.

use std::fs::File;
use std::ops::Range;

use addr2line::gimli::{
    BaseAddresses, EhFrame, EhFrameOffset, EndianSlice, FrameDescriptionEntry, LittleEndian,
    UnwindSection,
};
use object::LittleEndian as LE;
use object::read::elf::{FileHeader, SectionHeader};
use object::read::{ReadCache, ReadRef};

use crate::object_file::{Header, ObjectFile};

/// A section.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) vaddr: u64,
    pub(crate) bytes: Vec<u8>,
}

pub(crate) type Slice<'a> = EndianSlice<'a, LittleEndian>;
pub(crate) type Entry<'a> = FrameDescriptionEntry<Slice<'a>>;

/// Larger sections are of no program that people run.
const MOST: usize = 256 << 20;

impl Part {
    fn of(file: &ObjectFile<'_>, name: &str) -> Option<Self> {
        let section = file.section(name)?;
        Self::new(section.sh_addr(LE), file.raw(section))
    }

    fn new(vaddr: u64, bytes: &[u8]) -> Option<Self> {
        (!bytes.is_empty() && bytes.len() <= MOST).then(|| Self {
            vaddr,
            bytes: bytes.to_vec(),
        })
    }
}

/// The descriptions of a file.
#[derive(Debug)]
pub(crate) struct Described {
    pub(crate) table: Part,
    pub(crate) frames: Part,
}

impl Described {
    /// Those of a file whose bytes are there.
    pub(crate) fn of(file: &ObjectFile<'_>) -> Option<Self> {
        Some(Self {
            table: Part::of(file, ".eh_frame_hdr")?,
            frames: Part::of(file, ".eh_frame")?,
        })
    }

    /// Those of an open file. It is read and not mapped: whoever cuts it short gives fewer bytes.
    pub(crate) fn read(file: &File) -> Option<Self> {
        let cache = ReadCache::new(file);
        let header = Header::parse(&cache).ok()?;
        if !header.is_class_64() || !header.is_little_endian() {
            return None;
        }
        let sections = header.sections(LE, &cache).ok()?;
        let part = |name: &str| {
            let (_, section) = sections.section_by_name(LE, name.as_bytes())?;
            let (offset, size) = section.file_range(LE)?;
            if size > MOST as u64 {
                return None;
            }
            Part::new(
                section.sh_addr(LE),
                (&cache).read_bytes_at(offset, size).ok()?,
            )
        };
        Some(Self {
            table: part(".eh_frame_hdr")?,
            frames: part(".eh_frame")?,
        })
    }

    /// Calls `with` for the description of the instruction at a vaddr.
    pub(crate) fn with_entry<T>(
        &self,
        vaddr: u64,
        with: impl FnOnce(&Entry<'_>, &EhFrame<Slice<'_>>, &BaseAddresses) -> Option<T>,
    ) -> Option<T> {
        let bases = BaseAddresses::default().set_eh_frame(self.frames.vaddr);
        let frames = self.section();
        let offset = EhFrameOffset(self.entry_near(vaddr)?);
        let entry = frames.fde_from_offset(&bases, offset, EhFrame::cie_from_offset);
        let entry = entry.ok().filter(|entry| entry.contains(vaddr))?;
        with(&entry, &frames, &bases)
    }

    /// The section of descriptions.
    pub(crate) fn section(&self) -> EhFrame<Slice<'_>> {
        EhFrame::new(&self.frames.bytes, LittleEndian)
    }

    /// Returns where in `.eh_frame` the entry is of the last function that begins at a vaddr or before it. The table is searched here, as `gimli`
    /// trusts its numbers; linkers write no other encoding of it.
    fn entry_near(&self, vaddr: u64) -> Option<usize> {
        /// Version 1; the section's address relative to this one, a number of 4 bytes, pairs of distances from this section of 4 bytes each.
        const USUAL: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
        let (head, rows) = self.table.bytes.split_first_chunk::<12>()?;
        if head[..4] != USUAL {
            return None;
        }
        let count = u32::from_le_bytes(*head.last_chunk()?) as usize;
        let rows = rows.as_chunks::<8>().0;
        let rows = rows.get(..count)?;
        let at = |distance: &[u8]| {
            let distance = i32::from_le_bytes(*distance.first_chunk()?);
            self.table.vaddr.checked_add_signed(distance.into())
        };
        let after = rows.partition_point(|row| at(row).is_some_and(|start| start <= vaddr));
        let entry = at(&rows.get(after.checked_sub(1)?)?[4..])?;
        let offset = usize::try_from(entry.checked_sub(self.frames.vaddr)?).ok()?;
        (offset < self.frames.bytes.len()).then_some(offset)
    }
}

/// The vaddrs that an entry describes.
pub(crate) fn range(entry: &Entry<'_>) -> Range<u64> {
    entry.initial_address()..entry.end_address()
}
