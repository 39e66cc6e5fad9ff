//! Offsets and the structures at them. Both sides are built from this file, and [`LAYOUT_VERSION`]
//! guards against a host that meets another build's runtime.

use crate::sizes::{MAX_PATHS, MAX_RECORD, THREAD_PAGE};
use core::mem::offset_of;
use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::contexts::TREE_BYTES;
use crate::control::Control;
use crate::converge::Converge;
use crate::map::MapText;
use crate::persist::PERSIST_BYTES;
use crate::prefetch::Prefetch;
use crate::queries::{Header, LOADS, MESSAGE_WORDS, Posted, Queries};
use crate::thread_page::ThreadPage;
use trommel_tuple::{Kind, KindSet, RECORDED_KINDS};

/// "TROMMELQ", little endian.
pub const MAGIC: u64 = u64::from_le_bytes(*b"TROMMELQ");
/// Changes with every change to this file, or to what is in the dictionary.
pub const LAYOUT_VERSION: u32 = 41;

/// Bytes of one chunk. The full test of generated code depends on it being 64 KiB.
pub const CHUNK: usize = 1 << 16;
/// Published chunks that may wait for the host. With as many, a thread that publishes another waits.
pub const BACKLOG: usize = 63;
/// Threads that can be under control at a time. Each takes five of the mappings of which the kernel
/// gives a process 65 530, and the app must not miss them.
pub const MAX_THREADS: usize = 1 << 12;
/// Chunks in the pool: each thread fills one, and those published wait.
pub const CHUNKS: usize = MAX_THREADS + 2 * BACKLOG;
/// Run-time values in one record: what fits [`MAX_RECORD`] after the exit number.
pub const MAX_VALUES: usize = (MAX_RECORD - 4) / 8;
/// A write pointer whose offset in its 64 KiB window is below this has filled its chunk.
pub const FULL_WINDOW: usize = 256;
/// Offset of the first record of a chunk in the chunk's 64 KiB window. It is after the full
/// window and after the longest record that could have run over into it.
pub const FIRST_RECORD: usize = FULL_WINDOW + MAX_RECORD;

/// Bytes of the [`Directory`], with which a file starts.
pub const DIRECTORY_BYTES: usize = CHUNK;
/// Slots of a file: processes that came of one program by `fork` alone and are there at a time.
pub const MAX_SLOTS: usize = 1 << 10;

/// Returns the offset of a slot in the file. All other offsets are relative to the slot.
pub const fn slot_start(slot: usize) -> usize {
    DIRECTORY_BYTES + slot * SLOT_BYTES
}

/// [`Control`].
pub const CONTROL_OFFSET: usize = 0;
/// [`Request`].
pub const REQUEST_OFFSET: usize = 0x1000;
/// A [`Chunk`] for each chunk of the pool.
pub const CHUNKS_OFFSET: usize = 0x2000;
/// Published chunks in order: a ring of `u32`, chunk number plus one; 0 where there is none.
pub const PUBLISHED_OFFSET: usize = CHUNKS_OFFSET + CHUNKS * size_of::<Chunk>();
/// Chunks given back in order: a ring of `u32`, chunk numbers.
pub const GIVEN_BACK_OFFSET: usize = PUBLISHED_OFFSET + CHUNKS * 4;
/// A [`CounterArray`] for each counter array of counters.
pub const COUNTER_ARRAY_TABLE_OFFSET: usize = (GIVEN_BACK_OFFSET + CHUNKS * 4).next_multiple_of(64);
/// Counter arrays of counters: one for each thread, and those of threads that have ended and were not yet read.
pub const COUNTER_ARRAYS: usize = 64;
/// Bytes of a counter array: a `u64` for each exit number, and then a table of value counters.
pub const COUNTER_ARRAY_BYTES: usize = 32 << 20;
/// Value counters in a counter array, a power of two: how often an event with a run-time value was seen with one value, of values seen lately.
pub const VALUE_COUNTERS: usize = 1 << 16;
/// Value counters that a thread uses at first. Their pages are few, so a thread that is soon over costs little.
pub const FEW_VALUE_COUNTERS: usize = 1 << 10;
/// Offset of the value counters in a counter array.
pub const VALUE_COUNTERS_OFFSET: usize =
    COUNTER_ARRAY_BYTES - VALUE_COUNTERS * size_of::<ValueCounter>();
/// Offset of two words that stand in place of the value counters where acyclic paths are counted. Each is a `u32`.
/// The first is set while the thread is in a system call or goes on unobserved, and is else 0. It holds the number, plus one, of a
/// path that leads to the thread's place on its acyclic path. The second is the same for paths that signal handlers have interrupted.
pub const ON_PATH_OFFSET: usize = VALUE_COUNTERS_OFFSET;
/// Acyclic paths of a thread that handlers have interrupted at most. With more, the oldest is given up: handlers that are left by a jump leave theirs.
pub const MOST_INTERRUPTED: usize = 64;
/// Counters of paths in a counter array. Paths with higher numbers are recorded.
pub const COUNTER_ARRAY_COUNTERS: usize = VALUE_COUNTERS_OFFSET / 8;

/// Count of one event with one value.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValueCounter {
    /// The value.
    pub value: u64,
    /// Number of the path that is a message about the event.
    pub path: u32,
    /// Count; 0 where there is none yet. When another event takes its place, the path, the value and the count become
    /// a record.
    pub count: u32,
}
/// Biases of regions, for hashing, as the host reports them: a `u64` for each region. It is the word of the place of the
/// first address, less that address, plus one. 0: not reported yet.
pub const BIASES_OFFSET: usize =
    (COUNTER_ARRAY_TABLE_OFFSET + COUNTER_ARRAYS * size_of::<CounterArray>()).next_multiple_of(64);
/// [`LOADS`] of [`Queries`].
pub const QUERIES_OFFSET: usize =
    (BIASES_OFFSET + MAX_REGIONS * 8).next_multiple_of(align_of::<Queries>());
/// [`Prefetch`].
pub const PREFETCH_OFFSET: usize =
    (QUERIES_OFFSET + LOADS * size_of::<Queries>()).next_multiple_of(align_of::<Prefetch>());
/// [`Converge`].
pub const CONVERGE_OFFSET: usize =
    (PREFETCH_OFFSET + size_of::<Prefetch>()).next_multiple_of(align_of::<Converge>());
/// [`Posted`].
pub const POSTED_OFFSET: usize =
    (CONVERGE_OFFSET + size_of::<Converge>()).next_multiple_of(align_of::<Posted>());
/// A page for each thread, which is also the first page of its thread area (see the runtime's
/// `area`): a [`ThreadPage`](crate::thread_page::ThreadPage).
pub const THREAD_PAGES_OFFSET: usize =
    (POSTED_OFFSET + size_of::<Posted>()).next_multiple_of(THREAD_PAGE);
/// [`RegionRecord`]s.
pub const REGION_OFFSET: usize = THREAD_PAGES_OFFSET + MAX_THREADS * THREAD_PAGE;
/// Regions that can be recorded.
pub const MAX_REGIONS: usize = 0x4000;
/// Path index: `u32` word offset for each exit number.
pub const DICT_INDEX_OFFSET: usize = REGION_OFFSET + MAX_REGIONS * size_of::<RegionRecord>();
/// The pool of chunks, 64 KiB aligned.
pub const POOL_OFFSET: usize = (DICT_INDEX_OFFSET + MAX_PATHS * 4).next_multiple_of(CHUNK);
/// The pool and the window that its last record may run over into.
pub const POOL_BYTES: usize = CHUNKS * CHUNK + CHUNK;
/// Dictionary words (`u64`).
pub const DICT_WORDS_OFFSET: usize = POOL_OFFSET + POOL_BYTES;
/// Dictionary words that fit.
pub const MAX_WORDS: usize = 1 << 27;
/// Counter arrays of counters.
pub const COUNTER_ARRAYS_OFFSET: usize = DICT_WORDS_OFFSET + MAX_WORDS * 8;
/// Fragments for later runs ([`crate::persist`]).
pub const MADE_OFFSET: usize = COUNTER_ARRAYS_OFFSET + COUNTER_ARRAYS * COUNTER_ARRAY_BYTES;
/// Trees of calling contexts, one for each counter array ([`crate::contexts`]).
pub const CONTEXTS_OFFSET: usize = (MADE_OFFSET + PERSIST_BYTES).next_multiple_of(CHUNK);
/// [`MapText`].
pub const MAP_OFFSET: usize =
    (CONTEXTS_OFFSET + COUNTER_ARRAYS * TREE_BYTES).next_multiple_of(CHUNK);
/// Bytes of one slot. Slots are sparse: only used pages take memory.
pub const SLOT_BYTES: usize = MAP_OFFSET + CHUNK;
/// Dictionary words that fit where there are windows, which see little of a program's code.
pub const WINDOW_WORDS: usize = 1 << 23;

/// Bytes of a slot, from its start, that a process has addresses for. `windows`: it has windows, which count nothing in arrays, keep no
/// fragments and follow no contexts.
pub const fn mapped_bytes(windows: bool) -> usize {
    match windows {
        true => DICT_WORDS_OFFSET + WINDOW_WORDS * 8,
        false => SLOT_BYTES,
    }
}

/// Part of a slot that a process with windows maps as far as it uses it. Such a process is native most of the time, and what is mapped
/// counts against the program's own limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Growing {
    /// Its place in [`GROWING`].
    pub place: usize,
    /// Offset in the slot.
    pub offset: usize,
    /// Bytes that are mapped from the start.
    pub first: usize,
    /// Bytes that there are.
    pub most: usize,
}

impl Growing {
    /// Pages of threads.
    pub const THREAD_PAGES: Self =
        Self::new(0, THREAD_PAGES_OFFSET, CHUNK, MAX_THREADS * THREAD_PAGE);
    /// Regions of code.
    pub const REGIONS: Self = Self::new(
        1,
        REGION_OFFSET,
        CHUNK,
        MAX_REGIONS * size_of::<RegionRecord>(),
    );
    /// Index of paths.
    pub const INDEX: Self = Self::new(2, DICT_INDEX_OFFSET, CHUNK, MAX_PATHS * 4);
    /// Chunks, and the window after the last.
    pub const POOL: Self = Self::new(3, POOL_OFFSET, (WINDOW_CHUNKS + 1) * CHUNK, POOL_BYTES);
    /// Words of the dictionary.
    pub const WORDS: Self = Self::new(4, DICT_WORDS_OFFSET, CHUNK, WINDOW_WORDS * 8);

    const fn new(place: usize, offset: usize, first: usize, most: usize) -> Self {
        Self {
            place,
            offset,
            first,
            most,
        }
    }
}

/// The parts that grow, each at its place.
pub const GROWING: [Growing; 5] = [
    Growing::THREAD_PAGES,
    Growing::REGIONS,
    Growing::INDEX,
    Growing::POOL,
    Growing::WORDS,
];
/// Chunks that a process with windows maps from the start.
pub const WINDOW_CHUNKS: usize = 4;

/// Ranges of a slot that a process with windows maps at first, as offset and bytes in whole pages. `asked`: queries or tags are in use.
pub fn first_parts(asked: bool) -> impl Iterator<Item = (usize, usize)> {
    let page = |offset: usize| (offset - offset % THREAD_PAGE, THREAD_PAGE);
    let head = match asked {
        true => THREAD_PAGES_OFFSET,
        false => page(QUERIES_OFFSET).0 + THREAD_PAGE,
    };
    let fixed = [(0, head), page(PREFETCH_OFFSET), page(CONVERGE_OFFSET)];
    (fixed.into_iter()).chain(GROWING.into_iter().map(|part| (part.offset, part.first)))
}

/// Bytes of records that a chunk holds at most, the last of which may run over its end.
pub const MAX_CHUNK_BYTES: usize = CHUNK + MAX_RECORD + FULL_WINDOW - FIRST_RECORD;

/// Offset in the pool of the first record of a chunk.
pub const fn chunk_start(chunk: u32) -> usize {
    chunk as usize % CHUNKS * CHUNK + FIRST_RECORD
}

/// Owner of a chunk, and how far it is filled.
///
/// A thread takes a free chunk by writing its number, then its page, and sets its write pointer. It
/// publishes in this order: it writes `published`, clears its write pointer, and appends the chunk to
/// the ring of published chunks. So `published`, or else the thread's write pointer, says what a chunk
/// holds whenever the program ends. Nothing is counted twice.
#[repr(C)]
pub struct Chunk {
    /// Number of the thread that fills it, from 1; 0 when it is free.
    pub thread: AtomicU32,
    /// The thread's id in the kernel.
    pub tid: AtomicU32,
    /// The thread's page.
    pub page: AtomicU32,
    /// Bytes that hold records, plus one; 0 until it is published.
    pub published: AtomicU32,
}

/// Owner of a counter array.
///
/// A thread takes a free counter array, which is all zero, by writing its id and then its number. It
/// alone writes to the array until it has set `ended`. Then the host reads the array, zeroes it and
/// frees it. When the program ends, the host reads every array that is still in use.
#[repr(C)]
pub struct CounterArray {
    /// Number of the thread, from 1; 0 when the counter array is free.
    pub thread: AtomicU32,
    /// The thread's id in the kernel; 0 while the thread has not started.
    pub tid: AtomicU32,
    /// The thread counts no more.
    pub ended: AtomicU32,
    /// Value counters of the table that the thread uses, the first ones: a power of two.
    pub value_counters: AtomicU32,
}

/// Value of [`Setup::counters`](crate::Setup::counters): there are no counter arrays.
pub const COUNTS_NOTHING: u32 = 0;
/// Counter arrays hold a `u64` for each path: how often it was executed.
pub const COUNTS_PATHS: u32 = 1;
/// Counter arrays hold a `u16` for each substream of a stratified sampler: events to come before it sends a message.
pub const COUNTS_STRATA: u32 = 2;
/// Counter arrays hold an [`Intervals`], and after [`CELLS_OFFSET`] a `u32` for each tuple of a multi-hash profiler that is known at translation time.
/// At an interval's end its candidates are recorded: an exit number of messages, the value if there is one, and four bytes for how often.
/// An [`INTERVAL_MARK`] follows them.
pub const COUNTS_INTERVALS: u32 = 3;

/// Returns true if counts of paths also tell how often instructions after calls were executed ([`crate::dict::Event::AfterCall`]), where
/// these kinds are counted: how control flows follows from both kinds only. Acyclic paths end at calls.
pub const fn counts_after_calls(kinds: KindSet) -> bool {
    kinds.has(Kind::Edge) && kinds.has(Kind::Call) && !kinds.has(Kind::Path)
}

/// State of a thread's interval profiler: before its counter array.
#[repr(C)]
#[derive(Debug)]
pub struct Intervals {
    /// Events to come before its interval ends.
    pub left: AtomicU32,
    /// Events of its interval in all.
    pub length: AtomicU32,
    /// Events of intervals that have ended.
    pub ended: AtomicU64,
    /// Events of each kind but one, out of all events.
    pub kinds: [AtomicU64; RECORDED_KINDS],
    /// Kind of the remaining events.
    pub rest: AtomicU32,
}

/// Offset of the cells in a counter array.
pub const CELLS_OFFSET: usize = 128;
/// Tuples that have one at most.
pub const CELLS: usize = 1 << 22;
const _: () = assert!(size_of::<Intervals>() <= CELLS_OFFSET);
const _: () = assert!(CELLS_OFFSET + CELLS * size_of::<u32>() <= VALUE_COUNTERS_OFFSET);

/// Mark in place of an exit number: the window proper begins. Records of the thread since the last [`END_MARK`] are of
/// instructions that were skipped. [`CAPTURE_WORDS`] 64-bit words follow: the cycles that timing a load takes, where latencies are wanted.
pub const CAPTURE_MARK: u32 = u32::MAX - 1;
/// See [`CAPTURE_MARK`].
pub const CAPTURE_WORDS: usize = 1;
/// Mark in place of an exit number, after a [`CAPTURE_MARK`]. [`STACK_WORDS`] 64-bit words follow: how many are valid after
/// this one, and the words. A window's first are the address of its first instruction, and the stack pointer and the frame
/// pointer there. Words of the stack follow, from the stack pointer up.
pub const STACK_MARK: u32 = u32::MAX - 2;
/// See [`STACK_MARK`].
pub const STACK_WORDS: usize = 31;
/// Mark in place of an exit number: the window has ended. [`END_WORDS`] 64-bit words follow: instructions executed since the
/// [`CAPTURE_MARK`], instructions that were requested, and nanoseconds of the thread's user time since its last window.
pub const END_MARK: u32 = u32::MAX;
/// See [`END_MARK`].
pub const END_WORDS: usize = 3;
/// Mark in place of an exit number, with [`COUNTS_INTERVALS`]: an interval of the thread has ended, and its candidates were recorded since the mark
/// before. Four bytes follow: its events.
pub const INTERVAL_MARK: u32 = u32::MAX - 3;
/// Mark in place of an exit number, before an [`END_MARK`]: what queries have counted since the [`CAPTURE_MARK`]. A word follows that is the
/// number of counts, and so many words, each a [`queries::WindowCount`](crate::queries::WindowCount).
pub const COUNT_MARK: u32 = u32::MAX - 4;
/// Counts after a [`COUNT_MARK`] at most.
pub const MOST_COUNTS: usize = (MAX_RECORD - 4) / 8 - 1;
/// Instructions that may be passed before a window at most.
pub const MAX_SKIP: u32 = 256;
const _: () = assert!(size_of::<ThreadPage>() <= THREAD_PAGE);
const _: () = assert!(MAX_PATHS <= Header::MESSAGE as usize);
const _: () = assert!(4 + 8 * MESSAGE_WORDS <= MAX_RECORD);
const _: () = assert!(MAX_PATHS < COUNT_MARK as usize && COUNT_MARK < INTERVAL_MARK);
const _: () = assert!(INTERVAL_MARK < STACK_MARK);
const _: () = assert!(MAX_PATHS < STACK_MARK as usize && 4 + 8 * STACK_WORDS <= MAX_RECORD);

/// The signal that begins a window: the C library's own for the cancellation of threads, which it lets no
/// program handle, block or wait for. It installs its handler when a thread is cancelled first,
/// and that takes no notice of signals which it has not sent; there are no windows from then on.
pub const WINDOW_SIGNAL: i32 = 32;
/// Instructions of a window at most.
pub const MAX_WINDOW: u32 = 60_000;

/// The first bytes of a file: who uses it. A file belongs to one program and the processes that came
/// of it by `fork`; each has a *slot*, in which everything else is.
#[repr(C)]
pub struct Directory {
    /// A robust mutex of the C library, shared between processes, which the host holds: the kernel
    /// marks its first word when the host dies.
    pub host: [AtomicU32; 16],
    /// Futex: 1 while the host sleeps.
    pub bell: AtomicU32,
    /// Slots that the file is long enough for.
    pub slots: AtomicU32,
    /// Times a process found no slot. The host makes more, up to [`MAX_SLOTS`].
    pub wanted: AtomicU32,
    /// The slots.
    pub slot: [Slot; MAX_SLOTS],
}

impl Directory {
    /// Returns whether the host is there, in a file that it has not given up.
    pub fn host_is_there(&self) -> bool {
        Self::host_lives(self.host[0].load(Relaxed))
    }

    /// The same, of the first word of [`Self::host`].
    pub const fn host_lives(word: u32) -> bool {
        const OWNER_DIED: u32 = 1 << 30;
        const OWNER: u32 = OWNER_DIED - 1;
        word & OWNER != 0 && word & OWNER_DIED == 0
    }

    /// Returns whether the host has died, by the same word.
    pub const fn host_died(word: u32) -> bool {
        const OWNER_DIED: u32 = 1 << 30;
        word & OWNER_DIED != 0
    }

    /// Takes a free slot, for a process that is about to be made.
    pub fn claim(&self) -> Option<usize> {
        let there = (self.slots.load(Acquire) as usize).min(MAX_SLOTS);
        self.slot[..there].iter().position(|slot| {
            let state = &slot.state;
            (state.compare_exchange(Slot::FREE, Slot::CLAIMED, SeqCst, Relaxed)).is_ok()
        })
    }
}

/// Owner of a slot, and the part of another slot that it goes on from.
#[repr(C)]
pub struct Slot {
    /// [`Self::FREE`] and so on.
    pub state: AtomicU32,
    /// The slot of the process that this one was copied from.
    pub parent: AtomicU32,
    /// The process, as it sees itself; while it is expected, as its parent sees it, or 0.
    pub pid: AtomicU32,
    /// Paths that were in the parent's dictionary, and mean the same here.
    pub paths: AtomicU32,
    /// Words of the parent's dictionary, as `paths`.
    pub words: AtomicU64,
    /// The parent's regions, as `paths`.
    pub regions: AtomicU32,
    /// The process may see other process numbers than the host.
    pub foreign: AtomicU32,
}

impl Slot {
    /// Nobody's, and zero.
    pub const FREE: u32 = 0;
    /// Being filled in by the parent.
    pub const CLAIMED: u32 = 1;
    /// A slot for a process that is being created.
    pub const EXPECTED: u32 = 2;
    /// A slot in use by its process.
    pub const USED: u32 = 3;
    /// A slot whose process has ended. Other processes go on from its dictionary.
    pub const ENDED: u32 = 4;
}

/// Request of a process to the host, one thread at a time: before it executes another program, or that a process be detached.
#[repr(C)]
pub struct Request {
    /// Futex: [`Self::IDLE`] and so on.
    pub state: AtomicU32,
    /// The thread that asks, as it sees itself.
    pub tid: AtomicU32,
    /// True if it is no thread of the slot's process, but shares its memory.
    pub spawned: AtomicU32,
    /// [`Unfollowed`], or 0: why the program is not to be observed.
    pub why: AtomicU32,
    /// A thread of the process that is to be detached, as the asking process sees it. 0: the request is about a program.
    pub process: AtomicU32,
    /// Unused.
    pub pad: AtomicU32,
    /// Bytes of `path` in use.
    pub path_len: AtomicU64,
    /// The program's path, as it was given.
    pub path: [u8; 4096 - 32],
}

impl Request {
    /// Nobody asks.
    pub const IDLE: u32 = 0;
    /// Being filled in.
    pub const CLAIMED: u32 = 1;
    /// Asked; the host's turn.
    pub const ASKED: u32 = 2;
    /// The host waits for the thread's new program, or for the report that there is none.
    pub const GO: u32 = 3;
    /// The program is not followed, or the process has been detached or cannot be.
    pub const NATIVE: u32 = 4;
    /// The new program could not be executed. The host's turn.
    pub const FAILED: u32 = 5;
}

/// Reason why a program or process is not followed. Numbers are stored in shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Unfollowed {
    /// The program runs with other privileges than its caller, which it would lose.
    Privileged = 1,
    /// The program may not be read.
    Unreadable = 2,
    /// The program is for another kind of processor.
    Foreign = 3,
    /// Something else traces it already, or may not be traced.
    NotTraced = 4,
    /// The runtime could not be put into it.
    NotInjected = 5,
    /// Its file cannot be looked at, as the caller may have no more descriptors.
    NoDescriptor = 6,
}

impl Unfollowed {
    /// The reason in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Privileged => "it runs with privileges of its own (setuid, setgid, capabilities)",
            Self::Unreadable => "it may not be read",
            Self::Foreign => "it is no 64-bit x86 program",
            Self::NotTraced => "it may not be traced, or is already",
            Self::NotInjected => "the runtime could not be put into it",
            Self::NoDescriptor => "whoever executed it may have no more descriptors (ulimit -Hn)",
        }
    }

    /// The reason of a number found in shared memory.
    pub const fn from_number(n: u32) -> Option<Self> {
        Some(match n {
            1 => Self::Privileged,
            2 => Self::Unreadable,
            3 => Self::Foreign,
            4 => Self::NotTraced,
            5 => Self::NotInjected,
            6 => Self::NoDescriptor,
            _ => return None,
        })
    }
}

/// Value of [`Chunk::thread`]: a process that shares its parent's memory until it runs a program of its own.
/// Its events count as its parent's.
pub const SPAWNED: u32 = 1 << 31;

/// One region of executable memory as the runtime found it. A later record for an overlapping
/// range replaces the earlier one.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RegionRecord {
    /// First address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// Offset of `start` in the file.
    pub offset: u64,
    /// Inode of the file; 0 for none.
    pub inode: u64,
    /// Paths in the dictionary when it was found.
    pub paths: u64,
    /// Bytes of `path` in use.
    pub path_len: u64,
    /// The path as `/proc/PID/maps` prints it.
    pub path: [u8; 4096 - 48],
}

const _: () = {
    // What is read of them where nothing is asked is on their first pages.
    const FIRST: usize = 256;
    assert!(offset_of!(Queries, program) <= FIRST && offset_of!(Converge, place) <= FIRST);
    assert!(
        offset_of!(Prefetch, place) <= FIRST && QUERIES_OFFSET % THREAD_PAGE + FIRST <= THREAD_PAGE
    );
    assert!(PREFETCH_OFFSET % THREAD_PAGE + FIRST <= THREAD_PAGE);
    assert!(CONVERGE_OFFSET % THREAD_PAGE + FIRST <= THREAD_PAGE);
    assert!(size_of::<Control>() <= REQUEST_OFFSET);
    assert!(size_of::<Request>() == CHUNKS_OFFSET - REQUEST_OFFSET);
    assert!(size_of::<MapText>() <= CHUNK);
    assert!(size_of::<Directory>() <= DIRECTORY_BYTES && SLOT_BYTES.is_multiple_of(CHUNK));
    assert!(REGION_OFFSET.is_multiple_of(4096) && DICT_WORDS_OFFSET.is_multiple_of(8));
    assert!(size_of::<RegionRecord>() == 4096);
    assert!(POOL_OFFSET.is_multiple_of(CHUNK) && COUNTER_ARRAYS_OFFSET.is_multiple_of(CHUNK));
    assert!(COUNTER_ARRAY_TABLE_OFFSET.is_multiple_of(align_of::<CounterArray>()));
    // A chunk must hold its longest record before the window of the next begins.
    assert!(FIRST_RECORD + MAX_RECORD < CHUNK);
};
