//! Extents of functions, as the app's own unwind information has them.
//!
//! # Problem
//! A jump may lead to another function: a tail call, or the stub of a procedure linkage table. Nothing in the instruction says so. Symbols are
//! in files that the target does not read, and stripped ones have none.
//!
//! # Strategy
//! Exceptions need the extent of each function at run time. So nearly every program has a sorted table of them in memory, `.eh_frame_hdr`.
//! It is copied when code of its file is asked about first. A lookup is a search in the copy, and one read for the function's length.
//! Code without a table has no known functions: jumps between its parts lead nowhere else.
//!
//! # Why it is correct
//! * What is read may be anything, or gone: reads are checked by the kernel, and whatever does not look like a table is none.
//! * A table is of one mapping of one file, and is asked for anew when the mapping has changed.

use alloc::vec::Vec;

use crate::base::address::{AppPc, Range};
use crate::base::sys;
use crate::memory::mapping::Mapping;
use crate::memory::region::Regions;

const PAGE: u64 = 4096;
/// Pages by which addresses of code may be ahead of its offset in the file.
const AHEAD: u64 = 16;
/// Bytes of an entry of the table.
const ENTRY: usize = 8;
/// Functions in a table at most.
const MOST: usize = 1 << 22;
const PT_LOAD: u32 = 1;
const PT_GNU_EH_FRAME: u32 = 0x6474_e550;

/// The functions of code that was asked about.
#[derive(Default)]
pub struct Functions {
    tables: Vec<Table>,
    /// The function that was found last.
    last: Option<Range>,
}

/// Functions of a mapping.
struct Table {
    range: Range,
    inode: u64,
    offset: u64,
    /// Start of each function, and the address of what describes it, in order.
    starts: Vec<(u64, u64)>,
}

fn read<const N: usize>(at: u64) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    sys::copy_checked(at, &mut bytes).then_some(bytes)
}

fn read_u32(at: u64) -> Option<u32> {
    read::<4>(at).map(u32::from_le_bytes)
}

/// The number of `N` bytes at an offset.
fn word(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..at + 8).and_then(|b| b.first_chunk::<8>());
    word.map_or(0, |b| u64::from_le_bytes(*b))
}

impl Functions {
    /// The function that holds an address, if that is known.
    pub fn of(&mut self, regions: &Regions, pc: AppPc) -> Option<Range> {
        let region = regions.known.iter().find(|known| known.range.holds(pc))?;
        let is = |t: &Table| {
            t.range == region.range && (t.inode, t.offset) == (region.inode, region.offset)
        };
        let number = match self.tables.iter().position(is) {
            Some(number) => number,
            None => {
                self.tables.retain(|t| !t.range.meets(&region.range));
                self.last = None;
                self.tables.push(Table::of(region));
                self.tables.len() - 1
            }
        };
        if !self.last.is_some_and(|last| last.holds(pc)) {
            self.last = self.tables[number].find(pc);
        }
        self.last
    }
}

impl Table {
    fn of(region: &Mapping) -> Self {
        let with_file = region.inode != 0 || region.path.starts_with(b"[vdso");
        let starts = with_file.then(|| starts(region)).flatten();
        Self {
            range: region.range,
            inode: region.inode,
            offset: region.offset,
            starts: starts.unwrap_or_default(),
        }
    }

    /// The function that holds an address of the mapping.
    fn find(&self, pc: AppPc) -> Option<Range> {
        let n = self.starts.partition_point(|(start, _)| *start <= pc.0);
        let (start, described) = *self.starts.get(n.checked_sub(1)?)?;
        // Length, a pointer, the start and the number of bytes: the last two as in the table, relative and of four bytes.
        let words = read::<16>(described)?;
        let relative = (word(&words, 8) as u32 as i32).into();
        if (described + 8).wrapping_add_signed(relative) != start {
            return None;
        }
        let bytes = word(&words, 8) >> 32;
        let range = Range {
            start,
            end: start + bytes,
        };
        range.holds(pc).then_some(range)
    }
}

/// Reads the table of the file that a mapping is of.
fn starts(region: &Mapping) -> Option<Vec<(u64, u64)>> {
    let first = region.range.start.checked_sub(region.offset)?;
    let header =
        (0..AHEAD).find_map(|pages| header_of(first.checked_sub(pages * PAGE)?, region))?;
    // Version, and how three things are encoded: as nearly all linkers do it.
    if read::<4>(header)? != [1, 0x1b, 0x03, 0x3b] {
        return None;
    }
    let count = read_u32(header + 8)? as usize;
    if count > MOST {
        return None;
    }
    let mut bytes = alloc::vec![0; count * ENTRY];
    if !sys::copy_checked(header + 12, &mut bytes) {
        return None;
    }
    let relative = |word: u32| header.wrapping_add_signed((word as i32).into());
    let (entries, _) = bytes.as_chunks::<ENTRY>();
    let entries = entries.iter().map(|entry| {
        let both = u64::from_le_bytes(*entry);
        (relative(both as u32), relative((both >> 32) as u32))
    });
    let starts: Vec<_> = entries.collect();
    starts.is_sorted().then_some(starts)
}

/// The address of the table in the file that is mapped from `base` on, if the mapping belongs to that.
fn header_of(base: u64, region: &Mapping) -> Option<u64> {
    const HEADER: usize = 64;
    const PROGRAM_HEADER: usize = 56;
    let file = read::<HEADER>(base)?;
    // A file of 64 bits, little-endian.
    if file[..6] != *b"\x7fELF\x02\x01" {
        return None;
    }
    let at = word(&file, 32);
    let count = word(&file, 56) as u16;
    let mut bias = None;
    let mut table = None;
    let mut belongs = false;
    for n in 0..u64::from(count) {
        let header = read::<PROGRAM_HEADER>(base.checked_add(at)? + n * PROGRAM_HEADER as u64)?;
        let (kind, offset, vaddr) = (word(&header, 0) as u32, word(&header, 8), word(&header, 16));
        match kind {
            PT_LOAD => {
                let bias = *bias.get_or_insert(base.wrapping_sub(vaddr.wrapping_sub(offset)));
                let start = bias.wrapping_add(vaddr);
                let end = start.wrapping_add(word(&header, 40));
                belongs |= start < region.range.end && region.range.start < end;
            }
            PT_GNU_EH_FRAME => table = Some(vaddr),
            _ => {}
        }
    }
    Some(bias?.wrapping_add(table.filter(|_| belongs)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_ends_where_its_description_says() {
        // A description: length, pointer, start relative to itself, bytes.
        let mut described = [0_u32; 4];
        let at = described.as_ptr() as u64;
        let start = at + 8 - 0x100;
        described[2] = 0_u32.wrapping_sub(0x100);
        described[3] = 0x20;
        core::hint::black_box(&mut described);
        let table = Table {
            range: Range {
                start: 0,
                end: u64::MAX,
            },
            inode: 1,
            offset: 0,
            starts: alloc::vec![(start, at)],
        };
        let whole = Some(Range {
            start,
            end: start + 0x20,
        });
        assert_eq!(table.find(AppPc(start)), whole);
        assert_eq!(table.find(AppPc(start + 0x1f)), whole);
        assert_eq!(table.find(AppPc(start + 0x20)), None);
        assert_eq!(table.find(AppPc(start - 1)), None);
    }
}
