//! The host's side of the memory that it shares with targets.
//!
//! Only [`shared`] and [`family`] touch that memory. Everything that a target wrote is checked
//! there before other rooms see it.
//!
//! | module | holds |
//! |---|---|
//! | [`terms`] | what the host asks of every target of a run |
//! | [`question`] | the program of a relational query, handed to a target |
//! | [`tracing`] | how the runtime traces and optimises |
//! | [`family`] | the file of one program and of its forked children |
//! | [`shared`] | the slot of one process, read with every bound checked |
//! | [`region`] | regions of code, as the runtime finds them |
//! | [`modules`] | run-time addresses, resolved to places in modules |
//! | [`image`] | the bytes of the runtime |
//! | [`bell`] | the wait for many processes at once |
//! | `futex` | wake-ups of threads that sleep on a word of shared memory |
//! | [`pids`] | process numbers of other namespaces |
//! | `tags` | tags of code, written for a target |
//! | [`table`] | the function table of a loaded library |
//! | [`memory`] | the limit on memory for counting |
//! | [`stream`] | the event stream file of a recording |

pub mod bell;
pub mod family;
pub(crate) mod futex;
pub mod image;
pub mod memory;
pub mod modules;
pub mod pids;
pub mod question;
pub mod region;
pub mod shared;
pub mod stream;
pub mod table;
pub(crate) mod tags;
pub mod terms;
pub mod tracing;
