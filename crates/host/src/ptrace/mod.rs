//! Programs launched and followed under ptrace, and the runtime injected into them.
//!
//! Only this room, and [`crate::takeover`] through [`tracee`], know ptrace. [`crate::windows`] asks it for filters.
//!
//! | module | holds |
//! |---|---|
//! | [`launch`] | a program started, attached or natively |
//! | [`follow`] | processes that execute another program |
//! | [`inject`] | the runtime put into a stopped process |
//! | [`landing`] | the stub that maps memory in a program just executed |
//! | [`tracee`] | the stopped threads of a running process |
//! | [`ended`] | how a program ended |
//! | `filters` | filters of system calls, read |
//!
//! **I32 (who traces).** Only the rooms `ptrace` and `takeover` know ptrace, and only the thread that launches or serves, or the keeper, uses it. Killed during an `exec`, it leaves the new program running natively.

pub mod ended;
pub(crate) mod filters;
pub mod follow;
pub mod inject;
pub mod landing;
pub mod launch;
pub mod tracee;
