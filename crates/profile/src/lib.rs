//! Profiles: what the host folds messages into, and what reports are made from.
//!
//! A [`Profile`] is one run of one process, complete in itself. It names its modules, so it can be read on a machine
//! that has none of them. A recording has one for each observed process. [`merge`] adds them up.
//!
//! | module | holds |
//! |---|---|
//! | [`merge`], [`recordings`], [`thin`] | sums of profiles, of whole recordings; fewer values |
//! | [`confidence`], [`limits`] | how far estimated counts may be off |
//! | [`coverage`], [`rare`] | how much of the program a sampled profile has seen |
//! | [`sampled`], [`windows`], [`samples`] | profiles made of windows, and of samples of the whole machine |
//! | [`mod@unit`] | unit of executed code: instructions, or cycles of windows |
//! | [`callers`], [`arguments`], [`memory`], [`custom`] | what windows tell besides counts |
//! | [`call_tree`] | call paths: sampled stacks, or exact calling contexts |
//! | [`intervals`] | intervals of an interval profiler, each with its candidates |
//! | [`filter`] | places that were not profiled all the time |
//! | [`simulated`] | simulated caches and branch predictors, lines that threads share |
//! | [`queries`] | what relational queries sent and counted |
//! | [`accuracy`] | the papers' errors, and compressors judged by them |
//!
//! # Example
//! ```
//! use trommel_profile::merge::Merged;
//! use trommel_profile::{KindProfile, Module, Profile};
//! use trommel_tuple::{Kind, ModuleId, Place, Vaddr};
//!
//! /// A process in which one load loaded 7 so many times.
//! fn process(times: u64) -> Profile {
//!     let load = Place::new(ModuleId(1), Vaddr(0x401000));
//!     let values = KindProfile {
//!         seen: times,
//!         messages: times,
//!         counts: [(load, vec![(7, times)])].into(),
//!     };
//!     let module = |id, path: &str| Module { id: ModuleId(id), path: path.into(), ..Module::default() };
//!     Profile {
//!         modules: vec![module(0, "[anon]"), module(1, "/bin/app")],
//!         kinds: [(Kind::Value, values)].into(),
//!         ..Profile::default()
//!     }
//! }
//!
//! let mut all = Merged::new(process(2));
//! all.add(process(3));
//! assert_eq!(all.profile().kinds[&Kind::Value].seen, 5);
//! ```
#![forbid(unsafe_code)]

pub mod accuracy;
pub mod arguments;
pub mod call_tree;
pub mod callers;
pub mod confidence;
mod counts;
pub mod coverage;
pub mod custom;
pub mod filter;
pub mod intervals;
pub mod limits;
pub mod memory;
pub mod merge;
mod profile;
pub mod queries;
pub mod rare;
pub mod recordings;
pub mod sampled;
pub mod samples;
pub mod simulated;
pub mod thin;
pub mod unit;
pub mod windows;

pub use profile::{
    Build, Counted, KindProfile, Loaded, Module, Origin, Profile, Run, Scope, Site, Sum, Thread,
    Threads,
};
