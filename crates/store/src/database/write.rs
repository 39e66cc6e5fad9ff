//! Files that appear whole or not at all.
//!
//! Epochs are handed to the kernel and not forced to the disk: the program that is profiled may wait for it. So who
//! is killed loses nothing that was written; when the power fails, files of the last seconds may be empty, which readers
//! say. What takes the place of other files is forced to the disk before those are removed.

use std::borrow::Cow;
use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use trommel_profile::Profile;

use super::Database;
use super::header::Header;
use super::listed::Listed;
use super::name::{self, MERGED, Name, Span, TEMPORARY};
use crate::encode;
use crate::error::{Left, StoreError};

/// Numbers the files of this process.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Writes the epochs of a program on a host.
#[derive(Clone, Debug)]
pub struct EpochWriter {
    directory: PathBuf,
    host: String,
    program: Vec<u8>,
    build_id: Vec<u8>,
}

impl Database {
    /// Writes epochs of a program: its path, and its build id if it has one. `host`: what the machine calls itself.
    pub fn writer(&self, host: &str, program: &[u8], build_id: &[u8]) -> EpochWriter {
        EpochWriter {
            directory: self.directory().join(name::group(program, build_id)),
            host: host.to_owned(),
            program: program.to_vec(),
            build_id: build_id.to_vec(),
        }
    }
}

impl EpochWriter {
    /// Writes what a process came to in a time. The file's path.
    ///
    /// # Errors
    /// Whatever kept it from being written: nothing is there then.
    pub fn write(&self, profile: &Profile, span: Span) -> Result<PathBuf, StoreError> {
        let done = self.file(&self.directory, profile, span, Vec::new());
        done.map(|(listed, _)| listed.path)
    }

    /// Writes what takes the place of other files of a directory, and its size.
    pub(super) fn merged(
        &self,
        directory: &Path,
        profile: &Profile,
        span: Span,
        replaces: Vec<String>,
    ) -> Result<(Listed, u64), StoreError> {
        self.file(directory, profile, span, replaces)
    }

    fn file(
        &self,
        directory: &Path,
        profile: &Profile,
        span: Span,
        replaces: Vec<String>,
    ) -> Result<(Listed, u64), StoreError> {
        let forced = !replaces.is_empty();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let merged = if forced { MERGED } else { "" };
        let (pid, started) = (std::process::id(), profile.run.started);
        let header = Header {
            host: self.host.clone(),
            program: self.program.clone(),
            build_id: self.build_id.clone(),
            replaces,
        };
        let name = Name {
            span,
            host: name::part(self.host.as_bytes()),
            writer: format!("{merged}{pid}-{number}-{started:x}"),
        };
        let path = directory.join(name.to_string());
        let error = |source| StoreError::write(&path, source, Left::Nothing);
        fs::create_dir_all(directory).map_err(error)?;
        let bytes = whole(&path, forced, |file| {
            let mut out = BufWriter::with_capacity(256 << 10, file);
            header.write(&mut out)?;
            encode::encode(std::iter::once(Cow::Borrowed(profile)), &mut out)?;
            out.flush()
        });
        let bytes = bytes.map_err(error)?;
        Ok((Listed { name, path }, bytes))
    }
}

/// Makes a file under another name, and renames it; its size.
pub(super) fn whole(
    path: &Path,
    forced: bool,
    write: impl FnOnce(&mut File) -> std::io::Result<()>,
) -> std::io::Result<u64> {
    let mut name = std::ffi::OsString::from(format!("{TEMPORARY}.{}.", std::process::id()));
    name.push(path.file_name().unwrap_or_default());
    let temporary = path.with_file_name(name);
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(true)
        .open(&temporary)?;
    let done = write(&mut file).and_then(|()| {
        if forced {
            file.sync_all()?;
        }
        let bytes = file.metadata()?.len();
        fs::rename(&temporary, path)?;
        if forced && let Some(directory) = path.parent() {
            File::open(directory)?.sync_all()?;
        }
        Ok(bytes)
    });
    if done.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    done
}
