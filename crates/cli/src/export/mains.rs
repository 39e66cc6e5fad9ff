//! The programs that processes ran.
//!
//! A command names its program by the file, by a link to it, by a name that is looked up in `PATH`, or by a script whose first line has the
//! interpreter. A process that executed one program after another is meant to be the last one: those before it led there.

use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use trommel_export::Input;
use trommel_profile::{Module, Profile};
use trommel_tuple::ModuleId;

use crate::report::processes::Row;

/// The programs of a profile.
pub(super) struct Mains {
    /// The program of the first process; none of processes that were made apart, where none is the first.
    pub(super) first: Option<ModuleId>,
    all: Vec<ModuleId>,
}

impl Mains {
    /// Those of a profile with these processes.
    pub(super) fn of(profile: &Profile, rows: &[Row], apart: bool) -> Self {
        let all: Vec<(u32, Option<ModuleId>)> = (rows.iter())
            .map(|row| (row.pid, program(profile, &row.command)))
            .collect();
        let first = all.first().map(|(pid, _)| *pid);
        let mut of_first = all.iter().filter(|(pid, _)| Some(*pid) == first);
        let first = match first {
            Some(0) => of_first.next(),
            _ => of_first.next_back(),
        };
        Self {
            first: first.and_then(|(_, id)| *id).filter(|_| !apart),
            all: all.iter().filter_map(|(_, id)| *id).collect(),
        }
    }

    /// Those among these files: the first process's first, the others in the order of the files.
    pub(super) fn ranked(&self, files: &[(ModuleId, f64)]) -> Vec<ModuleId> {
        let files = files.iter().map(|(id, _)| *id);
        let mut mains: Vec<ModuleId> = files.filter(|id| self.all.contains(id)).collect();
        mains.sort_by_key(|id| Some(*id) != self.first);
        mains
    }
}

/// The module of a command's program.
fn program(profile: &Profile, command: &[Vec<u8>]) -> Option<ModuleId> {
    let name = untitled(command.first()?);
    let found = found(OsStr::from_bytes(name));
    let at = |file: &Path| {
        let is = |m: &&Module| m.path == file.as_os_str().as_bytes();
        profile.modules.iter().find(is)
    };
    let file = found.as_deref().and_then(at);
    let named = || Input::program_named(profile, name);
    let interpreted = || at(&interpreter(found.as_deref()?)?);
    let program = file.or_else(named).or_else(interpreted)?;
    Some(program.id)
}

/// The program in the first word of a command. A title that a server writes over its command begins so: `nginx: worker process`.
pub(super) fn untitled(word: &[u8]) -> &[u8] {
    word.strip_suffix(b":").unwrap_or(word)
}

/// The file of a command, links resolved.
fn found(name: &OsStr) -> Option<PathBuf> {
    let path = Path::new(name);
    if name.as_bytes().contains(&b'/') {
        return path.canonicalize().ok();
    }
    let all = env::var_os("PATH")?;
    let found = env::split_paths(&all).map(|dir| dir.join(path));
    found
        .filter(|file| file.is_file())
        .find_map(|file| file.canonicalize().ok())
}

/// The program that a script's first line names.
fn interpreter(script: &Path) -> Option<PathBuf> {
    /// Bytes of a line that the kernel reads.
    const MOST: u64 = 256;
    let mut line = Vec::new();
    let file = File::open(script).ok()?.take(MOST);
    BufReader::new(file).read_until(b'\n', &mut line).ok()?;
    let line = line.strip_prefix(b"#!")?;
    let mut words = line
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    let program = words.next()?;
    match program.ends_with(b"/env") {
        true => found(OsStr::from_bytes(words.next()?)),
        false => found(OsStr::from_bytes(program)),
    }
}
