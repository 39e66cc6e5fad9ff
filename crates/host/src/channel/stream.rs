//! The event stream file of a recording.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};

use trommel_profile::Module;
use trommel_tuple::Events;
use trommel_tuple::stream::outlet::Outlet;
use trommel_tuple::stream::{self, Writer};

/// The stream file could not be written; the profile does not need it.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the event stream: {error}{remedy}", error = .0, remedy = remedy(.0))]
pub struct StreamError(pub io::Error);

/// The next step after a failure to write, where there is one that is not obvious.
pub(crate) fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            " (free some space or name a file elsewhere)"
        }
        _ => "",
    }
}

/// A stream file that can be written, with nothing in it changed yet: a program that does not start
/// must not cost an earlier stream.
pub struct Pending {
    file: Outlet,
    /// The file to remove when nothing comes of it.
    created: Option<PathBuf>,
}

impl Pending {
    /// Opens the file, or makes it.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(path: &Path) -> io::Result<Self> {
        let existing = Outlet::open(path, OpenOptions::new().write(true));
        match existing {
            Ok(file) => Ok(Self {
                file,
                created: None,
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self {
                file: Outlet::create(path)?,
                created: Some(path.to_owned()),
            }),
            Err(error) => Err(error),
        }
    }

    /// Begins the stream, in place of an earlier one.
    ///
    /// # Errors
    /// What the system says.
    pub fn begin(mut self) -> io::Result<StreamFile> {
        self.created = None;
        if self.file.file().metadata()?.is_file() {
            self.file.file().set_len(0)?;
        }
        let file = self.file.try_clone()?;
        Ok(StreamFile(Writer::new(file)?))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(path) = &self.created {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A stream file being written.
pub struct StreamFile(Writer<Outlet>);

impl StreamFile {
    /// A module, before the first event that refers to it.
    ///
    /// # Errors
    /// What the system says.
    pub fn module(&mut self, module: &Module) -> io::Result<()> {
        self.0.module(&stream::Module {
            id: module.id,
            path: module.path.clone(),
            build_id: module.build_id.clone(),
        })
    }

    /// Events in order.
    ///
    /// # Errors
    /// What the system says.
    pub fn events(&mut self, events: Events<'_>) -> io::Result<()> {
        self.0.events(events)
    }

    /// Ends the file; without this it reads as cut short.
    ///
    /// # Errors
    /// What the system says.
    pub fn finish(self) -> io::Result<()> {
        self.0.finish()?.file().sync_data().or(Ok(()))
    }
}
