//! Errors of a stream file.

use core::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::string::{String, ToString};

/// An error with the place it was found at.
#[derive(Debug)]
pub struct Error {
    /// The file, where it has a name.
    pub path: Option<PathBuf>,
    /// The file offset; of the decompressed bytes for a file compressed as a whole.
    pub offset: u64,
    /// The problem.
    pub problem: Problem,
}

/// Problems of streams.
#[derive(Debug)]
#[non_exhaustive]
pub enum Problem {
    /// The system's error.
    Io(io::Error),
    /// Neither contents nor name are those of a stream.
    NotAStream,
    /// A later version of the format, or one with features unknown here.
    Unsupported(String),
    /// Bytes that no writer writes.
    Corrupt(&'static str),
}

impl Error {
    pub(super) const fn new(offset: u64, problem: Problem) -> Self {
        Self {
            path: None,
            offset,
            problem,
        }
    }

    pub(super) const fn corrupt(offset: u64, what: &'static str) -> Self {
        Self::new(offset, Problem::Corrupt(what))
    }

    pub(super) fn in_file(mut self, path: &Path) -> Self {
        self.path = Some(path.to_path_buf());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match &self.path {
            Some(path) => path.display().to_string(),
            None => "stream".to_string(),
        };
        match &self.problem {
            Problem::Io(e) => write!(f, "{name}: {e}"),
            Problem::NotAStream => write!(
                f,
                "{name}: not a stream: it neither begins as a .tstream file nor is it named \
                 .raw16 or .raw16.zst"
            ),
            Problem::Unsupported(what) => {
                write!(f, "{name}: {what}; a newer trommel is needed to read it")
            }
            Problem::Corrupt(what) => {
                write!(f, "{name}: corrupt at offset {}: {what}", self.offset)
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.problem {
            Problem::Io(e) => Some(e),
            _ => None,
        }
    }
}
