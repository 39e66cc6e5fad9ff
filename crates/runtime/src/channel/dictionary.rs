//! The dictionary, for its writer: the events that exits stand for, and regions of code.
//!
//! It is written under the runtime's lock. The host reads as far as it is published.
//!
//! **I19 (dictionary first).** An exit is described in the dictionary before its first record.
#![allow(unsafe_code)] // reason: writes into memory shared with the host.

use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use trommel_queue::dict::{Event, MAX_BLOCK_EVENTS, MAX_EVENT_WORDS, Passed, PathHeader};
use trommel_queue::{
    BIASES_OFFSET, COUNTS_INTERVALS, COUNTS_PATHS, COUNTS_STRATA, Control, DICT_INDEX_OFFSET,
    DICT_WORDS_OFFSET, Growing, MAX_PATHS, MAX_REGIONS, MAX_WORDS, REGION_OFFSET, RegionRecord,
    WINDOW_WORDS,
};
use trommel_tuple::{Kind, KindSet};

use super::slot::Mapped;
use crate::base::ids::{EntryId, ExitNumber, RegionId};
use crate::base::sys;
use crate::memory::mapping::Mapping;

/// The dictionary is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DictionaryFull;

/// A copy of the dictionary: its words, and the offsets of paths among them.
#[derive(Default)]
struct Kept {
    words: Vec<u64>,
    index: Vec<u32>,
}

/// The dictionary, for its writer.
pub struct Shared {
    mapped: Mapped,
    paths: u32,
    /// Words written.
    words: u64,
    /// Words that fit.
    room: u64,
    /// Words that the host may read: up to the start of the open block, if there is one.
    block: u64,
    /// Events in that.
    events: u64,
    /// Words whose memory was made present.
    present: u64,
    regions: u32,
    kept: Option<Kept>,
}

impl Shared {
    /// The empty dictionary of a file.
    pub fn new(mapped: Mapped) -> Self {
        Self {
            mapped,
            paths: 0,
            words: 0,
            room: match mapped.has_windows() {
                true => WINDOW_WORDS as u64,
                false => MAX_WORDS as u64,
            },
            block: 0,
            events: 0,
            present: 0,
            regions: 0,
            kept: None,
        }
    }

    /// The control words.
    pub fn control(&self) -> &'static Control {
        self.mapped.control()
    }

    /// The slot.
    pub fn mapped(&self) -> Mapped {
        self.mapped
    }

    /// Keeps a copy of all later entries. They can then be read here, and by forked children, whose slots lack them.
    pub fn keep(&mut self) {
        self.kept = Some(Kept::default());
    }

    /// Returns the size of the dictionary: paths, words, regions. A block that was not ended is no part of it: the next one is
    /// written over it, in a forked child's slot too.
    pub fn extent(&self) -> (u32, u64, u32) {
        (self.paths, self.block, self.regions)
    }

    /// Makes sure that there is room for `words` more, and memory after it.
    fn reserve(&mut self, words: usize) -> Result<(), DictionaryFull> {
        const STEP: u64 = 64 << 10;
        let end = self.words + words as u64;
        if end > self.room || !self.mapped.reach(Growing::WORDS, end * 8) {
            return Err(DictionaryFull);
        }
        if end > self.present {
            let next = DICT_WORDS_OFFSET as u64 + self.present * 8;
            sys::populate(self.mapped.base() + next, STEP);
            self.present += STEP / 8;
        }
        Ok(())
    }

    fn word(&self, at: u64) -> u64 {
        if let Some(kept) = &self.kept {
            return kept.words.get(at as usize).copied().unwrap_or_default();
        }
        let address = self.mapped.base() + DICT_WORDS_OFFSET as u64 + at % MAX_WORDS as u64 * 8;
        // SAFETY: inside the mapping; only the runtime writes here.
        unsafe { (address as *const u64).read() }
    }

    fn put(&mut self, at: u64, word: u64) {
        let address = self.mapped.base() + DICT_WORDS_OFFSET as u64 + at % MAX_WORDS as u64 * 8;
        // SAFETY: inside the mapping; only the runtime writes here.
        unsafe { (address as *mut u64).write(word) };
        if let Some(Kept { words, .. }) = &mut self.kept {
            let n = at as usize;
            if n >= words.len() {
                words.resize(n + 1, 0);
            }
            words[n] = word;
        }
    }

    fn put_event(&mut self, event: Event) {
        let (words, n) = event.encode();
        self.put(self.words, words[0]);
        if n > 1 {
            self.put(self.words + 1, words[1]);
        }
        if n > 2 {
            self.put(self.words + 2, words[2]);
        }
        self.words += n as u64;
    }

    fn publish_words(&self) {
        self.control().extent.words.store(self.words, Release);
    }

    /// Begins to describe a fragment's main line. What was begun before and not ended is forgotten.
    pub fn open_block(&mut self) -> Result<(), DictionaryFull> {
        const LONGEST: usize = 1 + MAX_BLOCK_EVENTS * MAX_EVENT_WORDS;
        self.words = self.block;
        self.reserve(LONGEST)?;
        self.words += 1;
        self.events = 0;
        Ok(())
    }

    /// The next event of the main line.
    ///
    /// # Panics
    /// When there are more than [`MAX_BLOCK_EVENTS`], which the limits on a fragment's length exclude.
    #[inline]
    pub fn event(&mut self, event: Event) {
        assert!(self.events < MAX_BLOCK_EVENTS as u64, "a block is full");
        self.put_event(event);
        self.events += 1;
    }

    /// Ends the block. The word offset names it in paths. Returns `None` when the block has no events.
    pub fn close_block(&mut self) -> Option<EntryId> {
        let at = self.block;
        if self.events == 0 {
            self.words = at;
            return None;
        }
        self.put(at, self.events);
        self.block = self.words;
        self.publish_words();
        Some(EntryId(at as u32))
    }

    /// The events of a block; `None` after what is none.
    pub fn events_of(&self, block: EntryId) -> impl Iterator<Item = Option<Event>> {
        let word = |at: u64| self.word(at);
        let mut at = u64::from(block.0);
        let mut left = word(at).min(MAX_BLOCK_EVENTS as u64);
        at += 1;
        core::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let words = [word(at), word(at + 1), word(at + 2)];
            let event = Event::decode(&words);
            let (event, took) = event.unzip();
            match took {
                Some(took) => at += took as u64,
                None => left = 0,
            }
            Some(event)
        })
    }

    /// The block of a path, what is passed of it, and its tail, where that is kept.
    pub fn passed_by(&self, path: ExitNumber) -> Option<(EntryId, Passed, Option<Event>)> {
        let at = *self.kept.as_ref()?.index.get(path.0 as usize)?;
        let at = u64::from(at);
        let header = PathHeader::decode(self.word(at));
        let tail = header.tail.then(|| {
            let words = [1, 2, 3].map(|n| self.word(at + n));
            Event::decode(&words).map(|(event, _)| event)
        });
        Some((EntryId(header.block), header.passed, tail.flatten()))
    }

    /// A block without events, for the paths of a fragment that has none on its main line.
    pub fn empty_block(&mut self) -> Result<EntryId, DictionaryFull> {
        self.reserve(1)?;
        let at = self.words;
        self.put(at, 0);
        self.words += 1;
        self.block = self.words;
        self.publish_words();
        Ok(EntryId(at as u32))
    }

    /// Numbers a path.
    pub fn path(
        &mut self,
        block: EntryId,
        passed: Passed,
        tail: Option<Event>,
    ) -> Result<ExitNumber, DictionaryFull> {
        let header = PathHeader {
            block: block.0,
            passed,
            tail: tail.is_some(),
            message: false,
        };
        self.number(header, tail)
    }

    /// Numbers messages about an event. `block` has no events.
    pub fn message(&mut self, block: EntryId, event: Event) -> Result<ExitNumber, DictionaryFull> {
        let header = PathHeader {
            block: block.0,
            passed: Passed::default(),
            tail: true,
            message: true,
        };
        self.number(header, Some(event))
    }

    fn number(
        &mut self,
        header: PathHeader,
        tail: Option<Event>,
    ) -> Result<ExitNumber, DictionaryFull> {
        let index_bytes = 4 * (u64::from(self.paths) + 1);
        if self.paths as usize >= MAX_PATHS || !self.mapped.reach(Growing::INDEX, index_bytes) {
            return Err(DictionaryFull);
        }
        self.reserve(1 + MAX_EVENT_WORDS)?;
        let at = self.words;
        self.put(at, header.encode());
        self.words += 1;
        if let Some(event) = tail {
            self.put_event(event);
        }
        self.block = self.words;
        self.publish_words();
        let number = self.paths;
        let index = self.mapped.base() + DICT_INDEX_OFFSET as u64 + u64::from(number) * 4;
        // SAFETY: bounds checked above; only the runtime writes here.
        unsafe { (index as *mut u32).write(at as u32) };
        if let Some(kept) = &mut self.kept {
            kept.index.push(at as u32);
        }
        self.paths += 1;
        self.control().extent.paths.store(self.paths, Release);
        Ok(ExitNumber(number))
    }

    /// Paths numbered so far.
    pub fn paths(&self) -> u32 {
        self.paths
    }

    /// Returns true if the code counts events by what the host calls places.
    fn hashes_places(&self) -> bool {
        let counts = self.control().setup.counters.load(Relaxed);
        matches!(counts, COUNTS_STRATA | COUNTS_INTERVALS)
    }

    /// Returns true if the code counts acyclic paths, or did.
    fn counts_acyclic(&self) -> bool {
        let control = self.control();
        let kinds = KindSet::from_bits(control.setup.kinds.load(Relaxed) as u16);
        control.setup.counters.load(Relaxed) == COUNTS_PATHS && kinds.has(Kind::Path)
    }

    /// Returns true if the host names regions, and reports the tags of code.
    pub fn names(&self) -> bool {
        let tagged = &self.mapped.queries().tagged;
        self.hashes_places() || self.counts_acyclic() || tagged.load(Relaxed) != 0
    }

    /// Returns the difference between words of places in a region and its addresses, once the host has reported it.
    pub fn bias(&self, region: RegionId) -> Option<u64> {
        let at = BIASES_OFFSET + 8 * (region.0 as usize).min(MAX_REGIONS - 1);
        // SAFETY: inside the mapping, aligned.
        let word = unsafe { &*((self.mapped.base() + at as u64) as *const AtomicU64) };
        word.load(Acquire).checked_sub(1)
    }

    /// Reports a region to the host. Returns the region's number.
    pub fn region(&mut self, mapping: &Mapping) -> Result<RegionId, DictionaryFull> {
        let at = self.regions as usize * size_of::<RegionRecord>();
        let bytes = (at + size_of::<RegionRecord>()) as u64;
        if self.regions as usize >= MAX_REGIONS || !self.mapped.reach(Growing::REGIONS, bytes) {
            return Err(DictionaryFull);
        }
        let at = REGION_OFFSET + at;
        let address = self.mapped.base() + at as u64;
        // SAFETY: bounds checked above; only the runtime writes here, and the host reads no further
        // than `regions`. The file is zero where it was never written.
        let record = unsafe { &mut *(address as *mut RegionRecord) };
        let n = mapping.path.len().min(record.path.len());
        record.start = mapping.range.start;
        record.end = mapping.range.end;
        record.offset = mapping.offset;
        record.inode = mapping.inode;
        record.paths = self.paths.into();
        record.path_len = n as u64;
        record.path[..n].copy_from_slice(&mapping.path[..n]);
        self.regions += 1;
        self.control().extent.regions.store(self.regions, Release);
        Ok(RegionId(self.regions - 1))
    }
}
