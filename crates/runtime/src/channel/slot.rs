//! The slot of the shared file that belongs to this process, as it is mapped here.
#![allow(unsafe_code)] // reason: refers to memory shared with the host.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Relaxed, Release};

use trommel_queue::converge::Converge;
use trommel_queue::prefetch::Prefetch;
use trommel_queue::queries::{LOADS, Queries};
use trommel_queue::{
    CHUNKS, CHUNKS_OFFSET, CONVERGE_OFFSET, COUNTER_ARRAY_BYTES, COUNTER_ARRAY_TABLE_OFFSET,
    COUNTER_ARRAYS, COUNTER_ARRAYS_OFFSET, Chunk, Control, CounterArray, DIRECTORY_BYTES,
    Directory, POOL_OFFSET, PREFETCH_OFFSET, QUERIES_OFFSET, REQUEST_OFFSET, Request, THREAD_PAGE,
    THREAD_PAGES_OFFSET,
};

use crate::base::ids::{ChunkId, CounterArrayId};

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
    /// shared and writable, for good.
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

    /// The request to the host.
    pub fn request(&self) -> *mut Request {
        (self.base + REQUEST_OFFSET as u64) as *mut Request
    }

    /// Returns true if the process has windows.
    pub fn has_windows(&self) -> bool {
        self.control().window.length.load(Relaxed) != 0
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
