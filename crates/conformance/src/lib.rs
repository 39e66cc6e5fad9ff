//! Oracles for the engine, written against the outside contract of the `trommel` command only.
//!
//! Each oracle says what must be true of any correct engine, by means that share no code with it:
//! *same behaviour* ([`exec`], [`program`]), *same state* ([`generate`]) and *same counts*
//! ([`stepper`] and [`paths`] by `ptrace`, [`callgrind`] by valgrind). See `docs/conformance.md`.
//!
//! # Example
//! ```
//! use std::path::Path;
//! use std::time::Duration;
//! use trommel_conformance::exec::Job;
//!
//! // Two native runs of one program are the same: what a trial asks of an observed one.
//! let limit = Duration::from_secs(10);
//! let job = Job::new(["/bin/echo", "hello"], Path::new("/"));
//! let native = job.native(limit)?;
//! assert_eq!(native.stdout, b"hello\n");
//! assert_eq!(native.compare(&job.native(limit)?), Ok(()));
//! # Ok::<(), std::io::Error>(())
//! ```

pub mod asked;
pub mod built;
pub mod callgrind;
pub mod calls;
pub mod counts;
pub mod elf;
pub mod exec;
pub mod functions;
pub mod generate;
pub mod not_tested;
pub mod paths;
pub mod program;
pub mod recorded;
pub mod settled;
pub mod signals;
pub mod stepper;
pub mod traced;
pub mod wait;
