//! Chunks of records, and the requests that come with them.

// Records and regions are plain bytes in a mapping that another process writes to.
#![allow(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicU32, fence};

use trommel_queue::protocol;
use trommel_queue::{
    CHUNKS, CHUNKS_OFFSET, Chunk, GIVEN_BACK_OFFSET, MAX_CHUNK_BYTES, MAX_THREADS, POOL_OFFSET,
    PUBLISHED_OFFSET, Request, THREAD_PAGE, THREAD_PAGES_OFFSET, chunk_start,
};

use super::{Damaged, Shared};
use crate::channel::futex::futex_wake;

/// The contents of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filled {
    /// Its number.
    pub chunk: u32,
    /// Number of the thread that recorded it.
    pub thread: u32,
    /// The thread's id in the kernel.
    pub tid: u32,
    /// Bytes of records.
    pub bytes: usize,
}

impl Shared {
    fn chunk(&self, chunk: u32) -> &Chunk {
        let offset = CHUNKS_OFFSET + chunk as usize % CHUNKS * size_of::<Chunk>();
        self.part(offset)
    }

    /// Returns the contents of a chunk now: up to where it was published, else to its thread's write pointer.
    /// `None` for one that is free.
    pub fn filled(&self, chunk: u32) -> Option<Filled> {
        let words = self.chunk(chunk);
        let thread = words.thread.load(Acquire);
        let page = words.page.load(Relaxed) as usize % MAX_THREADS;
        // Read before `published`: a thread moves it to another chunk only after that is written.
        let pointer = self.word(THREAD_PAGES_OFFSET + page * THREAD_PAGE);
        fence(Acquire);
        let bytes = match words.published.load(Acquire) {
            0 => {
                let base = self.control().process.pool_base.load(Relaxed);
                let used = pointer.wrapping_sub(base.wrapping_add(chunk_start(chunk) as u64));
                usize::try_from(used).ok().filter(|&n| n <= MAX_CHUNK_BYTES)
            }
            bytes => Some(bytes as usize - 1),
        };
        (thread != 0).then(|| Filled {
            chunk,
            thread,
            tid: words.tid.load(Relaxed),
            bytes: bytes.unwrap_or(0).min(MAX_CHUNK_BYTES),
        })
    }

    /// Returns for each thread the oldest of its chunks that is not among the `taken` first published. The
    /// threads run, so their chunks are seen at different moments. But a thread takes a
    /// chunk only when its last one is in the ring. So the oldest is the first in the ring, if one
    /// is. Else it is published but not yet there, or it is the first that is seen.
    pub fn oldest(&self, taken: u64) -> Vec<u32> {
        let mut oldest: BTreeMap<u32, (u32, bool)> = BTreeMap::new();
        for chunk in 0..self.control().chunks.used.load(Acquire).min(CHUNKS as u32) {
            let words = self.chunk(chunk);
            let thread = words.thread.load(Acquire);
            let published = words.published.load(Acquire) != 0;
            if thread != 0 {
                let entry = oldest.entry(thread).or_insert((chunk, published));
                if published && !entry.1 {
                    *entry = (chunk, true);
                }
            }
        }
        let published = self.published_count();
        let mut in_ring = BTreeSet::new();
        for n in (taken..published).take(CHUNKS) {
            let entry = self.ring_entry(PUBLISHED_OFFSET, n).load(Acquire);
            if let Some(chunk) = entry.checked_sub(1).filter(|&c| c < CHUNKS as u32) {
                let thread = self.chunk(chunk).thread.load(Relaxed);
                if thread != 0 && in_ring.insert(thread) {
                    oldest.insert(thread, (chunk, true));
                }
            }
        }
        oldest.into_values().map(|(chunk, _)| chunk).collect()
    }

    /// Chunks published so far.
    pub fn published_count(&self) -> u64 {
        self.control().chunks.published.0.load(Acquire)
    }

    /// Copies the records of a chunk from one offset to another into `to`.
    pub fn copy_chunk(&self, chunk: u32, records: std::ops::Range<usize>, to: &mut Vec<u8>) {
        let end = records.end.min(MAX_CHUNK_BYTES);
        let start = records.start.min(end);
        let offset = POOL_OFFSET + chunk_start(chunk) + start;
        to.clear();
        to.reserve(end - start);
        // SAFETY: inside the mapping; the bytes are plain, whatever the target does meanwhile.
        unsafe {
            ptr::copy_nonoverlapping(
                self.pages.map.as_ptr().add(offset),
                to.as_mut_ptr(),
                end - start,
            );
            to.set_len(end - start);
        }
    }

    /// The chunk published next after `taken` of them. A thread that was interrupted between
    /// counting its chunk and naming it holds up those after it, unless the program is `over`.
    pub fn published(&self, taken: &mut u64, over: bool) -> Result<Option<Filled>, Damaged> {
        let published = self.published_count();
        let waiting = published.wrapping_sub(*taken);
        if waiting > CHUNKS as u64 {
            return Err(Damaged {
                what: "a count of filled chunks",
                number: published,
            });
        }
        for _ in 0..waiting {
            let entry = self.ring_entry(PUBLISHED_OFFSET, *taken);
            match protocol::published(entry) {
                None if over => *taken += 1,
                None => return Ok(None),
                Some(chunk) => {
                    let filled = self.filled(chunk).filter(|_| chunk < CHUNKS as u32);
                    return filled.map(Some).ok_or(Damaged {
                        what: "a chunk number",
                        number: chunk.into(),
                    });
                }
            }
        }
        Ok(None)
    }

    fn ring_entry(&self, ring: usize, n: u64) -> &AtomicU32 {
        self.half_word(ring + (n % CHUNKS as u64) as usize * 4)
    }

    /// Gives a published chunk back to the target: the one after `taken` others.
    pub fn give_back(&self, chunk: u32, taken: &mut u64) {
        let words = self.chunk(chunk);
        words.published.store(0, Relaxed);
        words.thread.store(0, Relaxed);
        let control = self.control();
        let published = self.ring_entry(PUBLISHED_OFFSET, *taken);
        let given_back = self.ring_entry(GIVEN_BACK_OFFSET, *taken);
        protocol::give_back(
            published,
            given_back,
            &control.chunks.consumed.0,
            taken,
            chunk,
        );
        // Threads that wait for room are woken when there is plenty, not for each chunk.
        let waiting = control
            .chunks
            .published
            .0
            .load(Acquire)
            .saturating_sub(*taken);
        if waiting <= trommel_queue::BACKLOG as u64 / 2 {
            let sleeps = &control.chunks.target_sleeps;
            protocol::rouse(sleeps, || futex_wake(sleeps));
        }
    }

    /// The target's request, not yet answered, that everything recorded be folded.
    pub fn settle_asked(&self) -> Option<u32> {
        let control = self.control();
        protocol::asked(&control.settling.asked, &control.settling.done)
    }

    /// Answers the request.
    pub fn settled(&self, asked: u32) {
        let done = &self.control().settling.done;
        protocol::answer(done, asked, || futex_wake(done));
    }

    /// Up to which of the target's interrupts nothing is done yet, if any were asked for.
    pub fn interrupts_asked(&self) -> Option<u32> {
        let queries = self.queries();
        protocol::asked(&queries.asked, &queries.answered)
    }

    /// The program's last request about queries, if there is no reply yet.
    pub fn post_asked(&self) -> Option<u32> {
        let queries = self.queries();
        protocol::asked(&queries.posted, &queries.replied)
    }

    /// There is a reply.
    pub fn post_answered(&self, asked: u32) {
        let replied = &self.queries().replied;
        protocol::answer(replied, asked, || futex_wake(replied));
    }

    /// Services have done what they do about them.
    pub fn interrupts_answered(&self, asked: u32) {
        let answered = &self.queries().answered;
        protocol::answer(answered, asked, || futex_wake(answered));
    }

    /// A question about the memory map, if one is not answered.
    pub fn map_asked(&self) -> Option<u32> {
        let map = &self.control().map;
        protocol::asked(&map.asked, &map.answered)
    }

    /// There is an answer about the memory map.
    pub fn map_answered(&self, asked: u32) {
        let answered = &self.control().map.answered;
        protocol::answer(answered, asked, || futex_wake(answered));
    }

    /// Returns whether there is nothing to do: no chunk beyond `taken`, and nothing is asked.
    pub fn is_idle(&self, taken: u64) -> bool {
        self.control().chunks.published.0.load(SeqCst) == taken
            && self.settle_asked().is_none()
            && self.interrupts_asked().is_none()
            && self.post_asked().is_none()
            && self.map_asked().is_none()
            && !matches!(
                self.request_state().load(SeqCst),
                Request::ASKED | Request::FAILED
            )
    }
}
