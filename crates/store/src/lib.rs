//! The profile file, `trommel.data`, and the [`database`] of many.
//!
//! **Problem.** A profile holds up to millions of tuples, and is written at the end of runs that took hours.
//! It is read by people who have lost the machine it was made on. It must be small, quick, and never half there:
//! a full disk or half a copy must not mislead a reader.
//!
//! **Strategy.** A file is the magic, a version, and a sequence of *chunks* of at most 1 MiB.
//! A chunk is compressed with LZ4 and has a CRC-32 of its header, its number and its bytes.
//! Inside, numbers are varints and sorted sequences are deltas. Each process begins with a head.
//! The last chunk says how many chunks there are. A file is written under another name in the same directory,
//! and renamed when complete. The file that was there becomes `NAME.old`.
//!
//! **Invariants.**
//! * A file that reads without error is what was written: every byte is under a checksum or compared with a
//!   constant, and nothing may follow the end.
//! * Reading allocates in proportion to bytes that are there, never to numbers they claim.
//! * A write that fails leaves the earlier file as it was, and no other file.
//!
//! # Example
//! ```
//! use trommel_profile::Profile;
//!
//! let path = std::env::temp_dir().join(format!("example-{}.data", std::process::id()));
//! let profile = Profile { compressor: "exact".into(), ..Profile::default() };
//!
//! trommel_store::write(&path, &[profile.clone()])?;
//! assert_eq!(trommel_store::read(&path)?, [profile]);
//! # std::fs::remove_file(&path).ok();
//! # Ok::<(), trommel_store::StoreError>(())
//! ```
#![forbid(unsafe_code)]

mod chunk;
pub mod database;
mod decode;
mod encode;
mod error;
mod field;
mod format;
mod held;
mod items;
mod layout;
mod replace;
mod sorted;
mod varint;

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use trommel_profile::Profile;

use replace::Readers;

pub use error::StoreError;
pub use format::{MAGIC, OLDEST, VERSION};
pub use replace::{Written, check_destination};

/// The name used where none is given.
pub const DEFAULT_FILE: &str = "trommel.data";

/// Writes the profiles of a recording to `path`, at least one; a file that is there becomes `path.old`.
///
/// # Errors
/// Whatever kept the file from being written; the earlier file is then untouched.
pub fn write(path: &Path, profiles: &[Profile]) -> Result<Written, StoreError> {
    write_each(path, profiles.iter().map(Cow::Borrowed))
}

/// Writes profiles that are made one after the other, as [`write()`] does.
///
/// # Errors
/// As [`write()`].
pub fn write_each<'a>(
    path: &Path,
    profiles: impl Iterator<Item = Cow<'a, Profile>>,
) -> Result<Written, StoreError> {
    replace::replace(path, Readers::AsUsual, |file| {
        let mut out = BufWriter::with_capacity(256 << 10, file);
        encode::encode(profiles, &mut out)?;
        out.flush()
    })
}

/// Writes profiles that only the user may read, as [`write()`] does: they hold registers of other users' programs.
///
/// # Errors
/// As [`write()`].
pub fn write_private(path: &Path, profiles: &[Profile]) -> Result<Written, StoreError> {
    replace::replace(path, Readers::Owner, |file| {
        let mut out = BufWriter::with_capacity(256 << 10, file);
        encode::encode(profiles.iter().map(Cow::Borrowed), &mut out)?;
        out.flush()
    })
}

/// Writes another sort of file as [`write()`] does: whole or not at all.
///
/// # Errors
/// As [`write()`], and those of `content`.
pub fn write_file(
    path: &Path,
    content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<Written, StoreError> {
    replace::replace(path, Readers::AsUsual, |file| {
        let mut out = BufWriter::with_capacity(256 << 10, file);
        content(&mut out)?;
        out.flush()
    })
}

/// Reads the profiles at `path`, in the order in which their processes started.
///
/// # Errors
/// What is wrong with the file, where, and what to do about it.
pub fn read(path: &Path) -> Result<Vec<Profile>, StoreError> {
    let file = open(path)?;
    decode::decode(BufReader::with_capacity(256 << 10, file)).map_err(|error| error.at(path))
}

/// Opens a file to be read. What is no regular file is refused, and never waited for: a FIFO has no end until somebody writes to it.
pub(crate) fn open(path: &Path) -> Result<File, StoreError> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(path)
        .map_err(|source| StoreError::read(path, source))?;
    let metadata = file.metadata();
    let kind = metadata.map_err(|source| StoreError::read(path, source))?;
    match kind.is_file() || kind.is_dir() {
        true => Ok(file),
        false => Err(StoreError::NotAProfile {
            path: path.to_owned(),
            found: "a pipe, a socket or a device: no regular file".to_owned(),
        }),
    }
}

/// Writes `profiles` in the file format to `out`.
///
/// # Errors
/// Those of `out`.
pub fn encode(profiles: &[Profile], out: &mut impl Write) -> io::Result<()> {
    encode::encode(profiles.iter().map(Cow::Borrowed), out)
}

/// The profiles in `bytes`.
///
/// # Errors
/// As [`read`], with the path `-`.
pub fn decode(bytes: &[u8]) -> Result<Vec<Profile>, StoreError> {
    decode::decode(bytes).map_err(|error| error.at(Path::new("-")))
}
