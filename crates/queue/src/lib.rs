//! Memory that target and host share: one file, laid out here. The target's runtime writes it, and the
//! host's service thread reads it.
//!
//! # Problem
//! The runtime sits inside a program that may crash, be killed, or scribble over memory. Every
//! event delivered before that moment must reach the profile, and nothing the target writes may
//! harm the host.
//!
//! # Strategy
//! A file serves one program and its forked children. It starts with a [`Directory`] of *slots*, and each
//! process uses a slot. A new process inherits the directory's mapping and claims a slot in it. It maps
//! the slot by growing a second mapping out of the first. So it needs neither a descriptor nor the host.
//! The host holds the file too, so its contents outlive the target. The parts of a slot:
//!
//! | part | written by | holds |
//! |---|---|---|
//! | [`Control`] | both | state words, the published and consumed chunk counts, waits |
//! | [`Request`] | both | request of a thread to the host before it executes another program |
//! | [`Chunk`]s, two rings | both | owner of each chunk; chunks that were published, chunks that were given back |
//! | thread pages | both | the write pointer of each thread, which generated code advances; its [`thread_page`] |
//! | [`dict`] | target | paths, blocks and regions: what a record's number stands for |
//! | pool | target | records, in [`CHUNK`]-byte chunks |
//! | [`queries::Queries`] | both | the query program, and its counts |
//! | [`CounterArray`]s | target | a counter for each path and thread, where paths are counted and not recorded |
//! | [`persist`] | target | fragments for later runs |
//! | [`contexts`] | target | the tree of calling contexts of each thread, where those are counted |
//! | [`MapText`] | host | the memory map of a process that may not read it itself |
//!
//! A *record* is one execution of one *exit* of a fragment: a 32-bit exit number, then one
//! 64-bit word for each run-time value on the way there, in order. All that is known at translation
//! time (which branches, which direction, which direct calls) is implied by the exit number and
//! costs nothing at run time. Generated code stores the values first, then the number, then
//! advances the write pointer; a record is complete when the write pointer has passed it.
//!
//! Each thread fills a chunk of its own and takes another from the pool when it is full, so a chunk
//! holds records of one thread, in order. Appending a record takes no lock, and neither does
//! publishing a chunk. Chunks come to the host in the order in which they were published.
//!
//! Where nobody asks for the order of events, a path without run-time values is only counted, in the thread's
//! *counter array*. Both can occur in one process, and add up. With a stratified sampler, a counter array
//! holds the sampler's counters in place of those of paths, and its messages are recorded. With a
//! multi-hash profiler, it holds the counts of shielded events.
//!
//! A *message* of a query is a record too. Its number is a [`queries::Header`], which says that it is a message, and of
//! which query. Its words follow. So messages of a thread stand among its records in the order in which they were sent.
//!
//! A process made by `fork` goes on with its parent's code cache. So it shares the exit numbers, regions and
//! dictionary words that were there at the `fork`. [`Slot`] says how many, and they are read in the
//! parent's slot. The child's own follow them.
//!
//! # Invariants
//! * Records are at most [`MAX_RECORD`] bytes, so the write pointer cannot step over the window
//!   [`FULL_WINDOW`] that marks a chunk as full. Generated code tests for it with no flags:
//!   bits 8–15 of the pointer are zero only inside it.
//! * A chunk is reused only after the host gave it back. A thread that publishes while [`BACKLOG`] others
//!   wait waits itself (and counts it) before it takes another chunk. Nothing is dropped. So the chunks
//!   in use are at most the threads and [`BACKLOG`].
//! * A record belongs to a chunk from the moment the write pointer has passed it until the host has
//!   given the chunk back, at whatever moment the program dies.
//! * A counter array is written to by one thread at a time, and used again only after the host has read it.
//! * Path numbers are dense and a path is in the dictionary before its first record.
//! * The host reads with bounds checks only. A number, length or offset out of range is an error
//!   of the stream, and never harms the host.
//!
//! [`protocol`] holds the operations of both sides on the words that pass chunks and that threads sleep upon.
//!
//! Architecture invariant: this crate does no system call and allocates nothing.
//!
//! # Example
//! ```
//! use trommel_queue::dict::{Event, TargetPc};
//!
//! // How the dictionary says that a branch of two bytes was taken.
//! let taken = Event::Branch {
//!     pc: TargetPc(0x401000),
//!     len: 2,
//!     target: TargetPc(0x401020),
//!     taken: true,
//! };
//! let (words, used) = taken.encode();
//! assert_eq!(Event::decode(&words[..used]), Some((taken, used)));
//! ```
#![no_std]
#![forbid(unsafe_code)]

pub mod contexts;
mod control;
pub mod converge;
pub mod dict;
mod layout;
mod limits;
mod map;
pub mod marks;
pub mod persist;
pub mod prefetch;
pub mod protocol;
pub mod queries;
pub mod seccomp;
mod sizes;
pub mod stamps;
pub mod thread_page;
pub mod wake;
pub mod work;

pub use control::{
    Chunks, Control, Detached, EngineCounts, Extent, FAILURE_STACK, Failure, Host, Identity,
    LAST_WINDOWS, LastWindow, Optimise, PaddedU64, Process, Settling, Setup, State, Strata,
    TraceSetup, Traces, WindowSetup, Windows,
};
pub use layout::{
    BACKLOG, BIASES_OFFSET, CAPTURE_MARK, CAPTURE_WORDS, CELLS, CELLS_OFFSET, CHUNK, CHUNKS,
    CHUNKS_OFFSET, CONTEXTS_OFFSET, CONTROL_OFFSET, CONVERGE_OFFSET, COUNT_MARK,
    COUNTER_ARRAY_BYTES, COUNTER_ARRAY_COUNTERS, COUNTER_ARRAY_TABLE_OFFSET, COUNTER_ARRAYS,
    COUNTER_ARRAYS_OFFSET, COUNTS_INTERVALS, COUNTS_NOTHING, COUNTS_PATHS, COUNTS_STRATA, Chunk,
    CounterArray, DICT_INDEX_OFFSET, DICT_WORDS_OFFSET, DIRECTORY_BYTES, Directory, END_MARK,
    END_WORDS, FEW_VALUE_COUNTERS, FIRST_RECORD, FULL_WINDOW, GIVEN_BACK_OFFSET, GROWING, Growing,
    INTERVAL_MARK, Intervals, LAYOUT_VERSION, MADE_OFFSET, MAGIC, MAP_OFFSET, MAX_CHUNK_BYTES,
    MAX_REGIONS, MAX_SKIP, MAX_SLOTS, MAX_THREADS, MAX_VALUES, MAX_WINDOW, MAX_WORDS, MOST_COUNTS,
    MOST_INTERRUPTED, ON_PATH_OFFSET, POOL_BYTES, POOL_OFFSET, POSTED_OFFSET, PREFETCH_OFFSET,
    PUBLISHED_OFFSET, QUERIES_OFFSET, REGION_OFFSET, REQUEST_OFFSET, RegionRecord, Request,
    SLOT_BYTES, SPAWNED, STACK_MARK, STACK_WORDS, Slot, THREAD_PAGES_OFFSET, Unfollowed,
    VALUE_COUNTERS, VALUE_COUNTERS_OFFSET, ValueCounter, WINDOW_CHUNKS, WINDOW_SIGNAL,
    WINDOW_WORDS, chunk_start, counts_after_calls, first_parts, mapped_bytes, slot_start,
};
pub use limits::LIMITS;
pub use map::{MAP_TEXT, MapQuestion, MapText};
pub use sizes::{MAX_PATHS, MAX_RECORD, THREAD_PAGE};

/// Test options in the control words, see `docs/testing.md`.
pub mod options {
    /// Bits 0–6: app instructions in a fragment at most (0: the usual number).
    pub const INSNS_MASK: u64 = 0x7f;
    /// [`EVICT_SHIFT`] counts traces made.
    pub const FLUSH: u64 = 1 << 7;
    /// Arenas are placed out of reach of their app code.
    pub const FAR: u64 = 1 << 8;
    /// Code in memory that is writable compares itself each time it is entered.
    pub const GUARD: u64 = 1 << 9;
    /// A trace may start where a fragment is entered the first time.
    pub const TRACE: u64 = 1 << 10;
    /// Only the first 768 paths have counters.
    pub const COUNTERS: u64 = 1 << 11;
    /// Steps are reported as some virtual machines report them: as breakpoints.
    pub const BREAKPOINTS: u64 = 1 << 15;
    /// Bits 16–27: pages of code cache before everything is flushed (0: no limit but the arena).
    pub const CACHE_SHIFT: u32 = 16;
    /// Bits 28–31: quarters of a MiB of code in an arena at most, and as much of stubs (0: as much as there is room for).
    pub const ARENA_SHIFT: u32 = 28;
    /// Bits 32–38: random delays of up to so many microseconds (0: none).
    pub const DELAY_SHIFT: u32 = 32;
    /// The other variant of the code becomes current after as many crossings as [`EVICT_SHIFT`] says. Nothing is flushed.
    pub const TURN: u64 = 1 << 39;
    /// Bits 40–51: crossings into the dispatcher, or traces, after which everything is flushed (0: never).
    pub const EVICT_SHIFT: u32 = 40;
    /// Bits 52–63: how many times what [`END_MASK`] names happens before control ends (0: never).
    pub const END_SHIFT: u32 = 52;
    /// Bits 12–14: how control ends: one of the following.
    pub const END_MASK: u64 = 7 << 12;
    /// The process is detached at a crossing into the dispatcher.
    pub const END_LEAVE: u64 = 0;
    /// The runtime fails when it is entered.
    pub const END_DISPATCH: u64 = 1 << 12;
    /// The runtime fails in the translator.
    pub const END_TRANSLATE: u64 = 2 << 12;
    /// The runtime fails in a system call of the app's that it has just made.
    pub const END_SYSCALL: u64 = 3 << 12;
    /// The runtime fails in its signal handler, where it cannot detach.
    pub const END_DELIVER: u64 = 4 << 12;
    /// Failure at any of these places, with one chance in so many.
    pub const END_RANDOM: u64 = 5 << 12;
    /// The runtime fails while it starts in a process that has been running.
    pub const END_START: u64 = 6 << 12;
}
