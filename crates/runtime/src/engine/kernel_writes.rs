//! System calls that write into pages we have protected.
//!
//! # Problem
//! Where a store of the app faults and is resolved, the kernel's own store into the app's memory
//! fails the call: with `EFAULT`, after what it gave may be gone (a datagram, a dead child's status),
//! or with fewer bytes than there were.
//!
//! # Strategy
//! From the first protected page on, the threads' tables send every call that may write memory to
//! the dispatcher before it is made. It looks at what the arguments point to, opens pages of ours
//! there, and lets the call be made in place. The pages are unsteady for a while
//! (`pages`), so that no other thread has them protected again before the call comes to write.
//!
//! Which calls write is told by what they do not: the few that programs make often and that only
//! read are left alone. How much they write is told for those that are given a length, and for lists
//! of buffers; for all others it is taken to be a generous structure.
//!
//! # The file of the process's own memory
//! Writing to `/proc/self/mem` changes code whatever its protection. From the first time that such a
//! file is opened for writing on, calls that write files are looked at; one that writes to it is made
//! by the runtime, and all fragments are in doubt afterwards.
//!
//! # What is not seen
//! Memory written later than the call that named it: by `io_uring`, and by asynchronous input.
#![allow(unsafe_code)] // reason: writes into threads' tables, reads the app's lists of buffers.

use linux_raw_sys::general as nr;

use crate::base::address::Range;
use crate::base::sys;
use crate::base::syscalls::OPENING;
use crate::engine::state::Runtime;

/// Calls that write no memory of the caller, of those that programs make often.
const READ_ONLY: [u32; 54] = [
    nr::__NR_write,
    nr::__NR_open,
    nr::__NR_close,
    nr::__NR_lseek,
    nr::__NR_brk,
    nr::__NR_pwrite64,
    nr::__NR_writev,
    nr::__NR_access,
    nr::__NR_sched_yield,
    nr::__NR_msync,
    nr::__NR_dup,
    nr::__NR_dup2,
    nr::__NR_pause,
    nr::__NR_getpid,
    nr::__NR_socket,
    nr::__NR_connect,
    nr::__NR_sendto,
    nr::__NR_sendmsg,
    nr::__NR_shutdown,
    nr::__NR_bind,
    nr::__NR_listen,
    nr::__NR_setsockopt,
    nr::__NR_kill,
    nr::__NR_fsync,
    nr::__NR_fdatasync,
    nr::__NR_truncate,
    nr::__NR_ftruncate,
    nr::__NR_chdir,
    nr::__NR_rename,
    nr::__NR_mkdir,
    nr::__NR_rmdir,
    nr::__NR_unlink,
    nr::__NR_chmod,
    nr::__NR_umask,
    nr::__NR_getuid,
    nr::__NR_getgid,
    nr::__NR_geteuid,
    nr::__NR_getegid,
    nr::__NR_getppid,
    nr::__NR_gettid,
    nr::__NR_tkill,
    nr::__NR_futex,
    nr::__NR_epoll_ctl,
    nr::__NR_tgkill,
    nr::__NR_openat,
    nr::__NR_mkdirat,
    nr::__NR_unlinkat,
    nr::__NR_set_robust_list,
    nr::__NR_fallocate,
    nr::__NR_eventfd2,
    nr::__NR_epoll_create1,
    nr::__NR_dup3,
    nr::__NR_pwritev,
    nr::__NR_membarrier,
];

/// Calls that write files.
const WRITING: [u32; 5] = [
    nr::__NR_write,
    nr::__NR_pwrite64,
    nr::__NR_writev,
    nr::__NR_pwritev,
    nr::__NR_pwritev2,
];

/// System calls there are.
const NUMBERS: u32 = 512;
/// Bytes that a call writes after a pointer, where they are not told.
const STRUCTURE: u64 = 8192;
/// Bytes that a call is taken to write at most.
const MOST: u64 = 1 << 31;
/// Buffers in a list at most, as in the kernel.
const BUFFERS: u64 = 1024;

/// The calls that may write memory of the caller.
pub fn numbers() -> impl Iterator<Item = u32> {
    (0..NUMBERS).filter(|number| !READ_ONLY.contains(number))
}

/// The arguments with a buffer and its length in bytes.
const fn buffer(number: u32) -> Option<(usize, usize)> {
    Some(match number {
        nr::__NR_read
        | nr::__NR_pread64
        | nr::__NR_recvfrom
        | nr::__NR_readlink
        | nr::__NR_getdents
        | nr::__NR_getdents64
        | nr::__NR_mq_timedreceive
        | nr::__NR_msgrcv => (1, 2),
        nr::__NR_getrandom | nr::__NR_getcwd => (0, 1),
        nr::__NR_readlinkat | nr::__NR_getxattr => (2, 3),
        _ => return None,
    })
}

/// The arguments with a list of buffers and how many there are.
const fn list(number: u32) -> Option<(usize, usize)> {
    Some(match number {
        nr::__NR_readv
        | nr::__NR_preadv
        | nr::__NR_preadv2
        | nr::__NR_process_vm_readv
        | nr::__NR_vmsplice => (1, 2),
        _ => return None,
    })
}

fn words<const N: usize>(at: u64) -> Option<[u64; N]> {
    let mut words = [0u64; N];
    // SAFETY: plain words, as many bytes.
    let bytes = unsafe { core::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), N * 8) };
    sys::copy_checked(at, bytes).then_some(words)
}

fn behind(start: u64, len: u64) -> Range {
    Range {
        start,
        end: start.saturating_add(len.min(MOST)),
    }
}

/// Returns whether a path is that of a process's memory.
fn is_memory(path: &[u8]) -> bool {
    path.starts_with(b"/proc/") && path.ends_with(b"/mem")
}

/// Returns whether the app is about to open such a file to write to it.
fn opens_memory(number: u32, args: &[u64; 6]) -> bool {
    const ACCESS: u64 = 3;
    let (path, flags) = match number {
        nr::__NR_open => (args[0], args[1]),
        _ => (args[1], args[2]),
    };
    // Longer ones are not; shorter ones may end with a page that cannot be read.
    let mut text = [0u8; 40];
    flags & ACCESS != 0
        && sys::read_string(path, &mut text).is_some_and(|len| is_memory(&text[..len]))
}

impl Runtime {
    /// Returns whether the runtime must make a call, which writes to the file of a process's memory.
    pub fn writes_memory_file(&self, number: u32, args: &[u64; 6]) -> bool {
        let mut text = [0u8; 40];
        self.memory_file
            && WRITING.contains(&number)
            && sys::link_of(args[0] as i32, &mut text).is_some_and(|len| is_memory(&text[..len]))
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

    /// From now on the threads send calls that write memory to the dispatcher, if there are protected
    /// pages.
    pub fn watch_calls(&mut self) {
        if self.watching || !self.code_pages.has_any() {
            return;
        }
        self.watching = true;
        for thread in &self.threads {
            // SAFETY: listed threads are there, and their tables are bytes that are only set.
            unsafe { (**thread).see(numbers()) };
        }
    }

    /// The calls that new threads send here, beyond those that all send always.
    pub fn watched(&self) -> impl Iterator<Item = u32> + use<> {
        let writing = WRITING.into_iter().filter({
            let memory_file = self.memory_file;
            move |_| memory_file
        });
        let watching = self.watching;
        numbers().filter(move |_| watching).chain(writing)
    }

    /// The kernel is about to carry out a call that may write where its arguments point.
    pub fn before_call(&mut self, number: u32, args: &[u64; 6]) {
        if OPENING.contains(&number) && !self.memory_file && opens_memory(number, args) {
            self.memory_file = true;
            for thread in &self.threads {
                // SAFETY: as in `watch_calls`.
                unsafe { (**thread).see(WRITING.into_iter()) };
            }
        }
        if !self.watching {
            return;
        }
        let told = buffer(number);
        for (n, &at) in args.iter().enumerate() {
            let len = match told {
                Some((buffer, len)) if n == buffer => args[len],
                _ => STRUCTURE,
            };
            self.written_by_kernel(behind(at, len));
        }
        if let Some((at, count)) = list(number) {
            self.before_list(args[at], args[count]);
        }
        let messages = match number {
            nr::__NR_recvmsg => 1,
            nr::__NR_recvmmsg => args[2].min(BUFFERS),
            _ => 0,
        };
        for n in 0..messages {
            // struct mmsghdr is a struct msghdr and a length, padded.
            let Some([name, name_len, list, count, control, control_len]) = words(args[1] + 64 * n)
            else {
                break;
            };
            self.written_by_kernel(behind(name, name_len & 0xffff_ffff));
            self.before_list(list, count);
            self.written_by_kernel(behind(control, control_len));
        }
    }

    fn before_list(&mut self, list: u64, count: u64) {
        for n in 0..count.min(BUFFERS) {
            let Some([at, len]) = words(list + 16 * n) else {
                return;
            };
            self.written_by_kernel(behind(at, len));
        }
    }

    fn written_by_kernel(&mut self, range: Range) {
        if self.code_pages.any_protected(range) {
            self.doubt(range);
            self.code_pages.loosen(range);
        }
    }
}
