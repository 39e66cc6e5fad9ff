//! Functions as instructions: how often each was executed, and what code does with the values that it loads.
//!
//! **Problem.** A profile has counts of branches, calls and loads. People read code. They ask how often each
//! instruction was executed, and what a loaded value is for. Both follow from the code.
//!
//! **Strategy.** Each question is a module:
//!
//! | | answers |
//! |---|---|
//! | [`Body`] | the instructions of a function, from the bytes of its file |
//! | [`Exact`] | sums of counts, beyond what a `f64` has |
//! | [`Flow`] | counts of all instructions, from those that have events |
//! | [`Blocks`] | the executed code of a whole module as straight lines, each with its count |
//! | [`loops`](fn@loops) | the loops of a function, their entries and turns |
//! | [`Mix`] | instructions, branches, loads and stores that were executed |
//! | [`Program`] | what each function of a whole program did |
//! | [`Inlined`] | what each inlined function did in the functions it is in |
//! | [`usage`](fn@usage) | what becomes of a loaded value |
//! | [`upkeep`](fn@upkeep) | whether a load only keeps the function's frame in order |
//! | [`acyclic`](fn@acyclic) | the blocks of an acyclic path |
//! | [`parameters`](fn@parameters) | the registers that a function takes arguments from |
//! | [`Text`] | instructions, written down |
//!
//! **Invariants.** Bytes come from files that nobody vouches for, and a profile may be of another program than it
//! says. So nothing panics, and time is bounded by the size of the function. Nothing is executed.
//!
//! # Example
//! ```
//! use trommel_code::Body;
//! use trommel_symbol::Code;
//!
//! // dec eax; jne back to it; ret
//! let bytes = [0xff, 0xc8, 0x75, 0xfc, 0xc3];
//! let code = Code::new(vec![(0x401000, &bytes[..])]);
//! let body = Body::new(&code, &[0x401000..0x401005], &[]);
//! assert_eq!(body.lines().len(), 3);
//! assert_eq!(body.lines()[1].at, 0x401002);
//! ```
#![forbid(unsafe_code)]

mod acyclic;
mod balance;
mod blocks;
mod body;
mod count;
mod exact;
mod exit;
mod flow;
mod inlined;
mod kernel;
mod loops;
mod mix;
mod parameters;
mod program;
mod reach;
mod returns;
mod steps;
mod text;
mod transfers;
mod upkeep;
mod usage;

pub use acyclic::{Acyclic, Ending, Passed, acyclic};
pub use balance::{ArcNumber, Balance, Price, Unsolved};
pub use blocks::{Block, Blocks, Returns};
pub use body::{Body, Line, falls_through};
pub use count::{Count, How};
pub use exact::Exact;
pub use exit::Exit;
pub use flow::{Events, Flow};
pub use iced_x86::{FlowControl, Instruction, Mnemonic};
pub use inlined::{Inlined, InlinedPart};
pub use loops::{Loop, loops};
pub use mix::Mix;
pub use parameters::{Parameter, REGISTERS, forwarded_by, parameters};
pub use program::{Function, ModuleCode, Program};
pub use returns::{WaysOut, never_returns};
pub use text::Text;
pub use transfers::{Arrival, Transfers};
pub use upkeep::{Upkeep, upkeep};
pub use usage::{Use, usage};
