//! The target's side of the queue: it writes the dictionary, and takes and publishes chunks.
//!
//! Generated code appends records by itself. It comes here only when its chunk is full. With too
//! many chunks waiting for the host the thread waits until some are given back: nothing is dropped.
//! A signal interrupts that wait: its handler runs at once, with a chunk above the limit. The
//! thread waits on when it is back. If the host is gone, the caller detaches the app.
//!
//! The dictionary is written under the runtime's lock. The queue takes no lock: each of its steps is
//! one atomic operation. Their order lets the host see what was recorded whenever the program dies
//! between two of them (`trommel_queue::Chunk`).
//!
//! **I19 (dictionary first).** An exit is described in the dictionary before its first record.
//!
//! **I21 (no record dropped).** No record is dropped. A thread waits while too many chunks wait for the host, and waits are counted.
#![allow(unsafe_code)] // reason: writes into memory shared with the host.

use crate::crossing::waits;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicU32, AtomicU64};

use trommel_queue::converge::Converge;
use trommel_queue::dict::{Event, MAX_BLOCK_EVENTS, MAX_EVENT_WORDS, Passed, PathHeader};
use trommel_queue::prefetch::Prefetch;
use trommel_queue::protocol;
use trommel_queue::queries::Queries;
use trommel_queue::{
    BACKLOG, BIASES_OFFSET, CHUNK, CHUNKS, CHUNKS_OFFSET, CONVERGE_OFFSET, COUNTER_ARRAY_BYTES,
    COUNTER_ARRAY_TABLE_OFFSET, COUNTER_ARRAYS, COUNTER_ARRAYS_OFFSET, COUNTS_INTERVALS,
    COUNTS_PATHS, COUNTS_STRATA, Chunk, Control, CounterArray, DICT_INDEX_OFFSET,
    DICT_WORDS_OFFSET, DIRECTORY_BYTES, Directory, FIRST_RECORD, GIVEN_BACK_OFFSET, MAX_PATHS,
    MAX_REGIONS, MAX_WORDS, POOL_OFFSET, PREFETCH_OFFSET, PUBLISHED_OFFSET, QUERIES_OFFSET,
    REGION_OFFSET, REQUEST_OFFSET, RegionRecord, Request, State, THREAD_PAGE, THREAD_PAGES_OFFSET,
    chunk_start,
};

use trommel_tuple::{Kind, KindSet};

use crate::base::stress;
use crate::base::sys;
use crate::memory::region::Mapping;

/// This process's slot of the shared file as mapped here, after the file's directory.
#[derive(Clone, Copy)]
pub struct Mapped {
    base: u64,
}

impl Mapped {
    /// The slot mapped at `base`.
    ///
    /// # Safety
    /// All `SLOT_BYTES` bytes must be mapped there, and the directory before them, shared and
    /// writable, for good.
    pub unsafe fn new(base: u64) -> Self {
        let mapped = Self { base };
        let pool = base + POOL_OFFSET as u64;
        mapped.control().pool_base.store(pool, Release);
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

    /// Returns the query program of the process.
    pub fn queries(&self) -> &'static Queries {
        // SAFETY: inside the mapping, which is ours for good; all atomics.
        unsafe { &*((self.base + QUERIES_OFFSET as u64) as *const Queries) }
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

    /// Returns the address of the slot.
    pub fn base(&self) -> u64 {
        self.base
    }

    fn chunk(&self, chunk: u32) -> &'static Chunk {
        let at = CHUNKS_OFFSET + chunk as usize % CHUNKS * size_of::<Chunk>();
        // SAFETY: inside the mapping; all atomics.
        unsafe { &*((self.base + at as u64) as *const Chunk) }
    }

    fn ring_entry(&self, ring: usize, n: u64) -> &'static AtomicU32 {
        let at = ring + (n % CHUNKS as u64) as usize * 4;
        // SAFETY: inside the mapping, aligned.
        unsafe { &*((self.base + at as u64) as *const AtomicU32) }
    }

    /// A counter array's entry in the table.
    pub fn counter_array(&self, counter_array: u32) -> &'static CounterArray {
        let at = COUNTER_ARRAY_TABLE_OFFSET
            + counter_array as usize % COUNTER_ARRAYS * size_of::<CounterArray>();
        // SAFETY: inside the mapping; all atomics.
        unsafe { &*((self.base + at as u64) as *const CounterArray) }
    }

    /// Address of a counter array's counters.
    pub fn counters(&self, counter_array: u32) -> u64 {
        self.base
            + (COUNTER_ARRAYS_OFFSET
                + counter_array as usize % COUNTER_ARRAYS * COUNTER_ARRAY_BYTES)
                as u64
    }

    /// Address of a thread's page.
    pub fn thread_page(&self, page: u32) -> u64 {
        self.base + (THREAD_PAGES_OFFSET + page as usize * THREAD_PAGE) as u64
    }
}

/// The host is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostGone;

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

    /// Returns the size of the dictionary: paths, words, regions.
    pub fn extent(&self) -> (u32, u64, u32) {
        (self.paths, self.words, self.regions)
    }

    /// Makes sure that there is room for `words` more, and memory after it.
    fn reserve(&mut self, words: usize) -> Result<(), DictionaryFull> {
        const STEP: u64 = 64 << 10;
        let end = self.words + words as u64;
        if end > MAX_WORDS as u64 {
            return Err(DictionaryFull);
        }
        if end > self.present {
            let next = DICT_WORDS_OFFSET as u64 + self.present * 8;
            sys::populate(self.mapped.base + next, STEP);
            self.present += STEP / 8;
        }
        Ok(())
    }

    fn word(&self, at: u64) -> u64 {
        if let Some(kept) = &self.kept {
            return kept.words.get(at as usize).copied().unwrap_or_default();
        }
        let address = self.mapped.base + DICT_WORDS_OFFSET as u64 + at % MAX_WORDS as u64 * 8;
        // SAFETY: inside the mapping; only the runtime writes here.
        unsafe { (address as *const u64).read() }
    }

    fn put(&mut self, at: u64, word: u64) {
        let address = self.mapped.base + DICT_WORDS_OFFSET as u64 + at % MAX_WORDS as u64 * 8;
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

    fn told(&self) {
        self.control().words.store(self.words, Release);
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
    pub fn close_block(&mut self) -> Option<u32> {
        let at = self.block;
        if self.events == 0 {
            self.words = at;
            return None;
        }
        self.put(at, self.events);
        self.block = self.words;
        self.told();
        Some(at as u32)
    }

    /// The events of a block; `None` after what is none.
    pub fn events_of(&self, block: u32) -> impl Iterator<Item = Option<Event>> {
        let word = |at: u64| self.word(at);
        let mut at = u64::from(block);
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
    pub fn passed_by(&self, path: u32) -> Option<(u32, Passed, Option<Event>)> {
        let at = *self.kept.as_ref()?.index.get(path as usize)?;
        let at = u64::from(at);
        let header = PathHeader::decode(self.word(at));
        let tail = header.tail.then(|| {
            let words = [1, 2, 3].map(|n| self.word(at + n));
            Event::decode(&words).map(|(event, _)| event)
        });
        Some((header.block, header.passed, tail.flatten()))
    }

    /// A block without events, for the paths of a fragment that has none on its main line.
    pub fn empty_block(&mut self) -> Result<u32, DictionaryFull> {
        self.reserve(1)?;
        let at = self.words;
        self.put(at, 0);
        self.words += 1;
        self.block = self.words;
        self.told();
        Ok(at as u32)
    }

    /// Numbers a path.
    pub fn path(
        &mut self,
        block: u32,
        passed: Passed,
        tail: Option<Event>,
    ) -> Result<u32, DictionaryFull> {
        let header = PathHeader {
            block,
            passed,
            tail: tail.is_some(),
            message: false,
        };
        self.number(header, tail)
    }

    /// Numbers messages about an event. `block` has no events.
    pub fn message(&mut self, block: u32, event: Event) -> Result<u32, DictionaryFull> {
        let header = PathHeader {
            block,
            passed: Passed::default(),
            tail: true,
            message: true,
        };
        self.number(header, Some(event))
    }

    fn number(&mut self, header: PathHeader, tail: Option<Event>) -> Result<u32, DictionaryFull> {
        if self.paths as usize >= MAX_PATHS {
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
        self.told();
        let number = self.paths;
        let index = self.mapped.base + DICT_INDEX_OFFSET as u64 + u64::from(number) * 4;
        // SAFETY: bounds checked above; only the runtime writes here.
        unsafe { (index as *mut u32).write(at as u32) };
        if let Some(kept) = &mut self.kept {
            kept.index.push(at as u32);
        }
        self.paths += 1;
        self.control().paths.store(self.paths, Release);
        Ok(number)
    }

    /// Paths numbered so far.
    pub fn paths(&self) -> u32 {
        self.paths
    }

    /// Returns true if the code counts events by what the host calls places.
    fn hashes_places(&self) -> bool {
        let counts = self.control().counters.load(Relaxed);
        matches!(counts, COUNTS_STRATA | COUNTS_INTERVALS)
    }

    /// Returns true if the code counts acyclic paths, or did.
    fn counts_acyclic(&self) -> bool {
        let control = self.control();
        let kinds = KindSet::from_bits(control.kinds.load(Relaxed) as u8);
        control.counters.load(Relaxed) == COUNTS_PATHS && kinds.has(Kind::Path)
    }

    /// Returns true if the host names regions, and reports the tags of code.
    pub fn names(&self) -> bool {
        let tagged = &self.mapped.queries().tagged;
        self.hashes_places() || self.counts_acyclic() || tagged.load(Relaxed) != 0
    }

    /// Returns the difference between words of places in a region and its addresses, once the host has reported it.
    pub fn bias(&self, region: u32) -> Option<u64> {
        let at = BIASES_OFFSET + 8 * (region as usize).min(MAX_REGIONS - 1);
        // SAFETY: inside the mapping, aligned.
        let word = unsafe { &*((self.mapped.base + at as u64) as *const AtomicU64) };
        word.load(Acquire).checked_sub(1)
    }

    /// Reports a region to the host. Returns the region's number.
    pub fn region(&mut self, mapping: &Mapping) -> Result<u32, DictionaryFull> {
        if self.regions as usize >= MAX_REGIONS {
            return Err(DictionaryFull);
        }
        let at = REGION_OFFSET + self.regions as usize * size_of::<RegionRecord>();
        let address = self.mapped.base + at as u64;
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
        self.control().regions.store(self.regions, Release);
        Ok(self.regions - 1)
    }
}

/// Chunks that may wait for the host, those for the sake of signals included.
const OVERDRAFT: u64 = 8 * BACKLOG as u64;

/// Nanoseconds after which a thread that waits for the host checks that there still is one.
const NAP: u64 = 100_000_000;

/// The pool of chunks, for all threads.
pub struct Queue {
    mapped: Mapped,
    /// Chunks taken that were used for the first time.
    fresh: AtomicU32,
    /// Chunks taken that the host had given back.
    recycled: AtomicU64,
}

/// A thread's end of the queue.
pub struct Writer {
    /// The write pointer, 0 while there is no chunk.
    pub pointer: *mut u64,
    /// The thread's number, from 1.
    pub number: u32,
    /// The thread's id in the kernel.
    pub tid: u32,
    /// The thread's page in the file.
    pub page: u32,
    /// True if the thread has taken a chunk while too many waited, because of a signal. It waits later.
    pub overdrawn: bool,
    /// The thread's interrupt by a query that the host has not answered, while a signal handler runs that has ended the wait.
    pub awaits: Option<u32>,
    /// `Context::pending` of the thread.
    pending: *const u32,
    chunk: u32,
}

impl Writer {
    /// Creates the writer of the thread whose write pointer is at `pointer`, with no chunk yet. `pending`
    /// must stay valid.
    pub const fn new(pointer: *mut u64, page: u32, pending: *const u32) -> Self {
        Self {
            pointer,
            number: 0,
            tid: 0,
            page,
            overdrawn: false,
            awaits: None,
            pending,
            chunk: 0,
        }
    }

    /// The write pointer.
    pub fn at(&self) -> u64 {
        // SAFETY: the pointer's owner is this thread; generated code and the host read it too.
        unsafe { self.pointer.read_volatile() }
    }

    /// Returns a pointer to a word that is not 0 when a signal is kept for the thread.
    pub const fn pending(&self) -> *const u32 {
        self.pending
    }

    /// Returns true if a signal is kept for the thread.
    fn has_signal(&self) -> bool {
        // SAFETY: a word of the thread's own context.
        unsafe { self.pending.read_volatile() != 0 }
    }

    /// Moves the write pointer.
    pub fn set(&mut self, to: u64) {
        // SAFETY: as in `at`.
        unsafe { self.pointer.write_volatile(to) }
    }
}

/// Makes the host look at what there is.
pub fn ring(directory: &Directory) {
    let sleeps = &directory.bell;
    protocol::rouse(sleeps, || {
        sys::futex_wake(sleeps, 1, false);
    });
}

impl Queue {
    /// The queue of a file in which nothing is used yet.
    pub const fn new(mapped: Mapped) -> Self {
        Self {
            mapped,
            fresh: AtomicU32::new(0),
            recycled: AtomicU64::new(0),
        }
    }

    /// The control words.
    pub fn control(&self) -> &'static Control {
        self.mapped.control()
    }

    /// The file.
    pub fn mapped(&self) -> Mapped {
        self.mapped
    }

    fn first_record(&self, chunk: u32) -> u64 {
        self.mapped.base + (POOL_OFFSET + chunk_start(chunk)) as u64
    }

    /// Publishes what the thread has recorded. It has no chunk afterwards.
    pub fn hand_in(&self, writer: &mut Writer) {
        let at = writer.at();
        if at == 0 {
            return;
        }
        let control = self.control();
        let used = at - self.first_record(writer.chunk);
        let chunk = self.mapped.chunk(writer.chunk);
        chunk.published.store(used as u32 + 1, Release);
        stress::delay();
        writer.set(0);
        let entry = |n| self.mapped.ring_entry(PUBLISHED_OFFSET, n);
        protocol::publish(&control.published.0, entry, writer.chunk);
        self.wake_host();
    }

    /// Says that the process comes to its end with the next system call, and nothing of the app runs
    /// before that: the host need not wait for the kernel to take the process apart.
    pub fn announce_end(&self, status: u64) {
        let control = self.control();
        control
            .exit_status
            .store((status & 0xff) as u32 + 1, Relaxed);
        self.control().state.store(State::Exited as u32, SeqCst);
        self.wake_host();
    }

    /// Starts over in the slot that is mapped now, where nothing is used yet.
    pub fn start_over(&self) {
        self.fresh.store(0, Relaxed);
        self.recycled.store(0, Relaxed);
    }

    /// Makes the host look at what there is.
    pub fn wake_host(&self) {
        ring(self.mapped.directory());
    }

    /// Gives the thread a chunk to fill, as soon as there is room, or a signal is to be delivered;
    /// whether it was never used before.
    pub fn take(&self, writer: &mut Writer) -> Result<bool, HostGone> {
        self.host_is_there()?;
        // Who is overdrawn is in the handler still, whose signal is blocked and would wait for its end.
        if !writer.overdrawn || self.backlog() >= OVERDRAFT {
            self.catch_up(writer)?;
        }
        self.take_now(writer)
    }

    /// Returns true if the backlog of the host is full.
    pub fn is_behind(&self) -> bool {
        self.backlog() >= BACKLOG as u64
    }

    /// Gives the thread a chunk to fill without waiting for room, as long as the pool has one.
    pub fn take_now(&self, writer: &mut Writer) -> Result<bool, HostGone> {
        let (number, fresh) = loop {
            if let Some(found) = self.free() {
                break found;
            }
            // There are more chunks than threads and waiting chunks together: somebody is about to
            // publish, or the host to give back.
            sys::futex_wait(&self.control().target_sleeps, 1, Some(NAP), false);
            self.host_is_there()?;
        };
        let chunk = self.mapped.chunk(number);
        stress::delay();
        chunk.tid.store(writer.tid, Relaxed);
        chunk.page.store(writer.page, Relaxed);
        chunk.thread.store(writer.number, Release);
        writer.chunk = number;
        writer.set(self.first_record(number));
        Ok(fresh)
    }

    /// Takes a free chunk. Returns its number, and true if it was never used before.
    fn free(&self) -> Option<(u32, bool)> {
        let control = self.control();
        let entry = |n| self.mapped.ring_entry(GIVEN_BACK_OFFSET, n);
        if let Some(chunk) = protocol::recycle(&self.recycled, &control.consumed.0, entry) {
            return Some((chunk % CHUNKS as u32, false));
        }
        let more = |n: u32| (n < CHUNKS as u32).then_some(n + 1);
        let number = self.fresh.fetch_update(Relaxed, Relaxed, more).ok()?;
        control.used.fetch_max(number + 1, Release);
        Some((number, true))
    }

    /// Publishes what the thread has recorded, and gives it another chunk. As it has filled one, it
    /// will need all of that.
    pub fn publish(&self, writer: &mut Writer) -> Result<(), HostGone> {
        self.hand_in(writer);
        if self.take(writer)? {
            sys::populate(writer.at(), (CHUNK - FIRST_RECORD) as u64);
        }
        Ok(())
    }

    /// Publishes like [`Self::publish`], without waiting. [`Self::catch_up`] waits later.
    pub fn publish_now(&self, writer: &mut Writer) -> Result<(), HostGone> {
        self.hand_in(writer);
        writer.overdrawn = true;
        self.take_now(writer).map(drop)
    }

    fn backlog(&self) -> u64 {
        let control = self.control();
        let published = control.published.0.load(SeqCst);
        published.saturating_sub(control.consumed.0.load(SeqCst))
    }

    /// Waits until there is room for another chunk. A signal that is to be delivered ends the wait:
    /// the thread goes on and is overdrawn until the next wait that is not interrupted, which
    /// comes when it is back from the handler, or has filled another chunk.
    pub fn catch_up(&self, writer: &mut Writer) -> Result<(), HostGone> {
        const ENOUGH: u64 = BACKLOG as u64;
        writer.overdrawn = false;
        if self.backlog() < ENOUGH {
            return Ok(());
        }
        let started = sys::monotonic();
        let mut done = Ok(());
        while done.is_ok() && self.backlog() >= ENOUGH {
            if writer.has_signal() {
                writer.overdrawn = true;
                break;
            }
            let word = &self.control().target_sleeps;
            let has_room = || self.backlog() < ENOUGH;
            protocol::doze(word, has_room, || {
                // SAFETY: a word of the thread's own context.
                unsafe { waits::futex_wait_unless(word, 1, NAP, writer.pending) };
                done = self.host_is_there();
            });
        }
        let control = self.control();
        control.waits.fetch_add(1, Relaxed);
        let waited = sys::monotonic() - started;
        control.wait_nanos.fetch_add(waited, Relaxed);
        done
    }

    /// Makes the host read all records so far. Returns the number that it will answer with.
    pub fn interrupt(&self) -> u32 {
        let queries = self.mapped.queries();
        let asked = protocol::ask(&queries.asked);
        self.wake_host();
        asked
    }

    /// Waits until the host has answered what the thread awaits, if it does. A signal that is to be delivered ends the
    /// wait, which goes on when the thread is back from the handler.
    pub fn answered(&self, writer: &mut Writer) -> Result<(), HostGone> {
        let Some(asked) = writer.awaits else {
            return Ok(());
        };
        let word = &self.mapped.queries().answered;
        let done = protocol::wait_for(word, asked, |answered| {
            if writer.has_signal() {
                return Err(None);
            }
            // SAFETY: a word of the thread's own context.
            unsafe { waits::futex_wait_unless(word, answered, NAP, writer.pending) };
            match word.load(SeqCst) == answered {
                true => self.host_is_there().map_err(Some),
                false => Ok(()),
            }
        });
        match done {
            Ok(()) => writer.awaits = None,
            // It is interrupted.
            Err(None) => {}
            Err(Some(gone)) => return Err(gone),
        }
        Ok(())
    }

    /// Returns an error unless there is a host, and it serves this process.
    pub fn host_is_there(&self) -> Result<(), HostGone> {
        let there = self.mapped.directory().host_is_there();
        let served = self.control().closed.load(Relaxed) == 0;
        (there && served).then_some(()).ok_or(HostGone)
    }

    /// Waits until the host has folded everything that any thread has recorded so far.
    pub fn settle(&self) -> Result<(), HostGone> {
        let control = self.control();
        let asked = protocol::ask(&control.settle_asked);
        self.wake_host();
        protocol::wait_for(&control.settle_done, asked, |done| {
            sys::futex_wait(&control.settle_done, done, Some(NAP), false);
            match control.settle_done.load(SeqCst) == done {
                true => self.host_is_there(),
                false => Ok(()),
            }
        })
    }
}
