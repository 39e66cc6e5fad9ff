//! Vocabulary and tools that every other room uses.
//!
//! | module | what it does |
//! |---|---|
//! | [`address`] | addresses of code, and ranges of them |
//! | [`area`] | the per-thread block that GS points to |
//! | [`blocked`] | a thread's block of SIGSEGV |
//! | [`call`] | system calls, raw, and those on descriptors |
//! | [`counted`] | layout that assembly, generated code and the profiler share |
//! | [`decode`] | app instructions, reduced to what the translator asks about them |
//! | [`emit`] | writing of machine code |
//! | [`ended`] | the end of a thread, as the kernel knows it |
//! | [`guarded`] | memory that may not be there, copied without the kernel |
//! | [`heap`] | the runtime's allocator |
//! | [`hosted`] | the memory map, as the host reads it |
//! | [`ids`] | numbers of things, each a type |
//! | [`keys`] | memory protection keys |
//! | [`knock`] | the signal by which the host calls a thread into the runtime |
//! | [`lock`] | the lock of what threads use one at a time |
//! | [`own`] | list of the runtime's memory |
//! | [`phase`] | changes of the working set |
//! | [`prefix`] | keys that distinguish fragments of one address |
//! | [`processor`] | what kind of processor it is |
//! | [`recipe`] | recomputation of the app's flags where they are lost |
//! | [`signals`] | signals, as the kernel lays them out |
//! | [`start`] | arguments from the host at start |
//! | [`stress`] | stress options |
//! | [`sys`] | system calls on memory, descriptors and threads |
//! | [`syscalls`] | system calls, by the runtime's part in them |

pub mod address;
pub mod area;
pub mod blocked;
pub mod call;
pub mod counted;
pub mod decode;
pub mod emit;
pub mod ended;
pub mod guarded;
pub mod heap;
pub mod hosted;
pub mod ids;
pub mod keys;
pub mod knock;
pub mod limits;
pub mod lock;
pub mod own;
pub mod phase;
pub mod prefix;
pub mod processor;
pub mod recipe;
pub mod signals;
pub mod start;
pub mod stress;
pub mod sys;
pub mod syscalls;
