//! Start-up, and the dispatcher that runs whenever control leaves the code cache.
//!
//! | module | what it does |
//! |---|---|
//! | [`dispatch`] | what happens when control leaves the cache: translate, link, look up |
//! | [`start`] | from the host's jump to the first fragment |

pub mod dispatch;
pub mod start;
