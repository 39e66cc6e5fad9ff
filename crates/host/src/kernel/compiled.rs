//! Names of the code that a process compiles while it runs.
//!
//! # Problem
//! JIT-compiled code is in no file. Engines tell its names in files for `perf`: `/tmp/perf-PID.map`, and `jit-PID.dump`, which they map to be
//! executed. The process may be in other namespaces, with another `/tmp` and another number, and these are gone when it has ended.
//!
//! # Strategy
//! While the process lives, its files are looked for through `/proc/PID/root`, and kept open. They are read when it has ended, as far as
//! addresses were met. A map that is written at the end is looked for then, where a process of our own namespaces has it.
//!
//! # Invariants
//! * A file is opened only if it is regular, is the process's user's, and no link, or is of the inode that was mapped.
//! * No more than [`MOST`] bytes of it are read.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::Read as _;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use trommel_profile::samples::Function;
use trommel_symbol::compiled::{self, Compiled as Functions};

use super::maps::{Mapping, mappings};

/// Bytes that are read of a file.
const MOST: u64 = 256 << 20;
/// From one look for files to the next: at first, and later.
const OFTEN: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// The files of a process.
#[derive(Debug)]
pub struct Compiled {
    pid: u32,
    /// Owner of the process.
    uid: u32,
    began: SystemTime,
    map: Option<File>,
    dump: Option<File>,
    next: Instant,
    pause: Duration,
}

impl Compiled {
    /// Those of a process, once they are looked for.
    pub fn of(pid: u32) -> Self {
        let owner = fs::metadata(format!("/proc/{pid}"));
        Self {
            pid,
            uid: owner.map_or(u32::MAX, |owner| owner.uid()),
            began: SystemTime::now(),
            map: None,
            dump: None,
            next: Instant::now(),
            pause: OFTEN.0,
        }
    }

    /// Looks for files that are not open yet, unless that was just done.
    pub fn look(&mut self) {
        let now = Instant::now();
        if self.pid == 0 || now < self.next || self.map.is_some() && self.dump.is_some() {
            return;
        }
        self.next = now + self.pause;
        self.pause = (self.pause * 2).min(OFTEN.1);
        let root = PathBuf::from(format!("/proc/{}/root", self.pid));
        if self.map.is_none() {
            let status = fs::read_to_string(format!("/proc/{}/status", self.pid));
            let number = status.ok().and_then(|status| innermost(&status));
            let map = number.map(|number| root.join(format!("tmp/perf-{number}.map")));
            self.map = map.and_then(|path| self.regular(&path, None));
        }
        if self.dump.is_none() {
            let maps = fs::read(format!("/proc/{}/maps", self.pid)).unwrap_or_default();
            let found = dump_in(&maps);
            self.dump = found.and_then(|(path, inode)| self.regular(&root.join(path), Some(inode)));
        }
    }

    /// The functions that these addresses are in.
    pub fn functions(mut self, met: &BTreeSet<u64>) -> Vec<Function> {
        if met.is_empty() {
            return Vec::new();
        }
        self.look();
        if self.map.is_none() {
            self.map = self.late();
        }
        let map = self.map.map(read).unwrap_or_default();
        let dump = self.dump.map(read).unwrap_or_default();
        let (map, dump) = (compiled::perf_map(&map), compiled::jitdump(&dump));
        chosen(&map, &dump, met)
    }

    /// A map that was written when the process ended.
    fn late(&self) -> Option<File> {
        let path = PathBuf::from(format!("/tmp/perf-{}.map", self.pid));
        let file = self.regular(&path, None)?;
        let written = file.metadata().and_then(|metadata| metadata.modified());
        // An older one is that of a process that had the number before.
        written.is_ok_and(|at| at >= self.began).then_some(file)
    }

    /// Opening a device or pipe may do something, or wait: what it is is looked at first.
    fn regular(&self, path: &Path, inode: Option<u64>) -> Option<File> {
        let mut look = OpenOptions::new();
        look.read(true)
            .custom_flags(libc::O_PATH | libc::O_CLOEXEC | libc::O_NOFOLLOW);
        let looked = look.open(path).ok()?;
        let metadata = looked.metadata().ok()?;
        let is_its = match inode {
            Some(inode) => metadata.ino() == inode,
            None => metadata.uid() == self.uid || metadata.uid() == 0,
        };
        if !metadata.is_file() || !is_its {
            return None;
        }
        File::open(format!("/proc/self/fd/{}", looked.as_raw_fd())).ok()
    }
}

/// Reads a file, as far as that goes.
fn read(file: File) -> Vec<u8> {
    let mut bytes = Vec::new();
    // As far as it could be read.
    let _ = file.take(MOST).read_to_end(&mut bytes);
    bytes
}

/// Functions that addresses are in, each once; those with code are preferred.
fn chosen(map: &Functions<'_>, dump: &Functions<'_>, met: &BTreeSet<u64>) -> Vec<Function> {
    let mut all: Vec<Function> = Vec::new();
    for at in met {
        let Some(found) = dump.find(*at).or_else(|| map.find(*at)) else {
            continue;
        };
        if all.last().is_none_or(|last| last.start != found.start) {
            all.push(Function {
                module: b"[anon]".to_vec(),
                start: found.start,
                size: found.size,
                name: found.name.to_vec(),
                code: found.code.to_vec(),
            });
        }
    }
    all
}

/// The number that a process has in the innermost of its namespaces, by its `/proc/PID/status`.
fn innermost(status: &str) -> Option<u32> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_ascii_whitespace().next_back()?.parse().ok()
}

/// The path, without its first slash, and the inode of a jitdump file among mappings.
fn dump_in(maps: &[u8]) -> Option<(&Path, u64)> {
    let is_dump = |mapping: &Mapping<'_>| {
        let name = mapping.path.rsplit(|byte| *byte == b'/').next();
        let number = name
            .and_then(|name| name.strip_prefix(b"jit-"))
            .and_then(|name| name.strip_suffix(b".dump"));
        mapping.is_executable()
            && number.is_some_and(|n| !n.is_empty() && n.iter().all(u8::is_ascii_digit))
    };
    let found = mappings(maps).find(is_dump)?;
    let path = found.path.strip_prefix(b"/")?;
    Some((Path::new(OsStr::from_bytes(path)), found.inode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_paths_are_found() {
        let status = "Name:\tx\nPid:\t4242\nNSpid:\t4242\t17\nThreads:\t1\n";
        assert_eq!(innermost(status), Some(17));
        assert_eq!(innermost("Name:\tNSpid\n"), None);
        let maps = b"7f00-7f01 r--p 0 08:02 5 /a/jit-7.dump\n\
            7f01-7f02 r-xp 0 08:02 6 /a/jit-x.dump\n\
            7f02-7f03 r-xp 0 08:02 7 /home/u/jit-17.dump\n";
        let wanted = Some((Path::new("home/u/jit-17.dump"), 7));
        assert_eq!(dump_in(maps), wanted);
    }

    #[test]
    fn functions_that_were_met_are_kept_with_their_code() {
        let map = compiled::perf_map(b"100 10 a\n200 10 b\n300 10 c\n");
        let none = compiled::jitdump(&[]);
        let met = [0x105, 0x107, 0x20f, 0x250].into();
        let names: Vec<_> = chosen(&map, &none, &met)
            .into_iter()
            .map(|f| (f.start, f.name))
            .collect();
        assert_eq!(names, [(0x100, b"a".to_vec()), (0x200, b"b".to_vec())]);
    }

    #[test]
    fn a_map_of_this_process_is_read() {
        let pid = std::process::id();
        let path = format!("/tmp/perf-{pid}.map");
        fs::write(&path, "7000 20 made\n").expect("written");
        let mut compiled = Compiled::of(pid);
        compiled.look();
        let found = compiled.functions(&[0x7010].into());
        fs::remove_file(&path).expect("clean");
        assert_eq!(found.len(), 1);
        assert_eq!((&found[0].name[..], found[0].size), (&b"made"[..], 0x20));
        // A link is not followed.
        std::os::unix::fs::symlink("/etc/passwd", &path).expect("a link");
        let mut compiled = Compiled::of(pid);
        compiled.look();
        fs::remove_file(&path).expect("clean");
        assert!(compiled.map.is_none());
    }
}
