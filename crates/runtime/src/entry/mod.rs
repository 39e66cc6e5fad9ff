//! The ways in: the jump of the host, and the exits of the code cache.
//!
//! | module | what it does |
//! |---|---|
//! | [`dispatch`] | why control has left the cache, and who sees to it |
//! | [`start`] | from the host's jump to the first fragment |

pub mod dispatch;
pub mod start;
