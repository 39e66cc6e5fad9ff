//! Everything that lives inside the target.
//!
//! The host writes this crate, linked as one freestanding position-independent program, into a
//! process that has just started, and lets it run there. It runs the app's code from a code cache,
//! fragment by fragment, so that probes can be put around any instruction. It reports to the host what
//! they saw through the shared queue. `ARCHITECTURE.md` follows one event all the way.
//!
//! # Rooms
//! A room imports only rooms above it in this table.
//!
//! | room | what it holds |
//! |---|---|
//! | [`base`] | addresses, decoding, encoding, memory, locks, raw system calls |
//! | [`crossing`] | all assembly: between the code cache and the runtime |
//! | [`memory`] | what memory is code, and which of it is writable |
//! | [`channel`] | the target's side of the shared file: dictionary, records, counters |
//! | [`cache`] | fragments in memory, and the way from app addresses to them |
//! | [`observe`] | what is asked about the program, and what is known of it |
//! | [`translate`] | fragments from app code |
//! | [`trace`] | hot paths as they are recorded, and whether control pays |
//! | [`engine`] | the threads and the state that they share: fragments generated, found, dropped |
//! | [`process`] | what the runtime does in the place of the kernel: system calls, signals, threads, exec |
//! | [`entry`] | the ways in: the start, and the exits of the code cache |
//!
//! *Why `engine` comes before `process`.* A system call or a signal handler ends by leading the app on, so
//! `process` calls the engine. The engine leads on without knowing what a system call is.
//! *Why `memory` comes before `channel`.* The channel describes regions to the host.
//! *What assembly calls* comes after it. The assembly declares it ([`crossing::arch::upcalls`]), and a later room defines it.
//!
//! # Invariants
//! * No libc, no thread-local storage through FS (it is the app's), no panic machinery; the GS base
//!   is ours while a thread is controlled.
//! * The app's stack pointer is never used by the runtime, and nothing is written below it.
//! * The app's return addresses on its stack are its own.
//! * Every register is the app's at each boundary between app instructions, but for one stolen
//!   register that the fragment's description names.
//! * The runtime executes no floating-point or AVX instruction; the low halves of the vector
//!   registers are saved on every entry to compiled code.
//!
//! # Example
//! ```
//! use trommel_runtime::base::address::AppPc;
//! use trommel_runtime::base::decode::{Class, Insn, Reader};
//!
//! // A fragment begins with a walk over the app's code: `add eax, 1`, and a return.
//! let code = [0x83, 0xc0, 0x01, 0xc3];
//! let mut reader = Reader::new(&code, AppPc(0x401000));
//! let mut insn = Insn::plain();
//! let mut passed = 0;
//! loop {
//!     reader.read(&mut insn);
//!     if insn.class.is_transfer() {
//!         break;
//!     }
//!     passed += 1;
//! }
//! assert!(matches!(insn.class, Class::Ret(_)));
//! assert_eq!((passed, insn.pc()), (1, AppPc(0x401003)));
//! ```
#![no_std]

extern crate alloc;

pub mod base;
pub mod cache;
pub mod channel;
pub mod crossing;
pub mod engine;
pub mod entry;
pub mod memory;
pub mod observe;
pub mod process;
pub mod trace;
pub mod translate;
