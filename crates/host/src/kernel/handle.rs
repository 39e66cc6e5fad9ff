//! A handle of a process: its end, and its exit status.
// A descriptor for a process is a system call that the libraries lack.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::Pid;

/// A handle of a process.
pub(crate) struct Handle {
    pid: Pid,
    /// None where the kernel has no such descriptors.
    fd: Option<OwnedFd>,
}

impl Handle {
    /// Opens a handle of a process that exists.
    pub(crate) fn open(pid: Pid) -> Self {
        Self {
            pid,
            fd: handle(pid),
        }
    }

    /// Returns whether the process has ended.
    pub(crate) fn has_ended(&self) -> bool {
        match &self.fd {
            Some(handle) => {
                let mut handles = [PollFd::new(handle.as_fd(), PollFlags::POLLIN)];
                poll(&mut handles, PollTimeout::ZERO).is_ok_and(|n| n > 0)
            }
            // Number 0 is nobody's.
            None => self.pid.as_raw() == 0 || nix::sys::signal::kill(self.pid, None).is_err(),
        }
    }

    /// The status with which it has ended, from the kernel: negative for a signal.
    pub(crate) fn status(&self) -> Option<i32> {
        let reaped = self.fd.as_ref().and_then(reaped_with);
        if reaped.is_some() {
            return reaped.map(said_by);
        }
        let stat = std::fs::read(format!("/proc/{}/stat", self.pid)).ok()?;
        let end = stat.iter().rposition(|&c| c == b')')?;
        let rest = std::str::from_utf8(&stat[end + 1..]).ok()?;
        let mut words = rest.split_ascii_whitespace();
        if !matches!(words.next(), Some("Z" | "X")) {
            return None;
        }
        words.last()?.parse().ok().map(said_by)
    }
}

/// The exit status, or the negative of the signal.
fn said_by(status: i32) -> i32 {
    match libc::WIFEXITED(status) {
        true => libc::WEXITSTATUS(status),
        false => -libc::WTERMSIG(status),
    }
}

/// Returns the status that the process's parent reaped. Since Linux 6.15.
fn reaped_with(handle: &OwnedFd) -> Option<i32> {
    const PIDFD_GET_INFO: libc::c_ulong = 0xc040_ff0b;
    const PIDFD_INFO_EXIT: u64 = 8;
    /// `struct pidfd_info`, its first version.
    #[repr(C)]
    #[derive(Default)]
    struct Info {
        mask: u64,
        cgroup: u64,
        ids: [u32; 11],
        exit_code: i32,
    }
    const _: () = assert!(size_of::<Info>() == 64);
    let mut info = Info {
        mask: PIDFD_INFO_EXIT,
        ..Info::default()
    };
    // SAFETY: the kernel writes a structure of the size that is part of the request.
    let done = unsafe { libc::ioctl(handle.as_raw_fd(), PIDFD_GET_INFO, &raw mut info) };
    (done == 0 && info.mask & PIDFD_INFO_EXIT != 0).then_some(info.exit_code)
}

/// A descriptor that reports the end of a process.
fn handle(pid: Pid) -> Option<OwnedFd> {
    // SAFETY: no memory is passed; the descriptor is checked before it is owned.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0) };
    // SAFETY: just made, nobody else's.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd as i32) })
}
