//! Reasons why a profile cannot be written in a format.

use std::io;

/// Reasons why a profile cannot be written in a format.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The output cannot be written.
    #[error(transparent)]
    Write(#[from] io::Error),
    /// Branches or calls were not recorded.
    #[error(
        "the profile holds no {missing} events, and all else follows from branches and calls; record both: trommel record -e edge,call -- PROGRAM"
    )]
    NoControl {
        /// The kind that is missing.
        missing: &'static str,
    },
    /// There was no burst, and no window.
    #[error(
        "nothing was counted, as no burst or window began: record all of the program, without --budget"
    )]
    NothingSeen,
    /// The profile holds no call paths.
    #[error(
        "the profile holds no call paths, and {format} is made of them; record some: trommel record -e stack -- PROGRAM (samples), or -e context (exact)"
    )]
    NoPaths {
        /// The format.
        format: &'static str,
    },
    /// Exact contexts or waits, in a format of samples.
    #[error(
        "{format} holds samples one by one, and these call paths are exact counts; use folded, or record with -e stack"
    )]
    NoSamples {
        /// The format.
        format: &'static str,
    },
    /// More samples than can be written one by one.
    #[error("{format} holds samples one by one, and the profile has {samples} samples; use folded")]
    ManySamples {
        /// The format.
        format: &'static str,
        /// Samples.
        samples: u64,
    },
    /// Samples hold no events.
    #[error(
        "the profile holds samples, and no branches or calls; record these: trommel record -e edge,call -- PROGRAM"
    )]
    Samples,
    /// The file of a module cannot be used.
    #[error("{why}; its code is in the file that was recorded: put that back, or record again")]
    NoCode {
        /// The reason, which names the file.
        why: String,
    },
    /// Code in no file.
    #[error(
        "[anon] is code in no file, such as that of a JIT compiler, and {format} describes files; choose a module with --module"
    )]
    Anonymous {
        /// The format.
        format: &'static str,
    },
    /// A module without function symbols.
    #[error(
        "{module}: has no function symbols, and {format} names functions by them; use a file that is not stripped"
    )]
    Stripped {
        /// Path of the module.
        module: String,
        /// The format.
        format: &'static str,
    },
    /// A module with symbols, none of which says where a function ends.
    #[error(
        "{module}: its symbols are of no functions with a size, and {format} names functions by these; in assembly, write .type NAME, @function and .size NAME, . - NAME"
    )]
    Labels {
        /// Path of the module.
        module: String,
        /// The format.
        format: &'static str,
    },
    /// A module without debug information.
    #[error("{module}: {what}, and {format} counts source lines; {remedy}")]
    NoLines {
        /// Path of the module.
        module: String,
        /// The state of its debug information, in words.
        what: &'static str,
        /// The format.
        format: &'static str,
        /// The way to have it.
        remedy: &'static str,
    },
    /// A module that BOLT has rewritten, in a format of BOLT's that it cannot have.
    #[error("{module}: was rewritten by BOLT, which takes no such file again; {remedy}")]
    Rewritten {
        /// Path of the module.
        module: String,
        /// The way to a profile.
        remedy: &'static str,
    },
    /// A program of Go's own compiler, in a format of optimisers.
    #[error(
        "{module}: is a Go program: Go's compiler reads no {format}, and BOLT breaks such programs; use pprof"
    )]
    Go {
        /// Path of the module.
        module: String,
        /// The format.
        format: &'static str,
    },
    /// No code of the chosen modules was executed.
    #[error("{module}: no executed code is known of it")]
    NotExecuted {
        /// Path of the module.
        module: String,
    },
    /// A format of one module, and several are chosen.
    #[error("{format} describes one file, and {number} modules are chosen; name one with --module")]
    OneModule {
        /// The format.
        format: &'static str,
        /// Chosen modules.
        number: usize,
    },
}
