//! Launch under ptrace, and injection of the runtime into a stopped process.
//!
//! | module | what it does |
//! |---|---|
//! | [`follow`] | processes that become other programs |
//! | [`inject`] | the runtime into a stopped process |
//! | [`landing`] |  |
//! | [`launch`] | a program started, injected, and waited for |
//! | [`tracee`] | its threads, stopped |

pub mod follow;
pub mod inject;
pub mod landing;
pub mod launch;
pub mod tracee;
