//! Control of a process that already runs: attach, detach and reattach.
//!
//! | module | holds |
//! |---|---|
//! | [`attach`] | all threads of a process attached |
//! | [`bursts`] | control that comes and goes, with the runtime kept |
//! | [`detach`] | all threads put back into the program's own code |
//! | [`failure`] | reasons why neither could be done |
//! | [`keeper`] | a process that attaches and detaches, and outlives a killed host |
//! | [`release`] | one process of a run detached, for a program that asks |
//! | [`children`] | short-lived helper processes of one thread |
//! | [`forked`] | processes forked while their parent runs natively |
//! | `limits` | the program's own limits, when the runtime is taken out |
//! | `moment` | moments at which threads may be stopped unnoticed |
//! | `restrictions` | restrictions of system calls that a thread has |
//! | `parting` | the end of control, also where another program traces the process |
//! | [`retake`] | the decision to reattach a detached program |
//! | `tracer` | other programs that trace a thread |
//! | `undo` | a start of the runtime that has failed, undone |

pub mod attach;
pub mod bursts;
pub mod children;
pub mod detach;
pub mod failure;
pub mod forked;
pub mod keeper;
mod limits;
mod moment;
mod parting;
pub mod release;
mod restrictions;
pub mod retake;
mod tracer;
mod undo;
