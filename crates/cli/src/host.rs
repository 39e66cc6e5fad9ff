//! The seam to the engine: launch, inject, serve, fold.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Result;
use trommel_compress::Spec;
use trommel_profile::Profile;
use trommel_symbol::launch::Program;
use trommel_tuple::KindSet;

use crate::args::Only;
use crate::exit::Outcome;
use crate::inherited::Inherited;

/// What to record. Everything in it has been checked as far as possible without running anything.
#[derive(Clone, Debug)]
#[expect(dead_code, reason = "read by the engine")]
pub(crate) struct RecordOptions {
    /// The program that was found.
    pub(crate) program: Program,
    /// Its argument vector, the name as typed first.
    pub(crate) arguments: Vec<OsString>,
    /// What the program would have been given without us.
    pub(crate) inherited: Inherited,
    /// Events to collect.
    pub(crate) kinds: KindSet,
    /// The compressor.
    pub(crate) compressor: Spec,
    /// Where every event goes, in order.
    pub(crate) stream: Option<PathBuf>,
    /// What to observe; everything when empty.
    pub(crate) only: Vec<Only>,
}

/// A finished run.
#[derive(Clone, Debug)]
pub(crate) struct Recording {
    /// What was collected.
    pub(crate) profile: Profile,
    /// How the program ended.
    pub(crate) outcome: Outcome,
}

/// Runs the program and collects its events.
pub(crate) fn record(options: &RecordOptions) -> Result<Recording> {
    anyhow::bail!(
        "{}: cannot be observed: the engine is not linked into this build; build trommel with its \
         `host` crate",
        options.program.path.display()
    )
}
