//! Processes of a description, in `/proc`.

use std::fmt;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A process that executes a program. One that executes another is another, and so is a later one of the same number.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Identity {
    pub(super) pid: i32,
    /// Start time, in the kernel's unit.
    started: u64,
    program: PathBuf,
}

/// A process that was found.
pub(super) struct ProcessMatch {
    pub(super) identity: Identity,
    /// The file name of its program.
    pub(super) name: String,
}

/// Selections of processes.
pub(super) enum Selection {
    These(Vec<i32>),
    Named(Vec<String>),
    /// Processes of a user.
    User(u32),
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::These(pids) => {
                let pids: Vec<String> = pids.iter().map(i32::to_string).collect();
                write!(f, "process {}", pids.join(", "))
            }
            Self::Named(names) => write!(f, "programs named {}", names.join(", ")),
            Self::User(user) => write!(f, "all processes of user {user}"),
        }
    }
}

impl Selection {
    /// Makes the selection of the arguments, of which one is given.
    pub(super) fn new(pids: Vec<i32>, names: &[String], user: bool) -> Self {
        match (user, names) {
            (true, _) => Self::User(own_user()),
            (false, []) => Self::These(pids),
            (false, names) => Self::Named(names.to_vec()),
        }
    }

    /// Returns true if none will come any more: those that were named by their numbers have ended. `is_profiled` tells of one.
    pub(super) fn is_over(&self, is_profiled: impl Fn(&Identity) -> bool) -> bool {
        let Self::These(pids) = self else {
            return false;
        };
        let gone = |pid: &i32| identity(*pid).is_none_or(|identity| !is_profiled(&identity));
        pids.iter().all(gone)
    }

    /// Returns the processes that are there, but for this command's own.
    pub(super) fn find(&self) -> Vec<ProcessMatch> {
        let pids = match self {
            Self::These(pids) => pids.clone(),
            Self::Named(_) | Self::User(_) => all(),
        };
        let own = fs::read_link("/proc/self/exe").ok();
        let found = |pid| {
            if let Self::User(user) = self
                && fs::metadata(format!("/proc/{pid}")).ok()?.uid() != *user
            {
                return None;
            }
            let identity = identity(pid)?;
            if own.as_ref() == Some(&identity.program) {
                return None;
            }
            let name = identity.program.file_name()?.to_string_lossy();
            let name = name.trim_end_matches(DELETED).to_owned();
            let path = identity.program.as_os_str().as_bytes();
            match self {
                Self::Named(patterns) if !are_named(patterns, pid, path) => None,
                _ => Some(ProcessMatch { identity, name }),
            }
        };
        pids.into_iter().filter_map(found).collect()
    }
}

/// Suffix that the kernel adds to the path of a file that is gone.
const DELETED: &str = " (deleted)";

/// This command's user.
fn own_user() -> u32 {
    fs::metadata("/proc/self").map_or(u32::MAX, |own| own.uid())
}

fn all() -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    let mut pids: Vec<i32> = entries.filter_map(number).collect();
    pids.sort_unstable();
    pids
}

/// `None`: it has ended, or may not be looked at.
fn identity(pid: i32) -> Option<Identity> {
    let directory = format!("/proc/{pid}");
    let directory = Path::new(&directory);
    let program = fs::read_link(directory.join("exe")).ok()?;
    let stat = fs::read_to_string(directory.join("stat")).ok()?;
    let started = stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()?;
    Some(Identity {
        pid,
        started,
        program,
    })
}

/// Returns true if one of the patterns names a process: by its program, or by what it is called. A link to a program has another name than
/// its file (`redis-server`, `python3`).
fn are_named(patterns: &[String], pid: i32, path: &[u8]) -> bool {
    let own = patterns.iter().any(|p| is_named(p.as_bytes(), path));
    own || called(pid).iter().any(|name| {
        let mut plain = patterns.iter().filter(|p| !p.contains('/'));
        plain.any(|p| matches(p.as_bytes(), name))
    })
}

/// The kernel's name of a process, of which it keeps 15 bytes, and the name by which it was executed.
fn called(pid: i32) -> Vec<Vec<u8>> {
    let read = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let command = read("cmdline");
    let ends = |c: &u8| *c == 0 || *c == b' ';
    let word = command.split(ends).next().unwrap_or_default();
    let base = word.rsplit(|c| *c == b'/').next().unwrap_or_default();
    let names = [read("comm").trim_ascii_end().to_vec(), base.to_vec()];
    names.into_iter().filter(|name| !name.is_empty()).collect()
}

/// Returns true if a pattern names a program: its path if there is a `/` in it, and its file name if not.
fn is_named(pattern: &[u8], path: &[u8]) -> bool {
    let path = path.strip_suffix(DELETED.as_bytes()).unwrap_or(path);
    let file = path.rsplit(|c| *c == b'/').next().unwrap_or_default();
    match pattern.contains(&b'/') {
        true => matches(pattern, path),
        false => matches(pattern, file),
    }
}

/// `*` stands for any characters and `?` for one.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // After the last star, and how much of the text that stands for so far.
    let mut star = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p + 1, t));
                p += 1;
            }
            Some(c) if *c == b'?' || *c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((after, from)) = star else {
                    return false;
                };
                star = Some((after, from + 1));
                p = after;
                t = from + 1;
            }
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_name_files_or_paths() {
        let named = |pattern: &str, path: &str| is_named(pattern.as_bytes(), path.as_bytes());
        assert!(named("redis-server", "/usr/bin/redis-server"));
        assert!(!named("redis", "/usr/bin/redis-server"));
        assert!(named("redis-*", "/usr/bin/redis-server (deleted)"));
        assert!(named("*/bin/p?thon3*", "/usr/bin/python3.13"));
        assert!(!named("p?thon3", "/usr/bin/pthon3"));
        assert!(named("*a*b*c", "/aXbYbZc") && !named("*a*b*c", "/aXcYb"));
        assert!(named("*", "/x") && !named("", "/x"));
    }

    #[test]
    fn a_process_is_itself_until_it_ends() {
        let own = std::process::id() as i32;
        let this = identity(own).expect("this one");
        assert_eq!(identity(own), Some(this.clone()));
        assert_eq!(this.program, std::env::current_exe().expect("a program"));
        assert_eq!(identity(i32::MAX), None);
        // Its own program's processes are not its business.
        assert!(Selection::These(vec![own]).find().is_empty());
        let wanted = Selection::These(vec![own]);
        assert!(!wanted.is_over(|_| true) && wanted.is_over(|_| false));
        assert!(Selection::These(vec![i32::MAX]).is_over(|_| true));
        assert!(!Selection::User(0).is_over(|_| false));
    }
}
