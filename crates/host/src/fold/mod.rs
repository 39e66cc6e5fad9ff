//! Records folded into a profile.
//!
//! # Problem
//! A busy program makes hundreds of millions of events a second. One host thread keeps up with
//! them, or the program waits. The events must come out exactly as they happened, in order, through
//! any compressor.
//!
//! # Strategy
//! A [`Folder`] folds in one of three exclusive ways, its mode:
//!
//! * *Counted*: under `exact` without a stream, order does not matter. Paths are counted ([`exact`]), and
//!   expanded once at the end.
//! * *Ordered*: each record is expanded at once into tuples, in order. The tuples go in blocks through the
//!   compressor and to the stream file. A sampler in the target sends messages by itself; they are folded
//!   here too. So are acyclic paths, which are made of the events of each thread in order.
//! * *Windowed*: each window is one sample of the program.
//!
//! The expansion of a path is worked out when its number is first seen.
//!
//! | module | holds |
//! |---|---|
//! | `folder` | the folder: its mode, and what its parts share |
//! | `counting`, [`exact`], `settled` | the way *counted*: values in tables, then sorted lists |
//! | `expand`, `ordered` | the way *ordered*: records into tuples, blocks, and the compressor |
//! | [`intervals`] | intervals that end, with their candidates |
//! | `listeners`, `given` | services that are given intervals |
//! | `messages`, `message_of` | messages of the target's sampler |
//! | `walking`, `acyclic` | acyclic paths |
//! | [`simulated`] | simulated caches and predictors, and lines that threads share |
//! | `windows`, `windowed` | the way *windowed*: windows found, and counted |
//! | `bursts`, `burst` | counts of bursts of control, on the way *windowed* |
//! | [`conflicts`], [`levels`] | facts about memory from windows: conflicting accesses, cache levels |
//! | `counter_arrays` | counts that the target keeps |
//! | `contexts` | trees of calling contexts, of all threads in one |
//! | `convergent` | values watched, for convergent profiling |
//! | [`dictionary`] | the meaning of exit numbers |
//! | [`only`] | the selection of what is observed |
//! | `threads` | numbers of threads, and what each did |
//! | `finish`, `folded` | results of an epoch and of a run |
//!
//! # Invariants
//! * Counted and ordered give the same profile under `exact`.
//! * The values of a record belong to the path's dynamic events in order. A record cut off by the end of
//!   a chunk is damage, and reported.
//! * Places are resolved while the code they name is mapped. Before the target changes a mapping, it asks
//!   for all counts that hold run-time addresses to be settled ([`Folder::asked`]). Counts that were not
//!   settled when a region takes the place of another belong to the new region: a transfer is recorded
//!   before the runtime looks at its destination, and may be folded before the region is reported.

mod acyclic;
mod burst;
mod bursts;
pub mod conflicts;
mod contexts;
mod convergent;
mod counter_arrays;
mod counting;
pub mod dictionary;
pub mod exact;
mod expand;
mod finish;
mod folded;
mod folder;
mod given;
pub mod intervals;
pub mod levels;
mod listeners;
mod message_of;
mod messages;
pub mod only;
mod ordered;
mod settled;
pub mod simulated;
mod threads;
mod walking;
mod windowed;
mod windows;

pub use folded::{Epoch, Folded};
pub use folder::{Folder, is_exact};
