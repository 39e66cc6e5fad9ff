//! All assembly: the crossing between code cache and runtime.
//!
//! | module | what it does |
//! |---|---|
//! | [`arch`] | all assembly: crossing between cache and runtime |

pub mod arch;
