//! Ways of observing: acyclic paths, indirect branches, queries, prefetches, requests of the program.
//!
//! | module | what it does |
//! |---|---|
//! | [`acyclic`] |  |
//! | [`aware`] | requests of programs that know of us |
//! | [`converge`] |  |
//! | [`pairs`] | indirect branches that are counted |
//! | [`prefetch`] |  |
//! | [`query`] | relational queries |
//! | [`served`] | their queues that the program serves itself |

pub mod acyclic;
pub mod aware;
pub mod converge;
pub mod pairs;
pub mod prefetch;
pub mod query;
pub mod served;
