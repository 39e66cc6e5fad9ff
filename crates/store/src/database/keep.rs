//! Old files are merged, and the oldest dropped, so that a database does not grow beyond what it may.
//!
//! Files of one program and one host whose times are in the same minute, hour, day or month are merged into one, the shortest of these first and the
//! oldest first, until there is room again; values of an instruction beyond the [`VALUES`] most frequent are thinned then
//! ([`trommel_profile::thin`]). What is merged into months and still too much is dropped, the oldest first.
//!
//! # Why nothing is lost or counted twice when this is killed
//! The merged file is on the disk, and names what it was made of, before it has its name. From then on these do not
//! count, and whoever comes next removes them. That files are dropped is written down before they are.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::Duration;

use trommel_profile::merge::Merged;
use trommel_profile::thin::thin;

use super::Database;
use super::dropped::{Dropped, parse};
use super::header::Header;
use super::listed::Listed;
use super::name::{self, Span, TEMPORARY};
use super::read;
use super::write::whole;
use crate::error::{Left, StoreError};

/// Values of an instruction that are kept in what is merged.
const VALUES: usize = 128;
/// Files of a program on a host at most, whatever their size.
const FILES: usize = 1000;
/// Times that are merged, in milliseconds.
const SLOTS: [u64; 4] = [60_000, 3_600_000, 86_400_000, 30 * 86_400_000];
/// After this a temporary file belongs to nobody.
const STALE: Duration = Duration::from_secs(600);

/// Work that was done to keep within a size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Kept {
    /// Bytes of the host's files now.
    pub bytes: u64,
    /// Files now.
    pub files: u64,
    /// Files that were merged into others.
    pub merged: u64,
    /// Files that were dropped.
    pub dropped: u64,
}

/// A file of ours.
struct Sized {
    listed: Listed,
    bytes: u64,
}

/// Files that can be merged: of one directory.
type Slot = (PathBuf, Span);

impl Database {
    /// Merges and drops files of `host` until they take no more than `most` bytes. `now`: milliseconds since 1970; what
    /// is going on then is left alone. Does nothing while another process does it.
    ///
    /// # Errors
    /// The directory cannot be read, or a file not be written.
    pub fn keep(&self, host: &str, most: u64, now: u64) -> Result<Kept, StoreError> {
        let lock = self
            .directory()
            .join(format!("lock.{}", name::part(host.as_bytes())));
        let mut options = OpenOptions::new();
        // A FIFO in its place would be waited for.
        options.custom_flags(nix::libc::O_NONBLOCK);
        let open = options.create(true).append(true).open(&lock);
        let file = open.map_err(|source| StoreError::write(&lock, source, Left::Nothing))?;
        if file.try_lock().is_err() {
            return Ok(Kept::default());
        }
        Keeping {
            database: self,
            host,
            files: self.of_host(host)?,
            bad: BTreeSet::new(),
            kept: Kept::default(),
        }
        .run(most, now)
    }

    /// Files of a host; what does not count any more is removed.
    fn of_host(&self, host: &str) -> Result<Vec<Sized>, StoreError> {
        self.clear(host);
        let part = name::part(host.as_bytes());
        let mut files = self.list()?;
        files.retain(|file| file.name.host == part);
        let there: BTreeSet<String> = files.iter().map(|file| file.name.to_string()).collect();
        let mut replaced = BTreeSet::new();
        for file in files.iter().filter(|file| file.name.is_merged()) {
            let replaces = read::header(&file.path).map_or_else(|_| Vec::new(), |h| h.replaces);
            // Only what can be read takes the place of others.
            if replaces.iter().any(|name| there.contains(name)) && read::read(&file.path).is_ok() {
                replaced.extend(replaces);
            }
        }
        let mut left = Vec::new();
        for listed in files {
            if replaced.contains(&listed.name.to_string()) {
                let _ = fs::remove_file(&listed.path);
            } else if let Ok(metadata) = fs::metadata(&listed.path) {
                let bytes = metadata.len();
                left.push(Sized { listed, bytes });
            }
        }
        left.sort_by(|a, b| a.listed.name.cmp(&b.listed.name));
        Ok(left)
    }

    /// Removes files that were being written by who was killed.
    fn clear(&self, host: &str) {
        let part = format!(".{}.", name::part(host.as_bytes()));
        let groups = fs::read_dir(self.directory()).into_iter().flatten();
        let groups = groups
            .flatten()
            .filter_map(|group| fs::read_dir(group.path()).ok());
        for entry in groups.flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let age = entry.metadata().and_then(|m| m.modified());
            let age = age
                .ok()
                .and_then(|at| at.elapsed().ok())
                .unwrap_or_default();
            if name.starts_with(TEMPORARY) && name.contains(&part) && age > STALE {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

struct Keeping<'a> {
    database: &'a Database,
    host: &'a str,
    /// By time.
    files: Vec<Sized>,
    /// Files that cannot be read.
    bad: BTreeSet<PathBuf>,
    kept: Kept,
}

impl Keeping<'_> {
    fn run(mut self, most: u64, now: u64) -> Result<Kept, StoreError> {
        // Some more than needed, so that it need not be done each time.
        let enough = most - most / 8;
        let mut limit = most;
        while self.bytes() > limit {
            limit = enough;
            match self.slot(now, None) {
                Some(slot) => self.merge(&slot)?,
                None if self.bytes() > most => self.drop_oldest()?,
                None => break,
            }
        }
        while let Some(overflowing) = self.overflowing()
            && let Some(slot) = self.slot(now, Some(&overflowing))
        {
            self.merge(&slot)?;
        }
        self.kept.bytes = self.bytes();
        self.kept.files = self.files.len() as u64;
        Ok(self.kept)
    }

    fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// A directory with too many files.
    fn overflowing(&self) -> Option<PathBuf> {
        let mut counts = BTreeMap::new();
        for file in &self.files {
            *counts.entry(file.listed.path.parent()?).or_insert(0) += 1;
        }
        let overflowing = counts.into_iter().find(|(_, n)| *n > FILES);
        overflowing.map(|(path, _)| path.to_owned())
    }

    /// The oldest of the shortest times that has more than one file, and is over.
    fn slot(&self, now: u64, of: Option<&PathBuf>) -> Option<Slot> {
        SLOTS.into_iter().find_map(|length| {
            let mut counts: BTreeMap<(u64, PathBuf), u32> = BTreeMap::new();
            for file in &self.files {
                let Span { from, to } = file.listed.name.span;
                let slot = from / length;
                let directory = file.listed.path.parent()?;
                let wanted = of.is_none_or(|of| of == directory);
                let within = to <= (slot + 1) * length && (slot + 1) * length <= now;
                if wanted && within && !self.bad.contains(&file.listed.path) {
                    *counts.entry((slot, directory.to_owned())).or_default() += 1;
                }
            }
            let several = counts.into_iter().find(|(_, n)| *n > 1);
            several.map(|((slot, directory), _)| {
                let from = slot * length;
                (
                    directory,
                    Span {
                        from,
                        to: from + length,
                    },
                )
            })
        })
    }

    fn merge(&mut self, (directory, span): &Slot) -> Result<(), StoreError> {
        let is_in = |file: &Sized| {
            let own = file.listed.name.span;
            file.listed.path.parent() == Some(directory)
                && span.from <= own.from
                && own.to <= span.to
        };
        let mut sum: Option<(Merged, Span, Header)> = None;
        let mut replaces = Vec::new();
        let mut gone = BTreeSet::new();
        for file in self.files.iter().filter(|file| is_in(file)) {
            let path = &file.listed.path;
            let (header, profile) = match read::read(path) {
                Ok(both) => both,
                Err(_) => {
                    self.bad.insert(path.clone());
                    continue;
                }
            };
            replaces.push(file.listed.name.to_string());
            // What that takes the place of, and could not be removed.
            let there = |name: &String| directory.join(name).exists();
            replaces.extend(header.replaces.iter().filter(|name| there(name)).cloned());
            gone.insert(path.clone());
            let own = file.listed.name.span;
            match &mut sum {
                Some((merged, span, _)) => {
                    *span = span.with(&own);
                    merged.add(profile);
                }
                None => {
                    sum = Some((Merged::apart(profile), own, header));
                }
            }
        }
        let Some((merged, span, of)) = sum.filter(|_| gone.len() > 1) else {
            return Ok(());
        };
        let mut profile = merged.profile();
        thin(&mut profile, VALUES);
        let writer = self.database.writer(&of.host, &of.program, &of.build_id);
        let (listed, bytes) = writer.merged(directory, &profile, span, replaces)?;
        self.kept.merged += gone.len() as u64;
        self.files.retain(|file| !gone.contains(&file.listed.path));
        let at = self
            .files
            .partition_point(|file| file.listed.name < listed.name);
        self.files.insert(at, Sized { listed, bytes });
        for path in gone {
            let _ = fs::remove_file(path);
        }
        Ok(())
    }

    fn drop_oldest(&mut self) -> Result<(), StoreError> {
        let oldest = self.files.remove(0);
        let span = oldest.listed.name.span;
        let path = self
            .database
            .dropped_file(&name::part(self.host.as_bytes()));
        let before = parse(&path).ok().flatten();
        let mut dropped = before.unwrap_or(Dropped {
            from: span.from,
            ..Dropped::default()
        });
        dropped.files += 1;
        dropped.bytes += oldest.bytes;
        dropped.from = dropped.from.min(span.from);
        dropped.to = dropped.to.max(span.to);
        let Dropped {
            files,
            bytes,
            from,
            to,
            ..
        } = dropped;
        let text = format!("{files} {bytes} {from} {to}");
        let crc = crc32fast::hash(text.as_bytes());
        let write = |file: &mut File| writeln!(file, "{text} {crc:08x}");
        whole(&path, true, write)
            .map_err(|source| StoreError::write(&path, source, Left::Earlier))?;
        self.kept.dropped += 1;
        fs::remove_file(&oldest.listed.path)
            .map_err(|source| StoreError::write(&oldest.listed.path, source, Left::Earlier))
    }
}
