//! The host's side: launch a program, put the runtime into it, serve the queue, fold what comes.
//!
//! | module | what it does |
//! |---|---|
//! | [`image`] | the runtime's bytes |
//! | [`shared`] | the memory file, made and read with every bound checked |
//! | [`inject`] | the runtime into a stopped process |
//! | [`launch`] | a program started, injected, and waited for |
//! | [`interrupt`] | what Ctrl-C means while a program runs |
//! | [`modules`] | run-time addresses to places |
//! | [`dictionary`] | what path numbers mean |
//! | [`only`] | what is observed at all |
//! | [`exact`] | values counted one by one |
//! | [`fold`] | records into a profile |
//! | [`stress`] | options for tests |
//! | [`failure`] | where the runtime failed |
//! | [`stream`] | events into a file |
//! | [`record`] | all of it, for one program |
//!
//! Architecture invariant: only [`inject`] and [`launch`] know ptrace; nothing here prints.

pub mod dictionary;
pub mod exact;
pub mod failure;
pub mod fold;
pub mod image;
pub mod inject;
pub mod interrupt;
pub mod launch;
pub mod modules;
pub mod only;
pub mod record;
pub mod shared;
pub mod stream;
pub mod stress;
