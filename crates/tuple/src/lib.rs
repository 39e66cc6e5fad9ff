//! The vocabulary that every stage of Trommel shares.
//!
//! A program produces *events*. An event of one [`Kind`] is a [`Tuple`]: the [`Place`] of the
//! instruction that caused it and a 64-bit value (a loaded value, or the place control went to).
//! Compressors turn tuples into [`Message`]s; profiles are folded from messages.
//!
//! Places name code by module and `vaddr`, the address that `objdump -d` prints, so that they mean
//! the same from run to run. A place packs into one 64-bit word: the form in which tuples are
//! hashed, streamed and compared.
//!
//! # Example
//! ```
//! use trommel_tuple::{Kind, ModuleId, Place, Tuple, Vaddr};
//!
//! // A branch at 0x401000 of module 1 went to 0x401020.
//! let at = |vaddr| Place::new(ModuleId(1), Vaddr(vaddr));
//! let taken = Tuple::new(at(0x401000), at(0x401020).word());
//!
//! assert!(Kind::Edge.value_is_place());
//! assert_eq!(Place::from_word(taken.value).vaddr(), Vaddr(0x401020));
//! ```
#![no_std]
#![forbid(unsafe_code)]

#[cfg(any(test, feature = "std"))]
extern crate std;

mod events;
mod kind;
mod outcomes;
mod place;
#[cfg(feature = "std")]
pub mod stream;

pub use events::{Events, Kinds};
pub use kind::{Kind, KindSet, RECORDED_KINDS};
pub use outcomes::{Ended, Jump, Outcomes};
pub use place::{ModuleId, Place, Vaddr};

/// One event: what happened (`value`) at which instruction (`pc`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Tuple {
    /// The instruction.
    pub pc: Place,
    /// For `edge` and `call` the packed [`Place`] executed next, for `path` [`Outcomes`]; otherwise a plain value.
    pub value: u64,
}

impl Tuple {
    /// A tuple of a place and a value.
    pub const fn new(pc: Place, value: u64) -> Self {
        Self { pc, value }
    }
}

/// A message of a compressor: a tuple and the number of events it stands for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Message {
    /// The kind of the event that caused the message. Tuples of different kinds are different.
    pub kind: Kind,
    /// The tuple.
    pub tuple: Tuple,
    /// Events counted by this message, as its compressor defines it.
    pub count: u64,
    /// Samples combined in this message: 1, unless an associative counter table combined more.
    pub samples: u32,
}
