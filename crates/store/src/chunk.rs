//! Chunks: the unit of compression and of checksums.
//!
//! ```text
//! tag u8 | packed u8 | zero u16 | raw length u32 | stored length u32 | crc u32 | stored bytes
//! ```
//! All numbers little-endian. The CRC covers the header before it, the number of the chunk in the
//! file (u32) and the stored bytes, so that a chunk that was dropped, repeated or moved is noticed.

use std::io::{self, Read, Write};

use crate::error::DecodeError;

/// Contents of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Tag {
    /// Command, compressor, the run.
    Head = 1,
    Modules = 2,
    /// A kind with its totals.
    Kind = 3,
    /// Tuples of a kind.
    Counts = 4,
    Sites = 5,
    /// Nothing follows.
    End = 6,
    /// Threads, when there was more than one.
    Threads = 7,
    /// Windows, and their cost.
    Windows = 8,
    /// Samples of a kind.
    Sampled = 9,
    /// Results of queries.
    Queries = 10,
    /// Their messages.
    Messages = 11,
    /// Results of a service in a library.
    Service = 12,
    /// Rows of that service.
    Rows = 13,
    /// Accesses to memory in each other's way.
    Pairs = 14,
    /// Latencies that separate the levels of loads.
    Levels = 15,
    /// Results of a customisation module.
    Custom = 16,
    /// Its pairs.
    Valued = 17,
    /// Arguments of calls.
    Arguments = 18,
    /// Samples of the whole machine in a process: its threads; and the recording.
    Samples = 19,
    /// Samples by place.
    Found = 20,
    /// Functions of the kernel.
    Functions = 21,
    /// Values by callers.
    Callers = 22,
    /// Values that were not profiled all the time.
    Filter = 23,
    /// Places of these values.
    Filtered = 24,
    /// Nodes of a tree of call paths.
    Paths = 25,
    /// Functions of code that was compiled while the program ran.
    Compiled = 26,
    /// Recordings that the profile is the sum of.
    Sum = 27,
    /// Results of simulated caches and predictors.
    Simulated = 28,
    /// Lines that threads share.
    Lines = 29,
    /// Events of all edges in windows.
    Edges = 30,
    /// Edges that few windows saw.
    Rare = 31,
    /// Name of the queries before, and when each was active.
    Active = 32,
    /// Rate at which intervals were kept.
    Intervals = 33,
    /// A thread's sequence of intervals.
    Sequence = 34,
    /// Intervals of that sequence.
    Interval = 35,
    /// Estimates from windows of what queries have counted.
    Windowed = 36,
    /// Estimates of their messages.
    WindowedSent = 37,
    /// Checksums of the code of modules that have no build id.
    Codes = 38,
    /// Part of the run that was to be observed.
    Scope = 39,
    /// Executions of instructions after calls.
    AfterCalls = 40,
    /// Time that the queries before took.
    Paid = 41,
    /// Times that the kernel led to instructions.
    Deliveries = 42,
    /// Rate at which intervals of the messages of the service before were kept.
    MessageIntervals = 43,
    /// A process's sequence of them.
    MessageSequence = 44,
    /// Intervals of that sequence.
    MessageInterval = 45,
    /// Accesses of the instructions of a simulation.
    Accesses = 46,
    /// Their branches.
    Branches = 47,
}

impl Tag {
    const ALL: [Self; 47] = [
        Self::Head,
        Self::Modules,
        Self::Kind,
        Self::Counts,
        Self::Sites,
        Self::End,
        Self::Threads,
        Self::Windows,
        Self::Sampled,
        Self::Queries,
        Self::Messages,
        Self::Service,
        Self::Rows,
        Self::Pairs,
        Self::Levels,
        Self::Custom,
        Self::Valued,
        Self::Arguments,
        Self::Samples,
        Self::Found,
        Self::Functions,
        Self::Callers,
        Self::Filter,
        Self::Filtered,
        Self::Paths,
        Self::Compiled,
        Self::Sum,
        Self::Simulated,
        Self::Lines,
        Self::Edges,
        Self::Rare,
        Self::Active,
        Self::Intervals,
        Self::Sequence,
        Self::Interval,
        Self::Windowed,
        Self::WindowedSent,
        Self::Codes,
        Self::Scope,
        Self::AfterCalls,
        Self::Paid,
        Self::Deliveries,
        Self::MessageIntervals,
        Self::MessageSequence,
        Self::MessageInterval,
        Self::Accesses,
        Self::Branches,
    ];
}

/// Writers close a chunk at this size; only a single text can make it longer.
pub(crate) const TARGET: usize = 256 << 10;
/// Readers refuse more. `execve` limits a command to 6 MiB.
const MAX: usize = 16 << 20;
const HEADER: usize = 16;
/// Chunks together unpack to so many times their bytes at most, and to [`UNPACKED`] bytes more. LZ4 can do 255 times, and each byte may become
/// an item of a hundred. Writers leave what packs better as it is.
const MAX_RATIO: u64 = 32;
const UNPACKED: u64 = 8 << 20;

/// Writes chunks.
pub(crate) struct ChunkWriter<W> {
    out: W,
    number: u32,
}

impl<W: Write> ChunkWriter<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out, number: 0 }
    }

    /// Chunks written so far.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn chunk(&mut self, tag: Tag, raw: &[u8]) -> io::Result<()> {
        if raw.len() > MAX {
            return Err(io::Error::other(
                "the command line is too long for a profile",
            ));
        }
        let packed = lz4_flex::block::compress(raw);
        let is_packed =
            packed.len() < raw.len() && raw.len() as u64 <= packed.len() as u64 * MAX_RATIO;
        let stored = if is_packed { &packed } else { raw };
        let mut header = [0; HEADER];
        header[0] = tag as u8;
        header[1] = is_packed.into();
        header[4..8].copy_from_slice(&(raw.len() as u32).to_le_bytes());
        header[8..12].copy_from_slice(&(stored.len() as u32).to_le_bytes());
        let crc = checksum(&header, self.number, stored);
        header[12..].copy_from_slice(&crc.to_le_bytes());
        self.number += 1;
        self.out.write_all(&header)?;
        self.out.write_all(stored)
    }
}

fn checksum(header: &[u8; HEADER], number: u32, stored: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&header[..12]);
    hasher.update(&number.to_le_bytes());
    hasher.update(stored);
    hasher.finalize()
}

/// Reads chunks and knows where it is.
pub(crate) struct Reader<R> {
    input: R,
    position: u64,
    number: u32,
    /// Bytes of all chunks so far, unpacked.
    unpacked: u64,
}

/// A chunk, checked and unpacked.
pub(crate) struct Chunk {
    pub(crate) tag: Tag,
    /// Offset in the file.
    pub(crate) at: u64,
    pub(crate) raw: Vec<u8>,
}

impl<R: Read> Reader<R> {
    pub(crate) fn new(input: R) -> Self {
        Self {
            input,
            position: 0,
            number: 0,
            unpacked: 0,
        }
    }

    /// Chunks read so far.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Returns where the next byte is.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Up to `size` bytes: fewer only at the end of the file. Memory grows with what is there.
    pub(crate) fn up_to(&mut self, size: usize) -> Result<Vec<u8>, DecodeError> {
        let mut bytes = Vec::new();
        let mut limited = (&mut self.input).take(size as u64);
        limited.read_to_end(&mut bytes).map_err(DecodeError::Read)?;
        self.position += bytes.len() as u64;
        Ok(bytes)
    }

    fn exactly(&mut self, size: usize, what: &'static str) -> Result<Vec<u8>, DecodeError> {
        let bytes = self.up_to(size)?;
        if bytes.len() < size {
            return Err(DecodeError::Truncated {
                at: self.position,
                what,
            });
        }
        Ok(bytes)
    }

    pub(crate) fn chunk(&mut self) -> Result<Chunk, DecodeError> {
        let at = self.position;
        let corrupt = |what: String| DecodeError::Corrupt { at, what };
        let mut header = [0; HEADER];
        header.copy_from_slice(&self.exactly(HEADER, "the header of a chunk")?);
        let word =
            |i: usize| u32::from_le_bytes([header[i], header[i + 1], header[i + 2], header[i + 3]]);
        let (raw_length, stored_length) = (word(4) as usize, word(8) as usize);
        if raw_length > MAX || stored_length > raw_length {
            return Err(corrupt(format!(
                "a chunk of {stored_length} bytes for {raw_length} cannot be"
            )));
        }
        let stored = self.exactly(stored_length, "a chunk")?;
        if checksum(&header, self.number, &stored) != word(12) {
            return Err(corrupt(format!(
                "the checksum of chunk {} does not match",
                self.number
            )));
        }
        self.unpacked += raw_length as u64;
        if self.unpacked > UNPACKED + self.position * MAX_RATIO {
            return Err(corrupt(
                "its chunks unpack to more than any profile does".into(),
            ));
        }
        let tag = Tag::ALL.into_iter().find(|t| *t as u8 == header[0]);
        let tag = tag.ok_or_else(|| {
            corrupt(format!(
                "chunks of type {} are unknown: a newer trommel may have written it",
                header[0]
            ))
        })?;
        let raw = match header[1] {
            0 if stored_length == raw_length => stored,
            1 => lz4_flex::block::decompress(&stored, raw_length)
                .ok()
                .filter(|raw| raw.len() == raw_length)
                .ok_or_else(|| corrupt(format!("chunk {} cannot be unpacked", self.number)))?,
            _ => return Err(corrupt("its chunk is packed in an unknown way".into())),
        };
        self.number += 1;
        Ok(Chunk { tag, at, raw })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads chunks up to the first that is refused.
    fn read(bytes: &[u8]) -> (usize, Option<DecodeError>) {
        let mut reader = Reader::new(bytes);
        let mut chunks = 0;
        while reader.position() < bytes.len() as u64 {
            if let Err(error) = reader.chunk() {
                return (chunks, Some(error));
            }
            chunks += 1;
        }
        (chunks, None)
    }

    #[test]
    fn chunks_that_unpack_to_too_much_are_refused() {
        let raw = vec![0; 1 << 20];
        let packed = lz4_flex::block::compress(&raw);
        assert!(packed.len() * 200 < raw.len());
        let mut bytes = Vec::new();
        for number in 0..20 {
            let mut header = [0; HEADER];
            header[..2].copy_from_slice(&[Tag::Modules as u8, 1]);
            header[4..8].copy_from_slice(&(raw.len() as u32).to_le_bytes());
            header[8..12].copy_from_slice(&(packed.len() as u32).to_le_bytes());
            let crc = checksum(&header, number, &packed);
            header[12..].copy_from_slice(&crc.to_le_bytes());
            bytes.extend(header);
            bytes.extend(&packed);
        }
        let (chunks, error) = read(&bytes);
        assert!((8..20).contains(&chunks), "{chunks}");
        let error = error.expect("too much").at(std::path::Path::new("p"));
        assert!(error.to_string().contains("unpack to more"), "{error}");
    }

    #[test]
    fn what_packs_well_comes_back() {
        for raw in [
            vec![0; 4 << 20],
            (0..4 << 20).map(|i| (i % 64) as u8).collect(),
        ] {
            let mut bytes = Vec::new();
            let mut writer = ChunkWriter::new(&mut bytes);
            for _ in 0..10 {
                writer.chunk(Tag::Counts, &raw).expect("memory");
            }
            let (chunks, error) = read(&bytes);
            assert!(chunks == 10 && error.is_none(), "{chunks} {error:?}");
        }
    }
}
