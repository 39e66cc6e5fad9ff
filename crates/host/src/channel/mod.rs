//! The host's side of the shared files: memory, modules, event streams, and the wait for many processes.
//!
//! | module | what it does |
//! |---|---|
//! | [`bell`] | waiting for many processes at once |
//! | [`family`] | the memory files, made |
//! | [`image`] | the runtime's bytes |
//! | [`memory`] |  |
//! | [`modules`] | run-time addresses to places |
//! | [`shared`] | one process's slot in them, read with every bound checked |
//! | [`stream`] | events into a file |
//! | [`table`] |  |
//! | [`tags`] |  |

pub mod bell;
pub mod family;
pub mod image;
pub mod memory;
pub mod modules;
pub mod shared;
pub mod stream;
pub mod table;
pub(crate) mod tags;
