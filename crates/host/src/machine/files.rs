//! The files that processes have their code from, opened once each.
//!
//! Paths are any process's. What is opened is a regular file of the inode that was mapped, without ever waiting for anybody; it is read by
//! `pread`, so whoever cuts it short gives us fewer bytes. At most [`MOST`] are open at a time: code of further ones has
//! no operands.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustc_hash::FxHashMap;
use trommel_symbol::elf::{self, Format, Image};
use trommel_symbol::own_vdso;
use trommel_symbol::unwind::{Rule, Unwind};

use super::calls::{self, LONGEST_CALL};
use super::operands::LONGEST;
use crate::kernel::perf::records::Map;

/// Files that are open at a time.
const MOST: usize = 512;

/// Rules that are kept of one file.
const MOST_RULES: usize = 1 << 18;

/// A file with code.
pub(super) struct Opened {
    bytes: Bytes,
    /// Image of the file, if it is a program or library.
    pub(super) image: Option<Rc<Image>>,
    unwind: OnceCell<Option<Unwind>>,
    code: OnceCell<Option<u32>>,
    rules: RefCell<FxHashMap<u64, Option<Rc<Rule>>>>,
}

/// The bytes of a file, or of the vDSO.
enum Bytes {
    File(File),
    Memory(Vec<u8>),
}

impl Opened {
    fn new(bytes: Bytes, image: Option<Rc<Image>>) -> Self {
        Self {
            bytes,
            image,
            unwind: OnceCell::new(),
            code: OnceCell::new(),
            rules: RefCell::default(),
        }
    }

    /// The bytes at an offset, as many of `length` as there are.
    fn read(&self, offset: u64, length: usize) -> Option<Vec<u8>> {
        match &self.bytes {
            Bytes::File(file) => {
                let mut bytes = vec![0; length];
                let there = file.read_at(&mut bytes, offset).ok()?;
                bytes.truncate(there);
                (there > 0).then_some(bytes)
            }
            Bytes::Memory(all) => {
                let rest = all.get(usize::try_from(offset).ok()?..)?;
                Some(rest[..rest.len().min(length)].to_vec())
            }
        }
    }

    /// The checksum of its code, if it has no build id.
    pub(super) fn code(&self) -> Option<u32> {
        let image = self.image.as_ref().filter(|i| i.build_id.is_empty())?;
        let read = || match &self.bytes {
            Bytes::File(file) => image.code_checksum(file),
            Bytes::Memory(_) => None,
        };
        *self.code.get_or_init(read)
    }

    fn unwind(&self) -> Option<&Unwind> {
        let read = || match &self.bytes {
            Bytes::File(file) => Unwind::read(file),
            Bytes::Memory(bytes) => Unwind::of(bytes),
        };
        self.unwind.get_or_init(read).as_ref()
    }

    /// The rule of the frame whose instruction is at a vaddr and offset; `None`: it is not described. `returned`: a call has returned there.
    pub(super) fn rule(&self, vaddr: u64, offset: u64, returned: bool) -> Option<Rc<Rule>> {
        const TRAMPOLINE: usize = 9;
        // A call at the end of a function returns to the next one.
        let key = vaddr.wrapping_mul(2).wrapping_add(returned.into());
        if let Some(known) = self.rules.borrow().get(&key) {
            return known.clone();
        }
        let code = self.read(offset, TRAMPOLINE);
        let rule = match code.is_some_and(|code| Rule::is_trampoline(&code)) {
            true => Some(Rule::signal_frame()),
            false => {
                let within = vaddr.checked_sub(returned.into())?;
                self.unwind().and_then(|unwind| unwind.rule(within))
            }
        };
        let rule = rule.map(Rc::new);
        let mut rules = self.rules.borrow_mut();
        if rules.len() >= MOST_RULES {
            rules.clear();
        }
        rules.insert(key, rule.clone());
        rule
    }

    /// Bytes of the call that returns to a vaddr and offset; `None`: there is none before it.
    pub(super) fn call_before(&self, vaddr: u64, offset: u64) -> Option<u64> {
        let length = offset.min(LONGEST_CALL as u64);
        let before = self.read(offset - length, length as usize)?;
        calls::before(&before, || {
            /// Larger functions are not looked through.
            const MOST: u64 = 1 << 16;
            let function = self.unwind()?.function(vaddr.checked_sub(1)?)?;
            let distance = vaddr.checked_sub(function.start).filter(|n| *n <= MOST)?;
            let code = self.read(offset.checked_sub(distance)?, distance as usize)?;
            (code.len() as u64 == distance).then_some(code)
        })
    }
}

/// All that were met.
#[derive(Default)]
pub(super) struct Files {
    known: HashMap<(Vec<u8>, u64), Option<Rc<Opened>>>,
    vdso: Option<Rc<Opened>>,
}

impl Files {
    pub(super) fn new() -> Self {
        Self {
            known: HashMap::new(),
            vdso: own_vdso().map(|bytes| Rc::new(Opened::new(Bytes::Memory(bytes), None))),
        }
    }

    /// The file of a mapping.
    pub(super) fn open(&mut self, map: &Map) -> Option<Rc<Opened>> {
        if map.path == b"[vdso]" {
            return self.vdso.clone();
        }
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
        let at = map.offset.checked_add(within)?;
        self.open(map)?.read(at, LONGEST)
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
    Some(Opened::new(Bytes::File(file), image))
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
