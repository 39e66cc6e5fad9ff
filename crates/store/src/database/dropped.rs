//! Records of what was dropped, one a host.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::Database;
use crate::error::StoreError;

/// Files that were dropped on a host.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Dropped {
    /// The host, as it is in names of files.
    pub host: String,
    /// Files, merged ones among them.
    pub files: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// From the first to the last of them, in milliseconds since 1970.
    pub from: u64,
    /// See `from`.
    pub to: u64,
}

const DROPPED: &str = "dropped.";
/// A record has four numbers and a checksum.
const MOST_BYTES: u64 = 1 << 10;

impl Database {
    pub(super) fn dropped_file(&self, host: &str) -> PathBuf {
        self.directory().join(format!("{DROPPED}{host}"))
    }
}

/// `None`: there is none.
pub(super) fn parse(path: &Path) -> Result<Option<Dropped>, StoreError> {
    let file = match crate::open(path) {
        Err(StoreError::Missing { .. }) => return Ok(None),
        other => other?,
    };
    let mut text = Vec::new();
    let read = file.take(MOST_BYTES).read_to_end(&mut text);
    read.map_err(|source| StoreError::read(path, source))?;
    let corrupt = || StoreError::Corrupt {
        path: path.to_owned(),
        at: 0,
        what: "it does not say what was dropped".to_owned(),
    };
    let text = String::from_utf8(text).map_err(|_| corrupt())?;
    let (numbers, crc) = text.trim_end().rsplit_once(' ').ok_or_else(corrupt)?;
    if crc != format!("{:08x}", crc32fast::hash(numbers.as_bytes())) {
        return Err(corrupt());
    }
    let mut numbers = numbers.split(' ').map(str::parse);
    let mut next = || numbers.next().and_then(Result::ok).ok_or_else(corrupt);
    Ok(Some(Dropped {
        files: next()?,
        bytes: next()?,
        from: next()?,
        to: next()?,
        host: String::new(),
    }))
}

/// Returns what has been dropped by all hosts.
pub(super) fn dropped(database: &Database, skipped: &mut Vec<StoreError>) -> Vec<Dropped> {
    let entries = fs::read_dir(database.directory()).into_iter().flatten();
    let mut all = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(host) = name.strip_prefix(DROPPED) else {
            continue;
        };
        match parse(&entry.path()) {
            Ok(Some(dropped)) => all.push(Dropped {
                host: host.to_owned(),
                ..dropped
            }),
            Ok(None) => {}
            Err(error) => skipped.push(error),
        }
    }
    all.sort_by(|a, b| a.host.cmp(&b.host));
    all
}
