//! Offsets and the structures at them. Both sides are built from this file, and [`LAYOUT_VERSION`]
//! guards against a host that meets another build's runtime.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// "TROMMELQ", little endian.
pub const MAGIC: u64 = u64::from_le_bytes(*b"TROMMELQ");
/// Changes with every change to this file.
pub const LAYOUT_VERSION: u32 = 1;

/// Bytes of one chunk of the ring. The full test of generated code depends on it being 64 KiB.
pub const CHUNK: usize = 1 << 16;
/// Chunks in the ring.
pub const CHUNKS: usize = 64;
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
/// The page that is also the first page of the thread area (see the runtime's `area`).
pub const THREAD_PAGE_OFFSET: usize = 0x1000;
/// [`RegionRecord`]s.
pub const REGION_OFFSET: usize = 0x10_0000;
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
/// The ring, 64 KiB aligned.
pub const RING_OFFSET: usize = (DICT_WORDS_OFFSET + MAX_WORDS * 8).next_multiple_of(CHUNK);
/// The ring and the window that its last record may run over into.
pub const RING_BYTES: usize = CHUNKS * CHUNK + CHUNK;
/// The whole file; sparse, so only what is used takes memory.
pub const FILE_SIZE: usize = RING_OFFSET + RING_BYTES;

/// Offset in the ring of the first record of chunk number `n` (which counts on for ever).
pub const fn chunk_start(n: u64) -> usize {
    (n % CHUNKS as u64) as usize * CHUNK + FIRST_RECORD
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
    /// A second thread starts.
    Threads = 1,
    /// Code in memory that is writable at the same time.
    WritableCode = 2,
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
}

impl LetGo {
    /// The reason in words, and what to do about it.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Threads => "it started a second thread",
            Self::WritableCode => "it runs code from memory that is also writable",
            Self::Instruction => "it executed an instruction that cannot be observed",
            Self::GsBase => "it uses the GS segment",
            Self::HostGone => "the trommel process is gone",
            Self::OutOfSpace => "there is no room left for the code cache or its dictionary",
            Self::Seccomp => "it restricted its own system calls (seccomp)",
            Self::Internal => "of an internal error of trommel; please report it",
            Self::ShadowStack => "it turned on its shadow stack",
            Self::NoMaps => "its memory map (/proc/self/maps) cannot be read any more",
        }
    }

    /// The reason of a number found in shared memory.
    pub const fn from_number(n: u32) -> Option<Self> {
        Some(match n {
            1 => Self::Threads,
            2 => Self::WritableCode,
            3 => Self::Instruction,
            4 => Self::GsBase,
            5 => Self::HostGone,
            6 => Self::OutOfSpace,
            7 => Self::Seccomp,
            8 => Self::Internal,
            9 => Self::ShadowStack,
            10 => Self::NoMaps,
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
    /// Address of the ring in the target; 0 until the runtime has started.
    pub ring_base: AtomicU64,

    /// Chunks the target has filled. On its own cache line.
    pub published: PaddedU64,
    /// Chunks the host has given back. On its own cache line.
    pub consumed: PaddedU64,
    /// Futex: 1 while the host sleeps for a chunk.
    pub host_sleeps: AtomicU32,
    /// Futex: 1 while the target sleeps for room.
    pub target_sleeps: AtomicU32,
    /// Times the target found no free chunk.
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

    /// Bytes of each chunk that hold records, valid once it is published.
    pub chunk_bytes: [AtomicU32; CHUNKS],
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
    assert!(size_of::<Control>() <= THREAD_PAGE_OFFSET);
    assert!(size_of::<RegionRecord>() == 4096);
    assert!(RING_OFFSET.is_multiple_of(CHUNK));
    // A chunk must hold its longest record before the window of the next begins.
    assert!(FIRST_RECORD + MAX_RECORD < CHUNK);
};
