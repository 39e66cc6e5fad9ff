//! Lists in as many chunks as they need, and places as differences from the place before.

use std::io::{self, Write};

use crate::chunk::{ChunkWriter, TARGET, Tag};
use crate::field::Inside;
use crate::varint::{Cursor, put};

/// Writes items into chunks of one tag. Each chunk begins with the same bytes.
pub(crate) struct Items<'w, W> {
    out: &'w mut ChunkWriter<W>,
    tag: Tag,
    /// Length of the bytes that each chunk begins with.
    start: usize,
    raw: Vec<u8>,
    /// The place of the item before, in this chunk.
    before: u64,
}

impl<'w, W: Write> Items<'w, W> {
    pub(crate) fn new(tag: Tag, start: Vec<u8>, out: &'w mut ChunkWriter<W>) -> Self {
        Self {
            out,
            tag,
            start: start.len(),
            raw: start,
            before: 0,
        }
    }

    /// Writes an item.
    pub(crate) fn add(&mut self, item: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        item(&mut self.raw);
        if self.raw.len() >= TARGET {
            self.out.chunk(self.tag, &self.raw)?;
            self.raw.truncate(self.start);
            self.before = 0;
        }
        Ok(())
    }

    /// Writes the item of a place. Places come in order.
    pub(crate) fn at(&mut self, word: u64, item: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        put(&mut self.raw, word - self.before);
        self.before = word;
        self.add(item)
    }

    /// Ends the list; a chunk without items is not written.
    pub(crate) fn finish(self) -> io::Result<()> {
        match self.raw.len() > self.start {
            true => self.out.chunk(self.tag, &self.raw),
            false => Ok(()),
        }
    }

    /// Ends a list of which there is one chunk at least, also without items.
    pub(crate) fn finish_with_one(self) -> io::Result<()> {
        self.out.chunk(self.tag, &self.raw)
    }
}

/// Reads a place that [`Items::at`] has written.
pub(crate) fn word(cursor: &mut Cursor<'_>, before: &mut u64) -> Inside<u64> {
    let word = before.checked_add(cursor.number()?);
    *before = word.ok_or("a place is too large")?;
    Ok(*before)
}
