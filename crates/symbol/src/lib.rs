//! Symbols: what stands at a place.
//!
//! **Problem.** A profile names code by module and vaddr; people want functions, files and lines.
//! Symbol and debug information is large (libc: 25 000 symbols, 6 MB of DWARF), is spread over
//! several files, and comes from whoever built the program. Reading it all for a table of ten
//! lines is the classic reason for profilers being slow; trusting it is the classic reason for
//! them to crash.
//!
//! **Strategy.** [`Symbols`] opens a module at the first question about it, builds the index of its
//! symbol table then, and its index of DWARF units only when a line is asked for and the debug
//! information is not above a limit that the caller sets. Answers are cached per place and
//! strings are shared. Bytes stay in mapped files ([`Files`]).
//!
//! # Example
//! ```
//! use trommel_profile::Module;
//! use trommel_symbol::{Files, Symbols};
//! use trommel_tuple::{ModuleId, Place, Vaddr};
//!
//! // The functions of this very program.
//! let path = std::env::current_exe()?;
//! let module = Module {
//!     id: ModuleId(1),
//!     path: path.into_os_string().into_encoded_bytes(),
//!     ..Module::default()
//! };
//! let files = Files::new();
//! let mut symbols = Symbols::new(&files, &[module]);
//! let functions = symbols.functions(ModuleId(1));
//! let main = functions.iter().find(|f| f.name == b"main").expect("a program has one");
//! let place = Place::new(ModuleId(1), Vaddr(main.range.start));
//! assert_eq!(symbols.locate(place).function.as_deref(), Some("main"));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! **Invariants.**
//! * *Nothing wrong rather than something*: a module whose build id differs from the one recorded
//!   gives no names, and an address between two symbols belongs to neither.
//! * *No panic, no hang, no huge allocation* for any content of any file: sizes are checked against
//!   the bytes that are there; recursion and output are bounded.
//! * A vaddr is what `objdump -d` prints; [`elf`] converts from file offsets through `PT_LOAD`.
//!
//! [`elf`] and [`launch`] also serve the launcher: what a file is, and in words why it cannot run.

mod abbreviations;
#[cfg(test)]
mod assembled;
mod code;
pub mod compiled;
mod debug;
mod demangle;
mod described;
pub mod elf;
mod files;
mod frames;
mod kernel;
pub mod launch;
mod listing;
mod mangled;
mod meter;
mod named;
mod object_file;
mod packed;
mod plt;
mod printable;
mod readable;
mod separate;
mod sources;
mod spans;
mod symbols;
mod table;
mod unit_ranges;
pub mod unwind;
mod vdso;

pub use code::Code;
pub use demangle::demangle;
pub use files::Files;
pub use frames::{Base, Frame as CallFrame, Frames};
pub use kernel::{Core, KERNEL, Kernel, KernelFunction, Placed, image, kernel_build_id};
pub use listing::FunctionSymbol;
pub use named::is_named;
pub use printable::{in_json, is_obeyed, printable};
pub use readable::{fit, readable, readable_of_engine};
pub use separate::DebugPlaces;
pub use sources::{LineOffset, SourceFrame, Sources};
pub use spans::{Span, Spans, part_of};
pub use symbols::{Frame, Function, Location, OwnTables, SourceRow, Symbols};
pub use vdso::{build_id_of, own_vdso};
