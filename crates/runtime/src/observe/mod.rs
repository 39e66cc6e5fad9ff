//! What is asked about the program, and what is known of it.
//!
//! | module | what it does |
//! |---|---|
//! | [`acyclic`] | acyclic paths, and the numbers of their prefixes |
//! | [`converge`] | places that are not profiled for a while |
//! | [`pairs`] | indirect branches that are counted |
//! | [`prefetch`] | what the program is asked for prefetches, and where they are put |
//! | [`query`] | relational queries |

pub mod acyclic;
pub mod converge;
pub mod pairs;
pub mod prefetch;
pub mod query;
