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
//! | [`Flow`] | counts of all instructions, from those that have events |
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
//!
//! **Invariants.** Bytes come from files that nobody vouches for, and a profile may be of another program than it says: nothing
//! panics, and time is bounded by the size of the function. Nothing is executed, and nothing is known of what is not in the bytes.
#![forbid(unsafe_code)]

mod acyclic;
mod body;
mod flow;
mod parameters;
mod text;
mod upkeep;
mod usage;

pub use acyclic::{Acyclic, Ending, Passed, acyclic};
pub use body::{Body, Line, falls_through};
pub use flow::{Count, Events, Flow, How};
pub use iced_x86::{FlowControl, Instruction, Mnemonic};
pub use parameters::{Parameter, REGISTERS, forwarded_by, parameters};
pub use text::Text;
pub use upkeep::{Upkeep, upkeep};
pub use usage::{Use, usage};
