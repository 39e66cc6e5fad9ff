//! What the runtime does in the place of the kernel: threads, signals, system calls, exec, windows, attach and detach.
//!
//! | module | what it does |
//! |---|---|
//! | [`attach`] | threads of a running process in and out |
//! | [`exec`] |  |
//! | [`failure`] |  |
//! | [`native`] | detaching |
//! | [`signal`] | the app's handlers under control, at exact places |
//! | [`syscall`] | system calls the runtime must see |
//! | [`thread`] | threads: areas, start and end |
//! | [`window`] | control for N instructions at a time |

pub mod attach;
pub mod exec;
pub mod failure;
pub mod native;
pub mod signal;
pub mod syscall;
pub mod thread;
pub mod window;
