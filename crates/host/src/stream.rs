//! The event stream file of a recording.

use std::fs::File;
use std::io;
use std::path::Path;

use trommel_profile::Module;
use trommel_tuple::Events;
use trommel_tuple::stream::{self, Writer};

/// A stream file being written.
pub struct StreamFile(Writer<File>);

impl StreamFile {
    /// Creates the file, replacing an earlier one.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Self(Writer::new(File::create(path)?)?))
    }

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
        self.0.finish()?.sync_data().or(Ok(()))
    }
}
