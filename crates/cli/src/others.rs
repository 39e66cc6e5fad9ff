//! The profiles of all processes but the first, packed while the run goes on.
//!
//! A build has hundreds of processes, each with millions of values; together they would not fit into
//! memory as they are. Packed as in the profile's file they take a twentieth of that, and are unpacked
//! one at a time. What is more than [`IN_MEMORY`] goes to a file without a name, beside the profile's, which ends with
//! this process. Where that cannot be made or has no room it stays in memory: no profile is lost.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use trommel_profile::windows::Windows;
use trommel_profile::{Profile, Threads};

use crate::output;
use crate::report::processes::Row;

/// Bytes of packed profiles that are kept in memory.
const IN_MEMORY: usize = 64 << 20;

/// One process.
struct Packed {
    row: Row,
    told: Profile,
    started: u64,
    tuples: usize,
    bytes: Bytes,
}

/// Locations of a packed profile.
enum Bytes {
    Here(Vec<u8>),
    /// In the file, from this offset, so many.
    There(u64, usize),
}

/// Packed profiles.
pub(crate) struct Others {
    packed: Vec<Packed>,
    /// Bytes in memory, and how many that may be.
    here: usize,
    room: usize,
    /// Directories in which a file may be made.
    beside: Vec<PathBuf>,
    file: Option<File>,
    /// Bytes in the file.
    there: u64,
}

impl Default for Others {
    fn default() -> Self {
        Self {
            packed: Vec::new(),
            here: 0,
            room: IN_MEMORY,
            beside: vec![std::env::temp_dir()],
            file: None,
            there: 0,
        }
    }
}

/// A file in one of these directories that has no name any more.
fn nameless(directories: &[PathBuf]) -> io::Result<File> {
    let name = format!(".trommel-{}-processes", std::process::id());
    let mut last = io::ErrorKind::NotFound.into();
    for directory in directories {
        let path = directory.join(&name);
        let mut options = File::options();
        let made = (options.read(true).write(true).create_new(true).mode(0o600)).open(&path);
        match made.and_then(|file| fs::remove_file(&path).map(|()| file)) {
            Ok(file) => return Ok(file),
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl Others {
    /// None yet; what does not fit into memory goes to a file in the directory of `path`, or else in the one for
    /// temporary files.
    pub(crate) fn beside(path: &Path) -> Self {
        let mut others = Self::default();
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        others.beside.insert(0, directory.to_owned());
        others
    }

    /// Puts packed bytes where there is room.
    fn place(&mut self, bytes: Vec<u8>) -> Bytes {
        if self.here + bytes.len() > self.room
            && let Ok(at) = self.write(&bytes)
        {
            return Bytes::There(at, bytes.len());
        }
        self.here += bytes.len();
        Bytes::Here(bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<u64> {
        let file = match self.file.take() {
            Some(file) => file,
            None => nameless(&self.beside)?,
        };
        let at = self.there;
        self.file.insert(file).write_all_at(bytes, at)?;
        self.there += bytes.len() as u64;
        Ok(at)
    }

    fn read<'a>(&self, bytes: &'a Bytes) -> io::Result<Cow<'a, [u8]>> {
        match (bytes, &self.file) {
            (Bytes::Here(bytes), _) => Ok(Cow::Borrowed(bytes)),
            (Bytes::There(at, len), Some(file)) => {
                let mut read = vec![0; *len];
                file.read_exact_at(&mut read, *at)?;
                Ok(Cow::Owned(read))
            }
            (Bytes::There(..), None) => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Packs a profile.
    pub(crate) fn keep(&mut self, profile: Profile) {
        let mut bytes = Vec::new();
        if let Err(error) = trommel_store::encode(std::slice::from_ref(&profile), &mut bytes) {
            output::complain(&format!("a process is left out: {error}"));
            return;
        }
        bytes.shrink_to_fit();
        let bytes = self.place(bytes);
        self.packed.push(Packed {
            row: Row::new(&profile),
            told: told(&profile),
            started: profile.run.started,
            tuples: tuples(&profile),
            bytes,
        });
    }

    /// In the order in which they started.
    pub(crate) fn sort(&mut self) {
        self.packed.sort_by_key(|packed| packed.started);
    }

    /// Returns true if there is none.
    pub(crate) const fn is_empty(&self) -> bool {
        self.packed.is_empty()
    }

    /// Returns the facts about each.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.packed.iter().map(|packed| &packed.row)
    }

    /// Returns what each says of its run, without what was counted.
    pub(crate) fn told(&self) -> impl Iterator<Item = Profile> {
        self.packed.iter().map(|packed| packed.told.clone())
    }

    /// Pairs of a place and a value in all of them.
    pub(crate) fn tuples(&self) -> usize {
        self.packed.iter().map(|packed| packed.tuples).sum()
    }

    /// Unpacks one after the other.
    pub(crate) fn profiles(&self) -> impl Iterator<Item = Profile> {
        self.packed.iter().flat_map(|packed| {
            let bytes = self.read(&packed.bytes).map_err(|error| error.to_string());
            let profiles = bytes
                .and_then(|bytes| trommel_store::decode(&bytes).map_err(|error| error.to_string()));
            profiles.unwrap_or_else(|error| {
                output::complain(&format!("a process is left out: {error}"));
                Vec::new()
            })
        })
    }
}

/// Returns what a profile says of the run, without what was counted.
pub(crate) fn told(profile: &Profile) -> Profile {
    Profile {
        origin: profile.origin,
        command: profile.command.clone(),
        run: profile.run.clone(),
        threads: Threads {
            started: profile.threads.started,
            each: Vec::new(),
        },
        windows: profile.windows.as_ref().map(|windows| Windows {
            pacing: windows.pacing.clone(),
            sites: BTreeMap::new(),
            rare: None,
            pairs: BTreeMap::new(),
            arguments: BTreeMap::new(),
            callers: None,
            levels: None,
            custom: None,
            ..*windows
        }),
        ..Profile::default()
    }
}

/// Pairs of a place and a value.
pub(crate) fn tuples(profile: &Profile) -> usize {
    let kinds = profile.kinds.values();
    kinds.flat_map(|k| k.counts.values()).map(Vec::len).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use trommel_profile::Run;

    #[test]
    fn what_is_kept_comes_back_in_order() {
        let directory = std::env::temp_dir().join(format!("others-{}", std::process::id()));
        fs::create_dir(&directory).expect("a directory");
        let profile = |started| Profile {
            run: Run {
                started,
                dropped: 100,
                ..Run::default()
            },
            ..Profile::default()
        };
        let size = {
            let mut bytes = Vec::new();
            trommel_store::encode(&[profile(5)], &mut bytes).expect("memory");
            bytes.len()
        };
        // In memory, some in a file, all in a file, and where there can be none.
        let missing = PathBuf::from("/nowhere");
        for (room, beside, in_memory) in [
            (IN_MEMORY, &directory, 3),
            (size, &directory, 1),
            (0, &directory, 0),
            (0, &missing, 3),
        ] {
            let mut others = Others {
                room,
                beside: vec![beside.clone()],
                ..Others::default()
            };
            for started in [5, 2, 9] {
                others.keep(profile(started));
            }
            others.sort();
            let back: Vec<Profile> = others.profiles().collect();
            assert_eq!(back, [profile(2), profile(5), profile(9)]);
            assert_eq!(others.rows().count(), 3);
            assert_eq!(others.told().map(|p| p.run.dropped).sum::<u64>(), 300);
            let here = |p: &&Packed| matches!(p.bytes, Bytes::Here(_));
            assert_eq!(others.packed.iter().filter(here).count(), in_memory);
            assert_eq!(fs::read_dir(&directory).expect("there").count(), 0);
        }
        fs::remove_dir(&directory).expect("empty");
    }
}
