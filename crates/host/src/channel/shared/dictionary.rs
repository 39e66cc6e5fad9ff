//! The dictionary: what an exit implies, and regions of code.

// Records and regions are plain bytes in a mapping that another process writes to.
#![allow(unsafe_code)]

use std::ptr;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};

use trommel_queue::dict::{Event, MAX_BLOCK_EVENTS, MAX_EVENT_WORDS, PathHeader};
use trommel_queue::{
    BIASES_OFFSET, DICT_INDEX_OFFSET, DICT_WORDS_OFFSET, MAX_PATHS, MAX_REGIONS, MAX_WORDS,
    REGION_OFFSET, RegionRecord,
};

use super::{Damaged, Shared, word};
use crate::channel::region::Region;

impl Shared {
    /// Paths numbered so far.
    pub fn paths(&self) -> usize {
        (self.control().extent.paths.load(Acquire) as usize).min(MAX_PATHS)
    }

    fn words(&self, at: usize) -> [u64; MAX_EVENT_WORDS] {
        let word = |n| {
            if at + n < MAX_WORDS {
                let pages = self.holder(|known| at + n < known.words);
                word(pages, DICT_WORDS_OFFSET + 8 * (at + n))
            } else {
                0
            }
        };
        std::array::from_fn(word)
    }

    /// The header of a path, and the event of its exit, if that has one.
    pub fn path(&self, number: usize) -> Result<(PathHeader, Option<Event>), Damaged> {
        let damaged = Damaged {
            what: "an exit number",
            number: number as u64,
        };
        if number >= self.paths() {
            return Err(damaged);
        }
        let pages = self.holder(|known| number < known.paths);
        let index = word(pages, (DICT_INDEX_OFFSET + 4 * number) & !7);
        let at = (index >> (32 * (number & 1))) as u32 as usize;
        let header = PathHeader::decode(self.words(at)[0]);
        let tail = match header.tail {
            true => Some(Event::decode(&self.words(at + 1)).ok_or(damaged)?.0),
            false => None,
        };
        Ok((header, tail))
    }

    /// The events of the block at a word offset, in the order of its main line.
    pub fn block(&self, at: u32) -> Result<Vec<Event>, Damaged> {
        let damaged = |number| Damaged {
            what: "an event of a block",
            number,
        };
        let mut word = at as usize;
        let count = self.words(word)[0];
        if count > MAX_BLOCK_EVENTS as u64 {
            return Err(damaged(count));
        }
        word += 1;
        let mut events = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let words = self.words(word);
            let (event, n) = Event::decode(&words).ok_or_else(|| damaged(words[0]))?;
            events.push(event);
            word += n;
        }
        Ok(events)
    }

    /// Regions recorded so far.
    pub fn regions(&self) -> usize {
        (self.control().extent.regions.load(Acquire) as usize).min(MAX_REGIONS)
    }

    /// A region.
    pub fn region(&self, number: usize) -> Region {
        assert!(number < MAX_REGIONS);
        let at = REGION_OFFSET + number * size_of::<RegionRecord>();
        let pages = self.holder(|known| number < known.regions);
        // SAFETY: inside the mapping; plain words and bytes.
        let record =
            unsafe { ptr::read_volatile(pages.map.as_ptr().add(at).cast::<RegionRecord>()) };
        let n = (record.path_len as usize).min(record.path.len());
        Region {
            range: record.start..record.end.max(record.start),
            offset: record.offset,
            inode: record.inode,
            path: record.path[..n].to_vec(),
            paths: record.paths as usize,
        }
    }

    /// Tells the target by how much words of places of a region differ from its addresses.
    pub fn set_bias(&self, region: usize, bias: u64) {
        let offset = BIASES_OFFSET + 8 * region.min(MAX_REGIONS - 1);
        let word: &AtomicU64 = self.part(offset);
        word.store(bias.wrapping_add(1), Release);
    }
}
