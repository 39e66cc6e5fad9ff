//! Oracles for the engine, written against the outside contract of the `trommel` command only.
//!
//! Each oracle says what must be true of any correct engine, by means that share no code with it:
//! *same behaviour* ([`exec`], [`program`]), *same state* ([`generate`]) and *same counts*
//! ([`stepper`] and [`paths`] by `ptrace`, [`callgrind`] by valgrind). See `docs/conformance.md`.

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
