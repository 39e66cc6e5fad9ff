//! Executions of one instruction, counted by a debug register.
//!
//! The processor traps at the instruction, and the kernel counts. That takes microseconds each time, and needs no privilege beyond that
//! we may trace the thread. The code is not changed, and the program cannot notice.
// `perf_event_open` is in no library that is not larger than what is needed of it.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// Counts how often a thread executes an instruction, up to the next program that it executes.
pub struct Breakpoint(File);

/// A count, and the CPU time of the thread in which it was counted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counted {
    /// Executions.
    pub times: u64,
    /// CPU time, that of the traps included.
    pub time: Duration,
}

impl Breakpoint {
    /// Begins to count, up to `most` executions: what follows is not trapped any more. `tid` 0 is this thread.
    ///
    /// # Errors
    /// The kernel does not allow it, there is no free debug register, or the thread is gone.
    pub fn begin(tid: i32, address: u64, most: u64) -> io::Result<Self> {
        const BYTES: usize = 128;
        const TYPE_BREAKPOINT: u64 = 5;
        const ON_EXECUTION: u64 = 4;
        const READ_TIME_RUNNING: u64 = 1 << 1;
        const DISABLED: u64 = 1;
        const EXCLUDE_KERNEL: u64 = 1 << 5;
        const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
        const REMOVE_ON_EXEC: u64 = 1 << 36;
        const ANY_PROCESSOR: i32 = -1;
        const NO_GROUP: i32 = -1;
        const CLOEXEC: u64 = 8;
        const REFRESH: libc::c_ulong = 0x2402;
        // struct perf_event_attr: type and size, period, read format, flags; what is trapped, where, and how many bytes of it.
        let mut attributes = [0_u64; BYTES / 8];
        attributes[0] = TYPE_BREAKPOINT | (BYTES as u64) << 32;
        attributes[2] = most;
        attributes[4] = READ_TIME_RUNNING;
        attributes[5] = DISABLED | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR | REMOVE_ON_EXEC;
        attributes[6] = ON_EXECUTION << 32;
        attributes[7] = address;
        attributes[8] = size_of::<u64>() as u64;
        // SAFETY: attributes of the size that they say; the descriptor is checked before it is owned.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                attributes.as_ptr(),
                tid,
                ANY_PROCESSOR,
                NO_GROUP,
                CLOEXEC,
            )
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just made, nobody else's.
        let file = File::from(unsafe { OwnedFd::from_raw_fd(fd as i32) });
        // SAFETY: a descriptor of ours; no memory is involved.
        match unsafe { libc::ioctl(file.as_raw_fd(), REFRESH, 1) } {
            0 => Ok(Self(file)),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Returns what was counted so far.
    pub fn counted(&self) -> Counted {
        let mut bytes = [0; 16];
        // The thread may have gone before it was counted.
        if (&self.0).read_exact(&mut bytes).is_err() {
            return Counted::default();
        }
        let (words, _) = bytes.as_chunks::<8>();
        Counted {
            times: u64::from_ne_bytes(words[0]),
            time: Duration::from_nanos(u64::from_ne_bytes(words[1])),
        }
    }
}
