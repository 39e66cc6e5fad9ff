//! The words that both sides use to keep in step.
//!
//! # Problem
//! Host and target share some ninety words. A reader must see at each use who may write a word, and when.
//!
//! # Strategy
//! [`Control`] has a structure for each purpose, and one side alone writes to a structure, unless its text says more:
//!
//! | part | who writes it | when |
//! |---|---|---|
//! | [`Identity`] | host; a parent for its forked child | before the process uses the slot |
//! | [`Setup`], [`TraceSetup`] | host; a parent for its forked child | before the process uses the slot |
//! | [`Host`], [`WindowSetup`] | host | at any time |
//! | [`Process`], [`Extent`], [`EngineCounts`], [`Windows`], [`Traces`], [`Work`], [`Failure`] | target | at any time |
//! | [`Chunks`], [`Settling`] | both: see [`crate::protocol`] | at any time |
//! | [`Attached`] | both: see [`crate::thread_page`] | while a process is attached or detached |
//! | [`MapQuestion`] | both: see [`crate::protocol`] | while a process may not read its memory map |

use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::limits::LIMITS;
use crate::map::MapQuestion;
use crate::marks::ARENAS;
use crate::thread_page::Attached;
use crate::work::Work;

/// All words, at the start of a slot.
#[repr(C, align(64))]
pub struct Control {
    /// Identity of the file's layout, and of the slot.
    pub identity: Identity,
    /// Collection that the host asks for.
    pub setup: Setup,
    /// State of the host, and its verdict about the process.
    pub host: Host,
    /// State of the process.
    pub process: Process,
    /// Chunks on their way.
    pub chunks: Chunks,
    /// Requests to fold everything that is recorded.
    pub settling: Settling,
    /// Size of the dictionary.
    pub extent: Extent,
    /// Counts of what the engine did.
    pub engine: EngineCounts,
    /// Length and rate of windows.
    pub window: WindowSetup,
    /// Counts of windows.
    pub windows: Windows,
    /// Selection of traces.
    pub trace: TraceSetup,
    /// Traces.
    pub traces: Traces,
    /// Work of the engine.
    pub work: Work,
    /// State of a program that was running already.
    pub attached: Attached,
    /// Questions about the memory map.
    pub map: MapQuestion,
    /// Place of a failure of the runtime, if [`Process::detach`] reports one.
    pub failure: Failure,
}

/// Identity of a slot. The host writes it, and the parent of a forked child for that.
#[repr(C)]
pub struct Identity {
    /// [`MAGIC`](crate::MAGIC).
    pub magic: AtomicU64,
    /// [`LAYOUT_VERSION`](crate::LAYOUT_VERSION). Every layout has both words here, so that each build knows another's.
    pub version: AtomicU32,
    /// Number of this slot.
    pub slot: AtomicU32,
    /// Identifies the runtime that was built.
    pub build: AtomicU64,
}

/// Collection that the host asks for, before the process uses the slot.
#[repr(C)]
pub struct Setup {
    /// The event kinds to collect, `KindSet::bits`.
    pub kinds: AtomicU32,
    /// Contents of counter arrays, [`COUNTS_NOTHING`](crate::COUNTS_NOTHING) and so on.
    pub counters: AtomicU32,
    /// The sampler, with [`COUNTS_STRATA`](crate::COUNTS_STRATA).
    pub strata: Strata,
    /// The profiler, with [`COUNTS_INTERVALS`](crate::COUNTS_INTERVALS), as `trommel_compress::interval::Shield` has it in words.
    pub intervals: [AtomicU32; 12],
    /// Stress options for tests, see [`crate::options`].
    pub options: AtomicU64,
    /// Children and new programs are followed.
    pub follow: AtomicU32,
    /// The kernel lets programs read and write the bases of FS and GS by instructions.
    pub fsgsbase: AtomicU32,
    /// Fragments are kept for later runs, and taken from earlier ones.
    pub persist: AtomicU32,
    /// The instructions of fragments are in the dictionary, with their bytes, whatever kinds are recorded.
    pub listed: AtomicU32,
    /// A piece of the stack is recorded at the start of each window ([`STACK_MARK`](crate::STACK_MARK)).
    pub stacks: AtomicU32,
    /// Calling contexts are counted ([`crate::contexts`]), with a function on a path as often as this at most; 0: they are not.
    pub contexts: AtomicU32,
}

/// A stratified periodic sampler.
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

/// State of the host, and its verdict about the process.
#[repr(C)]
pub struct Host {
    /// The host's process, as the host sees itself.
    pub pid: AtomicU32,
    /// The host is done with this slot: a process that still records here is detached.
    pub closed: AtomicU32,
    /// The program is to be detached: translation does not pay off.
    pub lost: AtomicU32,
    /// Only one thread wrote to the memory of the process when the host attached to it.
    pub alone: AtomicU32,
}

/// State of the process, which the target writes.
#[repr(C)]
pub struct Process {
    /// [`State`].
    pub state: AtomicU32,
    /// [`Detached`], when `state` is `Native`.
    pub detach: AtomicU32,
    /// Address in the target where the program was detached.
    pub detach_pc: AtomicU64,
    /// Address of the pool in the target; 0 until the runtime has started.
    pub pool_base: AtomicU64,
    /// Exit status of the process, plus one, once the process has reported it.
    pub exit_status: AtomicU32,
    /// Threads started so far, the first one included.
    pub threads: AtomicU32,
    /// Child processes that run natively: all of them with [`Setup::follow`] 0, else those that found no slot.
    pub children: AtomicU32,
    /// Processes that run in this one's memory, and are no threads of its.
    pub spawned: AtomicU32,
    /// The process, or children that it makes, may see other process numbers than the host. The host sets it for a process
    /// that it attaches to.
    pub foreign: AtomicU32,
    /// Set when values are counted, from some time on.
    pub value_counters: AtomicU32,
    /// The shape of fragments that this process can use of an image.
    pub persist_shape: AtomicU32,
    /// The signal that begins windows has its handler.
    pub windows_ready: AtomicU32,
    /// The program's own limits, of [`LIMITS`] in turn, soft and hard. Written before it executes another program.
    pub limits: [[AtomicU64; 2]; LIMITS.len()],
    /// [`Process::limits`] are written.
    pub limits_known: AtomicU32,
}

/// State of the target's runtime, as the host sees it in [`Process::state`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum State {
    /// Not yet started.
    Fresh = 0,
    /// Running under control.
    Controlled = 1,
    /// Detached: runs natively from now on; [`Process::detach`] says why.
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
    /// The app closes off system calls that the runtime needs (seccomp).
    Seccomp = 7,
    /// The runtime itself failed.
    Internal = 8,
    /// The app turns on a shadow stack for its return addresses.
    ShadowStack = 9,
    /// The program's memory map cannot be read.
    NoMaps = 10,
    /// Another process of the program traces it.
    Traced = 15,
    /// A stress option asked for it.
    Stress = 20,
    /// The program steps through its own code with the trap flag.
    SingleStep = 21,
    /// The program has restartable sequences, which the kernel would not restart in a code cache.
    Restartable = 22,
    /// More threads at a time than [`MAX_THREADS`](crate::MAX_THREADS).
    ManyThreads = 11,
    /// Control does not make it faster.
    BailOut = 12,
    /// The program asked for it.
    Asked = 13,
    /// The runtime gets no more memory.
    NoMemory = 14,
    /// The program has its system calls dispatched by the address that they are made from.
    Dispatch = 23,
    /// A thread of another process in its memory was killed while it changed the runtime's state.
    Killed = 24,
    /// It maps or unmaps memory at addresses where the runtime's memory is.
    Place = 25,
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
            Self::Seccomp => "it refuses itself system calls that observing needs (seccomp)",
            Self::Dispatch => {
                "it has its system calls dispatched to itself (PR_SET_SYSCALL_USER_DISPATCH)"
            }
            Self::Internal => "of an internal error of trommel; please report it",
            Self::ShadowStack => "it turned on its shadow stack",
            Self::ManyThreads => "it has more threads at a time than can be observed",
            Self::Asked => "it asked for it",
            Self::NoMemory => {
                "there is no memory left for trommel: it has a limit on its address space (ulimit -v), or the machine has none"
            }
            Self::BailOut => "translation did not pay off",
            Self::Stress => "a stress option asked for it",
            Self::Killed => {
                "a process that shared its memory was killed while trommel worked for it"
            }
            Self::Place => "it wants memory at addresses where trommel's is",
            Self::Restartable => "it has restartable sequences (rseq)",
            Self::SingleStep => "it steps through its own code with the trap flag",
            Self::Traced => "another process traces it",
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
            15 => Self::Traced,
            11 => Self::ManyThreads,
            12 => Self::BailOut,
            13 => Self::Asked,
            14 => Self::NoMemory,
            20 => Self::Stress,
            21 => Self::SingleStep,
            22 => Self::Restartable,
            23 => Self::Dispatch,
            24 => Self::Killed,
            25 => Self::Place,
            _ => return None,
        })
    }
}

/// Chunks on their way from threads to the host and back.
#[repr(C)]
pub struct Chunks {
    /// Chunks published so far, by threads. On its own cache line.
    pub published: PaddedU64,
    /// Chunks the host has given back so far. On its own cache line.
    pub consumed: PaddedU64,
    /// Chunks that were ever used: numbers from here on are not.
    pub used: AtomicU32,
    /// Futex: 1 while threads of the target sleep for room.
    pub target_sleeps: AtomicU32,
    /// Times a thread found no room.
    pub waits: AtomicU64,
    /// Nanoseconds it waited.
    pub wait_nanos: AtomicU64,
}

/// A counter that shares its cache line with nothing.
#[repr(C, align(64))]
pub struct PaddedU64(pub AtomicU64);

/// Requests of the target to fold everything that is recorded.
#[repr(C)]
pub struct Settling {
    /// Requests, by the target.
    pub asked: AtomicU32,
    /// Futex: the last of these requests that the host has answered.
    pub done: AtomicU32,
}

/// Size of the dictionary, which the target writes.
#[repr(C)]
pub struct Extent {
    /// Paths in the dictionary.
    pub paths: AtomicU32,
    /// Regions recorded.
    pub regions: AtomicU32,
    /// Dictionary words used.
    pub words: AtomicU64,
}

/// Counts of what the engine did, which the target writes.
#[repr(C)]
pub struct EngineCounts {
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
}

/// Length and rate of windows, which the host changes while the program runs.
#[repr(C)]
pub struct WindowSetup {
    /// Control lasts for so many instructions at a time ([`Windows`]); 0: for good. The number never changes from or to 0.
    pub length: AtomicU32,
    /// Windows are delimited by marks ([`CAPTURE_MARK`](crate::CAPTURE_MARK)); before one, a random number of
    /// instructions below this is passed. 0: no marks, and none is passed.
    pub skip: AtomicU32,
    /// The mean number of ticks from one signal of a thread's own timer to the next, in parts of 256; 0: no timers.
    pub ticks: AtomicU32,
    /// Nanoseconds from one tick of the kernel to the next.
    pub tick: AtomicU32,
}

/// Counts of windows, which the target writes. They are stretches of [`WindowSetup::length`] instructions under control, between which a thread runs
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
    /// Threads that got no timer.
    pub refused_timers: AtomicU32,
    /// The last [`LAST_WINDOWS`] windows, in turn.
    pub last: [LastWindow; LAST_WINDOWS],
}

/// Windows that are remembered.
pub const LAST_WINDOWS: usize = 32;

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

/// Selection of traces, which the host asks for before the process uses the slot.
#[repr(C)]
pub struct TraceSetup {
    /// Times that a start is reached before a trace is made; 0: no traces.
    pub threshold: AtomicU32,
    /// Level of optimisation of traces, an [`Optimise`].
    pub optimise: AtomicU32,
    /// The program stays attached even if translation does not pay off.
    pub stay: AtomicU32,
    /// Exits are not linked: each leads to the dispatcher.
    pub unlinked: AtomicU32,
    /// Traces end at returns.
    pub no_returns: AtomicU32,
    /// Code that does the program's own work is marked ([`crate::marks`]).
    pub audit: AtomicU32,
    /// Bytes that the code cache may have; 0: as many as there is room for.
    pub cache: AtomicU64,
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

/// Traces that were made, which the target writes.
#[repr(C)]
pub struct Traces {
    /// Start addresses of arenas; 0 after the last.
    pub arenas: [AtomicU64; ARENAS],
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
