//! The profile database: a directory that profiles of many processes, times and machines go to.
//!
//! # Problem
//! Programs are profiled for days, on several machines, by commands that may be killed at any moment. What they have
//! flushed must never be lost or half there, must not grow without bounds, and can be read by anybody at any time, also
//! while files are being merged. Directories are copied, into each other too.
//!
//! # Strategy
//! ```text
//! DIR/PROGRAM-BUILDID/FROM-TO.HOST.WRITER.epoch     one process in one epoch, or what many such came to
//! DIR/dropped.HOST                                  what had to go
//! DIR/lock.HOST                                     held by the one that merges
//! ```
//! A file is written under a name that nobody reads, and renamed ([`write`](mod@write)); no file is changed afterwards. Old files of a
//! program and a host are merged into one, which names those that it was made of ([`keep`]): from when it has its name
//! they do not count any more, wherever they may be, and they are removed later.
//! A reader ([`read`]) opens what it finds, leaves out what other files name, and looks again: if a file has gone, or a merged one has come, it starts anew.
//!
//! # Invariants
//! * Each epoch counts once: in its own file until the merged one has its name, in that from then on.
//! * Only files of one's own host are merged and dropped, by one process at a time (a lock of the kernel's, which a
//!   killed process does not keep).
//! * What a file holds is under checksums. One that is damaged is left out and named, and nothing else is.
//! * The sum of all files does not depend on the order in which they are read or were merged
//!   ([`trommel_profile::merge`]), but for values that were thinned.
//!
//! **I27 (whole files).** A file of a database is whole and never changes.

mod dropped;
mod header;
mod keep;
mod listed;
mod name;
mod read;
mod write;

pub use dropped::Dropped;
pub use keep::Kept;
pub use name::Span;
pub use read::{Epoch, EpochFilter, Reading};
pub use write::EpochWriter;

use std::path::{Path, PathBuf};

/// A database.
#[derive(Clone, Debug)]
pub struct Database {
    directory: PathBuf,
}

impl Database {
    /// The one in a directory, which is made if it is not there.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create(directory: &Path) -> std::io::Result<Self> {
        std::fs::create_dir_all(directory)?;
        Ok(Self::at(directory))
    }

    /// The one in a directory.
    pub fn at(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
        }
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}
