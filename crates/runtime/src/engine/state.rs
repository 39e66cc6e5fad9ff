//! The state of a process under control: what its threads share, what they use one at a time, and what is of each.
//!
//! These types name each other, so they are in one file. What they do is in the other files of this room.
#![allow(unsafe_code)] // reason: the state that threads share is sent between them.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64};

use trommel_queue::work::Flush;

use crate::base::address::{AppPc, Range};
use crate::base::ids::{CounterArrayId, FragmentId};
use crate::base::lock::Lock;
use crate::base::phase::Phases;
use crate::cache::Cache;
use crate::cache::targets::Targets;
use crate::channel::deliver::{Queue, Writer};
use crate::channel::dictionary::Shared;
use crate::channel::persist::Persist;
use crate::channel::shields::Counting;
use crate::engine::asking::Asking;
use crate::engine::hints::Hints;
use crate::engine::parts::Following;
use crate::engine::parts::{Call, Presence, Sequences, Spawned, Starting, Stepping, WayOut};
use crate::engine::served::table::{Queues, Serving};
use crate::engine::signals::{Actions, Pending};
use crate::engine::window::state::Windowed;
use crate::memory::pages::Pages;
use crate::memory::region::Regions;
use crate::observe::acyclic::Walk;
use crate::observe::pairs::Pairs;
use crate::trace::Recording;
use crate::trace::balance::Balance;
use crate::translate::Translator;

/// State that the threads of the process share.
pub struct Process {
    /// State that they use one at a time.
    pub runtime: Lock<Runtime>,
    /// The queue.
    pub queue: Queue,
    /// Queues that the app serves.
    pub served: Queues,
    /// The runtime's own code.
    pub image: Range,
    /// The process that has windows.
    pub pid: AtomicU32,
    /// Every thread goes native at its next boundary.
    pub leaving: AtomicU32,
    /// Range of the areas: from, to.
    pub areas: [AtomicU64; 2],
    /// Facts about the pid namespaces of its threads, see [`crate::engine::inherit`].
    pub namespaces: AtomicU32,
    /// Areas of threads that have ended: address of the first node, see `Thread::node`.
    pub free: AtomicU64,
    /// Threads that are no longer listed and may still use memory of the runtime.
    pub busy: AtomicU64,
}

/// State that threads use one at a time, see [`crate::base::lock`].
pub struct Runtime {
    /// Makes fragments.
    pub translator: Translator,
    /// Holds them.
    pub cache: Cache,
    /// Memory that is code.
    pub regions: Regions,
    /// Pages of code that are writable.
    pub code_pages: Pages,
    /// Calls that write memory are looked at.
    pub watching: bool,
    /// A file of a process's memory was opened for writing.
    pub memory_file: bool,
    /// The status of a process was opened.
    pub status_file: bool,
    /// The dictionary.
    pub shared: Shared,
    /// The app's signal handlers.
    pub actions: Actions,
    /// Targets of indirect branches: for the first thread, then for all others.
    pub targets: Vec<Targets>,
    /// Indirect branches that are counted.
    pub pairs: Pairs,
    /// Address of the tables that all threads but the first share; 0 before there is another.
    pub shared_tables: u64,
    /// Bytes of cache at which it is flushed; 0: when there is no more room.
    pub cache_limit: u64,
    /// Bytes of the current generation at which memory of old ones is asked for again.
    pub reclaim_at: u64,
    /// The threads under control.
    pub threads: Vec<*const Thread>,
    /// The areas of all threads so far.
    pub areas: Vec<*const Thread>,
    /// Stack frames are taken to be written by their own thread alone.
    pub aggressive: bool,
    /// Others than the one thread may write this memory.
    pub overflowing: bool,
    /// The next thread to go on drops everything.
    pub evict: Option<Flush>,
    /// The next thread to go on detaches the process (a stress option).
    pub leave: bool,
    /// A thread was killed while it changed this.
    pub broken: bool,
    /// True if control pays.
    pub balance: Balance,
    /// Times at which traces were made.
    pub phases: Phases,
    /// Hints from the program.
    pub hints: Hints,
    /// Cycles of the parts that the entry into the runtime has reached so far.
    pub parts: u64,
    /// Query programs are to go, and threads may be in their probes.
    pub queries_leave: bool,
    /// Time of the last thorough look at where such threads are.
    pub queries_looked: u64,
    /// Thread pages in use.
    pub pages: u32,
    /// Threads numbered so far.
    pub numbers: u32,
    /// Control for a number of instructions at a time.
    pub windows: Windows,
    /// Records of earlier runs, and those that this run leaves.
    pub persist: Option<Persist>,
    /// Fragments that were taken from there and to which indirect branches may lead.
    pub loaded: Vec<FragmentId>,
}

// SAFETY: the threads are reached under the lock, and only what is atomic in them.
unsafe impl Send for Runtime {}

/// Links the areas of threads that have ended.
#[repr(C)]
pub struct Node {
    pub(crate) next: u64,
    pub(crate) thread: u64,
}

/// State of one thread.
pub struct Thread {
    /// State that it shares with the others.
    pub process: &'static Process,
    /// Its end of the queue.
    pub writer: Writer,
    /// Its signals.
    pub signals: Pending,
    /// Its presence in the cache.
    pub presence: Presence,
    /// True if it runs natively from the next trap on.
    pub leaving: bool,
    /// The instruction that it runs natively, if it does.
    pub stepping: Stepping,
    /// The system call that is made in its name.
    pub call: Call,
    /// Its restartable sequences.
    pub sequences: Sequences,
    /// The process that it starts.
    pub starting: Starting,
    /// The instruction here is executed by a fragment of its own: it changes code of its page.
    pub single: Option<AppPc>,
    /// Its chunk is full.
    pub full: bool,
    /// It has asked the host to detach the program, for addresses where the runtime is.
    pub wants_place: bool,
    /// The host must be asked what it calls the code that comes next.
    pub unnamed: bool,
    /// State of the queries that it is asked.
    pub asking: Option<Box<Asking>>,
    /// Its part of queues that the app serves.
    pub serving: Serving,
    /// Its counter array of counters.
    pub counter_array: Option<CounterArrayId>,
    /// Its calling contexts.
    pub following: Following,
    /// Its part of a profiler.
    pub counting: Option<Box<Counting>>,
    /// Its description, if it is a process of its own in this memory.
    pub spawned: Option<Spawned>,
    /// True if it is native when it returns from the signal handler that it is in.
    pub left: bool,
    /// Its way out of control, if it is on that.
    pub way_out: WayOut,
    /// The branch that it has just made leads to where no address is.
    pub nowhere: bool,
    /// The path that it executes, while that is recorded.
    pub recording: Option<Recording>,
    /// Its way along an acyclic path.
    pub path: Walk,
    /// Its windows.
    pub windowed: Windowed,
    /// Index of the tables of indirect targets that it uses.
    pub targets: usize,
    pub(crate) area: u64,
    pub(crate) node: Node,
}

/// The runtime's state that windows need.
#[derive(Default)]
pub struct Windows {
    /// Control is by windows.
    pub(crate) on: bool,
    /// State of the random numbers, a splitmix64 generator.
    pub(crate) random: u64,
    /// The ids of threads and their areas.
    pub(crate) areas: Vec<(u32, *const Thread)>,
    /// Areas at which those of ended threads are looked for.
    pub(crate) enough: usize,
}
