//! The slot of the shared file that belongs to this process, as it is mapped here.
#![allow(unsafe_code)] // reason: refers to memory shared with the host.

use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64};

use trommel_queue::converge::Converge;
use trommel_queue::prefetch::Prefetch;
use trommel_queue::queries::{LOADS, Posted, Queries};
use trommel_queue::{
    CHUNK, CHUNKS, CHUNKS_OFFSET, CONVERGE_OFFSET, COUNTER_ARRAY_BYTES, COUNTER_ARRAY_TABLE_OFFSET,
    COUNTER_ARRAYS, COUNTER_ARRAYS_OFFSET, Chunk, Control, CounterArray, DICT_WORDS_OFFSET,
    DIRECTORY_BYTES, Directory, GROWING, Growing, MAP_OFFSET, MapText, POOL_OFFSET, POSTED_OFFSET,
    PREFETCH_OFFSET, QUERIES_OFFSET, REQUEST_OFFSET, Request, THREAD_PAGE, THREAD_PAGES_OFFSET,
    mapped_bytes,
};

use crate::base::address::Range;
use crate::base::ids::{ChunkId, CounterArrayId};
use crate::base::sys;

/// Bytes of each part that are mapped, where parts grow; without windows everything is. Written under the runtime's lock.
static REACH: [AtomicU64; GROWING.len()] = [const { AtomicU64::new(u64::MAX) }; GROWING.len()];

/// The parts that grow are mapped as far as they are at first.
pub fn parts_begin() {
    for part in GROWING {
        REACH[part.place].store(part.first as u64, Relaxed);
    }
}

/// This process's slot of the shared file as mapped here, after the file's directory.
#[derive(Clone, Copy)]
pub struct Mapped {
    base: u64,
}

impl Mapped {
    /// The slot mapped at `base`.
    ///
    /// # Safety
    /// As much of the slot as the process uses ([`trommel_queue::mapped_bytes`]) must be mapped there, and the directory before them,
    /// shared and writable, for good. Parts that grow ([`parts_begin`]) may be mapped in part, with room for all of them.
    pub unsafe fn new(base: u64) -> Self {
        let mapped = Self { base };
        let pool = base + POOL_OFFSET as u64;
        mapped.control().process.pool_base.store(pool, Release);
        mapped
    }

    /// The control words.
    pub fn control(&self) -> &'static Control {
        // SAFETY: the mapping is ours for good; `Control` is all atomics.
        unsafe { &*(self.base as *const Control) }
    }

    /// The file's directory.
    pub fn directory(&self) -> &'static Directory {
        // SAFETY: mapped before the slot, for good; all atomics.
        unsafe { &*((self.base - DIRECTORY_BYTES as u64) as *const Directory) }
    }

    /// Returns the first place of query programs, with what is of all of them.
    pub fn queries(&self) -> &'static Queries {
        self.load(0)
    }

    /// Returns a place of query programs.
    pub fn load(&self, place: usize) -> &'static Queries {
        let at = QUERIES_OFFSET + place % LOADS * size_of::<Queries>();
        // SAFETY: inside the mapping, which is ours for good; all atomics.
        unsafe { &*((self.base + at as u64) as *const Queries) }
    }

    /// Returns the place of requests about queries. Only where queries are asked.
    pub fn posted(&self) -> &'static Posted {
        // SAFETY: inside the mapping, which is ours for good; all atomics.
        unsafe { &*((self.base + POSTED_OFFSET as u64) as *const Posted) }
    }

    /// Returns the questions about prefetches, and their answers.
    pub fn prefetch(&self) -> &'static Prefetch {
        // SAFETY: inside the mapping, which is ours for good; all atomics.
        unsafe { &*((self.base + PREFETCH_OFFSET as u64) as *const Prefetch) }
    }

    /// Returns the places that are not profiled.
    pub fn converge(&self) -> &'static Converge {
        // SAFETY: inside the mapping, which is ours for good; all atomics.
        unsafe { &*((self.base + CONVERGE_OFFSET as u64) as *const Converge) }
    }

    /// The text of answers about the memory map. Only without windows.
    pub fn map_text(&self) -> &'static MapText {
        // SAFETY: inside the mapping, which is ours for good; all atomics.
        unsafe { &*((self.base + MAP_OFFSET as u64) as *const MapText) }
    }

    /// The request to the host.
    pub fn request(&self) -> *mut Request {
        (self.base + REQUEST_OFFSET as u64) as *mut Request
    }

    /// Returns true if the process has windows.
    pub fn has_windows(&self) -> bool {
        self.control().window.length.load(Relaxed) != 0
    }

    /// Tables for counts and words, most of the slot. `None` with windows: little of them is mapped, and threads come back at any time.
    pub fn tables(&self) -> Option<Range> {
        let [start, end] =
            [DICT_WORDS_OFFSET, mapped_bytes(false)].map(|offset| self.base + offset as u64);
        (!self.has_windows()).then_some(Range { start, end })
    }

    /// Makes sure that the first `bytes` of a part are mapped. Returns false where the kernel refuses. The caller holds the runtime's lock.
    pub fn reach(&self, part: Growing, bytes: u64) -> bool {
        let there = REACH[part.place].load(Relaxed);
        if bytes <= there {
            return true;
        }
        let step = part.first as u64;
        let more = bytes.next_multiple_of(step).min(part.most as u64);
        if bytes > more {
            return false;
        }
        // SAFETY: the part is mapped so far, and what follows has no other use.
        let grown = unsafe { sys::extend(self.base + part.offset as u64, there, more) };
        if grown.is_ok() {
            REACH[part.place].store(more, Relaxed);
        }
        grown.is_ok()
    }

    /// Chunks of the pool that are mapped, each with the window after it.
    pub fn chunks(&self) -> u32 {
        let bytes = REACH[Growing::POOL.place].load(Relaxed);
        ((bytes / CHUNK as u64).saturating_sub(1)).min(CHUNKS as u64) as u32
    }

    /// Returns the address of the slot.
    pub fn base(&self) -> u64 {
        self.base
    }

    pub(super) fn chunk(&self, chunk: ChunkId) -> &'static Chunk {
        let at = CHUNKS_OFFSET + chunk.0 as usize % CHUNKS * size_of::<Chunk>();
        // SAFETY: inside the mapping; all atomics.
        unsafe { &*((self.base + at as u64) as *const Chunk) }
    }

    pub(super) fn ring_entry(&self, ring: usize, n: u64) -> &'static AtomicU32 {
        let at = ring + (n % CHUNKS as u64) as usize * 4;
        // SAFETY: inside the mapping, aligned.
        unsafe { &*((self.base + at as u64) as *const AtomicU32) }
    }

    /// A counter array's entry in the table.
    pub fn counter_array(&self, counter_array: CounterArrayId) -> &'static CounterArray {
        let at = COUNTER_ARRAY_TABLE_OFFSET
            + counter_array.0 as usize % COUNTER_ARRAYS * size_of::<CounterArray>();
        // SAFETY: inside the mapping; all atomics.
        unsafe { &*((self.base + at as u64) as *const CounterArray) }
    }

    /// Address of a counter array's counters.
    pub fn counters(&self, counter_array: CounterArrayId) -> u64 {
        self.base
            + (COUNTER_ARRAYS_OFFSET
                + counter_array.0 as usize % COUNTER_ARRAYS * COUNTER_ARRAY_BYTES)
                as u64
    }

    /// Address of a thread's page.
    pub fn thread_page(&self, page: u32) -> u64 {
        self.base + (THREAD_PAGES_OFFSET + page as usize * THREAD_PAGE) as u64
    }
}
