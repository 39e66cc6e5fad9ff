//! Control of a process that already runs: attach, detach and reattach.
//!
//! | module | holds |
//! |---|---|
//! | [`attach`] | all threads of a process attached |
//! | [`detach`] | all threads put back into the program's own code |
//! | [`failure`] | reasons why neither could be done |
//! | [`keeper`] | a process that attaches and detaches, and outlives a killed host |
//! | [`children`] | short-lived helper processes of one thread |
//! | [`forked`] | processes forked while their parent runs natively |
//! | [`retake`] | the decision to reattach a detached program |

pub mod attach;
pub mod children;
pub mod detach;
pub mod failure;
pub mod forked;
pub mod keeper;
pub mod retake;
