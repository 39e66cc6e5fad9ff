//! Profiles in the formats of other tools: optimisers, profilers and coverage viewers.
//!
//! **Problem.** Each tool has a format of its own, and each asks for something else: branches, ranges, lines, call graphs. A profile
//! has events. Converters that begin at events each derive the rest again, and each differently.
//!
//! **Strategy.** [`ModuleFlow`](view::ModuleFlow) is the one derived view: straight lines, branches, calls and entries of a module, each with its
//! count. It follows from [`trommel_code::Program`] once. A format is a file that implements [`Format`], reads the view and writes to a
//! [`Write`](std::io::Write). [`FORMATS`] lists all. No format knows another one.
//!
//! | format | source | exact | derived | unknown, written as 0 |
//! |---|---|---|---|---|
//! | `callgrind` | blocks, branches, calls, contexts | self instructions, calls, jumps, inclusive instructions by contexts | inclusive ones without, by shares of calls | |
//! | `bolt`, `bolt-preagg` | branches, calls | conditional and indirect branches, calls | direct jumps, ways into labels | mispredictions |
//! | `profgen` | blocks, branches, calls | counts of ranges that end in an event | other ranges | |
//! | `autofdo`, `gcov-autofdo` | blocks, calls, lines | as `profgen` | counts of lines | |
//! | `pprof` | blocks, events, lines | self instructions, events | | callers |
//! | `cachegrind`, `lcov` | blocks, lines | | counts of lines | |
//! | `drcov` | blocks | executed blocks | | |
//! | `csv` | blocks, branches, calls | as the view | as the view | |
//!
//! Formats of call paths ([`paths`]) read the profile's tree of them, which needs no branches: `folded`, `speedscope`, `firefox`,
//! `perf-script`, and `pprof` where there are some.
//!
//! **Invariants.** No file is opened here: the caller gives a [`Symbols`](trommel_symbol::Symbols), which has the bytes. Output depends on the input alone.
//! Nothing is written before the input is checked, so that a refusal leaves no output.
//!
//! # Example
//! ```
//! use trommel_export::{FORMATS, Language, Next, find};
//! use trommel_profile::unit::Unit;
//!
//! let bolt = find("bolt").expect("a format");
//! assert!(bolt.is_for_optimisers() && FORMATS.len() > 10);
//! // The command that reads the file next.
//! let next = Next {
//!     file: "app.fdata",
//!     module: "./app",
//!     made: "app.bolt",
//!     unit: Unit::Instructions,
//!     relocations: true,
//!     rewritten: false,
//!     library: false,
//!     stripped: false,
//!     debug: None,
//!     sources_missing: false,
//!     source: None,
//!     language: Language::Other,
//! };
//! assert!(bolt.next(&next).starts_with("llvm-bolt ./app"));
//! ```
#![forbid(unsafe_code)]

mod autofdo;
mod bolt;
mod cachegrind;
mod callgrind;
mod contexts;
mod csv;
mod drcov;
mod error;
mod format;
mod formats;
mod graph;
mod infer;
mod input;
mod lcov;
mod leaders;
mod lines;
pub mod paths;
mod pprof;
mod preaggregated;
mod process;
mod profgen;
mod refused;
pub mod view;

pub use error::ExportError;
pub use format::{Format, Language, Modules, Next};
pub use formats::{FORMATS, find};
pub use infer::Inferred;
pub use input::Input;
pub use paths::{CallPaths, MOST_DEEP, Names, PATH_FORMATS, PathFormat, find_paths};
pub use process::Process;
pub use refused::why_not;
