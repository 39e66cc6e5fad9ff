//! The target's side of the shared file.
//!
//! | module | what it does |
//! |---|---|
//! | [`counters`] | paths that are counted where they are executed |
//! | [`deliver`] | chunks of records: taken, filled, published |
//! | [`dictionary`] | the events that exits stand for, and regions of code |
//! | [`persist`] | fragments of earlier runs, and for later ones |
//! | [`shields`] | multi-hash profilers that generated code counts in |
//! | [`slot`] | this process's part of the shared file |
//! | [`strata`] | a stratified sampler that generated code counts in |
//! | [`tags`] | tags of code, which the host gives |

pub mod counters;
pub mod deliver;
pub mod dictionary;
pub mod persist;
pub mod shields;
pub mod slot;
pub mod strata;
pub mod tags;
