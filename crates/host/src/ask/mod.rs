//! Questions put to the target: relational queries, services, convergence, prefetches, customisation modules.
//!
//! | module | what it does |
//! |---|---|
//! | [`converge`] |  |
//! | [`custom`] | customisation modules, in a process of their own |
//! | [`prefetch`] |  |
//! | [`queries`] | relational queries: what is asked |
//! | [`service`] | what is done with messages of queries |

pub mod converge;
pub mod custom;
pub mod prefetch;
pub mod queries;
pub mod service;
