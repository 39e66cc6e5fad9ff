//! Waits for the end of a child, no longer than a limit: the kernel tells of it, by a descriptor of the process. And what children have cost.
#![allow(
    unsafe_code,
    reason = "pidfd_open and getrusage have no safe form in std"
)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// Waits until something is so that no descriptor tells of, for 30 seconds.
///
/// # Errors
/// It is not: `what` was waited for.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Result<(), String> {
    const LONG: Duration = Duration::from_secs(30);
    let began = Instant::now();
    while !is_so() {
        if began.elapsed() > LONG {
            return Err(format!("{what}: not after {LONG:?}"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// The status of a child that ends within the limit; `None` after that.
///
/// # Errors
/// The kernel's, for a process that is no child of this one.
pub fn within(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    if let Some(status) = child.try_wait()? {
        return Ok(Some(status));
    }
    let began = Instant::now();
    let ended = descriptor(child.id())?;
    loop {
        let left = limit.saturating_sub(began.elapsed());
        // Rounded up, so that the last wait is not a short one again and again.
        let left = i32::try_from(left.as_millis() + 1).unwrap_or(i32::MAX);
        let mut poll = libc::pollfd {
            fd: ended.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one structure of this function's own.
        if unsafe { libc::poll(&raw mut poll, 1, left) } < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        let status = child.try_wait()?;
        if status.is_some() || began.elapsed() >= limit {
            return Ok(status);
        }
    }
}

/// A descriptor that can be read when the process has ended.
fn descriptor(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: the call has no memory of ours.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::c_long::from(pid), 0) };
    match i32::try_from(fd) {
        // SAFETY: the kernel has just made it, and nothing else knows of it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Waits for the end of a child. Returns its page faults that needed no device, with those of the processes that it has waited for.
///
/// # Errors
/// The kernel's, for a process that is no child of this one. The child did not succeed.
pub fn faults(child: &Child) -> io::Result<i64> {
    let (mut status, mut usage) = (0, std::mem::MaybeUninit::<libc::rusage>::zeroed());
    let pid = child.id() as libc::pid_t;
    // SAFETY: the kernel fills a number and one rusage.
    if unsafe { libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr()) } != pid {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: an integer-only struct, zeroed and then filled.
    let usage = unsafe { usage.assume_init() };
    match status {
        0 => Ok(usage.ru_minflt),
        _ => Err(io::Error::other(format!("it ended with {status:#x}"))),
    }
}

/// User and system seconds of all children waited for so far.
pub fn children_cpu() -> io::Result<f64> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel fills exactly one rusage.
    if unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: an integer-only struct, zeroed and then filled.
    let usage = unsafe { usage.assume_init() };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    Ok(seconds(usage.ru_utime) + seconds(usage.ru_stime))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn an_end_is_told_and_a_limit_kept() {
        let mut child = Command::new("sleep").arg("0.05").spawn().unwrap();
        let status = within(&mut child, Duration::from_secs(20)).unwrap();
        assert!(status.unwrap().success());
        let mut child = Command::new("sleep").arg("30").spawn().unwrap();
        let began = Instant::now();
        assert_eq!(within(&mut child, Duration::from_millis(30)).unwrap(), None);
        assert!(began.elapsed() >= Duration::from_millis(30));
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().code(), None);
    }
}
