//! Questions to the target: relational queries and their services, convergent profiling, prefetches, customisation modules.
//!
//! Each answer comes among the records of a thread. The folder ([`crate::fold`]) hands it to the
//! module that asked.
//!
//! | module | holds |
//! |---|---|
//! | [`answerable`] | checks whether queries can be answered |
//! | [`converge`] | convergent profiling: values that are known are sampled only from time to time |
//! | [`custom`] | customisation modules, in a process of their own |
//! | [`loads`] | queries that are loaded and removed while a session goes on |
//! | [`prefetch`] | the prefetch service: loads and stores that miss by a regular distance |
//! | [`queries`] | relational queries: their tags, their messages and their counts |
//! | [`service`] | services that are given the messages of queries |

pub mod answerable;
pub mod converge;
pub mod custom;
pub(crate) mod loads;
pub mod prefetch;
pub mod queries;
pub mod service;
