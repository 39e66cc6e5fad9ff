//! The machine of *Relational Profiling*, modelled cycle by cycle.
//!
//! Problem: the paper's claims are about hardware that was never built: how many profile networks and
//! buffers it takes before profiling costs nothing. Whoever wants to judge them needs that machine, driven by what programs
//! do today.
//!
//! Strategy: programs are recorded instruction by instruction ([`trace`]), and a trace-driven model ([`core`]) executes
//! them: an out-of-order core with the paper's profile hardware beside it ([`profile`]), a query engine ([`barrel`])
//! which writes messages to queues ([`queue`]) that service processors read ([`service`]). [`parameters`] has Table 5.
//!
//! ```text
//! program ─ptrace─▶ trace ─▶ core ── networks ──▶ buffers ──▶ query engine ──▶ queues ──▶ service processors
//!                             ▲                      │
//!                             └── dispatch stalls ◀──┘ when there is none
//! ```
//!
//! Each module's header says what happens in it when, and what was decided where the paper is silent.
//!
//! Invariants:
//! * What queries do is what the reference interpreter of `trommel_query` does; the model says when.
//! * Equal traces, parameters and queries give equal outcomes. The only randomness is that of sampling, seeded.
//! * A run ends: every stall is for something that older instructions or queries hold, and that ends.
//!
//! Architecture invariant: nothing here knows files, programs' names, figures or terminals; recording is the only part
//! that starts a process.
//!
//! # Example
//! ```
//! use trommel_model::machine::queries;
//!
//! // A query in the paper's language, as the modelled machine is given it.
//! let edges = queries("for opBRANCH * every 256 collect pc misc; send 1 stop;");
//! assert_eq!(edges.code().len(), 1);
//! ```

pub mod barrel;
pub mod cache;
pub mod core;
pub mod instruction;
pub mod machine;
pub mod memory;
pub mod parameters;
pub mod predictor;
pub mod profile;
pub mod queue;
pub mod service;
pub mod trace;

pub use machine::{Program, RunFigures};
pub use parameters::Parameters;
