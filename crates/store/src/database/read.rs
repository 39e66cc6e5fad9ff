//! Reading while others write, merge and drop.
//!
//! # Problem
//! A directory is not listed at one moment: while it is, a file may come, a merged one may take the place of others, and
//! those may go. Each epoch is to be read once.
//!
//! # Strategy
//! 1. List the files. 2. Read those that were merged; what they name is left out, if they can be read. 3. Read the others.
//! 4. List again. If a file has gone, or a merged one has come, all of that is done again.
//!
//! # Why each epoch counts once
//! Let an epoch's own file A be merged into M. A goes after M has come. If A is listed at 1 and at 4 it was there all the time
//! between. If M came before 1 had ended, and was listed, A is left out; if it was not listed then, it is at 4, unless it
//! has been merged itself, into one that is. If A was not listed at 1, it had gone before or is newer than the
//! reading; in the first case M had come before, and was listed, or is at 4. The same holds of M and what it is merged into.
//! A merged file that cannot be read leaves what it names to count, where that is there still.
//!
//! **I28 (one count per epoch).** Each epoch counts once: in its own file until a merged file that names it has its name, in the merged file from then on.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use trommel_profile::Profile;
use trommel_profile::merge::Merged;

use super::Database;
use super::dropped::{self, Dropped};
use super::header::Header;
use super::listed::Listed;
use super::name::{Name, Span};
use crate::decode;
use crate::error::{DecodeError, StoreError};

/// After so many changes while it was read nobody can read it.
const TRIES: usize = 100;

/// Selection of epochs to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EpochFilter {
    /// Epochs that meet this time; all, where there is none.
    pub time: Option<Span>,
}

/// Contents of a file.
#[derive(Clone, PartialEq, Debug)]
pub struct Epoch {
    /// The file, in the database's directory.
    pub file: PathBuf,
    /// Its time.
    pub span: Span,
    /// It was made of others: of several epochs, and perhaps of several processes.
    pub merged: bool,
    /// The machine.
    pub host: String,
    /// The path of the program.
    pub program: Vec<u8>,
    /// Its build id; empty where it has none.
    pub build_id: Vec<u8>,
    /// The profile.
    pub profile: Profile,
}

/// Result of reading a database.
#[derive(Debug, Default)]
pub struct Reading {
    /// A profile for each process, the sum of its epochs; those whose epochs were merged with others' have one for
    /// the program on that machine, of process 0.
    pub processes: Vec<Profile>,
    /// Files that were read.
    pub files: u64,
    /// From the first to the last of them.
    pub span: Option<Span>,
    /// Machines.
    pub hosts: BTreeSet<String>,
    /// Programs, with their build ids.
    pub programs: BTreeSet<(Vec<u8>, Vec<u8>)>,
    /// Files that were left out, and why.
    pub skipped: Vec<StoreError>,
    /// Files that were dropped, by machine.
    pub dropped: Vec<Dropped>,
}

/// Returns what was in a file.
fn epoch(listed: &Listed, database: &Database, header: Header, profile: Profile) -> Epoch {
    let file = listed.path.strip_prefix(database.directory());
    Epoch {
        file: file.unwrap_or(&listed.path).to_owned(),
        span: listed.name.span,
        merged: listed.name.is_merged(),
        host: header.host,
        program: header.program,
        build_id: header.build_id,
        profile,
    }
}

/// Result of [`Database::each`], and the files that were left out, with the reason.
type Each<S> = (S, Vec<StoreError>);

impl Database {
    /// Reads what is wanted.
    ///
    /// # Errors
    /// There is no such directory, it cannot be listed, or it changes faster than it can be read. Files that cannot be read are
    /// no error.
    pub fn read(&self, wanted: &EpochFilter) -> Result<Reading, StoreError> {
        let begin = || Ok(<(Sums, Reading)>::default());
        let ((sums, mut reading), skipped) =
            self.each(wanted, begin, |(sums, reading), epoch| {
                reading.add(&epoch);
                sums.add(epoch);
                Ok::<_, StoreError>(())
            })?;
        reading.skipped = skipped;
        reading.processes = sums.0.into_iter().map(of_program).collect();
        (reading.processes).sort_by_key(|profile| (profile.run.started, profile.origin.pid));
        reading.dropped = dropped::dropped(self, &mut reading.skipped);
        Ok(reading)
    }

    /// Gives each file that is wanted to `take`, with what `begin` has made: those that were merged first, both in the order of their names.
    /// Where the directory has changed meanwhile what `begin` has made is dropped, and all is done again. In the end that is returned, and for
    /// each file that was left out the reason.
    ///
    /// # Errors
    /// As [`read`](Self::read), and those of `begin` and `take`.
    pub fn each<S, E: From<StoreError>>(
        &self,
        wanted: &EpochFilter,
        mut begin: impl FnMut() -> Result<S, E>,
        mut take: impl FnMut(&mut S, Epoch) -> Result<(), E>,
    ) -> Result<Each<S>, E> {
        for _ in 0..TRIES {
            let listed = self.wanted(wanted)?;
            if let Some(done) = self.attempt(listed, wanted, begin()?, &mut take)? {
                return Ok(done);
            }
        }
        let source = std::io::Error::other("it changes all the time; try again");
        Err(StoreError::read(self.directory(), source).into())
    }

    /// All files, in no order.
    pub(super) fn list(&self) -> Result<Vec<Listed>, StoreError> {
        let error = |source| StoreError::read(self.directory(), source);
        let mut all = Vec::new();
        for group in fs::read_dir(self.directory()).map_err(error)? {
            let group = group.map_err(error)?.path();
            // What is no directory is no group; one may go.
            let Ok(entries) = fs::read_dir(&group) else {
                continue;
            };
            all.extend(entries.flatten().filter_map(|entry| {
                let name = Name::parse(&entry.file_name())?;
                let path = entry.path();
                Some(Listed { name, path })
            }));
        }
        Ok(all)
    }

    fn wanted(&self, wanted: &EpochFilter) -> Result<BTreeSet<Listed>, StoreError> {
        let meets = |file: &Listed| wanted.time.is_none_or(|time| file.name.span.meets(&time));
        Ok(self.list()?.into_iter().filter(meets).collect())
    }

    /// Takes what was listed. `None`: it has changed since that began.
    fn attempt<S, E: From<StoreError>>(
        &self,
        listed: BTreeSet<Listed>,
        wanted: &EpochFilter,
        mut state: S,
        take: &mut impl FnMut(&mut S, Epoch) -> Result<(), E>,
    ) -> Result<Option<Each<S>>, E> {
        let mut skipped = Vec::new();
        let (merged, own): (Vec<_>, Vec<_>) = listed.iter().partition(|file| file.name.is_merged());
        let mut whole = Vec::new();
        let mut replaced = BTreeSet::new();
        let mut broken = Vec::new();
        for file in merged {
            match read(&file.path) {
                Ok((header, profile)) => {
                    replaced.extend(header.replaces.iter().cloned());
                    whole.push((file, header, profile));
                }
                Err(StoreError::Missing { .. }) => return Ok(None),
                Err(error) => broken.push((file, error)),
            }
        }
        // What is replaced itself has done its work: what it names is in others as well.
        for (file, error) in broken {
            match replaced.contains(&file.file_name()) {
                true => replaced.extend(header(&file.path).map(|h| h.replaces).unwrap_or_default()),
                false => skipped.push(error),
            }
        }
        for (file, header, profile) in whole {
            if !replaced.contains(&file.file_name()) {
                take(&mut state, epoch(file, self, header, profile))?;
            }
        }
        for file in own {
            if replaced.contains(&file.file_name()) {
                continue;
            }
            match read(&file.path) {
                Ok((header, profile)) => take(&mut state, epoch(file, self, header, profile))?,
                Err(StoreError::Missing { .. }) => return Ok(None),
                Err(error) => skipped.push(error),
            }
        }
        let now = self.wanted(wanted)?;
        let has_gone = !listed.is_subset(&now);
        if has_gone || now.difference(&listed).any(|file| file.name.is_merged()) {
            return Ok(None);
        }
        Ok(Some((state, skipped)))
    }
}

impl Reading {
    fn add(&mut self, epoch: &Epoch) {
        self.files += 1;
        self.span = Some(self.span.map_or(epoch.span, |all| all.with(&epoch.span)));
        self.hosts.insert(epoch.host.clone());
        let program = (epoch.program.clone(), epoch.build_id.clone());
        self.programs.insert(program);
    }
}

/// Returns what a process came to, named by its program where commands have nothing in common.
fn of_program(((_, program, ..), merged): (Key, Merged)) -> Profile {
    let mut profile = merged.profile();
    if profile.command.is_empty() {
        profile.command.push(program);
    }
    profile
}

/// A process: its host, its program, and its number.
type Key = (String, Vec<u8>, Vec<u8>, u32);

/// Sums of processes.
#[derive(Default)]
struct Sums(BTreeMap<Key, Merged>);

impl Sums {
    fn add(&mut self, epoch: Epoch) {
        let Epoch {
            host,
            program,
            build_id,
            profile,
            ..
        } = epoch;
        let key = (host, program, build_id, profile.origin.pid);
        match self.0.get_mut(&key) {
            Some(sum) => sum.add(profile),
            None => {
                self.0.insert(key, Merged::apart(profile));
            }
        }
    }
}

/// Reads a file of a database.
///
/// # Errors
/// What is wrong with it.
pub(super) fn read(path: &Path) -> Result<(Header, Profile), StoreError> {
    let file = crate::open(path)?;
    let mut input = BufReader::with_capacity(256 << 10, file);
    let at = |error: DecodeError| error.at(path);
    let header = Header::read(&mut input).map_err(at)?;
    let mut profiles = decode::decode(input).map_err(at)?;
    match (profiles.pop(), profiles.is_empty()) {
        (Some(profile), true) => Ok((header, profile)),
        _ => Err(at(DecodeError::Corrupt {
            at: 0,
            what: "it does not hold one profile".to_owned(),
        })),
    }
}

/// Reads a file's header.
pub(super) fn header(path: &Path) -> Result<Header, StoreError> {
    let file = crate::open(path)?;
    Header::read(&mut BufReader::new(file)).map_err(|error| error.at(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests a listing that was not made at one moment, while two files were merged into one.
    #[test]
    fn a_listing_that_missed_a_merge_is_made_again() {
        let name = format!("trommel-listing-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&directory);
        let database = Database::create(&directory).expect("temp dir");
        let writer = database.writer("here", b"/bin/app", &[]);
        let write = |from| {
            let profile = Profile::default();
            let path = writer.write(&profile, Span { from, to: from + 1 });
            path.expect("written")
        };
        let all = EpochFilter::default();
        let list = || database.wanted(&all).expect("listed");
        let attempt = |listed| {
            let count = &mut |files: &mut u64, _: Epoch| {
                *files += 1;
                Ok::<_, StoreError>(())
            };
            let done = database.attempt(listed, &all, 0, count).expect("listed");
            done.map(|(files, _)| files)
        };
        write(1);
        write(2);
        let parts = list();
        assert_eq!(attempt(parts.clone()), Some(2));
        let kept = database.keep("here", 1, 3).expect("kept");
        assert_eq!(kept.dropped, 2, "the minute is not over");
        assert!(attempt(parts).is_none(), "they have gone");

        write(1);
        write(2);
        let parts = list();
        let bytes: Vec<_> = parts
            .iter()
            .map(|f| fs::read(&f.path).expect("file"))
            .collect();
        let size: u64 = bytes.iter().map(|b| b.len() as u64).sum();
        let kept = database.keep("here", size - 1, 60_000).expect("kept");
        let merged = list();
        assert_eq!((kept.merged, merged.len()), (2, 1));
        assert_eq!(attempt(merged.clone()), Some(1));
        // Neither was seen: those had gone, and that had not come.
        assert!(attempt(BTreeSet::new()).is_none());
        // Parts that are there still, and not the file that counts for them.
        for (file, bytes) in parts.iter().zip(bytes) {
            fs::write(&file.path, bytes).expect("file");
        }
        assert!(attempt(parts.clone()).is_none());
        assert_eq!(attempt(list()), Some(1));
        // An epoch that has come since is of no concern.
        write(100_000);
        assert_eq!(attempt(&parts | &merged), Some(1));
        fs::remove_dir_all(&directory).expect("clean");
    }
}
