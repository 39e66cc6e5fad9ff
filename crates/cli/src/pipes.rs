//! Outputs that are named pipes.
//!
//! A pipe may be named before it has a reader: `trommel record --messages PIPE -- APP & reader < PIPE`. So the command waits for
//! one, as a shell does, says so, and does it before anything starts: there any signal ends it.

use std::fs::File;
use std::io;
use std::path::Path;

use anyhow::{Context, Result};
use trommel_tuple::stream::outlet;

use crate::output;

/// A reader of a pipe, which sees no end before this is dropped.
pub(crate) struct Held {
    _reader: Option<File>,
}

/// Waits for the reader, if the output is a named pipe.
///
/// # Errors
/// The pipe cannot be opened.
pub(crate) fn wait(path: &Path) -> Result<Held> {
    let held = wait_for(path);
    held.with_context(|| format!("{}: cannot write there", path.display()))
}

/// Waits for the readers of some outputs.
///
/// # Errors
/// A pipe cannot be opened.
pub(crate) fn wait_for_all<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Result<Vec<Held>> {
    paths.into_iter().map(wait).collect()
}

/// Creates a file, or opens a pipe when it is read.
///
/// # Errors
/// Those of the system.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    let _held = wait_for(path)?;
    File::create(path)
}

fn wait_for(path: &Path) -> io::Result<Held> {
    let say = || {
        let name = path.display();
        output::complain(&format!(
            "{name}: waits for somebody to read this pipe; Ctrl-C ends the wait"
        ));
    };
    let reader = outlet::reader(path, say);
    reader.map(|_reader| Held { _reader })
}
