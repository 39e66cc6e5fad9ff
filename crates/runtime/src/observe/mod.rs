//! Observation of the program: the questions that are asked, and what is known.
//!
//! | module | what it does |
//! |---|---|
//! | [`acyclic`] | acyclic paths, and the numbers of their prefixes |
//! | [`contexts`] | calling contexts: the tree, and the calls that a thread is in |
//! | [`converge`] | places that are not profiled for a while |
//! | [`links`] | a table of what followed in calling contexts |
//! | [`pairs`] | indirect branches that are counted |
//! | [`prefetch`] | questions about prefetches, and the prefetches that are put into code |
//! | [`query`] | relational queries |

pub mod acyclic;
pub mod contexts;
pub mod converge;
pub mod links;
pub mod pairs;
pub mod prefetch;
pub mod query;
