//! The target's side of the shared file: records, dictionary, counters, and messages to the host.
//!
//! | module | what it does |
//! |---|---|
//! | [`counters`] | paths that are counted where they are executed |
//! | [`deliver`] | the target's side of the queue and the dictionary |
//! | [`persist`] | fragments of earlier runs, and for later ones |
//! | [`shields`] |  |
//! | [`strata`] |  |

pub mod counters;
pub mod deliver;
pub mod persist;
pub mod shields;
pub mod strata;
