//! Errors of a profile file, in words.

use std::io;
use std::path::{Path, PathBuf};

/// Reasons why a profile could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no such file.
    #[error("{}: no such file; make one with `trommel record -- PROGRAM`, or name another", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// The system does not let us read.
    #[error("{}: cannot read the profile: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The file is something else.
    #[error("{}: not a profile of trommel ({found}); `trommel record` writes profiles", path.display())]
    NotAProfile {
        /// The file.
        path: PathBuf,
        /// Kind of file that was found.
        found: String,
    },
    /// Another version of the format.
    #[error("{}: a profile of format version {version}, and this trommel reads versions {} to {}; read it with the trommel that wrote it, or record again", path.display(), crate::format::OLDEST, crate::format::VERSION)]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// The file ends too early.
    #[error("{}: the profile is cut short: it ends at byte {at}, inside {what}; copy it again from its origin, or record again", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Its length.
        at: u64,
        /// The incomplete part.
        what: &'static str,
    },
    /// The content is damaged.
    #[error("{}: the profile is corrupt: {what} (at byte {at}); copy it again from its origin, or record again", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Offset at which the damage was noticed.
        at: u64,
        /// The problem.
        what: String,
    },
    /// The destination cannot be a file.
    #[error("{}: cannot write there: {what}; name another file", path.display())]
    Destination {
        /// The path as given.
        path: PathBuf,
        /// The problem with it.
        what: String,
    },
    /// The file system is full.
    #[error("{}: cannot write: {source}; free some space or name a file elsewhere ({kept})", path.display())]
    Full {
        /// The path as given.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
        /// State of an earlier file.
        kept: &'static str,
    },
    /// Any other failure to write.
    #[error("{}: cannot write: {source} ({kept})", path.display())]
    Write {
        /// The path as given.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
        /// State of an earlier file.
        kept: &'static str,
    },
}

impl StoreError {
    pub(crate) fn read(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound => Self::Missing { path },
            _ => Self::Read { path, source },
        }
    }

    pub(crate) fn write(path: &Path, source: io::Error, kept: Left) -> Self {
        let path = path.to_owned();
        let kept = match kept {
            Left::Earlier => "the earlier file is untouched",
            Left::Nothing => "nothing was written",
            Left::Part => "a part may have been written",
        };
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::Full { path, source, kept }
            }
            _ => Self::Write { path, source, kept },
        }
    }
}

/// State of a destination after a failure.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Left {
    /// The earlier file.
    Earlier,
    /// No file.
    Nothing,
    /// Whatever a device or the reader of a pipe has made of it.
    Part,
}

/// Problems with bytes, before the file that they are from is known.
#[derive(Debug)]
pub(crate) enum DecodeError {
    Read(io::Error),
    NotAProfile(String),
    Version(u32),
    Truncated { at: u64, what: &'static str },
    Corrupt { at: u64, what: String },
}

impl DecodeError {
    pub(crate) fn at(self, path: &Path) -> StoreError {
        let path = path.to_owned();
        match self {
            Self::Read(source) => StoreError::read(&path, source),
            Self::NotAProfile(found) => StoreError::NotAProfile { path, found },
            Self::Version(version) => StoreError::Version { path, version },
            Self::Truncated { at, what } => StoreError::Truncated { path, at, what },
            Self::Corrupt { at, what } => StoreError::Corrupt { path, at, what },
        }
    }
}
