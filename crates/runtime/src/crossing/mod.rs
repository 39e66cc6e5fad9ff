//! All assembly: the crossing between code cache and runtime, and system calls that a signal can call off.
//!
//! | module | what it does |
//! |---|---|
//! | [`arch`] | all assembly |
//! | [`entries`] | entry points of generated code into the runtime |
//! | [`waits`] | waits of the runtime that a signal ends before they begin |

pub mod arch;
pub mod entries;
pub mod waits;
