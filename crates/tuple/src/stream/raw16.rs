//! `raw16`: packed little-endian u64 pc, u64 value, and nothing else.
//!
//! There are no kinds in it. Its reader gives every event one kind, `value` unless told otherwise.

use std::io::{self, Read, Write};
use std::vec;
use std::vec::Vec;

use super::{Block, End, Error, Problem};
use crate::{Events, Kind, Place, Tuple};

const EVENT: usize = 16;
const EVENTS: usize = 16 * 1024;

/// Reads `raw16`.
#[derive(Debug)]
pub struct Reader<R> {
    from: R,
    kind: Kind,
    buffer: Vec<u8>,
    offset: u64,
    end: Option<End>,
}

impl<R: Read> Reader<R> {
    /// A reader that gives its events the kind `kind`.
    pub fn new(from: R, kind: Kind) -> Self {
        Self {
            from,
            kind,
            buffer: vec![0; EVENT * EVENTS],
            offset: 0,
            end: None,
        }
    }

    /// Returns how the stream ended, once it has.
    pub const fn end(&self) -> Option<End> {
        self.end
    }

    /// The next events into `block`; `false` at the end.
    pub fn next_block(&mut self, block: &mut Block) -> Result<bool, Error> {
        block.clear();
        if self.end.is_some() {
            return Ok(false);
        }
        let mut filled = 0;
        let mut cut = false;
        while filled < self.buffer.len() {
            match self.from.read(&mut self.buffer[filled..]) {
                Ok(0) => {
                    self.end = Some(End::Complete);
                    break;
                }
                Ok(n) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // A compressed file that ends early; what was decompressed is good.
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                    cut = true;
                    break;
                }
                Err(e) => {
                    let at = self.offset + filled as u64;
                    // Decompressors report bad bytes as an error without a code of the system.
                    return Err(if e.raw_os_error().is_none() {
                        Error::corrupt(at, "the zstd frame cannot be decompressed")
                    } else {
                        Error::new(at, Problem::Io(e))
                    });
                }
            }
        }
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        let (events, rest) = self.buffer[..filled].as_chunks::<EVENT>();
        for event in events {
            let pc = Place::from_word(word(&event[..8]));
            block.push(self.kind, Tuple::new(pc, word(&event[8..])));
        }
        self.offset += (events.len() * EVENT) as u64;
        if cut || !rest.is_empty() {
            self.end = Some(End::CutShort {
                offset: self.offset,
            });
        }
        Ok(!events.is_empty())
    }
}

/// Writes events as `raw16`. Kinds are lost.
pub fn write(mut to: impl Write, events: Events<'_>) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(EVENT * EVENTS);
    for chunk in events.tuples().chunks(EVENTS) {
        bytes.clear();
        for tuple in chunk {
            bytes.extend_from_slice(&tuple.pc.word().to_le_bytes());
            bytes.extend_from_slice(&tuple.value.to_le_bytes());
        }
        to.write_all(&bytes)?;
    }
    Ok(())
}

/// A writer that compresses what [`write`](fn@write) writes into it, as in `.raw16.zst`. Finish it with
/// [`zstd::Encoder::finish`]. The frame has a checksum: packed words have none of their own.
pub fn compressed<W: Write>(to: W) -> io::Result<zstd::Encoder<'static, W>> {
    let mut encoder = zstd::Encoder::new(to, 3)?;
    encoder.include_checksum(true)?;
    Ok(encoder)
}
