//! The host's side: launch a program, put the runtime into it, serve the queue, fold what comes.
//!
//! | module | what it does |
//! |---|---|
//! | [`image`] | the runtime's bytes |
//! | [`shared`] | the memory file, made and read with every bound checked |
//! | [`inject`] | the runtime into a stopped process |
//! | [`launch`] | a program started, injected, and waited for |
//!
//! Architecture invariant: only [`inject`] and [`launch`] know ptrace; nothing here prints.

pub mod image;
pub mod inject;
pub mod launch;
pub mod shared;
