//! Memory shared with one process, read.
//!
//! The target may write anything at any time. So everything read here is read once, through
//! pointers that never leave this module, and checked against the file's bounds before it is used.
//!
//! **I24 (nothing trusted).** The host believes nothing that it reads from shared memory. Every number is checked against the file's bounds.

// A mapping that another process writes to cannot be a Rust slice.
#![allow(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::mem::offset_of;
use std::ptr;
use std::rc::Rc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64, fence};

use nix::unistd::Pid;
use trommel_queue::converge::Converge;
use trommel_queue::dict::{Event, MAX_BLOCK_EVENTS, MAX_EVENT_WORDS, PathHeader};
use trommel_queue::persist::Made;
use trommel_queue::prefetch::Prefetch;
use trommel_queue::protocol;
use trommel_queue::queries::Queries;
use trommel_queue::{
    BIASES_OFFSET, CHUNK, CHUNKS, CHUNKS_OFFSET, CONTROL_OFFSET, CONVERGE_OFFSET,
    COUNTER_ARRAY_BYTES, COUNTER_ARRAY_COUNTERS, COUNTER_ARRAY_TABLE_OFFSET, COUNTER_ARRAYS,
    COUNTER_ARRAYS_OFFSET, COUNTS_NOTHING, Chunk, Control, CounterArray, DICT_INDEX_OFFSET,
    DICT_WORDS_OFFSET, DIRECTORY_BYTES, GIVEN_BACK_OFFSET, Intervals, LAYOUT_VERSION, MADE_OFFSET,
    MAGIC, MAX_CHUNK_BYTES, MAX_PATHS, MAX_REGIONS, MAX_THREADS, MAX_WORDS, MOST_INTERRUPTED,
    ON_PATH_OFFSET, POOL_OFFSET, PREFETCH_OFFSET, PUBLISHED_OFFSET, QUERIES_OFFSET, REGION_OFFSET,
    REQUEST_OFFSET, RegionRecord, Request, SLOT_BYTES, State, THREAD_PAGE, THREAD_PAGES_OFFSET,
    Unfollowed, VALUE_COUNTERS, VALUE_COUNTERS_OFFSET, ValueCounter, chunk_start,
};

use crate::channel::family::{Family, Known, Newcomer, Pages};
use crate::channel::futex::futex_wake;
use crate::channel::region::Region;
use crate::channel::terms::Terms;

/// Bytes of the file of one process. It is sparse: only what is used takes memory.
pub const SIZE: usize = DIRECTORY_BYTES + SLOT_BYTES;

impl Asked {
    /// The thread, where we see the same numbers as it does.
    pub const fn tid(&self) -> Pid {
        Pid::from_raw(self.tid)
    }
}

/// A thread that wants to become another program.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Its thread id, as it sees itself.
    pub tid: i32,
    /// It is a process of its own, in the memory of the one whose slot this is.
    pub spawned: bool,
    /// The reason why the program cannot be followed.
    pub why: Option<Unfollowed>,
    /// The program's path, as it was given.
    pub path: Vec<u8>,
}

/// Memory shared with one process: its slot, and the slots whose dictionary it continues.
pub struct Shared {
    pages: Rc<Pages>,
    /// The dictionaries it goes on from, each up to where the next begins.
    earlier: Vec<(Known, Rc<Pages>)>,
}

/// A report that the target wrote something that makes no sense.
#[derive(Debug, thiserror::Error)]
#[error(
    "the target wrote {what} {number} that cannot be; it damaged the memory it shares with trommel"
)]
pub struct Damaged {
    /// The thing that was read.
    pub what: &'static str,
    /// Its value or number.
    pub number: u64,
}

impl Damaged {
    /// A path number that names no path.
    pub(crate) fn path(number: u32) -> Self {
        Self {
            what: "a path number",
            number: number.into(),
        }
    }
}

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

/// The thread whose counters a counter array holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counting {
    /// Number of the thread.
    pub thread: u32,
    /// The thread's id in the kernel.
    pub tid: u32,
    /// True if it has ended.
    pub ended: bool,
}

impl Shared {
    /// The first slot of a family, for a program that is about to start.
    ///
    /// # Errors
    /// What the system says.
    pub fn first(family: &Rc<Family>, terms: Terms) -> io::Result<Self> {
        let shared = Self {
            pages: family.map(0)?,
            earlier: Vec::new(),
        };
        let control = shared.control();
        control.magic.store(MAGIC, Relaxed);
        control.version.store(LAYOUT_VERSION, Relaxed);
        control.kinds.store(u32::from(terms.kinds.bits()), Relaxed);
        terms.counts.write(control);
        control.options.store(terms.options, Relaxed);
        control.window.store(terms.window, Relaxed);
        control.window_skip.store(terms.window_skip, Relaxed);
        control.listed.store(terms.listed.into(), Relaxed);
        control.stacks.store(terms.stacks.into(), Relaxed);
        control.follow.store(terms.follow.into(), Relaxed);
        control.fsgsbase.store(has_fsgsbase().into(), Relaxed);
        terms.tracing.write(control);
        control.host_pid.store(std::process::id(), Relaxed);
        control.build.store(crate::channel::image::build(), Relaxed);
        if let Some(question) = terms.question {
            question.write(shared.queries());
        } else {
            shared.queries().tagged.store(terms.selects.into(), Relaxed);
        }
        terms.prefetch.write(shared.prefetch());
        let converges = terms.converge.is_some();
        shared.converge().wanted.store(converges.into(), Relaxed);
        Ok(shared)
    }

    /// Prefaults the part of the file that every program uses, so that neither side waits for page faults.
    pub fn warm(&self) {
        const CHUNKS_USED: usize = 2;
        for (offset, bytes) in [
            (CONTROL_OFFSET, CHUNKS_OFFSET + THREAD_PAGE),
            (REGION_OFFSET, 4 * size_of::<RegionRecord>()),
            (DICT_INDEX_OFFSET, 16 << 10),
            (DICT_WORDS_OFFSET, 160 << 10),
            (POOL_OFFSET, CHUNKS_USED * CHUNK),
        ] {
            let page = offset & !0xfff;
            // SAFETY: inside the mapping, and no byte of it changes. Where the kernel cannot do it
            // the pages are made when they are used.
            unsafe {
                let start = self.pages.map.as_mut_ptr().add(page).cast();
                libc::madvise(start, offset - page + bytes, libc::MADV_POPULATE_WRITE);
            }
        }
    }

    /// The slot of a process that was made by `fork`.
    ///
    /// # Errors
    /// What the system says.
    pub fn forked(parent: &Self, newcomer: &Newcomer) -> io::Result<Self> {
        let family = parent.pages.family();
        let Known {
            paths,
            words,
            regions,
        } = newcomer.known;
        // The process was copied after it had written this much, and before what followed.
        let known = Known {
            paths: paths.min(MAX_PATHS),
            words: words.min(MAX_WORDS),
            regions: regions.min(MAX_REGIONS),
        };
        let mut earlier = parent.earlier.clone();
        earlier.push((known, Rc::clone(&parent.pages)));
        let shared = Self {
            pages: family.map(newcomer.slot)?,
            earlier,
        };
        shared.is_like(parent.control());
        Ok(shared)
    }

    /// Copies the addresses for detaching from its parent, whose memory it has a copy of.
    fn is_like(&self, parent: &Control) {
        let control = self.control();
        let (its, theirs) = (&control.attached, &parent.attached);
        let pairs = [
            (&its.join, &theirs.join),
            (&its.farewell, &theirs.farewell),
            (&its.wait[0], &theirs.wait[0]),
            (&its.wait[1], &theirs.wait[1]),
            (&its.image[0], &theirs.image[0]),
            (&its.image[1], &theirs.image[1]),
            (&its.owned, &theirs.owned),
        ];
        for (to, from) in pairs {
            to.store(from.load(Relaxed), Relaxed);
        }
        control.version.store(LAYOUT_VERSION, Relaxed);
        control.magic.store(MAGIC, Release);
    }

    /// Its pages.
    pub fn pages(&self) -> &Rc<Pages> {
        &self.pages
    }

    /// The pages that hold what `is_in` says of what is known of an earlier dictionary.
    fn holder(&self, is_in: impl Fn(&Known) -> bool) -> &Pages {
        let earlier = self.earlier.iter().find(|(known, _)| is_in(known));
        earlier.map_or(&self.pages, |(_, pages)| pages)
    }

    /// The control words.
    pub fn control(&self) -> &Control {
        // SAFETY: inside the mapping, aligned, all atomics.
        unsafe {
            &*self
                .pages
                .map
                .as_ptr()
                .add(CONTROL_OFFSET)
                .cast::<Control>()
        }
    }

    /// Returns the target's counters of what it has made.
    pub(crate) fn made(&self) -> &Made {
        // SAFETY: inside the mapping, aligned, all atomics.
        unsafe { &*self.pages.map.as_ptr().add(MADE_OFFSET).cast::<Made>() }
    }

    /// State of the request.
    pub fn request_state(&self) -> &AtomicU32 {
        self.half_word(REQUEST_OFFSET + offset_of!(Request, state))
    }

    /// The thread that wants to become another program, if it is the host's turn.
    pub fn asked(&self) -> Option<Asked> {
        let state = self.request_state();
        if state.load(Acquire) != Request::ASKED {
            return None;
        }
        let half = |at| self.half_word(REQUEST_OFFSET + at).load(Relaxed);
        let word = |at| self.word(REQUEST_OFFSET + at);
        const ROOM: usize = CHUNKS_OFFSET - REQUEST_OFFSET - offset_of!(Request, path);
        let len = (word(offset_of!(Request, path_len)) as usize).min(ROOM);
        let mut path = vec![0; len];
        let from = REQUEST_OFFSET + offset_of!(Request, path);
        // SAFETY: inside the mapping; plain bytes, whatever the target does meanwhile.
        unsafe {
            let from = self.pages.map.as_ptr().add(from);
            ptr::copy_nonoverlapping(from, path.as_mut_ptr(), len);
        }
        Some(Asked {
            tid: half(offset_of!(Request, tid)) as i32,
            spawned: half(offset_of!(Request, spawned)) != 0,
            why: Unfollowed::from_number(half(offset_of!(Request, why))),
            path,
        })
    }

    /// Returns whether the process, or its children, may see other process numbers than we do.
    pub fn is_foreign(&self) -> bool {
        self.control().foreign.load(Relaxed) != 0
    }

    /// Says whether it may.
    pub fn set_foreign(&self, foreign: bool) {
        self.control().foreign.store(foreign.into(), Relaxed);
    }

    /// Answers the request.
    pub fn answer(&self, state: u32) {
        self.request_state().store(state, SeqCst);
        futex_wake(self.request_state());
    }

    /// Notes that the host reads here no more: processes that still record are detached.
    pub fn close(&self) {
        self.control().closed.store(1, SeqCst);
        futex_wake(&self.control().target_sleeps);
    }

    fn word(&self, offset: usize) -> u64 {
        word(&self.pages, offset)
    }

    fn half_word(&self, offset: usize) -> &AtomicU32 {
        assert!(offset + 4 <= SLOT_BYTES && offset.is_multiple_of(4));
        // SAFETY: inside the mapping, aligned, and every value is valid.
        unsafe { &*self.pages.map.as_ptr().add(offset).cast::<AtomicU32>() }
    }

    fn chunk(&self, chunk: u32) -> &Chunk {
        let offset = CHUNKS_OFFSET + chunk as usize % CHUNKS * size_of::<Chunk>();
        // SAFETY: inside the mapping, aligned, all atomics.
        unsafe { &*self.pages.map.as_ptr().add(offset).cast::<Chunk>() }
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
                let base = self.control().pool_base.load(Relaxed);
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
        for chunk in 0..self.control().used.load(Acquire).min(CHUNKS as u32) {
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
        self.control().published.0.load(Acquire)
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
        protocol::give_back(published, given_back, &control.consumed.0, taken, chunk);
        // Threads that wait for room are woken when there is plenty, not for each chunk.
        let waiting = control.published.0.load(Acquire).saturating_sub(*taken);
        if waiting <= trommel_queue::BACKLOG as u64 / 2 {
            let sleeps = &control.target_sleeps;
            protocol::rouse(sleeps, || futex_wake(sleeps));
        }
    }

    /// The target's request, not yet answered, that everything recorded be folded.
    pub fn settle_asked(&self) -> Option<u32> {
        let control = self.control();
        protocol::asked(&control.settle_asked, &control.settle_done)
    }

    /// Answers the request.
    pub fn settled(&self, asked: u32) {
        let done = &self.control().settle_done;
        protocol::answer(done, asked, || futex_wake(done));
    }

    /// Up to which of the target's interrupts nothing is done yet, if any were asked for.
    pub fn interrupts_asked(&self) -> Option<u32> {
        let queries = self.queries();
        protocol::asked(&queries.asked, &queries.answered)
    }

    /// Services have done what they do about them.
    pub fn interrupts_answered(&self, asked: u32) {
        let answered = &self.queries().answered;
        protocol::answer(answered, asked, || futex_wake(answered));
    }

    /// Returns whether there is nothing to do: no chunk beyond `taken`, and nothing is asked.
    pub fn is_idle(&self, taken: u64) -> bool {
        self.control().published.0.load(SeqCst) == taken
            && self.settle_asked().is_none()
            && self.interrupts_asked().is_none()
            && !matches!(
                self.request_state().load(SeqCst),
                Request::ASKED | Request::FAILED
            )
    }

    /// Returns the state that the runtime reports of itself.
    pub fn state(&self) -> Option<State> {
        State::from_number(self.control().state.load(SeqCst))
    }

    /// Returns whether a program of one thread has come to its end, and only the kernel is busy with it.
    pub fn is_ending(&self) -> bool {
        let control = self.control();
        control.state.load(SeqCst) == State::Exited as u32 && control.threads.load(SeqCst) <= 1
    }

    /// Paths numbered so far.
    pub fn paths(&self) -> usize {
        (self.control().paths.load(Acquire) as usize).min(MAX_PATHS)
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
            what: "a path number",
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

    /// Returns whether the target counts.
    pub fn has_counter_arrays(&self) -> bool {
        self.control().counters.load(Relaxed) != COUNTS_NOTHING
    }

    /// Tells the target by how much words of places of a region differ from its addresses.
    pub fn set_bias(&self, region: usize, bias: u64) {
        let offset = BIASES_OFFSET + 8 * region.min(MAX_REGIONS - 1);
        // SAFETY: inside the mapping, aligned, and every value is valid.
        let word = unsafe { &*self.pages.map.as_ptr().add(offset).cast::<AtomicU64>() };
        word.store(bias.wrapping_add(1), Release);
    }

    /// Returns the shared part of queries: the question, and its counts.
    pub fn queries(&self) -> &Queries {
        // SAFETY: inside the mapping, aligned, all atomics.
        unsafe {
            &*self
                .pages
                .map
                .as_ptr()
                .add(QUERIES_OFFSET)
                .cast::<Queries>()
        }
    }

    /// Returns the shared part of prefetches: the question, and its answers.
    pub fn prefetch(&self) -> &Prefetch {
        // SAFETY: inside the mapping, aligned, all atomics.
        unsafe {
            &*self
                .pages
                .map
                .as_ptr()
                .add(PREFETCH_OFFSET)
                .cast::<Prefetch>()
        }
    }

    /// Returns the table of places that are not profiled.
    pub fn converge(&self) -> &Converge {
        // SAFETY: inside the mapping, aligned, all atomics.
        unsafe {
            &*self
                .pages
                .map
                .as_ptr()
                .add(CONVERGE_OFFSET)
                .cast::<Converge>()
        }
    }

    /// Returns the thread whose counters a counter array holds. `None` when it is free.
    pub fn counter_array(&self, number: usize) -> Option<Counting> {
        let words = self.counter_array_words(number);
        let thread = words.thread.load(Acquire);
        (thread != 0).then(|| Counting {
            thread,
            tid: words.tid.load(Relaxed),
            ended: words.ended.load(Acquire) != 0,
        })
    }

    fn counter_array_words(&self, number: usize) -> &CounterArray {
        let offset =
            COUNTER_ARRAY_TABLE_OFFSET + number % COUNTER_ARRAYS * size_of::<CounterArray>();
        // SAFETY: inside the mapping, aligned, all atomics.
        unsafe { &*self.pages.map.as_ptr().add(offset).cast::<CounterArray>() }
    }

    /// Counters of a counter array, from that of the path `first` on.
    pub fn read_counter_array(
        &self,
        number: usize,
        first: usize,
        to: &mut [u64],
    ) -> Result<(), Damaged> {
        assert!(number < COUNTER_ARRAYS && first + to.len() <= COUNTER_ARRAY_COUNTERS);
        let mut bytes = vec![0; size_of_val(to)];
        // Not through the mapping, where pages that were never written would be made.
        let read = (self.pages).read(
            COUNTER_ARRAYS_OFFSET + number * COUNTER_ARRAY_BYTES + 8 * first,
            &mut bytes,
        );
        for (word, bytes) in to.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        read.map_err(|_| Damaged {
            what: "a counter array",
            number: number as u64,
        })
    }

    /// Paths that lead to where a counter array's thread was on acyclic paths last, as far as it has said so.
    pub fn on_paths(&self, number: usize) -> Result<Vec<u32>, Damaged> {
        let mut bytes = [0; 4 * (1 + MOST_INTERRUPTED)];
        let at =
            COUNTER_ARRAYS_OFFSET + number % COUNTER_ARRAYS * COUNTER_ARRAY_BYTES + ON_PATH_OFFSET;
        let read = self.pages.read(at, &mut bytes);
        read.map_err(|_| Damaged {
            what: "a counter array",
            number: number as u64,
        })?;
        let words = bytes.as_chunks().0.iter().map(|b| u32::from_le_bytes(*b));
        Ok(words.filter_map(|word| word.checked_sub(1)).collect())
    }

    /// Events that the profiler of a counter array has seen, by kind.
    pub fn intervals(&self, number: usize) -> Result<[u64; 8], Damaged> {
        const WORDS: usize = size_of::<Intervals>() / 8;
        let mut words = [0; WORDS];
        self.read_counter_array(number, 0, &mut words)?;
        let word = |at: usize| words[at / 8] >> (8 * (at % 8)) & 0xffff_ffff;
        let left = word(offset_of!(Intervals, left));
        let length = word(offset_of!(Intervals, length));
        let ended = words[offset_of!(Intervals, ended) / 8];
        let all = ended.wrapping_add(length.saturating_sub(left));
        let first = offset_of!(Intervals, kinds) / 8;
        let mut seen: [u64; 8] = std::array::from_fn(|kind| words[first + kind]);
        let others = seen.iter().fold(0_u64, |sum, n| sum.wrapping_add(*n));
        let rest = word(offset_of!(Intervals, rest)) as usize % seen.len();
        seen[rest] = all.saturating_sub(others);
        // A program may have written anything.
        match seen.iter().all(|&n| n <= 1 << 56) {
            true => Ok(seen),
            false => Err(Damaged {
                what: "a counter array of a profiler",
                number: number as u64,
            }),
        }
    }

    /// The value counters of a counter array.
    pub fn value_counters(&self, number: usize) -> Result<Vec<ValueCounter>, Damaged> {
        assert!(number < COUNTER_ARRAYS);
        if self.control().value_counters.load(Relaxed) == 0 {
            return Ok(Vec::new());
        }
        let mut bytes = vec![0; VALUE_COUNTERS * size_of::<ValueCounter>()];
        let at = COUNTER_ARRAYS_OFFSET + number * COUNTER_ARRAY_BYTES + VALUE_COUNTERS_OFFSET;
        let read = self.pages.read(at, &mut bytes);
        read.map_err(|_| Damaged {
            what: "a counter array of value counters",
            number: number as u64,
        })?;
        const _: () = assert!(size_of::<ValueCounter>() == size_of::<u128>());
        let (each, _) = bytes.as_chunks::<{ size_of::<ValueCounter>() }>();
        let each = each.iter().map(|bytes| {
            let word = u128::from_le_bytes(*bytes);
            ValueCounter {
                value: (word >> (8 * offset_of!(ValueCounter, value))) as u64,
                path: (word >> (8 * offset_of!(ValueCounter, path))) as u32,
                count: (word >> (8 * offset_of!(ValueCounter, count))) as u32,
            }
        });
        Ok(each.collect())
    }

    /// Makes a counter array zero, which its thread has left, and gives it back to the target.
    pub fn free_counter_array(&self, number: usize) {
        let start = COUNTER_ARRAYS_OFFSET + number % COUNTER_ARRAYS * COUNTER_ARRAY_BYTES;
        self.pages.discard(start..start + COUNTER_ARRAY_BYTES);
        self.counter_array_words(number).thread.store(0, Release);
    }

    /// Regions recorded so far.
    pub fn regions(&self) -> usize {
        (self.control().regions.load(Acquire) as usize).min(MAX_REGIONS)
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
}

fn word(pages: &Pages, offset: usize) -> u64 {
    assert!(offset + 8 <= SLOT_BYTES);
    // SAFETY: inside the mapping; read once.
    unsafe { ptr::read_volatile(pages.map.as_ptr().add(offset).cast::<u64>()) }
}

/// Returns whether the kernel lets programs read and write the bases of FS and GS by instructions, as it tells us and whatever it starts.
fn has_fsgsbase() -> bool {
    const FSGSBASE: u64 = 1 << 1;
    // SAFETY: reads what the process was started with.
    unsafe { libc::getauxval(libc::AT_HWCAP2) & FSGSBASE != 0 }
}
