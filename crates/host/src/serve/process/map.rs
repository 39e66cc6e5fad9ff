//! Answers about the memory map of a process that may not read it itself.
//!
//! Filters of system calls (seccomp) may keep a program from opening `/proc`. The runtime in it asks us then
//! ([`trommel_queue::MapQuestion`]).

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering::Relaxed;

use nix::unistd::Pid;
use trommel_queue::{MAP_TEXT, MapQuestion};

use crate::channel::shared::Shared;
use crate::kernel::maps::Mapping;
use crate::kernel::running::proc_file;

/// The map of a process, as it was when its start was asked for last.
#[derive(Default)]
pub(super) struct MapAnswers {
    text: Vec<u8>,
}

/// Text of an answer, and whether the process has the file of the entry open for writing.
type Answer<'a> = (&'a [u8], bool);

impl MapAnswers {
    /// Answers what a process has asked.
    pub(super) fn serve(&mut self, shared: &Shared, pid: Pid) {
        let Some(asked) = shared.map_asked() else {
            return;
        };
        let map = &shared.control().map;
        let at = map.at.load(Relaxed);
        let answer = match map.what.load(Relaxed) {
            MapQuestion::ENTRY => self.entry(pid, at),
            MapQuestion::PIECE => self.piece(pid, at),
            _ => None,
        };
        let (text, written) = answer.unwrap_or_default();
        let text = &text[..text.len().min(MAP_TEXT)];
        let words = text.chunks(8).map(|part| {
            let mut bytes = [0; 8];
            bytes[..part.len()].copy_from_slice(part);
            u64::from_le_bytes(bytes)
        });
        for (to, word) in shared.map_text().words.iter().zip(words) {
            to.store(word, Relaxed);
        }
        let bytes = answer.map_or(MapQuestion::NONE, |_| text.len() as u64);
        map.bytes.store(bytes, Relaxed);
        map.written.store(written.into(), Relaxed);
        shared.map_answered(asked);
    }

    fn entry(&mut self, pid: Pid, at: u64) -> Option<Answer<'_>> {
        self.text = read(pid)?;
        let lines = self.text.split(|byte| *byte == b'\n');
        let mut parsed = lines.filter_map(|line| Some((line, Mapping::of(line)?)));
        let found = parsed.find(|(_, mapping)| mapping.range.contains(&at));
        let (line, mapping) = match found {
            Some(found) => found,
            None => return Some((b"", false)),
        };
        let written = mapping.inode != 0 && writes_to(pid, mapping.inode);
        Some((line, written))
    }

    fn piece(&mut self, pid: Pid, at: u64) -> Option<Answer<'_>> {
        if at == 0 {
            self.text = read(pid)?;
        }
        let rest = usize::try_from(at).ok().and_then(|at| self.text.get(at..));
        Some((rest.unwrap_or_default(), false))
    }
}

/// The map as it is now. A first thread that has ended shows none.
fn read(pid: Pid) -> Option<Vec<u8>> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let mut maps = tasks.flatten().filter_map(|task| {
        let path = task.path().join("maps");
        proc_file(path.to_str()?).ok()
    });
    maps.find(|text| !text.is_empty())
}

/// Returns whether a process has a file with this inode number open for writing, or its descriptors cannot be looked at.
fn writes_to(pid: Pid, inode: u64) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return true;
    };
    let is_of = |path: &std::path::Path| fs::metadata(path).is_ok_and(|m| m.ino() == inode);
    let writes = |name: &std::ffi::OsStr| {
        let name = name.to_string_lossy();
        let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{name}")).unwrap_or_default();
        let line = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = line.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
        flags.is_some_and(|flags| flags & libc::O_ACCMODE != libc::O_RDONLY)
    };
    let mut descriptors = descriptors.flatten();
    descriptors.any(|entry| is_of(&entry.path()) && writes(&entry.file_name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_and_pieces_are_those_of_the_map() {
        let own = Pid::this();
        let mut answers = MapAnswers::default();
        let here = entries_and_pieces_are_those_of_the_map as fn() as usize as u64;
        let (line, written) = answers.entry(own, here).expect("a map");
        let mapping = Mapping::of(line).expect("an entry");
        assert!(mapping.range.contains(&here) && mapping.is_executable() && !written);
        assert_eq!(answers.entry(own, 1), Some((&b""[..], false)));
        let whole = answers.piece(own, 0).expect("a map").0.to_vec();
        assert_eq!(answers.piece(own, 100).expect("a map").0, &whole[100..]);
        let end = whole.len() as u64;
        assert_eq!(answers.piece(own, end), Some((&b""[..], false)));
        assert_eq!(answers.piece(own, u64::MAX), Some((&b""[..], false)));
    }

    #[test]
    fn a_file_that_is_open_for_writing_is_told() {
        let path = std::env::temp_dir().join(format!("trommel-map-{}", std::process::id()));
        let file = fs::File::create(&path).expect("a file");
        let inode = file.metadata().expect("there").ino();
        assert!(writes_to(Pid::this(), inode));
        let read = fs::File::open(&path).expect("a file");
        drop(file);
        assert!(!writes_to(Pid::this(), inode));
        drop(read);
        fs::remove_file(&path).expect("removed");
    }
}
