//! Launch under ptrace, and injection of the runtime into a stopped process.
//!
//! | module | what it does |
//! |---|---|
//! | [`follow`] | processes that become other programs |
//! | [`inject`] | the runtime into a stopped process |
//! | [`landing`] |  |
//! | [`launch`] | a program started, injected, and waited for |
//! | [`tracee`] | its threads, stopped |
//!
//! **I32 (who traces).** Only the rooms `ptrace` and `takeover` know ptrace, and only the thread that launches, or the keeper, uses it. Killed during an `exec`, it leaves the new program running natively.

pub mod follow;
pub mod inject;
pub mod landing;
pub mod launch;
pub mod tracee;
