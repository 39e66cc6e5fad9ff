//! Streams of real programs: recorded on demand, kept for the next time.
//!
//! A program is recorded twice, by `trommel record --stream`: its loaded values, and its branches and
//! calls together. Recordings lie in the cache directory under the program's name and the number of
//! events asked for; one that is long enough is used again. A recording takes its name when it is
//! complete, so that one cut short is never taken for it.
//!
//! The directory is the user's alone: values may be anything that a program had in memory.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::libc;
use trommel_tuple::stream::{self, Block};
use trommel_tuple::{Events, Kind, Tuple};

use crate::programs::Program;
use crate::{Lab, LabError};

/// Events of a program that an experiment uses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Feed {
    /// Loaded values.
    Values,
    /// Branches.
    Edges,
    /// Branches and calls together, as they happen: as many as the paper has.
    Transfers,
    /// The same, four times as many.
    MoreTransfers,
}

impl Feed {
    /// The `-e` of the recording that has these events.
    pub(crate) const fn recorded(self) -> &'static str {
        match self {
            Self::Values => "value",
            Self::Edges | Self::Transfers | Self::MoreTransfers => "edge,call",
        }
    }

    const fn file(self) -> &'static str {
        match self {
            Self::Values => "value",
            Self::Edges | Self::Transfers | Self::MoreTransfers => "edge-call",
        }
    }

    const fn has(self, kind: Kind) -> bool {
        match self {
            Self::Values => matches!(kind, Kind::Value),
            Self::Edges => matches!(kind, Kind::Edge),
            Self::Transfers | Self::MoreTransfers => {
                matches!(kind, Kind::Edge | Kind::Call)
            }
        }
    }
}

/// Edges are about this share of branches and calls: as much longer is their recording.
const CALLS_BESIDE: u64 = 4;

/// Errors after which no other program can be recorded either.
const FULL: [i32; 2] = [libc::ENOSPC, libc::EDQUOT];

/// Returns true if a stream has its end.
fn is_whole(path: &Path) -> bool {
    let Ok(mut reader) = stream::open(path) else {
        return false;
    };
    let mut block = Block::default();
    while let Ok(true) = reader.next_block(&mut block) {}
    !matches!(reader.end(), Some(stream::End::CutShort { .. }))
}

/// Has interpreters that a command starts hash without a random seed: what they execute is the same in each run then.
pub(crate) fn unseeded(command: &mut Command) {
    command
        .env("PERL_HASH_SEED", "0")
        .env("PYTHONHASHSEED", "0");
}

impl Lab<'_> {
    /// The stream of a program, recorded now if need be; `None`, and said, when that cannot be.
    pub(crate) fn stream(
        &self,
        program: &Program,
        feed: Feed,
    ) -> Result<Option<PathBuf>, LabError> {
        let wanted = self.skip
            + self.events
            + match feed {
                Feed::Values => 0,
                Feed::Edges | Feed::Transfers | Feed::MoreTransfers => self.events / CALLS_BESIDE,
            };
        make_private(&self.cache)?;
        if let Some(path) = recorded(&self.cache, program.name, feed, wanted) {
            return Ok(Some(path));
        }
        let Some(trommel) = &self.trommel else {
            return Ok(None);
        };
        let ready = program
            .prepare(&self.cache.join("inputs"))
            .map_err(|e| LabError::io(&self.cache, e))?;
        let Some(ready) = ready else {
            (self.say)(&format!(
                "{} is not installed and is left out (package {})",
                program.name, program.package
            ));
            return Ok(None);
        };
        (self.progress)(&format!(
            "recording {wanted} {} events of {}",
            feed.recorded(),
            program.name
        ));
        let path = self.cache.join(file_name(program.name, feed, wanted));
        let half = self
            .cache
            .join(format!(".{}.{}.tstream", program.name, std::process::id()));
        let mut command = Command::new(trommel);
        unseeded(&mut command);
        // Its words are read here.
        command.env_remove("COLUMNS");
        if !program.is_own() {
            command.env("LC_ALL", "C").current_dir(&self.cache);
        }
        let done = command
            .args([
                "record",
                "--no-follow",
                "--quiet",
                "-e",
                feed.recorded(),
                "-c",
                "P1000000",
            ])
            .args(["--stream-limit", &wanted.to_string(), "--stream"])
            .arg(&half)
            // No profile is wanted, nor another place for one where this disk is full.
            .args(["-o", "/dev/null"])
            .arg("--")
            .args(&ready.command)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .output();
        let done = done.map_err(|e| LabError::io(trommel, e))?;
        // A program of the user's may end with any status: the command's own are above 124.
        let ended = match program.is_own() && half.exists() {
            true => done.status.code().is_some_and(|code| code < 125) && is_whole(&half),
            false => done.status.success(),
        };
        if !ended {
            let _ = fs::remove_file(&half);
            let words = String::from_utf8_lossy(&done.stderr);
            let ended = format!("it ended with {}", done.status);
            // What is said first is the cause.
            let first = words
                .lines()
                .find_map(|line| line.strip_prefix("trommel: "));
            let words = first.or(words.lines().last()).unwrap_or(&ended);
            let full = FULL.map(io::Error::from_raw_os_error).into_iter();
            let mut full = full.filter(|full| {
                let error = full.to_string();
                words.contains(error.split(" (").next().unwrap_or(&error))
            });
            if let Some(full) = full.next() {
                return Err(LabError::io(&path, full));
            }
            (self.say)(&format!(
                "{} could not be recorded and is left out: {words}",
                program.name
            ));
            return Ok(None);
        }
        fs::set_permissions(&half, fs::Permissions::from_mode(0o600))
            .and_then(|()| fs::rename(&half, &path))
            .map_err(|e| LabError::io(&path, e))?;
        self.forget_shorter(program.name, feed, wanted);
        Ok(Some(path))
    }

    /// The number of events of a feed in a recording, up to `limit`.
    pub(crate) fn length(&self, path: &Path, feed: Feed, limit: u64) -> Result<u64, LabError> {
        let mut length = 0;
        self.replay(path, feed, limit, |events| length += events.len() as u64)?;
        Ok(length)
    }

    /// Deletes the recordings that a new one makes superfluous.
    fn forget_shorter(&self, program: &str, feed: Feed, events: u64) {
        let files = fs::read_dir(&self.cache).into_iter().flatten().flatten();
        for file in files {
            let name = file.file_name();
            let length = name.to_str().and_then(|n| length_of(n, program, feed));
            if length.is_some_and(|n| n < events) {
                // Whoever reads it keeps what is open.
                let _ = fs::remove_file(file.path());
            }
        }
    }

    /// Gives each of the feed's events of a recording to `each`, in blocks, after the start of the
    /// program and up to `limit`; until `each` says no.
    pub(crate) fn replay(
        &self,
        path: &Path,
        feed: Feed,
        limit: u64,
        mut each: impl FnMut(Events<'_>),
    ) -> Result<(), LabError> {
        let mut reader = stream::open(path)?;
        let mut block = Block::default();
        let (mut tuples, mut kinds): (Vec<Tuple>, Vec<Kind>) = Default::default();
        let (mut skip, mut left) = (self.skip, limit);
        while left > 0 && reader.next_block(&mut block)? {
            tuples.clear();
            kinds.clear();
            block.events().for_each(|kind, tuple| {
                if skip > 0 {
                    skip -= 1;
                } else if feed.has(kind) {
                    tuples.push(tuple);
                    kinds.push(kind);
                }
            });
            let kept = usize::try_from(left)
                .unwrap_or(usize::MAX)
                .min(tuples.len());
            left -= kept as u64;
            // Both lanes are pushed to together.
            if let Some(events) = Events::new(&tuples[..kept], &kinds[..kept]) {
                each(events);
            }
        }
        Ok(())
    }
}

fn file_name(program: &str, feed: Feed, events: u64) -> String {
    format!("{program}-{events}.{}.tstream", feed.file())
}

/// The number of events of a program's recording, by its file name.
fn length_of(file: &str, program: &str, feed: Feed) -> Option<u64> {
    let rest = file.strip_prefix(program)?.strip_prefix('-')?;
    let rest = rest.strip_suffix(".tstream")?.strip_suffix(feed.file())?;
    rest.strip_suffix('.')?.parse().ok()
}

/// The shortest recording that is long enough.
fn recorded(cache: &Path, program: &str, feed: Feed, wanted: u64) -> Option<PathBuf> {
    let files = fs::read_dir(cache).ok()?.flatten();
    let long = files.filter_map(|f| {
        let length = length_of(f.file_name().to_str()?, program, feed)?;
        Some((length, f.path()))
    });
    long.filter(|(n, _)| *n >= wanted)
        .min()
        .map(|(_, path)| path)
}

/// Makes the directory, for its owner alone. One that is there becomes so, too.
///
/// # Errors
/// The system refuses.
pub fn make_private(dir: &Path) -> Result<(), LabError> {
    let made = fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .and_then(|()| fs::set_permissions(dir, fs::Permissions::from_mode(0o700)));
    made.map_err(|e| LabError::io(dir, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_recording_that_suffices_is_used() {
        let dir = std::env::temp_dir().join(format!("trommel-lab-cache-{}", std::process::id()));
        // Also if others could look into it.
        fs::create_dir_all(&dir).expect("temp dir");
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).expect("set");
        make_private(&dir).expect("temp dir");
        let mode = fs::metadata(&dir).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        for name in [
            "gcc-500.value.tstream",
            "gcc-90.value.tstream",
            "gcc-900.value.tstream",
            "gcc-7.edge-call.tstream",
            ".gcc.1.tstream",
        ] {
            fs::write(dir.join(name), "").expect("file");
        }
        let found = |wanted| recorded(&dir, "gcc", Feed::Values, wanted);
        assert_eq!(found(100), Some(dir.join("gcc-500.value.tstream")));
        assert_eq!(found(900), Some(dir.join("gcc-900.value.tstream")));
        assert_eq!(found(901), None);
        assert_eq!(recorded(&dir, "gcc", Feed::Edges, 8), None);
        fs::remove_dir_all(dir).expect("clean");
    }
}
