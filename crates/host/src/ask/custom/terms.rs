//! The terms of a library: what it captures of instructions, and why it is refused.

use trommel_query::{Operation, assemble};

use crate::channel::question::Question;
use crate::channel::table::Wrong;

/// The version of the interface.
pub(super) const VERSION: u32 = 1;

/// The symbol that a library exports.
pub(super) const SYMBOL: &str = "trommel_module";

/// Bytes of its table, in the first version.
pub(super) const TABLE: usize = 80;

/// Classes of instructions of which something can be captured: those of queries but for system calls, before which windows end.
pub const CLASSES: usize = 7;

/// Bits of a class's capture.
pub(super) const OPERANDS: u32 = 2;

pub(super) const RESULT: u32 = 4;

pub(super) const ADDRESS: u32 = 8;

pub(super) const OUTCOME: u32 = 16;

/// All of them, and the one for the instruction itself.
pub(super) const EVERYTHING: u32 = 31;

/// Terms that a library reports of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Terms {
    /// The name of its pairs.
    pub title: String,
    /// Its values are addresses of code.
    pub places: bool,
    /// Captured parts of an instruction, by class.
    pub capture: [u32; CLASSES],
}

/// The reason why a library is no module.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// No file.
    #[error("cannot read it: {0}")]
    File(String),
    /// The loader refuses it.
    #[error("it is not a library that can be loaded: {0}; build it with -shared -fPIC")]
    Library(String),
    /// Another kind of library.
    #[error(
        "it is a library, but no customisation module: it does not export the function {SYMBOL}, see \
         include/trommel_module.h"
    )]
    Symbol,
    /// No table.
    #[error("its function {SYMBOL} returned no table")]
    Table,
    /// Another version.
    #[error(
        "it is built for version {0} of the interface for customisation modules, and this trommel has version \
         {VERSION}: build it with this trommel's include/trommel_module.h"
    )]
    Version(u32),
    /// A table that is too small.
    #[error(
        "its table has {0} bytes and should have {TABLE}: set `size` to sizeof(struct trommel_module)"
    )]
    Size(u32),
    /// A missing member.
    #[error("its table has no `{0}`")]
    Null(&'static str),
    /// Values of no kind.
    #[error("its table has {0} in `values`, which is neither TROMMEL_NUMBERS nor TROMMEL_PLACES")]
    Values(u32),
    /// More is to be captured than there is.
    #[error("its table has bits in `capture[{0}]` that this trommel does not know")]
    Capture(usize),
    /// Nothing is to be captured.
    #[error("its table captures nothing: `capture` is 0 for all classes")]
    Nothing,
    /// It failed, or has brought the helper down.
    #[error("{0}")]
    Failed(String),
}

impl From<Wrong> for Refusal {
    fn from(wrong: Wrong) -> Self {
        match wrong {
            Wrong::Library(why) => Self::Library(why),
            Wrong::Symbol => Self::Symbol,
            Wrong::None => Self::Table,
            Wrong::Version(version) => Self::Version(version),
            Wrong::Size(size) => Self::Size(size),
        }
    }
}

impl Terms {
    /// The fields that a record of a class has.
    fn fields(bits: u32) -> String {
        let named = [
            (OPERANDS, " op1 op2 op3"),
            (RESULT, " res1"),
            (ADDRESS, " res2"),
            (OUTCOME, " misc"),
        ];
        let wanted = named.iter().filter(|(bit, _)| bits & bit != 0);
        std::iter::once("pc")
            .chain(wanted.map(|(_, fields)| *fields))
            .collect()
    }

    /// Returns the question that is put to the program.
    ///
    /// # Errors
    /// A defect of ours, in words: every capture has a query.
    pub(super) fn question(&self) -> Result<Question, Refusal> {
        let query = |(operation, bits): (&Operation, &u32)| {
            let (class, fields) = (operation.name(), Self::fields(*bits));
            format!("for {class} * always collect {fields}; send 0 stop;\n")
        };
        let classes = Operation::ALL.iter().zip(&self.capture);
        let text: String = classes.filter(|(_, bits)| **bits != 0).map(query).collect();
        let assembly = assemble(&text);
        let program = assembly.map_err(|e| Refusal::Failed(format!("no query: {e:?}")))?;
        Ok(Question::new(program.program, 1, false))
    }
}
