//! Vocabulary and tools that every other room uses.
//!
//! | module | what it does |
//! |---|---|
//! | [`address`] | addresses of code, and ranges of them |
//! | [`area`] | the per-thread block that GS points to |
//! | [`bytes`] | numbers read from bytes |
//! | [`counted`] | what assembly, generated code and the profiler agree on |
//! | [`decode`] | app instructions, reduced to what the translator asks about them |
//! | [`emit`] | machine code, written |
//! | [`heap`] | the runtime's allocator |
//! | [`knock`] | the signal by which the host calls a thread into the runtime |
//! | [`lock`] | what threads use one at a time |
//! | [`own`] | the runtime's memory, listed |
//! | [`phase`] | when the working set changes |
//! | [`prefix`] | what tells fragments of one address apart |
//! | [`recipe`] | how the app's flags are made where they are lost |
//! | [`signals`] | signals as the kernel has them |
//! | [`start`] | what the host tells the runtime at start |
//! | [`stress`] | stress options |
//! | [`sys`] | raw system calls |
//! | [`syscalls`] | system calls by what the runtime has to do with them |

pub mod address;
pub mod area;
pub mod bytes;
pub mod counted;
pub mod decode;
pub mod emit;
pub mod heap;
pub mod knock;
pub mod lock;
pub mod own;
pub mod phase;
pub mod prefix;
pub mod recipe;
pub mod signals;
pub mod start;
pub mod stress;
pub mod sys;
pub mod syscalls;
