//! Fragments that outlive their process, so that the next run of a program need not make them.
//!
//! A program of which no events are recorded makes the same fragments each time it starts, but for the addresses
//! in them. The runtime writes each that it makes, without addresses, to its slot: [`Made`], modules, records, at
//! [`MADE_OFFSET`](crate::MADE_OFFSET). The host keeps them in a file of the user's, the *image*, which the runtime of the program's next run
//! maps, and takes what it finds there in place of translating.
//!
//! An image is [`Image`]'s header, then modules, a table that leads from a module and an offset in its file to a
//! record, and the records, in the order in which fragments were made. Everything is little endian.
//!
//! A *record* begins with [`Head`] and belongs to one module. What follows is the runtime's (`runtime/src/persist`): the host
//! only keeps it.

use core::sync::atomic::AtomicU32;

/// Bytes of either at most.
pub const PERSIST_BYTES: usize = 64 << 20;
/// Modules that fragments of one program may come from.
pub const MAX_MODULES: usize = 256;
/// Bytes of one module.
pub const MODULE_BYTES: usize = 256;
/// Offset of the records in what this run has made.
pub const MADE_RECORDS: usize = size_of::<Made>() + MAX_MODULES * MODULE_BYTES;
/// "TROMKEPT", little endian.
const MAGIC: u64 = u64::from_le_bytes(*b"TROMKEPT");

/// Header of what a run has made. Modules and records are after it. What its numbers count is complete.
#[repr(C, align(64))]
pub struct Made {
    /// Modules.
    pub modules: AtomicU32,
    /// Bytes of records.
    pub bytes: AtomicU32,
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*word))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let word = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_le_bytes(*word))
}

/// A file that code comes from, as `stat` distinguishes it from other files and from its earlier contents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Module {
    /// Device and inode of the file.
    pub file: [u64; 2],
    /// Size of the file.
    pub size: u64,
    /// Time of the file's last change, in nanoseconds.
    pub changed: u64,
    path: [u8; Self::PATH],
    path_len: u32,
}

impl Module {
    /// Bytes of the longest path.
    pub const PATH: usize = MODULE_BYTES - 36;

    /// A module; `None` when its path is too long.
    pub fn new(file: [u64; 2], size: u64, changed: u64, path: &[u8]) -> Option<Self> {
        let mut bytes = [0; Self::PATH];
        bytes.get_mut(..path.len())?.copy_from_slice(path);
        Some(Self {
            file,
            size,
            changed,
            path: bytes,
            path_len: path.len() as u32,
        })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &[u8] {
        &self.path[..self.path_len as usize]
    }

    /// Returns the module as it is stored.
    pub fn bytes(&self) -> [u8; MODULE_BYTES] {
        let mut bytes = [0; MODULE_BYTES];
        let words = [self.file[0], self.file[1], self.size, self.changed];
        for (to, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *to = word.to_le_bytes();
        }
        bytes[32..36].copy_from_slice(&self.path_len.to_le_bytes());
        bytes[36..].copy_from_slice(&self.path);
        bytes
    }

    /// The module stored in `bytes`.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let path_len = u32_at(bytes, 32)?;
        let path = bytes.get(36..MODULE_BYTES)?.get(..path_len as usize)?;
        let word = |n: usize| u64_at(bytes, 8 * n);
        Self::new([word(0)?, word(1)?], word(2)?, word(3)?, path)
    }
}

/// Header of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// Bytes of the record, a multiple of eight.
    pub len: u32,
    /// Number of its module.
    pub module: u32,
    /// Start of the app code, from the start of the module's file.
    pub at: u32,
    /// [`digest`] of the record.
    pub digest: u32,
}

impl Head {
    /// Bytes of it.
    pub const BYTES: usize = 16;

    /// Returns the header as it is stored.
    pub fn bytes(&self) -> [u8; Self::BYTES] {
        let words = [self.len, self.module, self.at, self.digest];
        let mut bytes = [0; Self::BYTES];
        for (to, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *to = word.to_le_bytes();
        }
        bytes
    }

    /// The head of the record at an offset, all of which is in `bytes`, and what follows it there.
    pub fn read(bytes: &[u8], at: usize) -> Option<(Self, &[u8])> {
        let head = Self {
            len: u32_at(bytes, at)?,
            module: u32_at(bytes, at + 4)?,
            at: u32_at(bytes, at + 8)?,
            digest: u32_at(bytes, at + 12)?,
        };
        let record = bytes.get(at..)?.get(..head.len as usize)?;
        let whole = record.len().is_multiple_of(8);
        Some((head, record.get(Self::BYTES..).filter(|_| whole)?))
    }
}

/// Tells a damaged record from what was written: of its module, of where its code starts, and of the bytes after its head,
/// whose number is a multiple of eight.
pub fn digest(module: u32, at: u32, bytes: &[u8]) -> u32 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |sum: u64, word: &[u8; 8]| {
        let mixed = (sum ^ u64::from_le_bytes(*word)).wrapping_mul(ODD);
        mixed ^ mixed >> 29
    };
    // Four sums, as each step of one waits for the step before.
    let (fours, rest) = bytes.as_chunks::<8>().0.as_chunks::<4>();
    let mut sums = [module.into(), at.into(), 3, bytes.len() as u64];
    for four in fours {
        for (sum, word) in sums.iter_mut().zip(four) {
            *sum = mix(*sum, word);
        }
    }
    for word in rest {
        sums[0] = mix(sums[0], word);
    }
    let all = sums.iter().fold(0, |all, sum| mix(all, &sum.to_le_bytes()));
    (all >> 32) as u32
}

/// Fragments that were kept of earlier runs.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    bytes: &'a [u8],
    modules: usize,
    /// Offset of the table. The number of its entries is a power of two.
    table: usize,
    entries: usize,
    records: usize,
}

/// Bytes of an image's header.
pub const HEADER: usize = 40;

impl<'a> Image<'a> {
    /// The header of an image: its build and shape, modules, entries of the table, and bytes of records.
    pub fn header(key: [u64; 2], modules: usize, entries: usize, bytes: usize) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        let counts = (modules as u64) << 32 | entries as u64;
        let words = [MAGIC, key[0], key[1], counts, bytes as u64];
        for (to, word) in header.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *to = word.to_le_bytes();
        }
        header
    }

    /// The build and shape of the image that `bytes` begins with.
    pub fn key(bytes: &[u8]) -> Option<[u64; 2]> {
        (u64_at(bytes, 0)? == MAGIC).then_some(())?;
        Some([u64_at(bytes, 8)?, u64_at(bytes, 16)?])
    }

    /// Returns the image in `bytes`, if it is one of this build and shape. Bytes after it are ignored.
    pub fn read(bytes: &'a [u8], key: [u64; 2]) -> Option<Self> {
        let word = |n: usize| u64_at(bytes, 8 * n);
        let counts = word(3)?;
        let (modules, entries) = ((counts >> 32) as usize, counts as u32 as usize);
        let fits = modules <= MAX_MODULES && entries.is_power_of_two();
        let of_key = [word(0)?, word(1)?, word(2)?] == [MAGIC, key[0], key[1]];
        let table = HEADER + modules * MODULE_BYTES;
        let records = (table + 4 * entries).next_multiple_of(8);
        let end = records.checked_add(usize::try_from(word(4)?).ok()?)?;
        (fits && of_key).then_some(())?;
        Some(Self {
            bytes: bytes.get(..end)?,
            modules,
            table,
            entries,
            records,
        })
    }

    /// Returns the image's modules.
    pub fn modules(&self) -> impl Iterator<Item = Option<Module>> + use<'a> {
        let bytes = self.bytes;
        let at = |n| HEADER + n * MODULE_BYTES;
        (0..self.modules).map(move |n| Module::read(bytes.get(at(n)..at(n + 1))?))
    }

    /// Returns the largest number of records that the image can have.
    pub fn most_records(&self) -> usize {
        self.entries / 2
    }

    /// Returns all records of the image, in a row.
    pub fn records(&self) -> &'a [u8] {
        &self.bytes[self.records..]
    }

    /// A record by where it is, and where the next is.
    pub fn record(&self, at: usize) -> Option<(Head, &'a [u8], usize)> {
        let (head, rest) = Head::read(self.bytes, at).filter(|_| at >= self.records)?;
        Some((head, rest, at + head.len as usize))
    }

    /// Returns the place of the record of an offset in a module's file, if there is one.
    pub fn find(&self, module: u32, at: u32) -> Option<usize> {
        let mut entry = entry_of(module, at, self.entries);
        // A damaged table may be full.
        for _ in 0..self.entries {
            match u32_at(self.bytes, self.table + 4 * entry)? as usize {
                0 => return None,
                found => {
                    let head = Head::read(self.bytes, found)?.0;
                    if (head.module, head.at) == (module, at) && found >= self.records {
                        return Some(found);
                    }
                }
            }
            entry = (entry + 1) & (self.entries - 1);
        }
        None
    }
}

/// Entry of the table where a search begins.
fn entry_of(module: u32, at: u32, entries: usize) -> usize {
    let key = u64::from(module) << 32 | u64::from(at);
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & (entries - 1)
}

/// Entries of the table for so many records.
pub const fn entries_for(records: usize) -> usize {
    let twice = 2 * records;
    if twice < 8 {
        8
    } else {
        twice.next_power_of_two()
    }
}

/// Enters the record at an offset of the image into its table, which must not be full.
pub fn enter(table: &mut [u32], module: u32, at: u32, offset: u32) {
    let mut entry = entry_of(module, at, table.len());
    while table[entry] != 0 {
        entry = (entry + 1) & (table.len() - 1);
    }
    table[entry] = offset;
}
