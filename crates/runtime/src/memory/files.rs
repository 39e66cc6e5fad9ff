//! Files that may change while code of them is mapped.
//!
//! # Problem
//! A private mapping that nobody may write shows what is written to its file, page by page, until the program
//! itself has written to the page. So code of a file changes by any call that writes to the file, by a store to a shared
//! mapping of it, and when it is cut short. None of that concerns the mapping of the code.
//!
//! # Strategy
//! Who writes to a file has it open for writing, or has mapped it shared. So code is watched whose file this process
//! has open for writing, or has mapped so: fragments of it compare their code when they are entered, as those of memory that others
//! write ([`crate::memory::mapping::Nature::Unseen`]). That covers every call, other processes with the same description, and
//! files that become shorter. Other code of files costs nothing.
//!
//! * When code of a file is first met, the descriptors of the process are looked at, whatever they come from.
//! * When a file is opened for writing or mapped shared, or a call is about to write to one that came from elsewhere, the code that is
//!   known already is looked at.
//!
//! # Rule
//! A descriptor is what the kernel says that it is, not what it was opened by. The file of a mapping has the
//! mapping's inode, and its device or its name: file systems that stand on others have devices of their own.
//!
//! # What is not seen
//! A process that this one has started or not may open a file for writing by itself. Nothing tells of that.
#![allow(unsafe_code)] // reason: system calls that write to structures of the runtime's.

use linux_raw_sys::general as nr;

use crate::base::sys;

/// Bytes of a name of a file that are looked at.
const NAME: usize = 512;
/// The kind of a file in its mode, and the kind with contents of its own.
const FORMAT: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;

/// A file, as the kernel identifies it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct File {
    /// Major and minor number of the device.
    pub device: [u32; 2],
    /// Inode number.
    pub inode: u64,
    /// True if the file has contents of its own that can be mapped.
    pub regular: bool,
}

/// File of a mapping, as the kernel prints it.
#[derive(Clone, Copy)]
pub struct Mapped<'a> {
    /// Major and minor number of the device.
    pub device: [u32; 2],
    /// Inode number, 0 for none.
    pub inode: u64,
    /// Name of the file.
    pub path: &'a [u8],
}

impl File {
    /// Returns the file of a descriptor.
    pub fn of(fd: i32) -> Option<Self> {
        const OF_DESCRIPTOR: u64 = 0x1000;
        // Nobody is asked: the file may be of a server that is this process.
        const NOT_SYNCHRONIZED: u64 = 0x4000;
        const TYPE_AND_INODE: u64 = 0x101;
        let mut statx = [0_u32; 64];
        let args = [
            fd as u64,
            c"".as_ptr() as u64,
            OF_DESCRIPTOR | NOT_SYNCHRONIZED,
            TYPE_AND_INODE,
            statx.as_mut_ptr() as u64,
            0,
        ];
        if sys::is_left_out(nr::__NR_statx, &args) {
            return Some(Status::of(fd)?.file());
        }
        // SAFETY: room for what the kernel writes: as `struct statx`, mode, inode and device among others.
        let result = unsafe { sys::call(nr::__NR_statx, args) };
        (result == 0).then_some(Self {
            device: [statx[34], statx[35]],
            inode: u64::from(statx[8]) | u64::from(statx[9]) << 32,
            regular: statx[7] & FORMAT == REGULAR,
        })
    }

    /// Returns whether a mapping is of this file, which `fd` is a descriptor of.
    pub fn is_of(&self, mapping: &Mapped<'_>, fd: i32) -> bool {
        const DELETED: &[u8] = b" (deleted)";
        if mapping.inode == 0 || mapping.inode != self.inode {
            return false;
        }
        let mut name = [0; NAME];
        let plain = |name| -> &[u8] { <[u8]>::strip_suffix(name, DELETED).unwrap_or(name) };
        // Without names, two files of one number are taken for one: that is rare.
        mapping.device == self.device
            || !names_files()
            || sys::link_of(fd, &mut name)
                .is_some_and(|len| plain(&name[..len]) == plain(mapping.path))
    }
}

/// Status of a descriptor where `statx` is left out, as `struct stat` has it.
struct Status([u64; 18]);

impl Status {
    fn of(fd: i32) -> Option<Self> {
        let mut words = [0_u64; 18];
        let args = [fd as u64, words.as_mut_ptr() as u64, 0, 0, 0, 0];
        // SAFETY: room for what the kernel writes.
        let result = unsafe { sys::call(nr::__NR_fstat, args) };
        (result == 0).then_some(Self(words))
    }

    fn is_regular(&self) -> bool {
        self.0[3] as u32 & FORMAT == REGULAR
    }

    fn file(&self) -> File {
        let device = self.0[0];
        let major = device >> 8 & 0xfff | device >> 32 & !0xfff;
        let minor = device & 0xff | device >> 12 & !0xff;
        File {
            device: [major as u32, minor as u32],
            inode: self.0[1],
            regular: self.is_regular(),
        }
    }

    /// Returns whether it may be a file of the kernel's: those have no bytes, and take no room.
    fn may_be_kernels(&self) -> bool {
        self.is_regular() && self.0[6] == 0 && self.0[8] == 0
    }
}

/// Returns whether the kernel is asked for names of files.
fn names_files() -> bool {
    !sys::is_left_out(nr::__NR_readlink, &[0; 6])
}

/// Returns whether a descriptor may be written to.
pub fn is_writable(fd: i32) -> bool {
    const GET_FLAGS: u64 = 3;
    const ACCESS: i64 = 3;
    const ONLY_PATH: i64 = 0o10_000_000;
    let args = [fd as u64, GET_FLAGS, 0, 0, 0, 0];
    if sys::is_left_out(nr::__NR_fcntl, &args) {
        return true;
    }
    // SAFETY: no memory is involved.
    let flags = unsafe { sys::call(nr::__NR_fcntl, args) };
    flags > 0 && flags & ACCESS != 0 && flags & ONLY_PATH == 0
}

/// Returns whether a descriptor is of the file of a process's memory, or may be where the kernel is not asked.
pub fn is_memory(fd: i32) -> bool {
    const PROC: u64 = 0x9fa0;
    // As `struct statfs`, of which the first word is the kind.
    let mut statfs = [0_u64; 15];
    let args = [fd as u64, statfs.as_mut_ptr() as u64, 0, 0, 0, 0];
    if sys::is_left_out(nr::__NR_fstatfs, &args) || !names_files() {
        return Status::of(fd).is_none_or(|status| status.may_be_kernels());
    }
    // SAFETY: room for what the kernel writes.
    let result = unsafe { sys::call(nr::__NR_fstatfs, args) };
    result == 0 && statfs[0] == PROC && is_named(fd, b"/mem")
}

/// Returns whether the name of the file of a descriptor ends so, or may where the kernel is not asked.
pub fn is_named(fd: i32, end: &[u8]) -> bool {
    let mut name = [0; NAME];
    !names_files() || sys::link_of(fd, &mut name).is_some_and(|len| name[..len].ends_with(end))
}

/// Returns whether this process has the file of a mapping open for writing.
pub fn is_open(mapping: &Mapped<'_>) -> bool {
    is_any_open(|file, fd| file.is_of(mapping, fd))
}

/// Returns whether this process has a file open for writing that is one of some.
pub fn is_any_open(mut is_one: impl FnMut(&File, i32) -> bool) -> bool {
    let Ok(list) = sys::open(c"/proc/thread-self/fd") else {
        return false;
    };
    let found = descriptors(list, |fd| {
        is_writable(fd) && File::of(fd).is_some_and(|file| is_one(&file, fd))
    });
    sys::close(list);
    found
}

/// Returns whether any of the descriptors that an open folder lists is what is looked for.
fn descriptors(list: i32, mut is: impl FnMut(i32) -> bool) -> bool {
    /// Offset of the length of an entry, and of its name.
    const LENGTH: usize = 16;
    const ENTRY: usize = 19;
    let mut entries = [0_u64; 256];
    loop {
        let bytes = size_of_val(&entries) as u64;
        let args = [list as u64, entries.as_mut_ptr() as u64, bytes, 0, 0, 0];
        // SAFETY: room for what the kernel writes.
        let n = unsafe { sys::call(nr::__NR_getdents64, args) };
        let Some(n) = usize::try_from(n).ok().filter(|&n| n != 0) else {
            return false;
        };
        let all: &[u8] =
            // SAFETY: the bytes of whole words.
            unsafe { core::slice::from_raw_parts(entries.as_ptr().cast(), size_of_val(&entries)) };
        let mut left = all.get(..n).unwrap_or_default();
        while let Some(&[low, high]) = left.get(LENGTH..LENGTH + 2) {
            let len = usize::from(u16::from_le_bytes([low, high]));
            let name = left.get(ENTRY..len).unwrap_or_default();
            if number(name).is_some_and(|fd| fd != list && is(fd)) {
                return true;
            }
            left = left.get(len.max(1)..).unwrap_or_default();
        }
    }
}

/// The number that a string of digits says, up to its NUL byte.
fn number(name: &[u8]) -> Option<i32> {
    let digits = name.split(|&c| c == 0).next()?;
    core::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::format;
    use std::fs::File as Opened;
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::base::address::AppPc;
    use crate::memory::mapping::{self, Mapping};

    /// The mapping of this very code, as if its file were that of `fd`.
    fn mapping_of(fd: i32) -> Mapping {
        let pc = AppPc(mapping_of as *const () as u64);
        let all = mapping::read_all().expect("maps");
        let mut found = all.into_iter().find(|m| m.range.holds(pc)).expect("code");
        let file = File::of(fd).expect("a file");
        (found.inode, found.device) = (file.inode, file.device);
        found
    }

    #[test]
    fn a_file_is_open_for_writing_or_not() {
        let path = std::env::temp_dir().join(format!("trommel-files-{}", std::process::id()));
        let write = Opened::create(&path).expect("created");
        let read = Opened::open(&path).expect("opened");
        let mut mapping = mapping_of(read.as_raw_fd());
        assert!(is_writable(write.as_raw_fd()) && !is_writable(read.as_raw_fd()));
        assert!(is_open(&mapping.file()));
        mapping.device = [0, 0];
        assert!(!is_open(&mapping.file()), "another device and name");
        mapping.path = path.to_str().expect("text").into();
        assert!(is_open(&mapping.file()), "another device, the same name");
        drop(write);
        assert!(!is_open(&mapping.file()));
        std::fs::remove_file(&path).expect("removed");
    }

    #[test]
    fn code_that_runs_has_the_device_of_its_file() {
        let own = Opened::open("/proc/self/exe").expect("opened");
        let file = File::of(own.as_raw_fd()).expect("a file");
        let pc = AppPc(mapping_of as *const () as u64);
        let all = mapping::read_all().expect("maps");
        let found = all.iter().find(|m| m.range.holds(pc)).expect("code");
        assert!(file.is_of(&found.file(), own.as_raw_fd()));
    }

    #[test]
    fn the_file_of_memory_is_told_by_what_it_is() {
        let memory = Opened::options()
            .write(true)
            .open("/proc/self/mem")
            .expect("opened");
        assert!(is_memory(memory.as_raw_fd()) && is_writable(memory.as_raw_fd()));
        let other = Opened::open("/proc/self/maps").expect("opened");
        assert!(!is_memory(other.as_raw_fd()));
    }
}
