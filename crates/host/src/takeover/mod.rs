//! Control of a process that already runs: attach, detach, and the keeper process that does both.
//!
//! | module | what it does |
//! |---|---|
//! | [`attach`] | the runtime into it |
//! | [`children`] |  |
//! | [`detach`] | the runtime out of it |
//! | [`keeper`] | the process that does that, whatever happens to this one |
//! | [`knock`] |  |
//! | [`forked`] | processes that are forked between windows |
//! | [`retake`] |  |

pub mod attach;
pub mod children;
pub mod detach;
pub mod forked;
pub mod keeper;
pub mod knock;
pub mod retake;
