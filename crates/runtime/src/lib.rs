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
//! | [`native`] | letting go |
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

pub mod acyclic;
pub mod arch;
pub mod area;
pub mod attach;
pub mod aware;
pub mod balance;
pub mod bytes;
pub mod cache;
pub mod change;
pub mod converge;
pub mod counters;
pub mod decode;
pub mod deliver;
pub mod dispatch;
pub mod emit;
pub mod exec;
pub mod failure;
pub mod heap;
pub mod kernel_writes;
pub mod knock;
pub mod lock;
pub mod native;
mod optimise;
pub mod own;
pub mod pages;
pub mod pairs;
pub mod persist;
pub mod phase;
pub mod prefetch;
pub mod query;
pub mod reclaim;
pub mod region;
pub mod served;
pub mod shields;
pub mod signal;
pub mod start;
pub mod strata;
pub mod stress;
pub mod sys;
pub mod syscall;
pub mod tags;
pub mod targets;
pub mod thread;
pub mod trace;
pub mod translate;
pub mod window;
