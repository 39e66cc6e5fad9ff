//! Offsets and the structures at them. Both sides are built from this file, and [`LAYOUT_VERSION`]
//! guards against a host that meets another build's runtime.

use crate::sizes::{MAX_PATHS, MAX_RECORD, THREAD_PAGE};
use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::converge::Converge;
use crate::marks::ARENAS;
use crate::persist::PERSIST_BYTES;
use crate::prefetch::Prefetch;
use crate::queries::{Header, MESSAGE_WORDS, Queries};
use crate::thread_page::{Attached, ThreadPage};
use crate::work::Work;

/// "TROMMELQ", little endian.
pub const MAGIC: u64 = u64::from_le_bytes(*b"TROMMELQ");
/// Changes with every change to this file, or to what is in the dictionary.
pub const LAYOUT_VERSION: u32 = 24;

/// Bytes of one chunk. The full test of generated code depends on it being 64 KiB.
pub const CHUNK: usize = 1 << 16;
/// Published chunks that may wait for the host. With as many, a thread that publishes another waits.
pub const BACKLOG: usize = 63;
/// Threads that can be under control at a time. Each takes five of the mappings of which the kernel
/// gives a process 65 530, and the app must not miss them.
pub const MAX_THREADS: usize = 1 << 12;
/// Chunks in the pool: each thread fills one, and those published wait.
pub const CHUNKS: usize = MAX_THREADS + 2 * BACKLOG;
/// Run-time values in one record: what fits [`MAX_RECORD`] after the path number.
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
/// Bytes of a counter array: a `u64` for each path number, and then a table of value counters.
pub const COUNTER_ARRAY_BYTES: usize = 32 << 20;
/// Value counters in a counter array, a power of two: how often an event with a run-time value was seen with one value, of values seen lately.
pub const VALUE_COUNTERS: usize = 1 << 16;
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
/// [`Queries`].
pub const QUERIES_OFFSET: usize =
    (BIASES_OFFSET + MAX_REGIONS * 8).next_multiple_of(align_of::<Queries>());
/// [`Prefetch`].
pub const PREFETCH_OFFSET: usize =
    (QUERIES_OFFSET + size_of::<Queries>()).next_multiple_of(align_of::<Prefetch>());
/// [`Converge`].
pub const CONVERGE_OFFSET: usize =
    (PREFETCH_OFFSET + size_of::<Prefetch>()).next_multiple_of(align_of::<Converge>());
/// A page for each thread, which is also the first page of its thread area (see the runtime's
/// `area`): a [`ThreadPage`](crate::thread_page::ThreadPage).
pub const THREAD_PAGES_OFFSET: usize =
    (CONVERGE_OFFSET + size_of::<Converge>()).next_multiple_of(THREAD_PAGE);
/// [`RegionRecord`]s.
pub const REGION_OFFSET: usize = THREAD_PAGES_OFFSET + MAX_THREADS * THREAD_PAGE;
/// Regions that can be recorded.
pub const MAX_REGIONS: usize = 0x4000;
/// Path index: `u32` word offset for each path number.
pub const DICT_INDEX_OFFSET: usize = REGION_OFFSET + MAX_REGIONS * size_of::<RegionRecord>();
/// Dictionary words (`u64`).
pub const DICT_WORDS_OFFSET: usize = DICT_INDEX_OFFSET + MAX_PATHS * 4;
/// Dictionary words that fit.
pub const MAX_WORDS: usize = 1 << 27;
/// The pool of chunks, 64 KiB aligned.
pub const POOL_OFFSET: usize = (DICT_WORDS_OFFSET + MAX_WORDS * 8).next_multiple_of(CHUNK);
/// The pool and the window that its last record may run over into.
pub const POOL_BYTES: usize = CHUNKS * CHUNK + CHUNK;
/// Counter arrays of counters.
pub const COUNTER_ARRAYS_OFFSET: usize = POOL_OFFSET + POOL_BYTES;
/// Fragments for later runs ([`crate::persist`]).
pub const MADE_OFFSET: usize = COUNTER_ARRAYS_OFFSET + COUNTER_ARRAYS * COUNTER_ARRAY_BYTES;
/// Bytes of one slot. Slots are sparse: only used pages take memory.
pub const SLOT_BYTES: usize = MADE_OFFSET + PERSIST_BYTES;
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
    pad: AtomicU32,
}

/// State of the target's runtime, as the host sees it in [`Control::state`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum State {
    /// Not yet started.
    Fresh = 0,
    /// Running under control.
    Controlled = 1,
    /// Detached: runs natively from now on; [`Control::detach`] says why.
    Native = 2,
    /// Ended through `exit` or `exit_group`; everything is published.
    Exited = 3,
    /// About to `exec`: what follows is another program, natively.
    Exec = 4,
}

impl State {
    /// The state of a number found in shared memory.
    pub const fn from_number(n: u32) -> Option<Self> {
        Some(match n {
            0 => Self::Fresh,
            1 => Self::Controlled,
            2 => Self::Native,
            3 => Self::Exited,
            4 => Self::Exec,
            _ => return None,
        })
    }
}

/// Reason why a program was detached. Numbers are stored in shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Detached {
    /// A process starts that shares its memory and is no thread of its.
    SharedMemory = 1,
    /// An instruction that the translator does not run in the cache.
    Instruction = 3,
    /// The app sets its GS base, which the runtime needs.
    GsBase = 4,
    /// The host is gone.
    HostGone = 5,
    /// The dictionary or the code cache can grow no further.
    OutOfSpace = 6,
    /// The app closed off the system calls that the runtime needs (seccomp).
    Seccomp = 7,
    /// The runtime itself failed.
    Internal = 8,
    /// The app turns on a shadow stack for its return addresses.
    ShadowStack = 9,
    /// The program's memory map cannot be read.
    NoMaps = 10,
    /// A stress option asked for it.
    Stress = 20,
    /// The program steps through its own code with the trap flag.
    SingleStep = 21,
    /// The program has restartable sequences, which the kernel would not restart in a code cache.
    Restartable = 22,
    /// More threads at a time than [`MAX_THREADS`].
    ManyThreads = 11,
    /// Control does not make it faster.
    BailOut = 12,
    /// The program asked for it.
    Asked = 13,
    /// The runtime gets no more memory.
    NoMemory = 14,
}

impl Detached {
    /// The reason in words, and what to do about it.
    pub const fn words(self) -> &'static str {
        match self {
            Self::SharedMemory => "it started a process that shares its memory",
            Self::Instruction => "it executed an instruction that cannot be observed",
            Self::GsBase => "it uses the GS segment",
            Self::HostGone => "the trommel process is gone",
            Self::OutOfSpace => "there is no room left for the code cache or its dictionary",
            Self::Seccomp => "it restricted its own system calls (seccomp)",
            Self::Internal => "of an internal error of trommel; please report it",
            Self::ShadowStack => "it turned on its shadow stack",
            Self::ManyThreads => "it has more threads at a time than can be observed",
            Self::Asked => "it asked for it",
            Self::NoMemory => {
                "there is no memory left for trommel: it has a limit on its address space (ulimit -v), or the machine has none"
            }
            Self::BailOut => "translation did not pay off",
            Self::Stress => "a stress option asked for it",
            Self::Restartable => "it has restartable sequences (rseq)",
            Self::SingleStep => "it steps through its own code with the trap flag",
            Self::NoMaps => "its memory map (/proc/self/maps) cannot be read any more",
        }
    }

    /// The reason of a number found in shared memory.
    pub const fn from_number(n: u32) -> Option<Self> {
        Some(match n {
            1 => Self::SharedMemory,
            3 => Self::Instruction,
            4 => Self::GsBase,
            5 => Self::HostGone,
            6 => Self::OutOfSpace,
            7 => Self::Seccomp,
            8 => Self::Internal,
            9 => Self::ShadowStack,
            10 => Self::NoMaps,
            11 => Self::ManyThreads,
            12 => Self::BailOut,
            13 => Self::Asked,
            14 => Self::NoMemory,
            20 => Self::Stress,
            21 => Self::SingleStep,
            22 => Self::Restartable,
            _ => return None,
        })
    }
}

/// Value of [`Control::counters`]: there are no counter arrays.
pub const COUNTS_NOTHING: u32 = 0;
/// Counter arrays hold a `u64` for each path: how often it was executed.
pub const COUNTS_PATHS: u32 = 1;
/// Counter arrays hold a `u16` for each substream of a stratified sampler: events to come before it sends a message.
pub const COUNTS_STRATA: u32 = 2;
/// Counter arrays hold an [`Intervals`], and after [`CELLS_OFFSET`] a `u32` for each tuple of a multi-hash profiler that is known at translation time.
/// At an interval's end its candidates are recorded: a path number of messages, the value if there is one, and four bytes for how often.
pub const COUNTS_INTERVALS: u32 = 3;

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
    pub kinds: [AtomicU64; 8],
    /// Kind of the remaining events.
    pub rest: AtomicU32,
}

/// Offset of the cells in a counter array.
pub const CELLS_OFFSET: usize = 128;
/// Tuples that have one at most.
pub const CELLS: usize = 1 << 22;
const _: () = assert!(size_of::<Intervals>() <= CELLS_OFFSET);
const _: () = assert!(CELLS_OFFSET + CELLS * size_of::<u32>() <= VALUE_COUNTERS_OFFSET);

/// A stratified periodic sampler. The host's to write.
#[repr(C)]
pub struct Strata {
    /// Substreams, a power of two.
    pub substreams: AtomicU32,
    /// Events that a message stands for, below 65536.
    pub rate: AtomicU32,
    /// True if counters start at random.
    pub phase: AtomicU32,
    /// The hash function: 0 the papers', 1 `:crc`, 2 `:mul`.
    pub hash: AtomicU32,
}

/// The words both sides use to keep in step.
#[repr(C, align(64))]
pub struct Control {
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// [`LAYOUT_VERSION`].
    pub version: AtomicU32,
    /// The event kinds to collect, `KindSet::bits`.
    pub kinds: AtomicU32,
    /// Contents of counter arrays, [`COUNTS_NOTHING`] and so on. The host's to write.
    pub counters: AtomicU32,
    /// Set when values are counted, from some time on. Written by the target.
    pub value_counters: AtomicU32,
    /// The sampler, with [`COUNTS_STRATA`].
    pub strata: Strata,
    /// The profiler, with [`COUNTS_INTERVALS`], as `trommel_compress::interval::Shield` has it in words.
    pub intervals: [AtomicU32; 12],
    /// Stress options for tests, see the runtime's `options`.
    pub options: AtomicU64,
    /// The host's process, as the host sees itself.
    pub host_pid: AtomicU32,
    /// Children and new programs are followed.
    pub follow: AtomicU32,
    /// The kernel lets programs read and write the bases of FS and GS by instructions.
    pub fsgsbase: AtomicU32,
    /// Number of this slot.
    pub slot: AtomicU32,
    /// The host is done with this slot: a process that still records here is detached.
    pub closed: AtomicU32,
    /// The process, or children that it makes, may see other process numbers than the host.
    pub foreign: AtomicU32,
    /// Processes that run in this one's memory, and are no threads of its.
    pub spawned: AtomicU32,
    /// Exit status of the process, plus one, once the process has reported it.
    pub exit_status: AtomicU32,
    /// [`State`].
    pub state: AtomicU32,
    /// [`Detached`], when `state` is `Native`.
    pub detach: AtomicU32,
    /// Child processes that run natively: all of them with `follow` 0, else those that found no slot.
    pub children: AtomicU32,
    /// Address in the target where the program was detached.
    pub detach_pc: AtomicU64,
    /// Address of the pool in the target; 0 until the runtime has started.
    pub pool_base: AtomicU64,

    /// Chunks published so far. On its own cache line.
    pub published: PaddedU64,
    /// Chunks the host has given back so far. On its own cache line.
    pub consumed: PaddedU64,
    /// Chunks that were ever used: numbers from here on are not.
    pub used: AtomicU32,
    /// Futex: 1 while threads of the target sleep for room.
    pub target_sleeps: AtomicU32,
    /// Times the target asked for everything recorded to be folded.
    pub settle_asked: AtomicU32,
    /// Futex: the last of these requests that the host has answered.
    pub settle_done: AtomicU32,
    /// Threads started so far, the first one included.
    pub threads: AtomicU32,
    /// Times a thread found no room.
    pub waits: AtomicU64,
    /// Nanoseconds it waited.
    pub wait_nanos: AtomicU64,

    /// Paths in the dictionary.
    pub paths: AtomicU32,
    /// Regions recorded.
    pub regions: AtomicU32,
    /// Dictionary words used.
    pub words: AtomicU64,

    /// Fragments are kept for later runs, and taken from earlier ones. The host's to write.
    pub persist: AtomicU32,
    /// The shape of fragments that this process can use of an image. Written by the target.
    pub persist_shape: AtomicU32,
    /// Fragments that were taken from earlier runs.
    pub kept_fragments: AtomicU64,
    /// Fragments made, traces not.
    pub fragments: AtomicU64,
    /// App instructions in them.
    pub instructions: AtomicU64,
    /// Times control came back to the dispatcher.
    pub dispatches: AtomicU64,
    /// Indirect branches the inline lookup did not find.
    pub indirect_misses: AtomicU64,
    /// System calls handled by the runtime.
    pub syscalls: AtomicU64,
    /// Signals delivered to handlers of the app.
    pub signals: AtomicU64,
    /// Bytes of code cache in use.
    pub cache_bytes: AtomicU64,
    /// Times code was dropped because the app changed it.
    pub invalidations: AtomicU64,

    /// Control lasts for so many instructions at a time ([`Windows`]); 0: for good. The host changes
    /// the number while the program runs, never from or to 0.
    pub window: AtomicU32,
    /// Windows are delimited by marks ([`CAPTURE_MARK`]); before one, a random number of
    /// instructions below this is passed. 0: no marks, and none is passed.
    pub window_skip: AtomicU32,
    /// Nanoseconds of CPU time from a window to the next, as often as they are begun now.
    pub window_period: AtomicU64,
    /// The signal that begins windows has its handler.
    pub windows_ready: AtomicU32,
    /// The instructions of fragments are in the dictionary, with their bytes, whatever kinds are recorded.
    pub listed: AtomicU32,
    /// A piece of the stack is recorded at the start of each window ([`STACK_MARK`]).
    pub stacks: AtomicU32,
    /// Counts of windows.
    pub windows: Windows,

    /// Traces.
    pub trace: Traces,
    /// Work of the engine.
    pub work: Work,

    /// State of a program that was running already.
    pub attached: Attached,
    /// Identifies the runtime that was built; the host's to write.
    pub build: AtomicU64,
    /// Place of a failure of the runtime, if [`Control::detach`] reports one.
    pub failure: Failure,
}

/// Windows: stretches of [`Control::window`] instructions under control, between which a thread runs
/// natively.
#[repr(C)]
pub struct Windows {
    /// Windows that have ended.
    pub ended: AtomicU64,
    /// Instructions executed in them, but for those that were passed first.
    pub instructions: AtomicU64,
    /// Nanoseconds of CPU time from where the signal's handler begins to where it ends that leaves the window.
    pub nanos: AtomicU64,
    /// Windows that reached their last instruction.
    pub whole: AtomicU64,
    /// Windows that ended before a system call.
    pub calls: AtomicU64,
    /// Windows that ended at an instruction which caused a signal, or at a signal that was sent.
    pub signals: AtomicU64,
    /// Windows that ended before an instruction that cannot be executed in the cache.
    pub refused: AtomicU64,
    /// Windows that did not begin. The host was late, or the thread was at a place where it cannot be
    /// attached.
    pub skipped: AtomicU64,
    /// Signals of threads' own timers, each of which was to begin one.
    pub timed: AtomicU64,
    /// Timer signals that came in the midst of a long time to the next window and began none.
    pub waited: AtomicU64,
    /// The mean number of ticks from one such signal to the next, in parts of 256; 0: no timers.
    pub ticks: AtomicU32,
    /// Nanoseconds from one tick of the kernel to the next.
    pub tick: AtomicU32,
    /// Threads that got no timer.
    pub refused_timers: AtomicU32,
    /// The last [`LAST_WINDOWS`] windows, in turn.
    pub last: [LastWindow; LAST_WINDOWS],
}

/// Mark in place of a path number: the window proper begins. Records of the thread since the last [`END_MARK`] are of
/// instructions that were skipped. [`CAPTURE_WORDS`] 64-bit words follow: the cycles that timing a load takes, where latencies are wanted.
pub const CAPTURE_MARK: u32 = u32::MAX - 1;
/// See [`CAPTURE_MARK`].
pub const CAPTURE_WORDS: usize = 1;
/// Mark in place of a path number, after a [`CAPTURE_MARK`]. [`STACK_WORDS`] 64-bit words follow: how many are valid after
/// this one, and the words. A window's first are the address of its first instruction, and the stack pointer and the frame
/// pointer there. Words of the stack follow, from the stack pointer up.
pub const STACK_MARK: u32 = u32::MAX - 2;
/// See [`STACK_MARK`].
pub const STACK_WORDS: usize = 31;
/// Mark in place of a path number: the window has ended. [`END_WORDS`] 64-bit words follow: instructions executed since the
/// [`CAPTURE_MARK`], instructions that were requested, and [`Control::window_period`].
pub const END_MARK: u32 = u32::MAX;
/// See [`END_MARK`].
pub const END_WORDS: usize = 3;
/// Instructions that may be passed before a window at most.
pub const MAX_SKIP: u32 = 256;
const _: () = assert!(size_of::<ThreadPage>() <= THREAD_PAGE);
const _: () = assert!(MAX_PATHS <= Header::MESSAGE as usize);
const _: () = assert!(4 + 8 * MESSAGE_WORDS <= MAX_RECORD);
const _: () = assert!(MAX_PATHS < STACK_MARK as usize && 4 + 8 * STACK_WORDS <= MAX_RECORD);

/// Windows that are remembered.
pub const LAST_WINDOWS: usize = 32;
/// The signal that begins a window: the C library's own for the cancellation of threads, which it lets no
/// program handle, block or wait for. It installs its handler when a thread is cancelled first,
/// and that takes no notice of signals which it has not sent; there are no windows from then on.
pub const WINDOW_SIGNAL: i32 = 32;
/// Instructions of a window at most.
pub const MAX_WINDOW: u32 = 60_000;

/// A window that has ended. Written by a thread that holds the runtime's lock.
#[repr(C)]
pub struct LastWindow {
    /// First instruction of the window.
    pub from: AtomicU64,
    /// Address where the thread went on natively.
    pub to: AtomicU64,
    /// Instructions executed in between.
    pub instructions: AtomicU64,
}

/// Optimisation of traces beyond their layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u32)]
pub enum Optimise {
    /// Changes that the program cannot observe.
    #[default]
    Conservative = 0,
    /// No optimisation.
    Off = 1,
    /// Stack frames are taken to be written by their own thread alone, also where there are several.
    Aggressive = 2,
}

impl Optimise {
    /// Returns the level that a stored word stands for.
    pub const fn from_word(word: u32) -> Self {
        match word {
            1 => Self::Off,
            2 => Self::Aggressive,
            _ => Self::Conservative,
        }
    }
}

/// Selection of traces, and its results.
#[repr(C)]
pub struct Traces {
    /// Times that a start is reached before a trace is made; 0: no traces. The host's to write.
    pub threshold: AtomicU32,
    /// Level of optimisation of traces, an [`Optimise`]. The host's to write.
    pub optimise: AtomicU32,
    /// The program stays attached even if translation does not pay off. The host's to write.
    pub stay: AtomicU32,
    /// Exits are not linked: each leads to the dispatcher. The host's to write.
    pub unlinked: AtomicU32,
    /// Traces end at returns. The host's to write.
    pub no_returns: AtomicU32,
    /// Code that does the program's own work is marked ([`crate::marks`]). The host's to write.
    pub audit: AtomicU32,
    /// The program is to be detached: translation does not pay off. The host's to write.
    pub lost: AtomicU32,
    /// Only one thread wrote to the memory of the process when the host attached to it. The host's to write.
    pub alone: AtomicU32,
    /// Start addresses of arenas; 0 after the last.
    pub arenas: [AtomicU64; ARENAS],
    /// Bytes that the code cache may have; 0: as many as there is room for. The host's to write.
    pub cache: AtomicU64,
    /// Paths of which no trace was made.
    pub abandoned: AtomicU64,
    /// Traces made.
    pub made: AtomicU64,
    /// App instructions in them.
    pub instructions: AtomicU64,
    /// Bytes of code in them.
    pub bytes: AtomicU64,
}

/// Callers that a [`Failure`] names at most.
pub const FAILURE_STACK: usize = 8;

/// A failure of the runtime itself, in offsets from the start of its code.
#[repr(C)]
pub struct Failure {
    /// The signal that it raised, written last; 0 while there was none.
    pub signal: AtomicU32,
    /// The thread's id in the kernel.
    pub tid: AtomicU32,
    /// The instruction.
    pub offset: AtomicU64,
    /// Addresses that may have called it, innermost first; 0 after the last.
    pub stack: [AtomicU64; FAILURE_STACK],
}

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

/// Request of a process to the host before it executes another program, one thread at a time.
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
    /// Bytes of `path` in use.
    pub path_len: AtomicU64,
    /// The program's path, as it was given.
    pub path: [u8; 4096 - 24],
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
    /// The program is not followed.
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
            _ => return None,
        })
    }
}

/// Value of [`Chunk::thread`]: a process that shares its parent's memory until it runs a program of its own.
/// Its events count as its parent's.
pub const SPAWNED: u32 = 1 << 31;

/// A counter that shares its cache line with nothing.
#[repr(C, align(64))]
pub struct PaddedU64(pub AtomicU64);

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
    assert!(size_of::<Control>() <= REQUEST_OFFSET);
    assert!(size_of::<Request>() == CHUNKS_OFFSET - REQUEST_OFFSET);
    assert!(size_of::<Directory>() <= DIRECTORY_BYTES && SLOT_BYTES.is_multiple_of(CHUNK));
    assert!(REGION_OFFSET.is_multiple_of(4096) && DICT_WORDS_OFFSET.is_multiple_of(8));
    assert!(size_of::<RegionRecord>() == 4096);
    assert!(POOL_OFFSET.is_multiple_of(CHUNK) && COUNTER_ARRAYS_OFFSET.is_multiple_of(CHUNK));
    assert!(COUNTER_ARRAY_TABLE_OFFSET.is_multiple_of(align_of::<CounterArray>()));
    // A chunk must hold its longest record before the window of the next begins.
    assert!(FIRST_RECORD + MAX_RECORD < CHUNK);
};
