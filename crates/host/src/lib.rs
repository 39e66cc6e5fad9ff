//! The host's side: a program launched or attached, its records folded, its profile made.
//!
//! A *session* ([`serve`]) launches programs or attaches to them. It serves all their processes in one
//! thread: it takes chunks of records from shared memory ([`channel`]) and folds them into a profile
//! ([`fold`]).
//!
//! # Rooms
//! A room imports only rooms above it in this table.
//!
//! | room | holds |
//! |---|---|
//! | [`kernel`] | facts and clocks of the kernel: `/proc`, perf events, signals |
//! | [`channel`] | the memory shared with targets, and what is derived from it alone |
//! | [`ptrace`] | launch, follow, inject: whatever stops threads |
//! | [`ask`] | questions to the target: queries, prefetches, convergence, customisation modules |
//! | [`fold`] | records folded into a profile |
//! | [`windows`] | bursts of control within a budget |
//! | [`machine`] | samples of the whole machine, natively |
//! | [`takeover`] | attach, detach and reattach of running processes |
//! | [`serve`] | sessions: all processes of a run, from start to profile |
//!
//! `ask` comes before `fold`, as the folder hands each message to the module that asked for it.
//!
//! # Invariants
//! * Only [`ptrace`] and [`takeover`] know ptrace.
//! * Nothing here prints: [`serve`] returns what happened, and `cli` words it.
//!
//! **I31 (who prints).** Only `cli` prints. The runtime writes one line to stderr if it fails itself.
//!
//! # Example
//! ```
//! use trommel_host::channel::modules::{Images, Modules};
//!
//! // Run-time addresses become places: a file of those that are mapped, and an address in it.
//! fn here() {}
//! let maps = std::fs::read("/proc/self/maps")?;
//! let modules = Modules::of_maps(Images::default(), &maps);
//! let place = modules.of_address(here as fn() as usize as u64);
//! let module = &modules.list[usize::from(place.module().0)];
//! let program = std::env::current_exe()?;
//! assert_eq!(module.path, program.into_os_string().into_encoded_bytes());
//! # Ok::<(), std::io::Error>(())
//! ```

pub mod ask;
pub mod channel;
pub mod fold;
pub mod kernel;
pub mod machine;
pub mod ptrace;
pub mod serve;
pub mod takeover;
pub mod windows;
