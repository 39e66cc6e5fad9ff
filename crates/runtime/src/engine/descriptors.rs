//! Descriptors through which code may change.
//!
//! # Problem
//! Code changes without a store to it, and without a call that names its address: by a write to its file
//! ([`crate::memory::files`]), and by a write to the file of the process's own memory (`/proc/self/mem`), which changes code whatever its
//! protection. Such files are opened by any path, relative to any folder, through links and handles, or come from another process.
//!
//! # Strategy
//! *Before a call that opens a file for writing*, the runtime opens the same without rights (`O_PATH`, which neither waits nor
//! changes anything) and asks the kernel what that is. Code of such a file is watched from then on. From the first file of a
//! process's memory on, calls that write to files are looked at; one that writes to such a file is made by the runtime, and all
//! fragments are in doubt afterwards.
//!
//! *Before a call by which descriptors may come from another process*, the same begins: each call that writes to a file
//! asks what its descriptor is.
//!
//! *A shared mapping* of a file that may be written is as good as a descriptor ([`mapped_shared`]).
//!
//! The kernel is asked with no lock held where that may wait for a server of files.
#![allow(unsafe_code)] // reason: opens files, writes into threads' tables.

use linux_raw_sys::general as nr;

use crate::base::address::Range;
use crate::base::sys;
use crate::base::syscalls::{self, Role};
use crate::engine::kernel_writes::words;
use crate::engine::state::{Process, Runtime};
use crate::memory::files::{self, File};

const ACCESS: u64 = 3;
const NO_FOLLOW: u64 = nr::O_NOFOLLOW as u64;

/// A file that is about to be opened for writing, or cut short.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Opening {
    /// By the path at an address, from a folder, with these flags.
    Path(u64, u64, u64),
    /// By a handle at an address, on the file system of a descriptor.
    Handle(u64, u64),
}

impl Opening {
    /// Returns what a call is about to open for writing.
    fn of(number: u32, args: &[u64; 6]) -> Option<Self> {
        const HERE: u64 = nr::AT_FDCWD as u64;
        let (path, from, flags) = match number {
            nr::__NR_open => (args[0], HERE, args[1]),
            nr::__NR_creat | nr::__NR_truncate => (args[0], HERE, nr::O_WRONLY.into()),
            nr::__NR_openat => (args[1], args[0], args[2]),
            nr::__NR_openat2 => {
                let [flags] = words(args[2])?;
                (args[1], args[0], flags)
            }
            nr::__NR_open_by_handle_at => {
                return (args[2] & ACCESS != 0).then_some(Self::Handle(args[0], args[1]));
            }
            _ => return None,
        };
        let new = u64::from(nr::O_TMPFILE & !nr::O_DIRECTORY);
        (flags & ACCESS != 0 && flags & new == 0).then_some(Self::Path(path, from, flags))
    }

    /// Opens the file without rights.
    fn probe(self) -> Option<i32> {
        let without = u64::from(nr::O_PATH | nr::O_CLOEXEC);
        let (number, args) = match self {
            Self::Path(path, from, flags) => {
                let flags = without | flags & NO_FOLLOW;
                (nr::__NR_openat, [from, path, flags, 0, 0, 0])
            }
            Self::Handle(mount, handle) => (
                nr::__NR_open_by_handle_at,
                [mount, handle, without, 0, 0, 0],
            ),
        };
        // SAFETY: the kernel reads the path or the handle, as it will for the app's own call.
        let fd = unsafe { sys::call(number, args) };
        i32::try_from(fd).ok().filter(|&fd| fd >= 0)
    }
}

/// Looks at the file that a call of the app is about to open, with no lock held.
pub fn before_opening(process: &Process, number: u32, args: &[u64; 6]) {
    let Some(fd) = Opening::of(number, args).and_then(Opening::probe) else {
        return;
    };
    if let Some(file) = File::of(fd) {
        let memory = file.regular && files::is_memory(fd);
        let mut runtime = process.runtime.lock();
        if memory {
            runtime.watch_files();
        } else if file.regular {
            runtime.file_is_written(&file, fd);
        } else if files::is_named(fd, b"/userfaultfd") {
            sys::serve_faults();
        }
    }
    sys::close(fd);
}

/// Returns whether a call may open a file for writing.
pub fn opens_for_writing(number: u32, args: &[u64; 6]) -> bool {
    Opening::of(number, args).is_some()
}

/// A file was mapped shared. Takes note of it if it may be written so.
pub fn mapped_shared(process: &Process, fd: i32) {
    if !files::is_writable(fd) {
        return;
    }
    let Some(file) = File::of(fd).filter(|file| file.regular) else {
        return;
    };
    let mut runtime = process.runtime.lock();
    runtime.regions.share(file);
    runtime.file_is_written(&file, fd);
}

impl Runtime {
    /// The process may write to a file from now on: its code is watched.
    fn file_is_written(&mut self, file: &File, fd: i32) {
        for range in self.regions.written(file, fd) {
            self.doubt(range);
        }
    }

    /// Calls that write to files are looked at from now on.
    pub fn watch_files(&mut self) {
        if core::mem::replace(&mut self.memory_file, true) {
            return;
        }
        for thread in &self.threads {
            // SAFETY: listed threads are there, and their tables are bytes that are only set.
            unsafe { (**thread).see(syscalls::with(&[Role::WritesFiles])) };
        }
    }

    /// A call is about to be made by which descriptors may come from another process.
    pub fn before_receiving(&mut self, number: u32, args: &[u64; 6]) {
        // Of `struct msghdr`, the length of what is beside the message.
        const CONTROL_LENGTH: u64 = 40;
        let control = |message: u64| words(message + CONTROL_LENGTH).is_none_or(|[len]| len != 0);
        let may = match number {
            nr::__NR_recvmsg => control(args[1]),
            nr::__NR_recvmmsg => args[2] != 0 && control(args[1]),
            _ => true,
        };
        if may {
            self.watch_files();
        }
    }

    /// Returns whether the runtime must make a call, which writes to the file of a process's memory.
    pub fn writes_memory_file(&mut self, number: u32, args: &[u64; 6]) -> bool {
        if !self.memory_file || syscalls::role(number) != Role::WritesFiles {
            return false;
        }
        let fd = match number {
            nr::__NR_copy_file_range | nr::__NR_splice => args[2],
            _ => args[0],
        } as i32;
        let Some(file) = File::of(fd).filter(|file| file.regular) else {
            return false;
        };
        if files::is_memory(fd) {
            return true;
        }
        self.file_is_written(&file, fd);
        false
    }

    /// Makes such a call.
    pub fn write_memory_file(&mut self, call: impl FnOnce() -> i64) -> i64 {
        let result = call();
        self.doubt(Range {
            start: 0,
            end: u64::MAX,
        });
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_open_for_writing_are_told_apart() {
        let path = c"/proc/self/mem".as_ptr() as u64;
        let how = [u64::from(nr::O_RDWR), 0, 0];
        let how = how.as_ptr() as u64;
        let opened = |number, args: [u64; 3]| {
            let fd = Opening::of(number, &[args[0], args[1], args[2], 0, 0, 0])?.probe();
            let fd = fd.expect("opened");
            let memory = files::is_memory(fd);
            sys::close(fd);
            Some(memory)
        };
        let here = nr::AT_FDCWD as u64;
        assert_eq!(opened(nr::__NR_open, [path, 2, 0]), Some(true));
        assert_eq!(opened(nr::__NR_open, [path, 0, 0]), None);
        assert_eq!(opened(nr::__NR_openat, [here, path, 1]), Some(true));
        assert_eq!(opened(nr::__NR_openat2, [here, path, how]), Some(true));
        let null = c"/dev/null".as_ptr() as u64;
        assert_eq!(opened(nr::__NR_creat, [null, 0, 0]), Some(false));
        assert_eq!(Opening::of(nr::__NR_read, &[0; 6]), None);
    }
}
