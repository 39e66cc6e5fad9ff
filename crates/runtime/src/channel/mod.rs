//! The target's side of the shared file.
//!
//! | module | what it does |
//! |---|---|
//! | [`counters`] | paths that are counted where they are executed |
//! | [`deliver`] | the dictionary and the queue |
//! | [`persist`] | fragments of earlier runs, and for later ones |
//! | [`shields`] | multi-hash profilers that generated code counts in |
//! | [`strata`] | a stratified sampler that generated code counts in |
//! | [`tags`] | tags of code, which the host gives |

pub mod counters;
pub mod deliver;
pub mod persist;
pub mod shields;
pub mod strata;
pub mod tags;
