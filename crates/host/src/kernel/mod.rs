//! Facts and clocks of the kernel: `/proc`, perf events, signals, time.
//!
//! Nothing here knows the runtime or the memory shared with it.
//!
//! | module | holds |
//! |---|---|
//! | `clocks` | the time stamp counter, and the CPU time of another process |
//! | [`perf`] | perf events: clocks of threads and processors, and their rings |
//! | [`samplers`] | samples of the program counters of a process's threads |
//! | [`knock`] | a signal to the busiest thread of a process, so that the runtime looks around |
//! | `handle` | a handle of a process: whether it has ended, and how |
//! | [`addresses`] | programs at the same addresses in each run |
//! | [`bases`] | whether programs may read and write the bases of FS and GS by instructions |
//! | [`births`] | a cheap test for new threads and processes |
//! | [`running`] | what `/proc` reports about a process, and why it cannot be attached |
//! | [`limits`] | limits of a process that count what the runtime has in it |
//! | [`compiled`] | names of the code that a process compiles while it runs |
//! | `maps` | the lines of `/proc/PID/maps` |
//! | [`inherited`] | signal actions, mask and descriptors that a started program must find |
//! | [`interrupt`] | signals to the host while a program runs |
//! | `sentinel` | a process that distinguishes signals to the group from signals to us |
//! | `proc` | files of `/proc`, read in signal handlers |
//! | [`workers`] | threads of a process that execute nothing but the kernel's code |
//! | `large` | vectors in huge pages, for tables accessed at random |

pub mod addresses;
pub mod bases;
pub mod births;
pub mod clocks;
pub mod compiled;
pub(crate) mod handle;
pub mod inherited;
pub mod interrupt;
pub mod knock;
pub(crate) mod large;
pub mod limits;
pub(crate) mod maps;
pub mod perf;
pub(crate) mod proc;
pub mod running;
pub mod samplers;
pub(crate) mod sentinel;
pub mod workers;
