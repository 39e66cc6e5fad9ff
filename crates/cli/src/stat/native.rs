//! The native run beside the counted one: how long the program takes by itself.
#![allow(unsafe_code)] // reason: the standard library has no resource usage of a child.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};
use trommel_host::kernel::interrupt;

/// Times of the native run, in nanoseconds.
pub(super) struct Native {
    pub(super) wall: u64,
    pub(super) user: u64,
    pub(super) system: u64,
}

/// Runs the program with its output thrown away; `None` where its input cannot be read twice.
pub(super) fn run(program: &Path, words: &[OsString]) -> Result<Option<Native>> {
    if !can_be_read_twice() {
        return Ok(None);
    }
    let mut command = Command::new(program);
    command.arg0(&words[0]).args(&words[1..]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let start = Instant::now();
    let child = command
        .spawn()
        .with_context(|| format!("{}: cannot be started", program.display()))?;
    let pid = child.id() as libc::pid_t;
    let used = ended(pid).context("the native run cannot be waited for")?;
    let nanoseconds = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000;
    Ok(Some(Native {
        wall: start.elapsed().as_nanos() as u64,
        user: nanoseconds(used.ru_utime),
        system: nanoseconds(used.ru_stime),
    }))
}

/// Waits for the end of a child, and stops with it meanwhile. Returns what it used.
fn ended(pid: libc::pid_t) -> io::Result<libc::rusage> {
    let (mut status, mut used) = (0, zeroed());
    loop {
        // SAFETY: a system call that writes two values that live here; the child is ours and not waited for elsewhere.
        if unsafe { libc::wait4(pid, &raw mut status, libc::WUNTRACED, &raw mut used) } == -1 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        } else if libc::WIFSTOPPED(status) {
            interrupt::stop_with(pid, libc::WSTOPSIG(status));
        } else {
            return Ok(used);
        }
    }
}

fn zeroed() -> libc::rusage {
    // SAFETY: a structure of numbers, for which zero is a value.
    unsafe { std::mem::zeroed() }
}

/// Returns true if standard input is a terminal, a file, `/dev/null` or closed, so that two runs find the same in it.
fn can_be_read_twice() -> bool {
    let mut stat = std::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: a system call that writes a structure that lives here.
    let got = unsafe { libc::fstat(io::stdin().as_raw_fd(), stat.as_mut_ptr()) };
    // SAFETY: it is zero at least, which is a value of each member.
    let mode = unsafe { stat.assume_init() }.st_mode & libc::S_IFMT;
    got != 0 || mode == libc::S_IFREG || mode == libc::S_IFCHR
}

/// Sets standard input back to its start, where it is a file.
pub(super) fn rewind() {
    let copy = io::stdin().as_fd().try_clone_to_owned();
    if let Ok(copy) = copy {
        // What is no file has no position.
        let _ = File::from(copy).seek(SeekFrom::Start(0));
    }
}
