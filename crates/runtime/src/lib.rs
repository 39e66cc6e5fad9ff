//! Everything that lives inside the target.
//!
//! The host writes this crate, linked as one freestanding position-independent program, into a
//! process that has just started, and lets it run there. It runs the app's code from a code cache,
//! fragment by fragment, so that probes can be put around any instruction, and tells the host what
//! they saw through the shared queue. See `ARCHITECTURE.md` for the whole way of one event.
//!
//! | module | what it does |
//! |---|---|
//! | [`arch`] | all assembly: crossing between cache and runtime |
//! | [`area`] | the per-thread block that GS points to |
//! | [`thread`] | threads: areas, start and end |
//! | [`lock`] | what threads use one at a time |
//! | [`start`] | from the host's jump to the first fragment |
//! | [`region`] | what memory is code, and whose |
//! | [`pages`] | which of it is writable, and how stores to it are seen |
//! | [`change`] | code that changes |
//! | [`decode`] | app instructions, reduced to what the translator asks about them |
//! | [`emit`] | machine code, written |
//! | [`translate`] | fragments from app code |
//! | [`cache`] | arenas, fragments and the way from app addresses to them |
//! | [`dispatch`] | what happens when control leaves the cache: translate, link, look up |
//! | [`persist`] | fragments of earlier runs, and for later ones |
//! | [`trace`] | hot paths, found and recorded |
//! | [`balance`] | whether control pays |
//! | [`phase`] | when the working set changes |
//! | [`aware`] | requests of programs that know of us |
//! | [`counters`] | paths that are counted where they are executed |
//! | [`pairs`] | indirect branches that are counted |
//! | [`query`] | relational queries |
//! | [`served`] | their queues that the program serves itself |
//! | [`deliver`] | the target's side of the queue and the dictionary |
//! | [`syscall`] | system calls the runtime must see |
//! | [`signal`] | the app's handlers under control, at exact places |
//! | [`kernel_writes`] | those that write where we have protected pages |
//! | [`native`] | detaching |
//! | [`attach`] | threads of a running process in and out |
//! | [`window`] | control for N instructions at a time |
//! | [`own`] | the runtime's memory, listed |
//!
//! # Invariants
//! * No libc, no thread-local storage through FS (it is the app's), no panic machinery; the GS base
//!   is ours while a thread is controlled.
//! * The app's stack pointer is never used by the runtime, and nothing is written below it.
//! * The app's return addresses on its stack are its own.
//! * Every register is the app's at each boundary between app instructions, but for one stolen
//!   register that the fragment's description names.
//! * The runtime executes no floating-point or AVX instruction; the low halves of the vector
//!   registers are saved on every entry to compiled code.
#![no_std]

extern crate alloc;

pub mod base;
pub mod cache;
pub mod channel;
pub mod crossing;
pub mod engine;
pub mod memory;
pub mod observe;
pub mod process;
pub mod trace;
pub mod translate;
