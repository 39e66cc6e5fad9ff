//! What the kernel reports about processes: maps, threads, perf events, births, terminal interrupts.
//!
//! | module | what it does |
//! |---|---|
//! | [`births`] |  |
//! | [`interrupt`] | what Ctrl-C means while a program runs |
//! | [`large`] |  |
//! | [`maps`] |  |
//! | [`perf`] | clocks of threads and processors |
//! | [`pids`] | process numbers in other namespaces |
//! | [`running`] | what `/proc` tells about a process that runs already |
//! | [`samplers`] |  |

pub mod births;
pub mod interrupt;
pub(crate) mod large;
pub(crate) mod maps;
pub mod perf;
pub mod pids;
pub mod running;
pub mod samplers;
