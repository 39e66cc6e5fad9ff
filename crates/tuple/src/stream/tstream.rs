//! The `.tstream` container: a header, blocks, a trailer.
//!
//! ```text
//! header  = "tstream\n"  version u16  flags u16  crc32 of the 12 bytes before it
//! block   = tag [4]  items u32  length u32  stored u32  crc32  then `stored` bytes
//! ```
//! All numbers are little-endian. `length` is the payload's size, `stored` its size in the file:
//! equal where it is stored as it is, smaller where it is one zstd frame. The crc32 covers the 16
//! bytes of the block's head before it and the stored bytes. Tags:
//! * `EVTS`: `items` events as `block.rs` codes them, independent of all other blocks;
//! * `MODS`: `items` modules: id u16, path length u32, path, build id length u32, build id;
//!   a module stands before the first event that refers to it;
//! * `TAIL`: events u64, then events of each of the first seven kinds u64 × 7, modules u64, and events of the other kinds up to the
//!   last one of which there are any, u64 each. Ends a complete file.
//!
//! Invariants: a file that ends before its `TAIL` was cut short, and every block before the cut is
//! good; a size in a block's head is believed only below [`MAX_LENGTH`].

use std::io::{self, Read, Write};
use std::string::ToString;
use std::vec::Vec;

use super::block::{Decoder, Encoder};
use super::{Block, End, Error, Module, Problem};
use crate::{Events, Kind, ModuleId, Tuple};

const MAGIC: [u8; 8] = *b"tstream\n";
const VERSION: u16 = 1;
const HEADER: usize = 16;
const HEAD: usize = 20;

/// The most events in a block.
pub const MAX_EVENTS: usize = 32 * 1024;
/// The largest payload of a block.
pub const MAX_LENGTH: usize = 1 << 20;

const LEVEL: i32 = 1;

/// Returns true if a file begins as one of ours (a prefix of the magic is not enough).
pub(super) fn begins(head: &[u8]) -> bool {
    head.starts_with(&MAGIC)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Totals {
    kinds: [u64; Kind::ALL.len()],
    modules: u64,
}

impl Totals {
    fn to_bytes(self) -> Vec<u8> {
        let events = self.kinds.iter().sum::<u64>();
        let (first, others) = self.kinds.split_at(Kind::Path as usize);
        let last = others.iter().rposition(|n| *n != 0);
        let others = &others[..last.map_or(0, |last| last + 1)];
        let words = core::iter::once(events)
            .chain(first.iter().copied())
            .chain([self.modules])
            .chain(others.iter().copied());
        words.flat_map(u64::to_le_bytes).collect()
    }
}

/// Writes a `.tstream` file. [`finish`](Self::finish) it, or it reads as cut short.
pub struct Writer<W: Write> {
    to: W,
    encoder: Encoder,
    zstd: zstd::bulk::Compressor<'static>,
    payload: Vec<u8>,
    stored: Vec<u8>,
    totals: Totals,
}

impl<W: Write> Writer<W> {
    /// A writer to `to`, which need not be buffered: blocks are written whole.
    pub fn new(mut to: W) -> io::Result<Self> {
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(&MAGIC);
        header[8..10].copy_from_slice(&VERSION.to_le_bytes());
        let crc = crc32fast::hash(&header[..12]);
        header[12..].copy_from_slice(&crc.to_le_bytes());
        to.write_all(&header)?;
        Ok(Self {
            to,
            encoder: Encoder::new(),
            zstd: zstd::bulk::Compressor::new(LEVEL)?,
            payload: Vec::new(),
            stored: Vec::new(),
            totals: Totals::default(),
        })
    }

    /// Adds an event.
    #[inline]
    pub fn push(&mut self, kind: Kind, tuple: Tuple) -> io::Result<()> {
        self.totals.kinds[kind as usize] += 1;
        self.encoder.push(kind, tuple);
        if self.encoder.len() == MAX_EVENTS {
            self.flush_events()?;
        }
        Ok(())
    }

    /// Adds events.
    pub fn events(&mut self, events: Events<'_>) -> io::Result<()> {
        let mut result = Ok(());
        events.for_each(|kind, tuple| {
            if result.is_ok() {
                result = self.push(kind, tuple);
            }
        });
        result
    }

    /// Names a module. Must come before the first event in it.
    pub fn module(&mut self, module: &Module) -> io::Result<()> {
        self.flush_events()?;
        let mut payload = Vec::new();
        payload.extend_from_slice(&module.id.0.to_le_bytes());
        for bytes in [&module.path, &module.build_id] {
            payload.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            payload.extend_from_slice(bytes);
        }
        if payload.len() > MAX_LENGTH {
            let message = "a module's path and build id are too long for a stream";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        self.totals.modules += 1;
        self.payload = payload;
        self.block(*b"MODS", 1)
    }

    /// Writes what is pending as a block, so that a reader sees it should this process be killed.
    pub fn flush(&mut self) -> io::Result<()> {
        self.flush_events()?;
        self.to.flush()
    }

    /// Writes the trailer and gives back what was written to.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush_events()?;
        self.payload = self.totals.to_bytes();
        self.block(*b"TAIL", 0)?;
        self.to.flush()?;
        Ok(self.to)
    }

    #[cold]
    fn flush_events(&mut self) -> io::Result<()> {
        let items = self.encoder.len();
        if items == 0 {
            return Ok(());
        }
        self.encoder.take(&mut self.payload);
        self.block(*b"EVTS", items as u32)
    }

    fn block(&mut self, tag: [u8; 4], items: u32) -> io::Result<()> {
        self.stored.clear();
        self.stored
            .reserve(zstd::zstd_safe::compress_bound(self.payload.len()));
        self.zstd
            .compress_to_buffer(&self.payload, &mut self.stored)?;
        let stored = if self.stored.len() < self.payload.len() {
            &self.stored
        } else {
            &self.payload
        };
        let mut head = [0; HEAD];
        head[..4].copy_from_slice(&tag);
        head[4..8].copy_from_slice(&items.to_le_bytes());
        head[8..12].copy_from_slice(&(self.payload.len() as u32).to_le_bytes());
        head[12..16].copy_from_slice(&(stored.len() as u32).to_le_bytes());
        let crc = checksum(&head, stored);
        head[16..].copy_from_slice(&crc.to_le_bytes());
        self.to.write_all(&head)?;
        self.to.write_all(stored)
    }
}

fn checksum(head: &[u8; HEAD], stored: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&head[..16]);
    crc.update(stored);
    crc.finalize()
}

/// Reads a `.tstream` file.
pub struct Reader<R> {
    from: R,
    decoder: Decoder,
    zstd: zstd::bulk::Decompressor<'static>,
    stored: Vec<u8>,
    payload: Vec<u8>,
    modules: Vec<Module>,
    totals: Totals,
    /// Offset after the last whole block.
    offset: u64,
    end: Option<End>,
}

impl<R: Read> Reader<R> {
    /// A reader; checks the header. A file cut inside its header is an empty one cut short.
    pub fn new(mut from: R) -> Result<Self, Error> {
        let mut header = Vec::new();
        let whole = read_up_to(&mut from, &mut header, HEADER, 0)?;
        let prefix = header.len().min(MAGIC.len());
        if header[..prefix] != MAGIC[..prefix] {
            return Err(Error::new(0, Problem::NotAStream));
        }
        let mut end = None;
        if whole {
            if crc32fast::hash(&header[..12]) != u32_at(&header, 12) {
                return Err(Error::corrupt(8, "the header does not match its checksum"));
            }
            let version = u16::from_le_bytes([header[8], header[9]]);
            let flags = u16::from_le_bytes([header[10], header[11]]);
            if version != VERSION || flags != 0 {
                let what = std::format!("stream format {version}, flags {flags:#x}");
                return Err(Error::new(8, Problem::Unsupported(what)));
            }
        } else {
            end = Some(End::CutShort { offset: 0 });
        }
        let zstd = zstd::bulk::Decompressor::new().map_err(|e| Error::new(0, Problem::Io(e)))?;
        Ok(Self {
            from,
            decoder: Decoder::new(),
            zstd,
            stored: Vec::new(),
            payload: Vec::new(),
            modules: Vec::new(),
            totals: Totals::default(),
            offset: HEADER as u64,
            end,
        })
    }

    /// The modules named so far.
    pub fn modules(&self) -> &[Module] {
        &self.modules
    }

    /// Returns how the stream ended, once it has.
    pub const fn end(&self) -> Option<End> {
        self.end
    }

    /// The next events into `block`; `false` at the end. After an error the stream is at its end.
    pub fn next_block(&mut self, block: &mut Block) -> Result<bool, Error> {
        block.clear();
        while self.end.is_none() {
            match self.read_block(block) {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(e) => {
                    block.clear();
                    self.end = Some(End::CutShort {
                        offset: self.offset,
                    });
                    return Err(e);
                }
            }
        }
        Ok(false)
    }

    /// One block of the file. Returns true if it was one of events.
    fn read_block(&mut self, block: &mut Block) -> Result<bool, Error> {
        let at = self.offset;
        let mut head = Vec::new();
        if !read_up_to(&mut self.from, &mut head, HEAD, at)? {
            self.end = Some(End::CutShort { offset: at });
            return Ok(false);
        }
        let head: [u8; HEAD] = head[..].try_into().expect("a whole head was read");
        let (items, length) = (u32_at(&head, 4) as usize, u32_at(&head, 8) as usize);
        let stored = u32_at(&head, 12) as usize;
        if length > MAX_LENGTH || stored > length {
            return Err(Error::corrupt(at, "a block has impossible sizes"));
        }
        if !read_up_to(&mut self.from, &mut self.stored, stored, at + HEAD as u64)? {
            self.end = Some(End::CutShort { offset: at });
            return Ok(false);
        }
        if checksum(&head, &self.stored) != u32_at(&head, 16) {
            return Err(Error::corrupt(at, "a block does not match its checksum"));
        }
        self.payload.clear();
        if stored == length {
            self.payload.extend_from_slice(&self.stored);
        } else {
            self.payload.reserve(length);
            let size = self
                .zstd
                .decompress_to_buffer(&self.stored, &mut self.payload);
            if size.ok() != Some(length) || self.payload.len() != length {
                return Err(Error::corrupt(at, "a block cannot be decompressed"));
            }
        }
        self.offset = at + (HEAD + stored) as u64;
        self.interpret([head[0], head[1], head[2], head[3]], items, block)
            .map_err(|what| Error::corrupt(at, what))
    }

    fn interpret(
        &mut self,
        tag: [u8; 4],
        items: usize,
        block: &mut Block,
    ) -> Result<bool, &'static str> {
        match &tag {
            b"EVTS" => {
                if items == 0 || items > MAX_EVENTS {
                    return Err("a block has an impossible number of events");
                }
                self.decoder.decode(&self.payload, items, block)?;
                for kind in &block.kinds {
                    self.totals.kinds[*kind as usize] += 1;
                }
                Ok(true)
            }
            b"MODS" => {
                self.read_modules(items)?;
                Ok(false)
            }
            b"TAIL" => {
                if self.payload != self.totals.to_bytes() {
                    return Err("the trailer's totals are not those of the blocks");
                }
                self.end = Some(End::Complete);
                let mut more = [0];
                if matches!(self.from.read(&mut more), Ok(1)) {
                    return Err("there are bytes after the trailer");
                }
                Ok(false)
            }
            _ => Err("a block has an unknown tag"),
        }
    }

    fn read_modules(&mut self, items: usize) -> Result<(), &'static str> {
        let mut rest = &self.payload[..];
        let mut take = |n: usize| rest.split_off(..n).ok_or("a module table ends early");
        for _ in 0..items {
            let id = take(2)?;
            let id = ModuleId(u16::from_le_bytes([id[0], id[1]]));
            let length = u32_at(take(4)?, 0) as usize;
            let path = take(length)?.to_vec();
            let length = u32_at(take(4)?, 0) as usize;
            let build_id = take(length)?.to_vec();
            self.totals.modules += 1;
            self.modules.push(Module { id, path, build_id });
        }
        if rest.is_empty() {
            Ok(())
        } else {
            Err("a module table has bytes after its last module")
        }
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// Reads `n` bytes; `false` when the input ends before.
fn read_up_to(
    from: &mut impl Read,
    into: &mut Vec<u8>,
    n: usize,
    offset: u64,
) -> Result<bool, Error> {
    into.clear();
    match from.by_ref().take(n as u64).read_to_end(into) {
        Ok(read) => Ok(read == n),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => {
            let what = if e.raw_os_error().is_none() {
                Problem::Unsupported("cannot be decompressed: ".to_string() + &e.to_string())
            } else {
                Problem::Io(e)
            };
            Err(Error::new(offset + into.len() as u64, what))
        }
    }
}
