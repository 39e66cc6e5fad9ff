//! Offsets and the structures at them. Both sides are built from this file, and [`LAYOUT_VERSION`]
//! guards against a host that meets another build's runtime.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// "TROMMELQ", little endian.
pub const MAGIC: u64 = u64::from_le_bytes(*b"TROMMELQ");
/// Changes with every change to this file.
pub const LAYOUT_VERSION: u32 = 3;

/// Bytes of one chunk. The full test of generated code depends on it being 64 KiB.
pub const CHUNK: usize = 1 << 16;
/// Published chunks that may wait for the host; with as many, who publishes another waits.
pub const BACKLOG: usize = 63;
/// Threads that can be under control at a time. Each takes five of the mappings of which the kernel
/// gives a process 65 530, and the app must not miss them.
pub const MAX_THREADS: usize = 1 << 12;
/// Chunks in the pool: each thread fills one, and those published wait.
pub const CHUNKS: usize = MAX_THREADS + 2 * BACKLOG;
/// The longest record, in bytes.
pub const MAX_RECORD: usize = 256;
/// Run-time values in one record: what fits [`MAX_RECORD`] behind the path number.
pub const MAX_VALUES: usize = (MAX_RECORD - 4) / 8;
/// A write pointer whose offset in its 64 KiB window is below this has filled its chunk.
pub const FULL_WINDOW: usize = 256;
/// Where the first record of a chunk starts, relative to the chunk's 64 KiB window: behind the
/// full window and behind the longest record that could have run over into it.
pub const FIRST_RECORD: usize = FULL_WINDOW + MAX_RECORD;

/// [`Control`].
pub const CONTROL_OFFSET: usize = 0;
/// A [`Chunk`] for each chunk of the pool.
pub const CHUNKS_OFFSET: usize = 0x1000;
/// Published chunks in order: a ring of `u32`, chunk number plus one; 0 where there is none.
pub const PUBLISHED_OFFSET: usize = CHUNKS_OFFSET + CHUNKS * size_of::<Chunk>();
/// Chunks given back in order: a ring of `u32`, chunk numbers.
pub const GIVEN_BACK_OFFSET: usize = PUBLISHED_OFFSET + CHUNKS * 4;
/// A page for each thread, which is also the first page of its thread area (see the runtime's
/// `area`); its first word is the write pointer.
pub const THREAD_PAGES_OFFSET: usize =
    (GIVEN_BACK_OFFSET + CHUNKS * 4).next_multiple_of(THREAD_PAGE);
/// Bytes of a thread's page.
pub const THREAD_PAGE: usize = 0x1000;
/// [`RegionRecord`]s.
pub const REGION_OFFSET: usize = THREAD_PAGES_OFFSET + MAX_THREADS * THREAD_PAGE;
/// Regions that can be recorded.
pub const MAX_REGIONS: usize = 0x4000;
/// Path index: `u32` word offset for each path number.
pub const DICT_INDEX_OFFSET: usize = REGION_OFFSET + MAX_REGIONS * size_of::<RegionRecord>();
/// Paths that can be numbered.
pub const MAX_PATHS: usize = 1 << 25;
/// Dictionary words (`u64`).
pub const DICT_WORDS_OFFSET: usize = DICT_INDEX_OFFSET + MAX_PATHS * 4;
/// Dictionary words that fit.
pub const MAX_WORDS: usize = 1 << 27;
/// The pool of chunks, 64 KiB aligned.
pub const POOL_OFFSET: usize = (DICT_WORDS_OFFSET + MAX_WORDS * 8).next_multiple_of(CHUNK);
/// The pool and the window that its last record may run over into.
pub const POOL_BYTES: usize = CHUNKS * CHUNK + CHUNK;
/// The whole file; sparse, so only what is used takes memory.
pub const FILE_SIZE: usize = POOL_OFFSET + POOL_BYTES;
/// Bytes of records that a chunk holds at most, the last of which may run over its end.
pub const MAX_CHUNK_BYTES: usize = CHUNK + MAX_RECORD + FULL_WINDOW - FIRST_RECORD;

/// Offset in the pool of the first record of a chunk.
pub const fn chunk_start(chunk: u32) -> usize {
    chunk as usize % CHUNKS * CHUNK + FIRST_RECORD
}

/// Who fills a chunk, and how far.
///
/// A thread takes a free chunk by writing its number, then its page, and sets its write pointer. It
/// publishes by writing `published`, clearing its write pointer, and appending the chunk to the
/// ring of published ones, in this order: so whenever the program ends, what a chunk holds is told
/// by `published`, or else by the write pointer of its thread, and nothing is counted twice.
#[repr(C)]
pub struct Chunk {
    /// Number of the thread that fills it, from 1; 0 when it is free.
    pub thread: AtomicU32,
    /// That thread's id in the kernel.
    pub tid: AtomicU32,
    /// That thread's page.
    pub page: AtomicU32,
    /// Bytes that hold records, plus one; 0 until it is published.
    pub published: AtomicU32,
}

/// State of the target's runtime, as the host sees it in [`Control::state`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum State {
    /// Not yet started.
    Fresh = 0,
    /// Running under control.
    Controlled = 1,
    /// Let go: runs natively from now on; [`Control::let_go`] says why.
    Native = 2,
    /// Ended through `exit` or `exit_group`; everything is published.
    Exited = 3,
    /// About to `exec`: what follows is another program.
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

/// Why a program was let go. Numbers are stored in shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum LetGo {
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
    /// Its memory map cannot be read.
    NoMaps = 10,
    /// A stress option asked for it.
    Stress = 20,
    /// It steps through its own code with the trap flag.
    SingleStep = 21,
    /// More threads at a time than [`MAX_THREADS`].
    ManyThreads = 11,
}

impl LetGo {
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
            Self::Stress => "a stress option asked for it",
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
            20 => Self::Stress,
            21 => Self::SingleStep,
            _ => return None,
        })
    }
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
    /// Stress options for tests, see the runtime's `options`.
    pub options: AtomicU64,
    /// The host's process, as the target sees it as its parent.
    pub host_pid: AtomicU32,
    /// [`State`].
    pub state: AtomicU32,
    /// [`LetGo`], when `state` is `Native`.
    pub let_go: AtomicU32,
    /// Child processes started (they run natively).
    pub children: AtomicU32,
    /// Where the program was let go, an address of the target.
    pub let_go_pc: AtomicU64,
    /// Address of the pool in the target; 0 until the runtime has started.
    pub pool_base: AtomicU64,

    /// Chunks published so far. On its own cache line.
    pub published: PaddedU64,
    /// Chunks the host has given back so far. On its own cache line.
    pub consumed: PaddedU64,
    /// Chunks that were ever used: numbers from here on are not.
    pub used: AtomicU32,
    /// Futex: 1 while the host sleeps for a chunk.
    pub host_sleeps: AtomicU32,
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

    /// Fragments translated.
    pub fragments: AtomicU64,
    /// App instructions translated.
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
    /// Identifies the runtime that was built; the host's to write.
    pub build: AtomicU64,
    /// Where the runtime failed, if [`Control::let_go`] says that it did.
    pub failure: Failure,
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
    /// What may have called it, innermost first; 0 behind the last.
    pub stack: [AtomicU64; FAILURE_STACK],
}

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
    /// Address behind the last.
    pub end: u64,
    /// Offset of `start` in the file.
    pub offset: u64,
    /// Inode of the file; 0 for none.
    pub inode: u64,
    /// Bytes of `path` in use.
    pub path_len: u64,
    /// The path as `/proc/PID/maps` prints it.
    pub path: [u8; 4096 - 40],
}

const _: () = {
    assert!(size_of::<Control>() <= CHUNKS_OFFSET);
    assert!(REGION_OFFSET.is_multiple_of(4096) && DICT_WORDS_OFFSET.is_multiple_of(8));
    assert!(size_of::<RegionRecord>() == 4096);
    assert!(POOL_OFFSET.is_multiple_of(CHUNK));
    // A chunk must hold its longest record before the window of the next begins.
    assert!(FIRST_RECORD + MAX_RECORD < CHUNK);
};
