//! Profiles: what the host folds messages into, and what reports are made from.
//!
//! A [`Profile`] is one run of one process, complete in itself: it names its modules, so it can be
//! read on a machine that has none of them. A recording has one for each process that was observed;
//! [`merge`] adds them up.
#![forbid(unsafe_code)]

pub mod accuracy;
pub mod arguments;
pub mod callers;
pub mod confidence;
mod counts;
pub mod custom;
pub mod filter;
pub mod limits;
pub mod memory;
pub mod merge;
mod profile;
pub mod queries;
pub mod sampled;
pub mod samples;
pub mod thin;
pub mod windows;

pub use profile::{
    Counted, KindProfile, Loaded, Module, Origin, Profile, Run, Site, Thread, Threads,
};
