//! The files that processes have their code from, opened once each.
//!
//! Paths are any process's. What is opened is a regular file of the inode that was mapped, without ever waiting for anybody; it is read by
//! `pread`, so whoever cuts it short gives us fewer bytes. At most [`MOST`] are open at a time: code of further ones has
//! no operands.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use trommel_symbol::elf::{self, Format, Image};
use trommel_symbol::own_vdso;

use super::operands::LONGEST;
use crate::kernel::perf::records::Map;

/// Files that are open at a time.
const MOST: usize = 512;

/// A file with code.
pub(super) struct Opened {
    file: File,
    /// Image of the file, if it is a program or library.
    pub(super) image: Option<Rc<Image>>,
}

/// All that were met.
#[derive(Default)]
pub(super) struct Files {
    known: HashMap<(Vec<u8>, u64), Option<Rc<Opened>>>,
    vdso: Option<Vec<u8>>,
}

impl Files {
    pub(super) fn new() -> Self {
        Self {
            known: HashMap::new(),
            vdso: own_vdso(),
        }
    }

    /// The file of a mapping.
    pub(super) fn open(&mut self, map: &Map) -> Option<Rc<Opened>> {
        let key = (map.path.clone(), map.inode);
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let found = match self.known.len() < MOST && map.inode != 0 {
            true => open(map).map(Rc::new),
            false => None,
        };
        // What could not be opened for a process that is gone may be opened for the next.
        if found.is_some() {
            self.known.insert(key, found.clone());
        }
        found
    }

    /// The bytes of the instruction at an address of a mapping.
    pub(super) fn instruction(&mut self, map: &Map, pc: u64) -> Option<Vec<u8>> {
        let within = pc.checked_sub(map.range.start)?;
        if map.path == b"[vdso]" {
            let at = usize::try_from(within).ok()?;
            let rest = self.vdso.as_ref()?.get(at..)?;
            return Some(rest[..rest.len().min(LONGEST)].to_vec());
        }
        let opened = self.open(map)?;
        let mut bytes = vec![0; LONGEST];
        let at = map.offset.checked_add(within)?;
        let length = opened.file.read_at(&mut bytes, at).ok()?;
        bytes.truncate(length);
        (length > 0).then_some(bytes)
    }
}

/// Opens the file of a mapping: as the kernel has it, as its process sees it, or as we do.
fn open(map: &Map) -> Option<Opened> {
    let path = Path::new(std::ffi::OsStr::from_bytes(&map.path));
    let relative = path.strip_prefix("/").ok()?;
    let range = format!("{:x}-{:x}", map.range.start, map.range.end);
    let of_process = PathBuf::from(format!("/proc/{}", map.pid));
    let places = [
        of_process.join("map_files").join(range),
        of_process.join("root").join(relative),
        path.to_owned(),
    ];
    let file = places.iter().find_map(|place| regular(place, map.inode))?;
    // By its descriptor it is the same file, whatever has become of its path.
    let own = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let image = match elf::inspect(&own) {
        Ok(Format::Elf(image)) => Some(Rc::new(image)),
        _ => None,
    };
    Some(Opened { file, image })
}

/// Opening a device or pipe may do something, or wait: what it is is looked at first.
fn regular(path: &Path, inode: u64) -> Option<File> {
    let mut look = OpenOptions::new();
    look.read(true).custom_flags(libc::O_PATH | libc::O_CLOEXEC);
    let looked = look.open(path).ok()?;
    let metadata = looked.metadata().ok()?;
    if !metadata.is_file() || metadata.ino() != inode {
        return None;
    }
    File::open(format!("/proc/self/fd/{}", looked.as_raw_fd())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_opened_is_the_file_that_was_mapped() {
        let own = std::env::current_exe().expect("a path");
        let inode = std::fs::metadata(&own).expect("a file").ino();
        assert!(regular(&own, inode).is_some());
        assert!(regular(&own, inode + 1).is_none());
        let pipe = std::env::temp_dir().join(format!("trommel-fifo-{}", std::process::id()));
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        let inode = std::fs::metadata(&pipe).expect("a pipe").ino();
        // Opened to be read it would wait for a writer.
        assert!(regular(&pipe, inode).is_none());
        std::fs::remove_file(&pipe).expect("clean");
    }
}
