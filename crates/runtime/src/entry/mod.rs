//! The ways in: the jump of the host, and the exits of the code cache.
//!
//! | module | what it does |
//! |---|---|
//! | [`dispatch`] | why control has left the cache, and who sees to it |
//! | `plan` | what the host's words ask of the engine |
//! | [`start`] | from the host's jump to the first fragment |

pub mod dispatch;
mod plan;
pub mod start;
