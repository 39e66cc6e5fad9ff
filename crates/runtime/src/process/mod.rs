//! The runtime's work in place of the kernel: threads, signals, system calls, exec, windows, attach and detach.
//!
//! | module | what it does |
//! |---|---|
//! | `advice` | advice about memory that changes what is in it |
//! | [`attach`] | threads of a running process, in and out |
//! | [`bursts`] | control that comes and goes, with all translated code kept |
//! | [`exec`] | programs replaced by others |
//! | [`failure`] | failures of the runtime itself |
//! | `give_back` | memory, when control has ended for good |
//! | `loan` | a thread that works for the host |
//! | [`memory`] | limits, and memory that is locked |
//! | `request` | requests to the host |
//! | [`restricts`] | system calls restricted by the program |
//! | `sequences` | areas of restartable sequences whose memory a thread takes away |
//! | [`signal`] | the app's handlers under control, at exact places |
//! | `stops` | threads that a process stops in its own memory |
//! | [`syscall`] | system calls the runtime must see |
//! | `taken` | calls about addresses where the runtime's own memory is |
//! | [`thread`] | threads and processes: start and end |
//! | [`window`] | signals that begin windows |

mod advice;
pub mod attach;
pub mod bursts;
pub mod exec;
pub mod failure;
mod give_back;
mod loan;
pub mod memory;
mod request;
pub mod restricts;
mod sequences;
pub mod signal;
mod stops;
pub mod syscall;
mod taken;
pub mod thread;
pub mod window;
